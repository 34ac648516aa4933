"""Processes that serve until they are stopped: the coordinator, and a silo."""

import asyncio
import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any

from fedbnsl.algorithms.errors import MAX_LINE_LENGTH, foreign_text
from fedbnsl.tasks.fork_server import THREADS

SIGNALS = (signal.SIGINT, signal.SIGTERM)
GRACE_SECONDS = 5.0
"""maximum time in seconds for an orderly shutdown of connections, which can block if the other side does not answer"""


def log_line(line: str) -> None:
    """Print a line with the time, whatever text of other parties it contains."""
    print(f"{datetime.now():%Y-%m-%d %H:%M:%S} {foreign_text(line, MAX_LINE_LENGTH)}", flush=True)


def run_until_signal(serving: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run the coroutine that `serving` returns until SIGINT or SIGTERM."""
    os.environ.update(THREADS)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL + 1)
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(_cancel_on_signals(serving()))
    log_line("stopped")


async def _cancel_on_signals(serving: Coroutine[Any, Any, None]) -> None:
    task, loop = asyncio.ensure_future(serving), asyncio.get_running_loop()

    def stop(number: int, frame: object) -> None:
        # The group and the supervisor both send the signal. With a handler of the loop, which ends with the loop, the
        # second one would end this process before it says that it has stopped.
        for each in SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        loop.call_soon_threadsafe(task.cancel)
        last = threading.Timer(GRACE_SECONDS, _exit_now)
        last.daemon = True
        last.start()

    for number in SIGNALS:
        signal.signal(number, stop)
    await task


def _exit_now() -> None:
    """End this process at once; journal and ledger are consistent at any time."""
    log_line("stopped")
    os._exit(0)
