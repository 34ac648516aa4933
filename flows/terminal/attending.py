"""Programs that serve until they are told to end: the coordinator's meeting point, and a silo's worker."""

import asyncio
import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any

from fedbnsl.tasks.transport.cluster import QUIET
from fedbnsl.tasks.transport.hosting import THREADS

GRACE = 5.0
"""seconds to take leave of the other side, which may have gone"""


def say(line: str) -> None:
    """Print a line with the time."""
    print(f"{datetime.now():%Y-%m-%d %H:%M:%S} {line}", flush=True)


def until_told(serving: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run what `serving` returns until SIGINT or SIGTERM."""
    import dask

    os.environ.update(THREADS)
    for name in ("distributed", "tornado", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    with dask.config.set(QUIET), contextlib.suppress(asyncio.CancelledError):
        asyncio.run(_cancelled_by_signals(serving()))
    say("stopped")


async def _cancelled_by_signals(serving: Coroutine[Any, Any, None]) -> None:
    task = asyncio.ensure_future(serving)

    def stop() -> None:
        task.cancel()
        last = threading.Timer(GRACE, _leave)
        last.daemon = True
        last.start()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    await task


def _leave() -> None:
    """End this process as it stands: whatever it still waits for, journal and ledger are whole at any time."""
    say("stopped")
    os._exit(0)
