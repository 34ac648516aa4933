"""A run over NVFlare: its simulator, and its proof-of-concept mode, whose server and clients use mutual TLS."""

import threading
import time

import pytest

from .nvflare_processes import environment_of, start_poc
from .processes import silos_of, start_silo
from .study import BRIEF, MASKED, assert_as_reference, edges, learn, metrics, over, set_policy, write_study

pytestmark = [pytest.mark.platforms, pytest.mark.slow(400)]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return write_study(tmp_path_factory.mktemp("nvflare") / "study")


@pytest.fixture(scope="module")
def processes(study):
    with silos_of(study, **environment_of(study)) as running:
        yield running


def test_the_simulator_gives_what_inline_gives_bit_for_bit(study, processes, reference, tmp_path):
    code, err = learn(processes.environment, *over(study, "nvflare", "simulator"), *MASKED, "--out", tmp_path / "found")
    assert code == 0, err
    assert_as_reference(tmp_path / "found", reference)


@pytest.fixture(scope="module")
def kits(study, processes):
    return start_poc(study, processes)


def test_clients_of_other_machines_give_what_inline_gives_and_a_silo_that_dies_can_be_resumed(
    study, processes, kits, tmp_path
):
    """The silo of lab is killed in the middle of the rounds, and comes back after the run has given it up."""
    set_policy(study, 'level = "trusted"')
    words, out = ("-a", "fed-sparse", "-p", "rounds=12", "--seed", 3, *BRIEF), tmp_path / "found"

    def kill_the_silo():
        while not (out / "checkpoint.bin").exists():
            time.sleep(0.05)
        processes.kill("silo-lab")

    killing = threading.Thread(target=kill_the_silo)
    killing.start()
    poc = over(study, "nvflare", kits / "admin@nvidia.com")
    code, err = learn(processes.environment, *poc, *words, "--silo-patience", 5, "--out", out)
    killing.join()
    assert code == 3, err
    assert f"lab did not respond and the run stopped; to continue: fedbnsl learn --resume {out}" in err

    start_silo(processes, study, "lab")
    code, err = learn(processes.environment, "--resume", out, "--quiet")
    assert code == 0, err
    alone = tmp_path / "alone"
    assert learn(processes.environment, study / "all", "--engine", "inline", *words, "--out", alone)[0] == 0
    assert edges(out) == edges(alone)
    assert metrics(out) == metrics(alone)
