"""The progress of a run: in a terminal a bar with round, h, residuals, edges and bytes, elsewhere short lines.

Of a search by independence tests: the size of the conditioning sets, tests so far, edges left; a line for each size.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from fedbnsl.algorithms.core.counted import counted

from ..job.job import Job
from ..job.run import Listener
from ..job.run import Progress as Round

LEVEL = "conditioning_set_size"
"""what the rounds of a search by independence tests measure besides"""
OPEN_ENDED = 1000
"""a limit of so many rounds or more is no forecast: such a search ends when there is nothing left to test"""
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
        self._progress.update(self._task, description=self._name, completed=number, total=most, figures=figures(heard))

    def resampled(self, job: Job, running: int, exchanges: int) -> None:
        """Show how many resamples have converged."""
        done, shown = job.bootstrap - running, f"{self._name}: resamples"
        self._progress.update(
            self._task, description=shown, completed=done, total=job.bootstrap, figures=counted(exchanges, "exchange")
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
            print(f"round {heard.round.number}{most}: {figures(heard)}", file=sys.stderr, flush=True)

    def resampled(self, job: Job, running: int, exchanges: int) -> None:
        """Print how many resamples have converged, if it is time."""
        if time.monotonic() >= self._next or not running:
            self._next = time.monotonic() + EVERY
            done = f"{job.bootstrap - running} of {job.bootstrap} resamples learned from"
            print(f"exchange {exchanges}: {done}", file=sys.stderr, flush=True)


def figures(heard: Round) -> str:
    """Return the measures of a round and the bytes until then, in short."""
    if LEVEL in heard.row:
        return searched(heard)
    apart = ("round", "bytes_up", "bytes_down", "formula_bytes")
    measures = [f"{key} {value:.3g}" for key, value in heard.row.items() if key not in apart]
    return "  ".join([*measures, readable(sent(heard))])


def searched(heard: Round) -> str:
    """Return how far a search by independence tests is after this exchange."""
    row = heard.row
    left_out = f" ({row['tests_left_out']:,.0f} left out)" if row["tests_left_out"] else ""
    size = "search over" if heard.round.outcome else f"next, conditioning sets of {row[LEVEL]:.0f}"
    return f"{row['tests']:,.0f} tests{left_out}, {row['edges']:.0f} edges left, {readable(sent(heard))}; {size}"


def sent(heard: Round) -> float:
    """Return the bytes sent until now, both ways."""
    return sum(row["bytes_up"] + row["bytes_down"] for row in heard.rows)


def readable(count: float) -> str:
    """Return a number of bytes for people."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"
