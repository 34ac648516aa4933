"""The context of one run of the flow `learn` in this process: what Prefect must neither see nor take away.

Prefect calls a flow with its parameters, which it shows, stores and validates. What the command line and Python give a
run besides (who follows it, which workers are started already) is closed over by the flow function, and so is the place
where its outcome is kept: a run that has finished counts, even if Prefect fails afterwards.
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
    """the file of each silo that they host"""
    client: Any
    """a Dask client of them"""


@dataclass
class Outcome:
    """The run that has finished, or the error that ended it; neither before then."""

    finished: CompletedRun | None = None
    error: BaseException | None = None


@dataclass(frozen=True)
class RunContext:
    """What a run has besides its settings; nothing for a run of a deployment."""

    listeners: tuple[Listener, ...] = ()
    """called after every round"""
    workers: Workers | None = None
    outcome: Outcome = field(default_factory=Outcome)

    def record(self, work: Callable[[], CompletedRun]) -> CompletedRun:
        """The result of `work`, or raise its error, and keep either as the outcome."""
        try:
            self.outcome.finished = work()
        except BaseException as error:
            self.outcome.error = error
            raise
        return self.outcome.finished
