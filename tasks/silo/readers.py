"""Processes that read the parts of a silo's rows: processes on this machine, or the workers of its owner's Dask
cluster.

Each process applies a function to one part of the rows at a time and returns the result, such as sums. The silo's
service adds the results up in the order of the parts, so the total has the same bits for any number of processes.
Policy, ledger, journal and noise stay with the service: readers have no state and write nothing. Readers on this
machine end when the service ends.

Functions are sent by `cloudpickle`, through pipes or over TLS to the scheduler and workers of the owner's Dask cluster.
"""

import multiprocessing
import os
import platform
import re
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from importlib.metadata import version
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NoReturn, Protocol

import cloudpickle
from threadpoolctl import threadpool_limits

from fedbnsl.algorithms.errors import BadInput

from ..fork_server import fork_server

PARTS_AHEAD = 2
"""number of parts that are submitted in advance for each process"""
MAX_READERS = 1024
"""the largest number of processes"""
CLUSTER_ADDRESS = re.compile(r"tls://.+|tcp://(127\.0\.0\.1|localhost):\d+")
"""pattern of cluster addresses: results of readers are sent over a network only by TLS"""
CONNECT_SECONDS = 20
"""timeout for a scheduler to answer, and timeout for its first worker to connect"""
PATIENCE_SECONDS = 30.0
"""time without a result after which the cluster is checked for workers"""


class ReaderLost(BadInput):
    """A process that reads rows has ended; the request was not answered, and may be repeated."""


class Pending(Protocol):
    """A part that is being read."""

    def result(self) -> Any:
        """The result of the function for this part, once it is available."""
        ...

    def cancel(self) -> Any:
        """Cancel the part, unless its reading has begun."""
        ...


class Readers:
    """Processes that read parts: started by the first request, ended by `close` or with this process."""

    faults: tuple[type[BaseException], ...] = (BrokenProcessPool,)
    """the exceptions that a result raises if its process has ended"""
    loss = "a process that reads its rows has ended, killed or out of memory"
    """the reason in the message of `ReaderLost`"""

    def __init__(self, silo: str, count: int, log: Callable[[str], None] = print) -> None:
        """Read the rows of `silo` in `count` processes, or in this process if `count` is 1.

        `log` gets a line if a process ends before it has answered.
        """
        self.silo, self.count, self.log = silo, count, log
        self._pool: Any = None
        self._lock = threading.Lock()

    def map(self, work: Callable[[Any], Any], parts: Iterable[Any]) -> Iterator[Any]:
        """Yield `work` of each of the `parts`, in their order; raises `ReaderLost` if a process ends meanwhile."""
        if self.count == 1:
            yield from map(work, parts)
            return
        content, waiting, lost = cloudpickle.dumps(work), deque[Pending](), False
        ahead = PARTS_AHEAD * self._start()
        try:
            for part in parts:
                waiting.append(self._submit(content, part))
                if len(waiting) > ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except self.faults:
            lost = True
        finally:
            for pending in waiting:
                pending.cancel()
        if lost:
            self._lose()

    def close(self) -> None:
        """End the processes, even while they read a part."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            processes = list((pool._processes or {}).values())
            pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.terminate()

    def cpu_seconds(self) -> float:
        """The processor time of the processes that run; any thread may ask, and never waits."""
        pool = self._pool
        return sum(map(_cpu_seconds, tuple(pool._processes or ()))) if pool else 0.0

    def _start(self) -> int:
        """Start the processes unless they run; returns the number of parts that are read in parallel."""
        with self._lock:
            if self._pool is None:
                context = multiprocessing.get_context("forkserver" if fork_server() else "spawn")
                self._pool = ProcessPoolExecutor(self.count, context, _end_with_service)
            return self.count

    def _submit(self, content: bytes, part: Any) -> Pending:
        pending: Pending = self._pool.submit(_apply, content, part)
        return pending

    def _lose(self) -> NoReturn:
        """Raise `ReaderLost`, after the line in the owner's log."""
        self.close()
        lost = ReaderLost(f"silo {self.silo}: {self.loss}; nothing is lost: run again, or resume the run")
        self.log(f"error: {lost}")
        raise lost from None

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy that is sent to a reader reads within the process of that reader."""
        return Readers, (self.silo, 1)


class ClusterReaders(Readers):
    """The workers of the owner's own Dask cluster, which must see the rows under the same path.

    If a worker is lost, the scheduler has another worker read its part, up to the scheduler's limit of failures. The
    certificates come from Dask's configuration (`distributed.comm.tls`).
    """

    def __init__(self, silo: str, address: str, log: Callable[[str], None] = print) -> None:
        """Read the rows of `silo` by the cluster whose scheduler is at `address`."""
        from distributed.comm.core import CommClosedError
        from distributed.scheduler import KilledWorker

        super().__init__(silo, 0, log)
        self.address, self.faults = address, (KilledWorker, CommClosedError, CancelledError, _NoWorker)
        self.loss = f"the cluster at {address} has lost the workers that read its rows"

    def close(self) -> None:
        """Disconnect from the cluster, which continues to run."""
        with self._lock:
            client, self._pool = self._pool, None
        if client is not None:
            client.close(timeout=5)

    def cpu_seconds(self) -> float:
        """0: the processes are on other machines."""
        return 0.0

    def _start(self) -> int:
        with self._lock:
            if self._pool is None:
                self._pool = self._connected()
            threads: dict[str, int] = self._pool.nthreads()
            return max(1, sum(threads.values()))

    def _connected(self) -> Any:
        """A client of the cluster; raises `BadInput` if the cluster is not usable."""
        from distributed import Client, Security

        security, where = Security() if self.address.startswith("tls://") else None, f"the cluster at {self.address}"
        try:
            client = Client(self.address, security=security, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:  # the last two occur for missing certificates
            reason = str(error).splitlines()[0]
            raise BadInput(f"silo {self.silo}: {where} does not answer ({reason})") from None
        try:
            client.wait_for_workers(1, timeout=CONNECT_SECONDS)
            found = client.submit(_versions, pure=False).result()
        except TimeoutError:
            client.close()
            raise BadInput(f"silo {self.silo}: {where} has no worker") from None
        except Exception as error:
            client.close()
            reason = str(error).splitlines()[0]
            raise BadInput(f"silo {self.silo}: {where} cannot import fedbnsl ({reason})") from None
        if found != _versions():
            client.close()
            raise BadInput(f"silo {self.silo}: {where} has {found}, and this silo {_versions()}")
        return client

    def _submit(self, content: bytes, part: Any) -> Pending:
        return _OnCluster(self._pool, self._pool.submit(_apply_alone, content, part, pure=False))


class _NoWorker(Exception):  # noqa: N818 - it becomes a `ReaderLost`
    """The cluster has no worker left."""


class _OnCluster:
    """A part that a worker of a cluster reads."""

    def __init__(self, client: Any, future: Any) -> None:
        self._client, self._future = client, future

    def result(self) -> Any:
        while True:
            try:
                succeeded, value = cloudpickle.loads(self._future.result(timeout=PATIENCE_SECONDS))
            except TimeoutError:
                if not self._client.nthreads():
                    raise _NoWorker from None
            else:
                if not succeeded:
                    raise value
                return value

    def cancel(self) -> None:
        self._future.release()  # unlike `cancel`, it does not wait for a scheduler that may have ended


def _versions() -> str:
    return f"fedbnsl {version('fedbnsl')} and Python {platform.python_version()}"


def _apply_alone(content: bytes, part: Any) -> bytes:
    """Apply a function to a part in a worker of the cluster; returns (True, result) or (False, error), pickled.

    The worker uses one thread, because the bits of a product depend on the number of threads.
    """
    threadpool_limits(1)
    try:
        result = True, _apply(content, part)
    except Exception as error:
        result = False, error
    packed: bytes = cloudpickle.dumps(result)
    return packed


def _end_with_service() -> None:
    """Use one thread, ignore Ctrl-C, and end when the process of the service ends for any reason."""
    threadpool_limits(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    service = multiprocessing.parent_process()
    if service is not None:
        threading.Thread(target=_exit_after, args=(service,), daemon=True).start()


def _apply(content: bytes, part: Any) -> Any:
    return cloudpickle.loads(content)(part)


def _cpu_seconds(process: int) -> float:
    """The processor time of a process in the kernel's own resolution (proc(5)); 0 after its end."""
    try:
        status = Path(f"/proc/{process}/stat").read_text("utf-8")
    except OSError:
        return 0.0
    user, system = status.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _exit_after(service: BaseProcess) -> None:
    service.join()
    os._exit(1)
