"""A thread reports to MLflow: in order, without making the run wait, and completely."""

import time
from threading import Event

import numpy as np
import pytest

from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.tracking.mlflow import tracker as background
from fedbnsl.tracking.mlflow.tracker import MAX_QUEUE, BackgroundTracker

EMPTY = Structure(("a", "b"), np.zeros((2, 2)))


class Slow:
    """A tracker that reports nothing before it is allowed to."""

    url = "http://somewhere/runs/7"
    calls = 0

    def __init__(self, told, may):
        self._told, self._may = told, may

    def rounds(self, told):
        assert self._may.wait(10)
        self._told += [one.row["round"] for one in told]
        self.calls += 1

    def finish(self, result):
        self._told.append(result)

    def fail(self, message):
        self._told.append(message)


@pytest.fixture
def told():
    return []


@pytest.fixture
def may():
    return Event()


@pytest.fixture
def tracker(monkeypatch, tmp_path, told, may):
    """A background tracker that reports its opening first and then the other events."""

    def opening(folder, opening, rows):
        slow = Slow(told, may)
        slow.opening = opening
        return slow

    monkeypatch.setattr(background, "Tracker", opening)
    monkeypatch.setattr(background, "START_TIMEOUT_SECONDS", 10)
    return BackgroundTracker(tmp_path, "the opening", (), told.append)


def test_rounds_are_not_waited_for_and_are_told_in_order_before_the_end(tracker, told, may):
    for number in range(1, 6):
        tracker.round({"round": number}, EMPTY)
    assert set(told) <= {"the opening"}
    may.set()
    tracker.finish("the end")
    assert told == ["the opening", 1, 2, 3, 4, 5, "the end"]
    assert tracker.url == Slow.url


def test_rounds_that_wait_are_told_together_and_the_end_does_not_wait_for_the_next(tracker, told, may, monkeypatch):
    monkeypatch.setattr(background, "SEND_INTERVAL_SECONDS", 60)
    for number in range(1, 6):
        tracker.round({"round": number}, EMPTY)
    may.set()
    begun = time.monotonic()
    tracker.finish("the end")
    assert time.monotonic() - begun < 10
    assert told == ["the opening", 1, 2, 3, 4, 5, "the end"]
    assert 1 <= tracker._tracker.result().calls < 5


def test_a_failure_is_told_after_the_rounds_before_it(tracker, told, may):
    tracker.round({"round": 1}, EMPTY)
    may.set()
    tracker.fail("no more rows")
    assert told == ["the opening", 1, "no more rows"]


def test_nothing_is_opened_before_the_first_round_has_been_told_of(tracker, told, may):
    may.set()
    assert told == []
    tracker.round({"round": 1}, EMPTY)
    tracker.finish("the end")
    assert told == ["the opening", 1, "the end"]


def test_a_run_does_not_run_far_ahead_of_mlflow(tracker, told, may):
    from threading import Thread

    ahead = []

    def run():
        for number in range(MAX_QUEUE + 2):
            tracker.round({"round": number}, EMPTY)
            ahead.append(number)

    running = Thread(target=run)
    running.start()
    running.join(0.3)
    assert len(ahead) <= MAX_QUEUE
    may.set()
    running.join(10)
    tracker.finish("the end")
    assert told[1:-1] == list(range(MAX_QUEUE + 2))


def test_a_tracker_that_cannot_be_opened_does_not_stop_the_rounds(monkeypatch, tmp_path):
    from threading import Thread

    monkeypatch.setattr(background, "Tracker", lambda *told: 1 / 0)
    tracker = BackgroundTracker(tmp_path, "the opening")
    running = Thread(target=lambda: [tracker.round({"round": k}, EMPTY) for k in range(MAX_QUEUE + 2)], daemon=True)
    running.start()
    running.join(10)
    assert not running.is_alive()
    with pytest.raises(ZeroDivisionError):
        tracker.finish("the end")
