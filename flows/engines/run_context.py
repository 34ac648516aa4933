"""The context of one run of the flow `learn` in this process.

Prefect shows, stores and validates the parameters of a flow, so the context is not a parameter. The flow function is a
closure over the context: listeners, started workers, and the outcome. A finished run remains in the outcome if Prefect
fails afterwards.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedbnsl.tracking.result import CompletedRun

from ..job.run import Listener


@dataclass(frozen=True)
class Workers:
    """Workers on this machine that were started before the run."""

    files: dict[str, Path]
    """the file of each silo on these workers"""
    client: Any
    """the Dask client of the workers"""


@dataclass
class Outcome:
    """The finished run, or the error that ended it; before the end, both are None."""

    finished: CompletedRun | None = None
    error: BaseException | None = None


@dataclass(frozen=True)
class RunContext:
    """The context of a run in addition to its settings; empty for a run of a deployment."""

    listeners: tuple[Listener, ...] = ()
    """the listeners that are called after every round"""
    workers: Workers | None = None
    outcome: Outcome = field(default_factory=Outcome)

    def record(self, work: Callable[[], CompletedRun]) -> CompletedRun:
        """Return the result of `work` or raise its error, and store the result or the error as the outcome."""
        try:
            self.outcome.finished = work()
        except BaseException as error:
            self.outcome.error = error
            raise
        return self.outcome.finished
