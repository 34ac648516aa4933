"""A resumed run adds to the time, bytes and rounds that it had used before the interruption.

A signal ends a run even if a library loses it.
"""

import contextlib
import signal

import pytest

from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.flows.engines.inline import inline_session, job_inline
from fedbnsl.flows.job.run import Resumed, run
from fedbnsl.flows.job.stopping import end_like_ctrl_c
from fedbnsl.flows.options.learn import LearnSettings

STOPPED = 3
"""the round after which the run is interrupted"""


def session_of(**limits):
    """A job of at most eight rounds with these `limits`, and a session for it."""
    data = homogeneous(4, 2, 60, 1)
    asked = {"algorithm": "notears-admm", "params": {"rounds": 8}, "parameters": False, "diagnose": False}
    job = job_inline(LearnSettings(data="data", **asked, **limits), "run", data)
    return job, inline_session(job, data)


def resumed(seconds, **limits):
    """A run resumed after round 3, which it had reached in `seconds`, and its steps since then."""
    steps, later = [], []

    def stop(step):
        steps.append(step)
        if step.round.number == STOPPED:
            raise RuntimeError("the coordinator stopped")

    job, opened = session_of(**limits)
    with opened as session:
        with pytest.raises(RuntimeError, match="coordinator stopped"):
            run(job, session, (stop,))
        state = Resumed(STOPPED, steps[-1].round.server, steps[-1].rows, seconds)
        return run(job, session, (later.append,), state), later


def test_it_has_the_rest_of_its_rounds():
    result, later = resumed(5.0)
    assert [step.round.number for step in later] == [4, 5, 6, 7, 8]
    assert result.metrics["rounds"] == len(result.rounds) == 8
    assert 5.0 < result.metrics["seconds"] < 65.0


@pytest.mark.parametrize(("used", "rounds"), [(40.0, 8), (100.0, STOPPED + 1), (200.0, STOPPED + 1)])
def test_it_has_the_rest_of_its_time(used, rounds):
    result, _ = resumed(used, time_limit=100.0)
    assert len(result.rounds) == rounds
    assert (result.outcome == "out of time") == (rounds < 8)


@pytest.mark.parametrize("limit", [5, 7])
def test_it_has_the_rest_of_its_bytes(limit):
    """The limit ends the resumed run at the same round as an uninterrupted one."""
    job, opened = session_of()
    with opened as session:
        whole = run(job, session).rounds
    megabytes = sum(row["bytes_up"] + row["bytes_down"] for row in whole[:limit]) / 1e6
    job, opened = session_of(megabytes=megabytes)
    with opened as session:
        at_once = run(job, session)
    result, _ = resumed(0.0, megabytes=megabytes)
    assert STOPPED < len(at_once.rounds) < 8
    assert (len(result.rounds), result.outcome) == (len(at_once.rounds), at_once.outcome)
    assert result.outcome == "out of bytes"


def test_a_round_takes_the_mean_of_those_since_it_went_on(monkeypatch):
    """The clock of a new process does not include the earlier rounds."""
    ticks = iter(range(10**6))
    monkeypatch.setattr("fedbnsl.flows.job.run.time.perf_counter", lambda: float(next(ticks)))
    _, later = resumed(1000.0)
    durations = [step.round_seconds for step in later]
    assert durations == [durations[0]] * 5


@pytest.mark.parametrize("word", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_a_library_loses_ends_it_after_the_round(word, restored_signals):
    """Pydantic, for example, replaces the `KeyboardInterrupt` by an error of its own while it builds a model."""
    steps = []

    def losing(step):
        steps.append(step)
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(word)

    end_like_ctrl_c()
    job, opened = session_of()
    with opened as session, pytest.raises(KeyboardInterrupt):
        run(job, session, (losing,))
    assert [step.round.number for step in steps] == [1]


@pytest.fixture
def restored_signals(listening_to_ctrl_c):
    """Restore the handler of SIGTERM, and forget the signals of the test."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    end_like_ctrl_c()
    signal.signal(signal.SIGTERM, before)
