"""The tasks of a round in Prefect, and the threads in which silos are called concurrently.

Prefect shows four tasks: `local_solve` (one per silo, or one for more than `MAX_SILO_TASKS` silos), `aggregate`,
`dual_update` and `check_convergence`. It also shows which tasks use the results of which other tasks.
"""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import Any, TypeVar
from uuid import UUID

from fedbnsl.algorithms.core.protocol import FederatedAlgorithm, Replies, SiloLost
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.secure.masks import Aborted
from fedbnsl.tracking.staging import first_line, notice

Work = Callable[[], Any]
"""the work for one silo"""

Wait = Callable[[], Any]
"""function that waits for the end of the work, then returns its result or raises its exception"""

Start = Callable[[Mapping[str, Work]], Mapping[str, Wait]]
"""function that starts the work for all silos"""

MAX_THREADS = 1024
"""maximum number of silos called concurrently; calls of further silos are queued"""
# One pool for all rounds: starting eight threads while others are busy takes 20 ms, a sixth of a round.
_THREADS = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="silo")


def run_on_wait(works: Mapping[str, Work]) -> Mapping[str, Wait]:
    """Start nothing yet: the thread that waits for a silo also does the work for this silo."""
    return works


def in_threads(works: Mapping[str, Work]) -> Mapping[str, Wait]:
    """Start the work for each silo in a thread."""
    return {silo: _THREADS.submit(work).result for silo, work in works.items()}


T = TypeVar("T")
Ids = tuple[UUID, ...]
Record = Callable[[str, str, Ids], AbstractContextManager[UUID | None]]
"""a function of a task, the name of a task run, and the ids of the task runs whose results it uses. It returns a
context manager that records its block as this task run, and yields the id of the task run (None if nothing is
recorded)"""

MAX_SILO_TASKS = 32
"""maximum number of silos with separate `local_solve` tasks; the report of each task takes 7 ms of CPU"""

RETRIES = 2
"""number of retries of a solve"""
RETRY_PAUSE_SECONDS = 1.0
"""pause between two attempts"""


def no_recording(task: str, name: str, sources: Ids = ()) -> AbstractContextManager[UUID | None]:
    """Record nothing; the context manager yields None."""
    return nullcontext()


def with_retries(work: Callable[[], T]) -> T:
    """The result of `work`, with retries, except after bad input, a lost silo or an aborted secure sum.

    Retries are safe: a silo that has finished the round returns the same reply, without new noise or a second charge.
    """
    for _ in range(RETRIES):
        try:
            return work()
        except (BadInput, SiloLost, Aborted):
            raise
        except Exception:
            time.sleep(RETRY_PAUSE_SECONDS)
    return work()


@dataclass
class _SharedTask:
    """The task run that many silos share. The task run ends with the last solve, and fails if a solve fails."""

    recording: AbstractContextManager[UUID | None]
    remaining: int
    error: BaseException | None = None
    lock: Lock = field(default_factory=Lock)

    def end(self, error: BaseException | None) -> None:
        """End one solve, with its `error` if it failed."""
        with self.lock:
            self.remaining -= 1
            self.error = self.error or error
            if self.remaining:
                return
        failed = self.error
        self.recording.__exit__(type(failed) if failed else None, failed, failed.__traceback__ if failed else None)

    def perform(self, work: Callable[[], T]) -> T:
        """The result of the solve of one silo."""
        try:
            result = work()
        except BaseException as error:
            self.end(error)
            raise
        self.end(None)
        return result


class Orchestration:
    """The steps of one run, reported to Prefect while its server responds.

    Prefect only observes a run. If its server becomes unreachable, one notice is printed and the run continues
    without it.
    """

    def __init__(self, record: Record = no_recording, give_up: Callable[[], None] = lambda: None) -> None:
        """Record steps with `record`; call `give_up` once when Prefect no longer responds."""
        self.connected = True
        self._record = record
        self._give_up = give_up
        self._lock = Lock()
        self._last: Ids = ()
        """the task run of the coordinator's last step"""
        self._solves: list[UUID] = []
        """the task runs of the solves since the coordinator's last step"""

    def lost(self, error: BaseException) -> None:
        """Continue without Prefect from now on; the first call prints a notice with `error` and calls `give_up`."""
        with self._lock:
            first, self.connected = self.connected, False
        if first:
            notice(f"Prefect no longer responds ({first_line(error)}); the run continues without it")
            self._give_up()

    def report(self, send: Callable[[], None]) -> None:
        """If Prefect is connected, call `send`, which reports to Prefect; after an error, continue without Prefect."""
        if self.connected:
            try:
                send()
            except Exception as error:
                self.lost(error)

    def solves(self, label: str) -> Start:
        """A function that starts the solves of the round `label`, such as "round 4", each in a thread.

        Up to `MAX_SILO_TASKS` silos have separate `local_solve` tasks; more silos share a single task.
        """

        def start(solves: Mapping[str, Work]) -> Mapping[str, Wait]:
            sources, attempts = self._last, {silo: partial(with_retries, work) for silo, work in solves.items()}
            if len(solves) <= MAX_SILO_TASKS:
                return in_threads({silo: partial(solve, silo, work, sources) for silo, work in attempts.items()})
            recording = self._recording("local_solve", f"{len(solves)} silos {label}", sources)
            self._solved(recording.__enter__())
            shared = _SharedTask(recording, len(solves))
            return in_threads({silo: partial(shared.perform, work) for silo, work in attempts.items()})

        def solve(silo: str, work: Work, sources: Ids) -> Any:
            with self._recording("local_solve", f"{silo} {label}", sources) as task_run:
                self._solved(task_run)
                return work()

        return start

    def _solved(self, task_run: UUID | None) -> None:
        with self._lock:
            self._solves += [] if task_run is None else [task_run]

    def perform(self, task: str, label: str, work: Callable[[], T]) -> T:
        """Record `work`, a step of the coordinator, as "`task` `label`"; returns its result or raises its exception.

        The step uses the results of the solves since the last step or, if there are none, the result of the last step.
        """
        with self._lock:
            sources, self._solves = tuple(self._solves) or self._last, []
        with self._recording(task, label, sources) as task_run:
            self._last = () if task_run is None else (task_run,)
            return work()

    def _recording(self, task: str, label: str, sources: Ids) -> AbstractContextManager[UUID | None]:
        return (self._record if self.connected else no_recording)(task, f"{task} {label}".rstrip(), sources)

    def wrap(
        self, algorithm: FederatedAlgorithm[Any, Any, Any, Any], label: Callable[[], str]
    ) -> FederatedAlgorithm[Any, Any, Any, Any]:
        """`algorithm` with the coordinator's steps recorded as tasks; `label` names the current round.

        `protocol.rounds` runs the wrapped algorithm like any other, so there is no separate loop for Prefect.
        """

        def aggregate(server: Any, replies: Replies[Any]) -> Any:
            return self.perform("aggregate", label(), lambda: algorithm.aggregate(server, replies))

        def dual_update(server: Any) -> Any:
            return self.perform("dual_update", label(), lambda: algorithm.dual_update(server))

        def check_convergence(server: Any) -> bool:
            return self.perform("check_convergence", label(), lambda: algorithm.converged(server))

        return replace(algorithm, aggregate=aggregate, dual_update=dual_update, converged=check_convergence)
