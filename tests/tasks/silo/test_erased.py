"""Data that a silo erases after a run are gone from its files, and two processes never spend one budget twice."""

import threading
from contextlib import suppress

import pytest

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.promise import Promise, Release, ReplaceOne
from fedbnsl.algorithms.privacy.ledger import Budget, ChargeRequest, Overspent
from fedbnsl.algorithms.privacy.zcdp import budget
from fedbnsl.tasks.silo.journal import Journal, journal_path
from fedbnsl.tasks.silo.ledger import FileLedger

MARK = b"what a silo answered "


def on_disk(folder):
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("size", [1, 3, 400], ids=["a line", "a page", "many pages"])
def test_replies_and_states_of_a_finished_run_are_erased_from_the_file(tmp_path, size):
    """This holds for any size, while another run continues, and without closing the file."""
    with Journal(tmp_path / "a.sqlite") as journal:
        for number in range(1, 9):
            journal.commit("run", number, MARK * size, b"and its state " * size, "b")
            journal.commit("other", number, b"reply", b"state", "b")
        assert MARK in on_disk(tmp_path)
        journal.forget("run")
        left = on_disk(tmp_path)
        assert MARK not in left
        assert b"and its state" not in left
        assert journal.reply("other", 8, "b") == b"reply"


def test_a_silo_that_ends_a_run_keeps_nothing_of_what_it_answered(hosted):
    owners = hosted(silos=2)
    terms = owners.terms("notears-admm")
    algorithm, silo = terms.algorithm(), owners.services["silo-1"]
    broadcast = wire.encode(algorithm.broadcast(algorithm.open_server(owners.data.schema)))
    replies = [silo.solve(terms, number, broadcast) for number in (1, 2)]
    folder = journal_path(owners.files["silo-1"], "silo-1").parent
    parts = [reply[-200:-100] for reply in replies]
    assert all(part in on_disk(folder) for part in parts)
    silo.finish("run")
    assert not any(part in on_disk(folder) for part in parts)


class Waiting(ChargeRequest):
    """A request that waits for another one during its decision, so both could spend the same budget."""

    both = threading.Barrier(2)

    @property
    def cost(self):
        with suppress(threading.BrokenBarrierError):  # correct code does not let the other request in meanwhile
            self.both.wait(timeout=0.3)
        return super().cost


@pytest.mark.parametrize("names", [("a", "a"), ("a", "b")], ids=["one ledger", "two ledgers of the same rows"])
def test_of_two_charges_at_once_that_the_budget_does_not_bear_one_is_refused(tmp_path, names):
    promise = Promise(1.0, 1e-6, budget(1.0, 1e-6, ReplaceOne), "from everyone")
    releases, outcomes = (Release("a number", promise.cost),), []
    Waiting.both = threading.Barrier(2)

    def charge(name, run):
        ledger = FileLedger(tmp_path / f"{name}.ledger", lambda: "the same rows")
        asked = Waiting(run, 1, "binding", releases, promise, 1000, 1e-6, (Budget(1.2, 1e-6),))
        try:
            ledger.reserve(asked, b"k" * 32)
            outcomes.append("charged")
        except Overspent:
            outcomes.append("refused")

    threads = [threading.Thread(target=charge, args=(name, f"run {k}")) for k, name in enumerate(names)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["charged", "refused"]
