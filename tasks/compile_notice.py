"""A line for the user if numba compiles for long, in the process of a run and in one of its workers."""

import math
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from fedbnsl.algorithms.core.compiled import on_numba

NOTICE = "compiling numerical code, once after installation: a minute or two"
COMPILE_SECONDS = 2.0
"""minimum time from the begin of the first compilation to the begin or end of one at which the line is printed"""


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
        begin = math.nan

        def on_start(self, compiled: Any) -> None:
            self.begin = time.monotonic() if math.isnan(self.begin) else self.begin
            if time.monotonic() - self.begin >= COMPILE_SECONDS:
                print(f"{NOTICE}{where}", file=sys.stderr, flush=True)
                self.begin = math.inf

        on_end = on_start

    return event.install_listener("numba:compile", Notice())
