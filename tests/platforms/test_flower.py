"""A run over Flower's own processes, with TLS and authenticated SuperNodes."""

import re
import threading
import time

import pytest

from fedbnsl.flows.servers.federation_demo import SILOS
from fedbnsl.tasks.silo.ledger import FileLedger, ledger_path

from .flower_processes import flower_of
from .study import BRIEF, MASKED, assert_as_reference, learn, over, set_policy, write_study

pytestmark = [pytest.mark.platforms, pytest.mark.slow(400)]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return write_study(tmp_path_factory.mktemp("flower") / "study")


@pytest.fixture(scope="module")
def flower(study):
    with flower_of(study.with_name("flower"), study, SILOS) as running:
        yield running


@pytest.fixture(scope="module")
def environment(flower, study):
    return flower.processes.environment | {"FEDBNSL_HOME": str(study.with_name("home"))}


def test_flower_gives_what_inline_gives_bit_for_bit(study, environment, reference, tmp_path):
    code, err = learn(environment, *over(study, "flower"), *MASKED, "--out", tmp_path / "found")
    assert code == 0, err
    assert_as_reference(tmp_path / "found", reference)


def charges(study):
    rows = {silo: study / silo / "rows.csv" for silo in SILOS}
    return {silo: FileLedger(ledger_path(path, silo)).charges() for silo, path in rows.items()}


def replies(flower):
    return len(re.findall("Push replies", flower.processes.log("superlink")))


def test_a_supernode_that_is_killed_delays_a_private_run_and_no_silo_charges_twice(
    study, flower, environment, tmp_path
):
    set_policy(study, 'level = "epsilon"', "epsilon = 3.0", "total_epsilon = 3.0")
    begin = replies(flower)

    def kill_a_node():
        while replies(flower) < begin + 8:
            time.sleep(0.1)
        flower.processes.kill("node-lab")
        flower.restart_node("lab")

    killing = threading.Thread(target=kill_a_node)
    killing.start()
    words = ("-a", "dp-covariance", "--epsilon", 3, "--silo-patience", 200, *BRIEF)
    code, err = learn(environment, *over(study, "flower"), *words, "--out", tmp_path / "found")
    killing.join()
    assert code == 0, err
    spent = charges(study)
    assert all(spent.values())
    assert {silo: len({one.number for one in own}) for silo, own in spent.items()} == {
        silo: len(own) for silo, own in spent.items()
    }

    # The owners' ledgers hold for the next run.
    code, err = learn(environment, *over(study, "flower"), *words, "--out", tmp_path / "again")
    assert code == 2
    assert "budget of 3" in err, err
    assert charges(study) == spent
