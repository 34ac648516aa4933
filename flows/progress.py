"""The progress of a run: in a terminal a bar with round, h, residuals, edges and bytes, elsewhere short lines."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from .run import Listener
from .run import Progress as Round

EVERY = 5.0
"""seconds between two lines where there is no terminal"""


@contextmanager
def progress_bar(name: str) -> Iterator[Listener]:
    """Yield a listener that shows every round it hears of."""
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

        def hear(heard: Round) -> None:
            progress.update(
                task, description=name, completed=heard.round.number, total=heard.max_rounds, figures=figures(heard)
            )

        yield hear


class _Lines:
    """The first round, then one every few seconds, then the last."""

    def __init__(self) -> None:
        """Start the clock."""
        self._next = 0.0

    def __call__(self, heard: Round) -> None:
        """Print a line if it is time."""
        if time.monotonic() >= self._next or heard.round.outcome:
            self._next = time.monotonic() + EVERY
            print(f"round {heard.round.number} of {heard.max_rounds}: {figures(heard)}", file=sys.stderr, flush=True)


def figures(heard: Round) -> str:
    """Return the measures of a round and the bytes until then, in short."""
    apart = ("round", "bytes_up", "bytes_down", "formula_bytes")
    measures = [f"{key} {value:.3g}" for key, value in heard.row.items() if key not in apart]
    sent = sum(row["bytes_up"] + row["bytes_down"] for row in heard.rows)
    return "  ".join([*measures, readable(sent)])


def readable(count: float) -> str:
    """Return a number of bytes for people."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"
