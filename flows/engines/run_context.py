"""The context of one run of the flow `learn` in this process, which is not part of the flow's parameters.

Prefect shows, stores and validates the parameters of a flow. The flow function is therefore a closure over everything
else that the command line and Python provide: listeners, started workers, and the outcome. The outcome of a finished
run counts even if Prefect fails afterwards.
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
    """the file of each silo on them"""
    client: Any
    """their Dask client"""


@dataclass
class Outcome:
    """The finished run, or the error that ended it; neither before the end."""

    finished: CompletedRun | None = None
    error: BaseException | None = None


@dataclass(frozen=True)
class RunContext:
    """The context of a run in addition to its settings; empty for a run of a deployment."""

    listeners: tuple[Listener, ...] = ()
    """called after every round"""
    workers: Workers | None = None
    outcome: Outcome = field(default_factory=Outcome)

    def record(self, work: Callable[[], CompletedRun]) -> CompletedRun:
        """Return the result of `work` or raise its error, and store either as the outcome."""
        try:
            self.outcome.finished = work()
        except BaseException as error:
            self.outcome.error = error
            raise
        return self.outcome.finished
