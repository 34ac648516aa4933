"""Every listening socket of every command refuses other accounts of the machine and pages of other origins.

The sockets are those that the processes of a command really have, from /proc. Each must be of a known kind: a server of
HTTP with a credential, TLS with certificates, or a socket in a private folder. Two kinds have no credential, because
they give and take nothing: `empty` is a port that Dask opens beside its TLS port and that serves the list of itself,
and `silent` is a port of Prefect's runner that ends every connection without the token of a run.

The same processes must not show, in their arguments, what they were given in confidence.
"""

import os
from collections import Counter

import pytest

from fedbnsl.data.folder.folder import write_folder
from fedbnsl.data.generators.linear import homogeneous

from .sockets import as_other_account, running, watch

SECRET = "s3cret-part-of-an-address"


@pytest.fixture
def study(tmp_path):
    write_folder(tmp_path / "study", homogeneous(variables=4, silos=2, rows=100, seed=1))
    return tmp_path


def kinds_of(words, folder, until):
    """How often each kind of socket appeared until the log of the command contained `until`.

    The command finds its stores by addresses that contain a secret, and its own token in its folder.
    """
    (folder / SECRET).mkdir()
    stores = {
        "MLFLOW_TRACKING_URI": f"sqlite:///{folder / SECRET / 'mlflow.db'}",
        "PREFECT_API_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{folder / SECRET / 'prefect.db'}",
    }
    with running(words, folder, **stores) as (child, mark, log):
        kinds, arguments = watch(child, mark, log, until)
    assert len(arguments) > 1
    tokens = [path.read_text("utf-8").partition(":")[2] for path in (folder / "home").rglob("fedbnsl-token")]
    shown = [line for line in arguments for secret in (SECRET, *tokens) if secret in line]
    assert shown == []
    return Counter(kinds.values())


def test_the_attacker_is_another_account():
    if os.getuid() != 0:
        pytest.skip("only root may switch accounts")
    assert as_other_account([("account",)]) == [65534]


@pytest.mark.slow(60)
def test_learn(study):
    words = ["learn", "study", "-a", "notears-admm", "-p", "rounds=4000", "-p", "tolerance=1e-300"]
    kinds = kinds_of(words, study, "round 2")
    assert kinds["Prefect"] == 1
    assert kinds["private socket"] == 1
    assert kinds["TLS with certificates"] >= 3  # the scheduler and two workers
    assert {*kinds} <= {"Prefect", "private socket", "TLS with certificates", "empty"}


@pytest.mark.slow(60)
def test_ui(study):
    assert kinds_of(["ui", "--prefect-port", "0", "--mlflow-port", "0"], study, "Ctrl-C stops both") == {
        "Prefect": 1,
        "MLflow": 1,
    }


@pytest.mark.slow(60)
def test_serve(study):
    assert kinds_of(["serve", "study"], study, "Ctrl-C stops") == {"Prefect": 1, "silent": 1}


@pytest.mark.slow(60)
def test_a_coordinator_three_silos_and_a_run(study):
    kinds = kinds_of(["federation", "demo", "fed"], study, "Ctrl-C stops")
    assert kinds["Prefect"] == 1
    assert kinds["TLS with certificates"] >= 1
    assert {*kinds} <= {"Prefect", "TLS with certificates"}


@pytest.mark.slow(60)
def test_benchmark(study):
    words = ["benchmark", "study", "-a", "notears-admm", "--seeds", "400", "--workers", "2", "--out", "out"]
    kinds = kinds_of(words, study, "2 of 400")
    assert kinds["TLS with certificates"] >= 3
    assert {*kinds} <= {"TLS with certificates", "private socket", "empty"}
