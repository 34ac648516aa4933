"""MLflow told by a thread, in order, so that no round waits for it; nor does the first for MLflow to be imported."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import BoundedSemaphore, Event
from typing import Any

from fedbnsl.algorithms.graphs.structure import Structure

from ..result import RunResult
from .telling import Opening, ToldRound
from .tracker import Tracker

HEAD_START = 3.0
"""seconds that a run has for its first round before MLflow is imported: both would want the same processor"""
PAUSE = 0.5
"""seconds between rounds that are told and the next: each time costs 15 ms of CPU, however many rounds it is for"""
BEHIND = 64
"""rounds that may wait to be told, each with its structure, before the run waits for MLflow"""


class BackgroundTracker:
    """A `Tracker` in a thread of its own.

    `opened` is called there with how the run began once the MLflow run is known, so that a resumed run can go on with
    it; where that cannot be written down, a resumed run begins another MLflow run.
    """

    def __init__(
        self,
        folder: Path,
        opening: Opening,
        rows: tuple[dict[str, float], ...] = (),
        opened: Callable[[Opening], None] = lambda opening: None,
    ) -> None:
        """Open the MLflow run, or go on with the one that `opening` names, after the first round at the latest."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="MLflow")
        self._room, self._begun, self._ending = BoundedSemaphore(BEHIND), Event(), Event()
        self._waiting: SimpleQueue[ToldRound] = SimpleQueue()

        def open_tracker() -> Tracker:
            self._begun.wait(HEAD_START)
            tracker = Tracker(folder, opening, rows)
            with suppress(OSError):
                opened(tracker.opening)
            return tracker

        self._tracker = self._thread.submit(open_tracker)

    @property
    def url(self) -> str | None:
        """A link to the run, None if MLflow has none; waits for the MLflow run to be opened."""
        return self._tracker.result().url

    def round(self, row: Mapping[str, float], structure: Structure) -> None:
        """Have the thread tell of a finished round, with those that wait to be told."""
        self._room.acquire()
        self._waiting.put(ToldRound(dict(row), structure))
        self._do(self._tell_of_rounds).add_done_callback(lambda _: self._room.release())

    def finish(self, result: RunResult) -> None:
        """Tell what came out, all files of which are in the folder, and wait until everything has been told."""
        self._ending.set()
        self._do(lambda tracker: tracker.finish(result)).result()
        self._thread.shutdown()

    def fail(self, message: str) -> None:
        """Tell that the run has ended with an error, and wait until everything has been told."""
        self._ending.set()
        self._do(lambda tracker: tracker.fail(message)).result()
        self._thread.shutdown()

    def _tell_of_rounds(self, tracker: Tracker) -> None:
        told = [self._waiting.get() for _ in range(self._waiting.qsize())]
        if told:
            tracker.rounds(told)
            self._ending.wait(PAUSE)

    def _do(self, call: Callable[[Tracker], Any]) -> "Future[Any]":
        self._begun.set()
        return self._thread.submit(lambda: call(self._tracker.result()))
