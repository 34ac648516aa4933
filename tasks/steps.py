"""Work that somebody else runs: a thread, or a Prefect task."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Step(Generic[T]):
    """A piece of work, and its result, or what it raised, once it has been run."""

    def __init__(self, work: Callable[[], T]) -> None:
        """Hold `work` until somebody runs it."""
        self._work = work
        self._result: list[T] = []
        self.error: BaseException | None = None
        """what the work raised when it was last run"""

    def run(self) -> None:
        """Do the work; if it is run again (a retry), the new result replaces the old one."""
        try:
            self._result, self.error = [self._work()], None
        except BaseException as error:
            self.error = error
            raise

    @property
    def done(self) -> bool:
        """Whether the work has been done, without an error."""
        return bool(self._result) and self.error is None

    @property
    def result(self) -> T:
        """What the work returned."""
        return self._result[0]


Waits = Mapping[str, Callable[[], Any]]
"""silo -> a function that returns when its step has been run, and raises what the step raised"""

Start = Callable[[Mapping[str, Step[Any]]], Waits]
"""Start one step a silo, all at once."""


def in_threads(steps: Mapping[str, Step[Any]]) -> Waits:
    """Start each step in a thread of its own."""
    pool = ThreadPoolExecutor(max(1, len(steps)))
    waits = {silo: pool.submit(step.run).result for silo, step in steps.items()}
    pool.shutdown(wait=False)
    return waits
