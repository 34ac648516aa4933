"""The tasks of a round, as Prefect shows them: local_solve (one a silo), aggregate, dual_update, check_convergence.

Work for several silos at once, each in a thread of its own.
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
"""what is to be done for one silo"""

Wait = Callable[[], Any]
"""a function that returns what the work returned, once it has been done, or raises what it raised"""

Start = Callable[[Mapping[str, Work]], Mapping[str, Wait]]
"""Start the work for every silo, all at once."""

MAX_THREADS = 1024
"""pieces of work that are done at once; more of them wait for their turn"""
# Kept from round to round: starting eight threads while others are busy takes 20 ms, a sixth of a round.
_THREADS = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="silo")


def in_turn(works: Mapping[str, Work]) -> Mapping[str, Wait]:
    """Do the work for each silo when it is waited for, in the thread that waits."""
    return works


def in_threads(works: Mapping[str, Work]) -> Mapping[str, Wait]:
    """Start the work for each silo in a thread of its own."""
    return {silo: _THREADS.submit(work).result for silo, work in works.items()}


T = TypeVar("T")
Record = Callable[[str, str], AbstractContextManager[None]]
"""(task, name of the task run) -> a block that is recorded as such a run"""

RETRIES = 2
"""how often a solve is tried again"""
RETRY_PAUSE_SECONDS = 1.0
"""seconds between two attempts"""


def no_recording(task: str, name: str) -> AbstractContextManager[None]:
    """Record nothing."""
    return nullcontext()


def with_retries(work: Callable[[], T]) -> T:
    """The result of `work`, tried again where it may yet succeed: not if input is bad or a silo is gone.

    That is safe: a silo answers a repeated round from its journal, so no noise is drawn and no budget spent anew.
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
    """The steps of one run, which Prefect is told of for as long as it answers.

    Prefect watches a run and is no part of it. When its server cannot be reached any more, that is said once, and the
    run goes on without it.
    """

    def __init__(self, record: Record = no_recording, give_up: Callable[[], None] = lambda: None) -> None:
        """Begin with a Prefect that answers; `record` tells it of a step, `give_up` is called once it does not."""
        self.answering = True
        self._record = record
        self._give_up = give_up
        self._lock = Lock()

    def lost(self, error: BaseException) -> None:
        """Do without Prefect from now on, and say so the first time."""
        with self._lock:
            first, self.answering = self.answering, False
        if first:
            notice(f"Prefect no longer responds ({first_line(error)}); the run continues without it")
            self._give_up()

    def tell(self, told: Callable[[], None]) -> None:
        """Call `told`, which tells Prefect something that no step waits for, while Prefect answers."""
        if self.answering:
            try:
                told()
            except Exception as error:
                self.lost(error)

    def solves(self, number: int) -> Start:
        """Return what starts the solves of round `number`: one `local_solve` for each silo, each in a thread."""

        def start(solves: Mapping[str, Work]) -> Mapping[str, Wait]:
            return in_threads({silo: partial(solve, silo, work) for silo, work in solves.items()})

        def solve(silo: str, work: Work) -> Any:
            return self.perform("local_solve", f"{silo} round {number}", lambda: with_retries(work))

        return start

    def perform(self, task: str, of: str, work: Callable[[], T]) -> T:
        """The result of `work`, or raise what it raises: a run of `task`, named after it and `of`."""
        with (self._record if self.answering else no_recording)(task, f"{task} {of}".rstrip()):
            return work()

    def wrap(
        self, algorithm: FederatedAlgorithm[Any, Any, Any, Any], number: Callable[[], int]
    ) -> FederatedAlgorithm[Any, Any, Any, Any]:
        """`algorithm` with the coordinator's steps recorded as tasks; `number` gives the round.

        `protocol.rounds` runs the result like any other algorithm, so Prefect needs no loop of its own.
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
