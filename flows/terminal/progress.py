"""The progress of a run: in a terminal a bar with round, h, residuals, edges and bytes, elsewhere short lines.

Of a search by independence tests: the size of the conditioning sets, tests so far, edges left; a line for each size.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from fedbnsl.algorithms.core.names import pluralize

from ..job.job import Job
from ..job.run import LEVEL, OPEN_ENDED, Listener, progress_text
from ..job.run import Progress as Round

EVERY = 5.0
"""seconds between two lines where there is no terminal"""


@contextmanager
def progress_bar(name: str) -> Iterator[Listener]:
    """Yield a listener that shows the progress after every round."""
    if sys.stderr.isatty():
        with _bar(name) as listener:
            yield listener
    else:
        print(f"{name}: starting", file=sys.stderr, flush=True)
        yield _Lines()


@contextmanager
def _bar(name: str) -> Iterator[Listener]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[figures]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=5) as progress:
        task = progress.add_task(f"{name}: starting", total=None, figures="")

        yield _Bar(progress, task, name)


class _Bar:
    """The bar of a terminal: the rounds, then the resamples that have converged."""

    def __init__(self, progress: Progress, task: TaskID, name: str) -> None:
        """Show the run called `name` as `task` of `progress`."""
        self._progress, self._task, self._name = progress, task, name

    def __call__(self, heard: Round) -> None:
        """Show the round."""
        number, most = heard.round.number, None if heard.max_rounds >= OPEN_ENDED else heard.max_rounds
        self._progress.update(
            self._task, description=self._name, completed=number, total=most, figures=progress_text(heard)
        )

    def resampled(self, job: Job, running: int, exchanges: int) -> None:
        """Show how many resamples have converged."""
        done, shown = job.settings.bootstrap - running, f"{self._name}: resamples"
        self._progress.update(
            self._task,
            description=shown,
            completed=done,
            total=job.settings.bootstrap,
            figures=pluralize(exchanges, "exchange"),
        )


class _Lines:
    """The first round, then one every few seconds, then the last; of a search also the first of every level."""

    def __init__(self) -> None:
        """Start the clock."""
        self._next, self._level = 0.0, -1.0

    def __call__(self, heard: Round) -> None:
        """Print a line if it is time."""
        level = heard.row.get(LEVEL, self._level)
        if time.monotonic() >= self._next or heard.round.outcome or level != self._level:
            self._next, self._level = time.monotonic() + EVERY, level
            most = "" if heard.max_rounds >= OPEN_ENDED else f" of {heard.max_rounds}"
            print(f"round {heard.round.number}{most}: {progress_text(heard)}", file=sys.stderr, flush=True)

    def resampled(self, job: Job, running: int, exchanges: int) -> None:
        """Print how many resamples have converged, if it is time."""
        if time.monotonic() >= self._next or not running:
            self._next = time.monotonic() + EVERY
            done = f"{job.settings.bootstrap - running} of {job.settings.bootstrap} resamples done"
            print(f"exchange {exchanges}: {done}", file=sys.stderr, flush=True)
