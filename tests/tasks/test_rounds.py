"""The steps of a run while Prefect answers, and when it does not any more."""

import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.tasks.rounds import Orchestration
from fedbnsl.tasks.steps import Step


class Future:
    """A task run that runs the step, or not, and then fails as if the server were gone, or not."""

    def __init__(self, step, *, runs, fails):
        self.step, self.runs, self.fails = step, runs, fails

    def result(self):
        if self.runs:
            self.step.run()
        if self.fails:
            raise ConnectionError("refused\nby the server")


def submitting(*, runs=True, fails=False):
    return lambda step: Future(step, runs=runs, fails=fails)


def refused(step):
    raise ConnectionError("refused")


@pytest.fixture
def given_up():
    return []


@pytest.fixture
def orchestration(given_up):
    return Orchestration(lambda: given_up.append("given up"))


def counting(done):
    return lambda: done.append(1) or len(done)


GONE = {
    "before a step is submitted": refused,
    "before it is run": submitting(runs=False, fails=True),
    "after it is run": submitting(fails=True),
}


@pytest.mark.parametrize("submit", GONE.values(), ids=GONE)
def test_every_step_is_done_once_whenever_prefect_goes(orchestration, given_up, submit, capsys):
    done = []
    assert orchestration.perform(submit, counting(done)) == 1
    assert orchestration.perform(refused, counting(done)) == 2
    assert capsys.readouterr().err.count("Prefect does not answer any more (refused)") == 1
    assert given_up == ["given up"]


def test_what_the_work_raises_is_no_fault_of_prefect(orchestration, capsys):
    def wrong():
        raise BadInput("a row is wrong")

    with pytest.raises(BadInput, match="a row is wrong"):
        orchestration.perform(submitting(), wrong)
    assert orchestration.answering
    orchestration.lost(ConnectionError("refused"))
    capsys.readouterr()
    with pytest.raises(BadInput, match="a row is wrong"):
        orchestration.perform(submitting(), wrong)


def test_a_step_that_is_tried_again_has_forgotten_its_error():
    outcomes = iter([ValueError("once"), "well"])

    def work():
        found = next(outcomes)
        if isinstance(found, Exception):
            raise found
        return found

    step = Step(work)
    with pytest.raises(ValueError, match="once"):
        step.run()
    assert not step.done
    step.run()
    assert (step.done, step.error, step.result) == (True, None, "well")


def test_the_silos_solve_in_threads_once_prefect_is_gone(orchestration, monkeypatch):
    from fedbnsl.tasks import rounds

    monkeypatch.setattr(rounds.local_solve, "submit", lambda silo, number, step: refused(step))
    for _ in range(2):
        steps = {silo: Step(silo.upper) for silo in ("a", "b")}
        for wait in orchestration.solves(1)(steps).values():
            wait()
        assert [step.result for step in steps.values()] == ["A", "B"]
    assert not orchestration.answering


def test_prefect_is_told_nothing_more_once_it_is_gone(orchestration):
    told = []
    orchestration.tell(lambda: told.append("first"))
    orchestration.tell(lambda: 1 / 0)
    orchestration.tell(lambda: told.append("second"))
    assert told == ["first"]
