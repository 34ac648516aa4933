"""Every listening socket of every command refuses other accounts of the machine and pages of other origins, and hostile
bytes harm no process behind it.

The sockets are those that the processes of a command really have, from /proc. Each must be of a known kind: a server of
HTTP with a credential, TLS with certificates, a socket in a private folder, or `silent`: a port of Prefect's runner
that ends every connection without the token of a run.

The same processes must not show, in their arguments, what they were given in confidence. Then each socket that others
can connect to gets programs of pickle, mutated frames, requests and handshakes, noise and floods: nothing is executed,
no log contains a cell, memory hardly grows, and the command goes on.
"""

import os
from collections import Counter

import pytest

from fedbnsl.data.folder.folder import write_folder
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.flows.servers.federation_demo import SILOS
from fedbnsl.tasks.transport.channel import connect_to_coordinator
from fedbnsl.tasks.transport.configuration import read_federation_file
from tests.tasks.transport.relay_peers import eventually, identity_of

from .sockets import as_other_account, listening_sockets, running, watch, withstand

SECRET = "s3cret-part-of-an-address"


@pytest.fixture
def study(tmp_path):
    write_folder(tmp_path / "study", homogeneous(variables=4, silos=2, rows=100, seed=1))
    return tmp_path


def kinds_of(words, folder, until, check_progress=lambda log: None):
    """How often each kind of socket appeared until the log of the command contained `until`.

    The command finds its stores by addresses that contain a secret, and its own token in its folder. Afterwards, the
    open sockets withstand hostile bytes, and `check_progress` gets the log.
    """
    (folder / SECRET).mkdir()
    stores = {
        "MLFLOW_TRACKING_URI": f"sqlite:///{folder / SECRET / 'mlflow.db'}",
        "PREFECT_API_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{folder / SECRET / 'prefect.db'}",
    }
    with running(words, folder, **stores) as (child, mark, log):
        kinds, arguments = watch(child, mark, log, until)
        open_now = {there: kinds[there] for there in listening_sockets(mark) if there.kind != "unix"}
        made = [folder / "fed"] if (folder / "fed").exists() else []
        certified = [identity_of(fed, name).client_context() for fed in made for name in ("coordinator", SILOS[0])]
        withstand(open_now, folder / "executed", certified)
        check_progress(log)
        assert child.poll() is None
    assert len(arguments) > 1
    tokens = [path.read_text("utf-8").partition(":")[2] for path in (folder / "home").rglob("fedbnsl-token")]
    shown = [line for line in arguments for secret in (SECRET, *tokens) if secret in line]
    assert shown == []
    logs = "".join(path.read_text("utf-8") for path in (log, *folder.glob("fed/*/log.txt")))
    tables = "".join(path.read_text("utf-8") for path in (*folder.glob("study/*.csv"), *folder.glob("fed/*/rows.csv")))
    assert [cell for cell in tables.replace("\n", ",").split(",") if len(cell) > 6 and cell in logs] == []
    return Counter(kinds.values())


def still_learns(log):
    """Wait for another line in the log of rounds or results."""
    before = log.stat().st_size
    eventually(lambda: log.stat().st_size > before, 60)


def silos_are_present(log):
    with connect_to_coordinator(read_federation_file(log.parent / "fed" / "coordinator" / "federation.toml")) as silos:
        eventually(lambda: silos.present() == SILOS)


def test_the_attacker_is_another_account():
    if os.getuid() != 0:
        pytest.skip("only root may switch accounts")
    assert as_other_account([("account",)]) == [65534]


@pytest.mark.slow(60)
def test_learn(study):
    words = ["learn", "study", "-a", "notears-admm", "-p", "rounds=4000", "-p", "tolerance=1e-300"]
    kinds = kinds_of(words, study, "round 1:", still_learns)
    assert kinds["Prefect"] == 1
    assert kinds["private socket"] == 1
    assert kinds["TLS with certificates"] >= 3  # the scheduler and two workers
    assert {*kinds} == {"Prefect", "private socket", "TLS with certificates"}


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
    kinds = kinds_of(["federation", "demo", "fed"], study, "Ctrl-C stops", silos_are_present)
    assert kinds["Prefect"] == 1
    assert kinds["TLS with certificates"] >= 1
    assert {*kinds} <= {"Prefect", "TLS with certificates"}


@pytest.mark.slow(60)
def test_benchmark(study):
    words = ["benchmark", "study", "-a", "notears-admm", "--seeds", "400", "--workers", "2", "--out", "out"]
    kinds = kinds_of(words, study, "2 of 400", still_learns)
    assert kinds["TLS with certificates"] >= 3
    assert {*kinds} == {"TLS with certificates"}
