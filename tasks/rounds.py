"""The tasks of a round in Prefect, and the threads in which silos are called concurrently.

Prefect shows four tasks: `local_solve` (one per silo), `aggregate`, `dual_update`, `check_convergence`.
"""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Any, TypeVar

from fedbnsl.algorithms.core.protocol import FederatedAlgorithm, Replies, SiloLost
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.secure.masks import Aborted
from fedbnsl.tracking.staging import first_line, notice

Work = Callable[[], Any]
"""the work for one silo"""

Wait = Callable[[], Any]
"""waits for the end of the work, then returns its result or raises its exception"""

Start = Callable[[Mapping[str, Work]], Mapping[str, Wait]]
"""starts the work for all silos"""

MAX_THREADS = 1024
"""maximum number of silos called concurrently; further ones are queued"""
# One pool for all rounds: starting eight threads while others are busy takes 20 ms, a sixth of a round.
_THREADS = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="silo")


def run_on_wait(works: Mapping[str, Work]) -> Mapping[str, Wait]:
    """Run the work for each silo in the thread that waits for it, when it waits."""
    return works


def in_threads(works: Mapping[str, Work]) -> Mapping[str, Wait]:
    """Start the work for each silo in a thread."""
    return {silo: _THREADS.submit(work).result for silo, work in works.items()}


T = TypeVar("T")
Record = Callable[[str, str], AbstractContextManager[None]]
"""(task, name of the task run) -> a context manager that records its block as this task run"""

RETRIES = 2
"""number of retries of a solve"""
RETRY_PAUSE_SECONDS = 1.0
"""pause between two attempts"""


def no_recording(task: str, name: str) -> AbstractContextManager[None]:
    """Record nothing."""
    return nullcontext()


def with_retries(work: Callable[[], T]) -> T:
    """The result of `work`, with retries, except after bad input, a lost silo or an aborted secure sum.

    Retries are safe: a silo answers a repeated round from its journal, without new noise and without spending budget.
    """
    for _ in range(RETRIES):
        try:
            return work()
        except (BadInput, SiloLost, Aborted):
            raise
        except Exception:
            time.sleep(RETRY_PAUSE_SECONDS)
    return work()


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

    def lost(self, error: BaseException) -> None:
        """Continue without Prefect from now on; the first call prints a notice with the `error`."""
        with self._lock:
            first, self.connected = self.connected, False
        if first:
            notice(f"Prefect no longer responds ({first_line(error)}); the run continues without it")
            self._give_up()

    def report(self, send: Callable[[], None]) -> None:
        """Call `send`, which sends Prefect something that no step waits for, if Prefect is still connected."""
        if self.connected:
            try:
                send()
            except Exception as error:
                self.lost(error)

    def solves(self, number: int) -> Start:
        """A function that starts the solves of round `number`: one `local_solve` per silo, each in a thread."""

        def start(solves: Mapping[str, Work]) -> Mapping[str, Wait]:
            return in_threads({silo: partial(solve, silo, work) for silo, work in solves.items()})

        def solve(silo: str, work: Work) -> Any:
            return self.perform("local_solve", f"{silo} round {number}", lambda: with_retries(work))

        return start

    def perform(self, task: str, label: str, work: Callable[[], T]) -> T:
        """The result of `work`, or its exception, recorded as a task run with the name "`task` `label`"."""
        with (self._record if self.connected else no_recording)(task, f"{task} {label}".rstrip()):
            return work()

    def wrap(
        self, algorithm: FederatedAlgorithm[Any, Any, Any, Any], number: Callable[[], int]
    ) -> FederatedAlgorithm[Any, Any, Any, Any]:
        """`algorithm` with the coordinator's steps recorded as tasks; `number` returns the current round.

        `protocol.rounds` runs the wrapped algorithm like any other, so there is no separate loop for Prefect.
        """

        def step(task: str, work: Callable[[], T]) -> T:
            return self.perform(task, f"round {number()}", work)

        def aggregate(server: Any, replies: Replies[Any]) -> Any:
            return step("aggregate", lambda: algorithm.aggregate(server, replies))

        def dual_update(server: Any) -> Any:
            return step("dual_update", lambda: algorithm.dual_update(server))

        def check_convergence(server: Any) -> bool:
            return step("check_convergence", lambda: algorithm.converged(server))

        return replace(algorithm, aggregate=aggregate, dual_update=dual_update, converged=check_convergence)
