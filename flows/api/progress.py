"""How far a run is, in one line that is rewritten: below the cell of a notebook, or on a terminal."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..job.job import Job
from ..job.run import OPEN_ENDED, Listener, Progress, progress_text

EVERY = 0.2
"""seconds between two looks of the line"""
WIDEST = 110
"""letters of the line: a longer one would be two on many terminals, and could not be rewritten"""

Write = Callable[[str], None]


@contextmanager
def progress_line(wanted: bool | None) -> Iterator[tuple[Listener, ...]]:
    """Yield what listens to the rounds: nothing if it is not `wanted`, or, for None, if this is no notebook."""
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
    """The shell of the notebook in which this runs; None where there is none."""
    ask = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = ask() if ask is not None else None
    return shell if hasattr(shell, "kernel") else None


class _Line:
    """The line: round, measures and bytes, then how many resamples have converged."""

    def __init__(self, write: Write) -> None:
        """Begin with a line that says so: the first round may take a while."""
        self._write, self._next = write, 0.0
        self._begin = time.monotonic()
        self._tell("starting", always=True)

    def __call__(self, heard: Progress) -> None:
        """Show the round."""
        most = "" if heard.max_rounds >= OPEN_ENDED else f" of {heard.max_rounds}"
        ended = bool(heard.round.outcome)
        self._tell(f"round {heard.round.number}{most}: {progress_text(heard)}", always=ended)

    def resampled(self, job: Job, running: int, exchanges: int) -> None:
        """Show how many resamples have converged."""
        done = job.settings.bootstrap - running
        self._tell(f"{done} of {job.settings.bootstrap} resamples done, {exchanges} exchanges", always=not running)

    def end(self) -> None:
        """Take the line away: what came out is shown by whoever wants it."""
        self._write("")

    def _tell(self, said: str, *, always: bool) -> None:
        now = time.monotonic()
        if always or now >= self._next:
            self._next = now + EVERY
            self._write(f"{now - self._begin:.0f} s  {said}"[:WIDEST])


def _on_terminal(line: str) -> None:
    """Rewrite the line at the cursor: return to its beginning, write, and clear the rest."""
    print(f"\r{line}\x1b[K", end="", file=sys.stderr, flush=True)


def _in_notebook() -> Write:
    """Return what rewrites one output of the cell."""
    from IPython.display import display  # type: ignore[import-not-found]

    handle = display(_Text(""), display_id=True)
    return lambda line: handle.update(_Text(line))


class _Text:
    """A line as a notebook shows it: plain, and without the quotes of a string."""

    def __init__(self, line: str) -> None:
        """Keep the line."""
        self._line = line

    def __repr__(self) -> str:
        """The line."""
        return self._line
