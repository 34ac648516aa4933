"""A line for the user if numba compiles for long, in the process of a run and in one of its workers."""

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from fedbnsl.algorithms.compiled import on_numba

NOTICE = "compiling numerical code, once after installation: a minute or two"
COMPILE_SECONDS = 2.0
"""the line is printed once numba has compiled for this time in all, as known when a compilation begins or ends"""


@contextmanager
def compile_notice(where: str = "") -> Iterator[None]:
    """Print one line, which ends with `where`, if numba compiles for long within the block.

    Compiled functions are cached on disk, so numba usually compiles for long only once after an installation.
    """
    noticed = ExitStack()
    with noticed, on_numba(lambda: noticed.enter_context(_notices(where))):
        yield


def _notices(where: str) -> Any:
    """A context manager that prints the line when numba has compiled for long."""
    from numba.core import event

    class Notice(event.Listener):
        depth = 0  # a function's compilation includes those of the functions that it calls
        begin = spent = 0.0
        printed = False

        def on_start(self, compiled: Any) -> None:
            if self.depth == 0:
                self.begin = time.monotonic()
            self.depth += 1
            self.check()

        def on_end(self, compiled: Any) -> None:
            self.check()
            self.depth -= 1
            if self.depth == 0:
                self.spent += time.monotonic() - self.begin

        def check(self) -> None:
            if not self.printed and self.spent + time.monotonic() - self.begin >= COMPILE_SECONDS:
                print(f"{NOTICE}{where}", file=sys.stderr, flush=True)
                self.printed = True

    return event.install_listener("numba:compile", Notice())
