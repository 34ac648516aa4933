"""Processes of a silo's owner that read the parts of its rows: as many as `workers` in `silo.toml`.

Each is given a function and one part of the rows at a time, and returns what the function makes of this part, such as
sums. The silo's service adds these up in the order of the parts, so a result has the same bits for any number of
processes. Policy, ledger, journal and noise stay with the service: readers have no state and write nothing, and they
end when the service ends.

Functions travel by `cloudpickle`, through pipes between processes of the owner alone.
"""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.process import BaseProcess
from typing import Any

import cloudpickle
from threadpoolctl import threadpool_limits

from fedbnsl.algorithms.errors import BadInput

from ..fork_server import fork_server

PARTS_AHEAD = 2
"""parts that are given out for each process before the first of them is read"""
MAX_READERS = 1024
"""the largest number of processes"""


class ReaderLost(BadInput):
    """A process that reads rows has ended; the request was not answered, and may be repeated."""


class Readers:
    """A number of processes that read parts; they start with the first rows, and end with `close` or this process."""

    def __init__(self, silo: str, count: int, log: Callable[[str], None] = print) -> None:
        """Read the rows of `silo` by `count` processes, by this one if it is 1; `log` gets a line if one ends."""
        self.silo, self.count, self.log = silo, count, log
        self._pool: ProcessPoolExecutor | None = None
        self._lock = threading.Lock()

    def map(self, work: Callable[[Any], Any], parts: Iterable[Any]) -> Iterator[Any]:
        """Yield `work` of each of the `parts`, in their order; raises `ReaderLost` if a process ends before."""
        if self.count == 1:
            yield from map(work, parts)
            return
        content, waiting = cloudpickle.dumps(work), deque[Future[Any]]()
        pool = self._started()
        try:
            for part in parts:
                waiting.append(pool.submit(_apply, content, part))
                if len(waiting) > PARTS_AHEAD * self.count:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool:
            self.close()
            lost = ReaderLost(
                f"silo {self.silo}: a process that reads its rows has ended, killed or out of memory; nothing is lost: "
                "run again, or resume the run"
            )
            self.log(f"error: {lost}")
            raise lost from None
        finally:
            for future in waiting:
                future.cancel()

    def close(self) -> None:
        """End the processes; those that read a part are ended with it."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            processes = list((pool._processes or {}).values())
            pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.terminate()

    def _started(self) -> ProcessPoolExecutor:
        with self._lock:
            if self._pool is None:
                context = multiprocessing.get_context("forkserver" if fork_server() else "spawn")
                self._pool = ProcessPoolExecutor(self.count, context, _end_with_service)
            return self._pool

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy in a reader reads alone."""
        return Readers, (self.silo, 1)


def _end_with_service() -> None:
    """Use one thread, leave interrupts to the service, and end when the service ends, however that happens."""
    threadpool_limits(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    service = multiprocessing.parent_process()
    if service is not None:
        threading.Thread(target=_exit_after, args=(service,), daemon=True).start()


def _apply(content: bytes, part: Any) -> Any:
    return cloudpickle.loads(content)(part)


def _exit_after(service: BaseProcess) -> None:
    service.join()
    os._exit(1)
