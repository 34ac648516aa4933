"""The silo runtime with private and masked replies: what is charged, what is repeated, what is refused."""

import math
import sqlite3
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.promise import Cost, Promise, Release, ReplaceOne
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.in_process import InProcessFederation
from fedbnsl.algorithms.privacy.ledger import Budget, Overspent, Request, spent
from fedbnsl.algorithms.privacy.zcdp import budget
from fedbnsl.algorithms.secure import masked
from fedbnsl.algorithms.secure.session import Aborted, Refused
from fedbnsl.data.folder.folder import read_folder, write_folder
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.tasks.silo import secure_sums as secure_silo
from fedbnsl.tasks.silo import service as silo_runtime
from fedbnsl.tasks.silo.journal import Journal
from fedbnsl.tasks.silo.ledger import FileLedger, ledger_path
from fedbnsl.tasks.silo.secure_sums import Question
from fedbnsl.tasks.silo.service import Call, SiloFailed, charges, finish, forget_all, secure_answer, solve

SILOS = ("silo-1", "silo-2", "silo-3")


@pytest.fixture
def data(tmp_path):
    write_folder(tmp_path / "data", homogeneous(variables=5, silos=3, rows=400, seed=1))
    silo_runtime.HOSTED.update({silo: tmp_path / "data" / f"{silo}.csv" for silo in SILOS})
    yield read_folder(tmp_path / "data")
    forget_all()
    silo_runtime.HOSTED.clear()
    silo_runtime.BUDGETS.clear()


@pytest.fixture
def call(data):
    return Call("run", registry.pack(registry.specify("dp-covariance", {"epsilon": 4.0})), wire.encode(data.schema), 7)


@pytest.fixture
def asked(data):
    """Return the broadcasts of both rounds, as bytes."""
    algorithm = registry.build(registry.specify("dp-covariance", {"epsilon": 4.0}))
    server = algorithm.open_server(data.schema)
    later = replace(server, scales=np.ones(5))
    return [wire.encode(algorithm.broadcast(state)) for state in (server, later)]


def test_a_round_is_charged_once_however_often_it_is_asked_for(data, call, asked):
    first = solve("silo-1", call, 1, asked[0])
    spent_once = charges("silo-1", "run")
    forget_all()
    assert solve("silo-1", call, 1, asked[0]) == first
    assert charges("silo-1", "run") == spent_once
    assert len(spent_once) == 1


def test_a_crash_between_charge_and_reply_repeats_the_noise_and_not_the_charge(data, call, asked, monkeypatch):
    drawn = []
    real = silo_runtime.private_solve

    def noted(*args):
        state, reply = real(*args)
        drawn.append(wire.encode(reply))
        return state, reply

    monkeypatch.setattr(silo_runtime, "private_solve", noted)
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "commit", lambda *args: (_ for _ in ()).throw(OSError("the machine went down")))
        with pytest.raises(SiloFailed, match="went down"):
            solve("silo-1", call, 1, asked[0])
    assert len(charges("silo-1", "run")) == 1  # the failed attempt is charged
    forget_all()
    assert solve("silo-1", call, 1, asked[0]) == drawn[0]
    assert drawn[0] == drawn[1]
    assert len(charges("silo-1", "run")) == 1


def test_a_reserved_round_answers_no_other_broadcast(data, call, asked, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "commit", lambda *args: (_ for _ in ()).throw(OSError("the machine went down")))
        with pytest.raises(SiloFailed):
            solve("silo-1", call, 1, asked[0])
    forget_all()
    with pytest.raises(Overspent, match="charged for another broadcast"):
        solve("silo-1", call, 1, asked[1])


def test_a_finished_run_is_forgotten_by_the_journal_and_not_by_the_ledger(data, call, asked):
    solve("silo-1", call, 1, asked[0])
    finish("silo-1", "run")
    forget_all()
    assert len(charges("silo-1", "run")) == 1
    another = replace(call, run_id="another")
    solve("silo-1", another, 1, asked[0])
    assert len(charges("silo-1", None)) == 2


def test_asking_for_more_than_was_promised_is_refused(data, call, asked):
    solve("silo-1", call, 1, asked[0])
    solve("silo-1", call, 2, asked[1])
    with pytest.raises(Overspent, match="round 3 would bring what the run has spent"):
        solve("silo-1", call, 3, asked[1])
    delta = 1 / 400**2
    assert 3.9 < spent(charges("silo-1", "run"), delta) <= 4.0


def test_the_owners_budget_counts_whatever_the_coordinator_says(data, call, asked):
    silo_runtime.BUDGETS["silo-1"] = 5.0
    for number, broadcast in enumerate(asked, 1):
        solve("silo-1", call, number, broadcast)
    spec = registry.pack(registry.specify("dp-covariance", {"epsilon": 20.0}))
    generous = replace(call, run_id="another", spec=spec, budget=100.0)
    with pytest.raises(Overspent, match="above the budget of 5"):
        solve("silo-1", generous, 1, asked[0])
    assert len(charges("silo-1", "another")) == 0


def test_keys_of_the_noise_never_leave(data, call, asked):
    solve("silo-1", call, 1, asked[0])
    (charge,) = charges("silo-1", "run")
    assert charge.key == b""
    (kept,) = FileLedger(ledger_path(silo_runtime.HOSTED["silo-1"], "silo-1")).charges()
    assert len(kept.key) == 32


def test_a_ledger_that_cannot_be_written_releases_nothing(data, call, asked, monkeypatch):
    def full(*args, **kwargs):
        raise sqlite3.OperationalError("disk full")

    monkeypatch.setattr(sqlite3, "connect", full)
    ledger = FileLedger(ledger_path(silo_runtime.HOSTED["silo-1"], "silo-1"))
    with pytest.raises(BadInput, match=r"silo-1\.ledger: the privacy ledger cannot be written, so nothing is released"):
        ledger.reserve(request(1), b"k" * 32)


def request(number, run="run", rho=0.01):
    promise = Promise(1.0, 1e-6, budget(1.0, 1e-6, ReplaceOne), "from everyone")
    return Request(run, number, "digest", (Release("a number", Cost(rho, ReplaceOne)),), promise, Budget(math.inf))


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


# Secure sums.


@pytest.fixture
def sums(data):
    return Call("run", registry.pack(registry.specify("secure-sum")), wire.encode(data.schema), 0)


class Line:
    """A transport over the runtime in this process; `silent` is asked before a silo answers a phase."""

    def __init__(self, call, broadcast, silent=lambda phase, silo: False):
        self.call, self.broadcast, self.silent, self.seen = call, broadcast, silent, []

    def ask(self, phase, messages):
        answers = {}
        for silo, message in messages.items():
            if not self.silent(phase, silo):
                question = Question(phase, message, self.broadcast if phase == "mask" else b"")
                answers[silo] = secure_answer(silo, self.call, 1, question)
        self.seen.append((phase, dict(answers)))
        return answers


def exchange(data, call, line):
    algorithm = registry.build(registry.unpack(call.spec))
    broadcast = algorithm.broadcast(algorithm.open_server(data.schema))
    line.broadcast = wire.encode(broadcast)
    session = masked.session_of("run", 1, masked.new_attempt(), data.schema)
    return masked.masked_round(algorithm, session, line, broadcast, None)[0]


def test_the_runtime_adds_up_what_the_silos_hold(data, sums):
    found = exchange(data, sums, Line(sums, b""))
    pooled = np.vstack([data.tables[silo] for silo in SILOS])
    expected = (pooled.T @ pooled / len(pooled))[np.triu_indices(5)]
    np.testing.assert_allclose(found.total, expected, atol=1e-8)
    assert found.silos == SILOS


def test_nothing_that_reaches_the_coordinator_is_a_silos_own(data, sums):
    line = Line(sums, b"")
    exchange(data, sums, line)
    for silo in SILOS:
        S = data.tables[silo].T @ data.tables[silo] / 1200
        plain = np.rint(S[np.triu_indices(5)] * 2.0**32).astype(np.int64)
        (vector,) = [answers[silo] for phase, answers in line.seen if phase == "mask"]
        heard = wire.decode(np.ndarray, vector).view(np.int64)
        assert not set(plain.tolist()) & set(heard.tolist())
        correlation = np.corrcoef(plain.astype(float), heard.astype(float))[0, 1]
        assert abs(correlation) < 0.9


def test_whoever_dies_with_its_keys_is_left_behind_and_another_attempt_succeeds(data, sums):
    def dies(phase, silo):
        if (phase, silo) == ("mask", "silo-2"):
            secure_silo.forget_all()
            raise Aborted("the worker died")
        return False

    with pytest.raises(Aborted):
        exchange(data, sums, Line(sums, b"", dies))
    assert exchange(data, sums, Line(sums, b"")).silos == SILOS


def test_two_different_sums_of_one_round_are_not_to_be_had(data, tmp_path):
    """From the sums over all and over all but one, that one's part would follow."""
    write_folder(tmp_path / "more", homogeneous(variables=5, silos=4, rows=100, seed=2))
    silos = tuple(f"silo-{k}" for k in range(1, 5))
    silo_runtime.HOSTED.update({silo: tmp_path / "more" / f"{silo}.csv" for silo in silos})
    four = read_folder(tmp_path / "more")
    call = Call("run", registry.pack(registry.specify("secure-sum")), wire.encode(four.schema), 0)
    gone = Line(call, b"", lambda phase, silo: (phase, silo) == ("mask", "silo-4"))
    assert exchange(four, call, gone).silos == silos[:3]
    with pytest.raises(Refused, match="silo-1 refuses to unmask: it has helped to unmask another sum of round 1"):
        exchange(four, call, Line(call, b""))
    forget_all()
    with pytest.raises(Refused, match="has helped to unmask another sum"):
        exchange(four, call, Line(call, b""))
    gone = Line(call, b"", lambda phase, silo: (phase, silo) == ("mask", "silo-4"))
    assert exchange(four, call, gone).silos == silos[:3]  # the same sum again says nothing new


def test_terms_that_are_not_those_of_the_round_are_refused(data, sums):
    session = masked.session_of("run", 1, 5, data.schema)
    for wrong in (replace(session, round=2), replace(session, run="another"), replace(session, threshold=2)):
        with pytest.raises(Refused, match="the terms are not those of round 1 of run run"):
            secure_answer("silo-1", sums, 1, Question("advertise", wire.encode(wrong)))


def test_masked_and_private_at_once_is_what_it_is_in_process(data):
    params = {"epsilon": 3.0, "insecure_seed": 5}
    call = Call("run", registry.pack(registry.specify("secure-sum", params)), wire.encode(data.schema), 0)
    algorithm = registry.build(registry.specify("secure-sum", params))
    first = next(iter(rounds(algorithm, InProcessFederation(data.schema, data.tables)))).server
    found = exchange(data, call, Line(call, b""))
    assert wire.encode(algorithm.aggregate(algorithm.open_server(data.schema), found)) == wire.encode(first)
