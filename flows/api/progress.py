"""The progress of a run, in one line below the cell of a notebook or on a terminal; each update rewrites the line."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..job.job import Job
from ..job.run import OPEN_ENDED, Listener, Progress, progress_text

UPDATE_SECONDS = 0.2
"""minimum time between two updates of the line"""
MAX_LINE_CHARACTERS = 110
"""maximum length of the line; many terminals would wrap a longer line, and a wrapped line cannot be rewritten"""

Write = Callable[[str], None]


@contextmanager
def progress_line(wanted: bool | None) -> Iterator[tuple[Listener, ...]]:
    """Yield the listeners that show the progress: none if `wanted` is False, or if it is None outside notebooks."""
    shell = notebook()
    if wanted is False or (wanted is None and shell is None):
        yield ()
        return
    line = _Line(_in_notebook() if shell is not None else _on_terminal)
    try:
        yield (line,)
    finally:
        line.end()


def notebook() -> Any:
    """The IPython shell of the notebook in which this process runs; None outside notebooks."""
    get_shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = get_shell() if get_shell is not None else None
    return shell if hasattr(shell, "kernel") else None


class _Line:
    """The line of progress: round, measures and bytes, and later the number of converged resamples."""

    def __init__(self, write: Write) -> None:
        """Show that the run is starting, because the first round may take a while."""
        self._write, self._next = write, 0.0
        self._begin = time.monotonic()
        self._update("starting", always=True)

    def __call__(self, progress: Progress) -> None:
        most = "" if progress.max_rounds >= OPEN_ENDED else f" of {progress.max_rounds}"
        ended = bool(progress.round.outcome)
        self._update(f"round {progress.round.number}{most}: {progress_text(progress)}", always=ended)

    def step(self, job: Job, words: str) -> None:
        """Show what the run does next."""
        self._update(words, always=True)

    def resampled(self, job: Job, running: int, exchanges: int) -> None:
        """Show the number of converged resamples."""
        done = job.resamples - running
        self._update(f"{done} of {job.resamples} resamples done, {exchanges} exchanges", always=not running)

    def end(self) -> None:
        """Clear the line."""
        self._write("")

    def _update(self, text: str, *, always: bool) -> None:
        now = time.monotonic()
        if always or now >= self._next:
            self._next = now + UPDATE_SECONDS
            self._write(f"{now - self._begin:.0f} s  {text}"[:MAX_LINE_CHARACTERS])


def _on_terminal(line: str) -> None:
    """Rewrite the line at the cursor: return to its start, write, and clear the rest."""
    print(f"\r{line}\x1b[K", end="", file=sys.stderr, flush=True)


def _in_notebook() -> Write:
    """A function that rewrites one output of the cell."""
    from IPython.display import display  # type: ignore[import-not-found]

    handle = display(_Text(""), display_id=True)
    return lambda line: handle.update(_Text(line))


class _Text:
    """A line that a notebook displays without the quotes of a string."""

    def __init__(self, line: str) -> None:
        self._line = line

    def __repr__(self) -> str:
        return self._line
