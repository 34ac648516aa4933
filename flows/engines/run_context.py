"""The context of one run of a flow in this process, and its outcome.

Prefect shows, stores and validates the parameters of a flow, so the context is not a parameter. The flow function is a
closure over the context: listeners, started workers, and the outcome. A finished run remains in the outcome if Prefect
fails afterwards.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from fedbnsl.algorithms.errors import PrefectUnavailable
from fedbnsl.tracking.result import CompletedRun
from fedbnsl.tracking.staging import first_line

from ..job.run import Listener


@dataclass(frozen=True)
class Workers:
    """Workers on this machine that were started before the run."""

    files: dict[str, Path]
    """the file of each silo on these workers"""
    client: Any
    """the Dask client of the workers"""


Done = TypeVar("Done")


@dataclass
class Outcome(Generic[Done]):
    """What the body of a flow returned, or the error that ended it; before the end, both are None."""

    finished: Done | None = None
    error: BaseException | None = None

    def record(self, work: Callable[[], Done]) -> Done:
        """Return the result of `work` or raise its error, and store the result or the error."""
        try:
            self.finished = work()
        except BaseException as error:
            self.error = error
            raise
        return self.finished

    def of_flow(self, run: Callable[[], object], prefect: str) -> Done:
        """The outcome after `run`, which runs the flow on the server `prefect`.

        If Prefect fails after the body of the flow has finished, its result is returned nevertheless. Raises the error
        of the body, and `PrefectUnavailable` if Prefect failed before the body started.
        """
        try:
            run()
        except Exception as error:
            if self.error is not None:
                raise self.error from None
            if self.finished is None:
                raise PrefectUnavailable(f"Prefect at {prefect} did not start the run: {first_line(error)}") from error
        assert self.finished is not None
        return self.finished


@dataclass(frozen=True)
class RunContext:
    """The context of a run in addition to its settings; empty for a run of a deployment."""

    listeners: tuple[Listener, ...] = ()
    """the listeners that are called after every round"""
    workers: Workers | None = None
    outcome: Outcome[CompletedRun] = field(default_factory=Outcome)
