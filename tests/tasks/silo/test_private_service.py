"""A silo with private replies: what is charged, what is repeated, what is refused."""

import sqlite3
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.promise import Cost, Promise, Release, ReplaceOne
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.privacy.ledger import Budget, ChargeRequest, Overspent, spent
from fedbnsl.algorithms.privacy.zcdp import budget
from fedbnsl.tasks.silo import service as service_module
from fedbnsl.tasks.silo.journal import Journal
from fedbnsl.tasks.silo.ledger import FileLedger, ledger_path
from fedbnsl.tasks.silo.messages import SiloFailed
from fedbnsl.tasks.silo.policy import NotAllowed, Policy


@pytest.fixture
def owners(hosted):
    return hosted(rows=400)


@pytest.fixture
def silo(owners):
    """A function that returns the service of silo-1, as it is now."""
    return lambda: owners.services["silo-1"]


@pytest.fixture
def terms(owners):
    return owners.terms("dp-covariance", {"epsilon": 4.0}, seed=7)


@pytest.fixture
def asked(owners):
    """The broadcasts of both rounds, as bytes."""
    algorithm = registry.build(registry.specify("dp-covariance", {"epsilon": 4.0}))
    server = algorithm.open_server(owners.data.schema)
    later = replace(server, scales=np.ones(5))
    return [wire.encode(algorithm.broadcast(state)) for state in (server, later)]


def test_a_round_is_charged_once_however_often_it_is_asked_for(owners, silo, terms, asked):
    first = silo().solve(terms, 1, asked[0])
    spent_once = silo().charges("run")
    owners.restart()
    assert silo().solve(terms, 1, asked[0]) == first
    assert silo().charges("run") == spent_once
    assert len(spent_once) == 1


def test_a_crash_between_charge_and_reply_repeats_the_noise_and_not_the_charge(owners, silo, terms, asked, monkeypatch):
    drawn = []
    real = service_module.private_solve

    def noted(*args):
        state, reply = real(*args)
        drawn.append(wire.encode(reply))
        return state, reply

    monkeypatch.setattr(service_module, "private_solve", noted)
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "commit", lambda *args, **more: (_ for _ in ()).throw(OSError("the machine went down")))
        with pytest.raises(SiloFailed, match="went down"):
            silo().solve(terms, 1, asked[0])
    assert len(silo().charges("run")) == 1  # the failed attempt is charged
    owners.restart()
    assert silo().solve(terms, 1, asked[0]) == drawn[0]
    assert drawn[0] == drawn[1]
    assert len(silo().charges("run")) == 1


def test_a_reserved_round_answers_no_other_broadcast(owners, silo, terms, asked, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "commit", lambda *args, **more: (_ for _ in ()).throw(OSError("the machine went down")))
        with pytest.raises(SiloFailed):
            silo().solve(terms, 1, asked[0])
    owners.restart()
    with pytest.raises(Overspent, match="charged for another broadcast, other settings or other rows"):
        silo().solve(terms, 1, asked[1])


def test_a_finished_run_is_forgotten_by_the_journal_and_not_by_the_ledger(owners, silo, terms, asked):
    silo().solve(terms, 1, asked[0])
    silo().finish("run")
    owners.restart()
    assert len(silo().charges("run")) == 1
    silo().solve(replace(terms, run_id="another"), 1, asked[0])
    assert len(silo().charges(None)) == 2


def test_asking_for_more_than_was_promised_is_refused(owners, silo, terms, asked):
    silo().solve(terms, 1, asked[0])
    silo().solve(terms, 2, asked[1])
    with pytest.raises(NotAllowed, match="round 3 is not one of its 2 rounds"):
        silo().solve(terms, 3, asked[1])
    delta = 1 / 400**2
    assert 3.9 < spent(silo().charges("run"), delta) <= 4.0


def test_the_owners_budget_counts_whatever_the_coordinator_says(owners, silo, terms, asked):
    owners.restart(policy=Policy(total_epsilon=5.0))
    for number, broadcast in enumerate(asked, 1):
        silo().solve(terms, number, broadcast)
    spec = registry.pack(registry.specify("dp-covariance", {"epsilon": 20.0}))
    generous = replace(terms, run_id="another", spec=spec, budget=Budget(100.0))
    with pytest.raises(Overspent, match="above the budget of 5"):
        silo().solve(generous, 1, asked[0])
    assert len(silo().charges("another")) == 0


def test_the_coordinators_budget_counts_as_well(owners, silo, terms, asked):
    with pytest.raises(Overspent, match=r"all runs on these rows would spend ε = 4 at .*, above the budget of 3"):
        silo().solve(replace(terms, budget=Budget(3.0)), 1, asked[0])
    assert silo().charges() == ()


def test_what_goes_wrong_in_a_private_round_tells_no_value(owners, silo, terms, asked, monkeypatch):
    """The text of an exception may depend on rows, and it is not charged."""

    def fails(*args):
        raise ValueError("row 17 is 77.25")

    monkeypatch.setattr(service_module, "open_run", fails)
    with pytest.raises(SiloFailed) as failed:
        silo().solve(terms, 1, asked[0])
    assert str(failed.value).startswith(
        "silo silo-1, round 1: its rows cannot be used; a private run does not disclose"
    )
    assert "77" not in str(failed.value)
    exact = owners.terms("fed-sparse", run="exact")
    algorithm = exact.algorithm()
    with pytest.raises(SiloFailed, match=r"77\.25"):
        silo().solve(exact, 1, wire.encode(algorithm.broadcast(algorithm.open_server(exact.schema))))


def test_keys_of_the_noise_never_leave(owners, silo, terms, asked):
    silo().solve(terms, 1, asked[0])
    (charge,) = silo().charges("run")
    assert charge.key == b""
    (kept,) = FileLedger(ledger_path(owners.files["silo-1"], "silo-1")).charges()
    assert len(kept.key) == 32


def test_a_ledger_that_cannot_be_written_releases_nothing(owners, silo, terms, asked, monkeypatch):
    def full(*args, **kwargs):
        error = sqlite3.OperationalError("disk full")
        error.sqlite_errorname = "SQLITE_FULL"
        raise error

    monkeypatch.setattr(sqlite3, "connect", full)
    ledger = FileLedger(ledger_path(owners.files["silo-1"], "silo-1"))
    with pytest.raises(BadInput, match=r"nothing is released: .*silo-1\.ledger: the privacy ledger cannot be"):
        ledger.reserve(request(1), b"k" * 32)


def request(number, run="run", rho=0.01):
    promise = Promise(1.0, 1e-6, budget(1.0, 1e-6, ReplaceOne), "from everyone")
    return ChargeRequest(run, number, "binding", (Release("a number", Cost(rho, ReplaceOne)),), promise, 1000, 1e-6)


SPENDER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from test_private_service import request
from fedbnsl.algorithms.privacy.ledger import Overspent
from fedbnsl.tasks.silo.ledger import FileLedger
done = 0
for number in range(1, 40):
    try:
        FileLedger(Path(sys.argv[1])).reserve(request(number, run="shared-" + sys.argv[2], rho=0.0008), b"k" * 32)
        done += 1
    except Overspent:
        pass
print(done)
"""


def test_processes_that_spend_at_once_do_not_overspend_together(tmp_path):
    """Two runs of two processes on one ledger: every charge is there, none is lost and none is counted twice."""
    from pathlib import Path

    path = tmp_path / "silo.ledger"
    here = str(Path(__file__).parent)
    started = [
        subprocess.Popen([sys.executable, "-c", SPENDER, str(path), name, here], stdout=subprocess.PIPE, text=True)
        for name in "ab"
    ]
    counts = [int(process.communicate(timeout=120)[0]) for process in started]
    ledger = FileLedger(path)
    assert len(ledger.charges()) == sum(counts)
    for name in "ab":
        assert spent(ledger.charges(f"shared-{name}"), 1e-6) <= 1.0
