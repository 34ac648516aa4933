"""Silos on Dask workers: the embedded cluster of a run, the client of a coordinator, and the transport over Dask.

A worker is a process with one thread. If a worker dies, Dask's nanny process restarts it. A worker has the services of
its silos as an attribute, and announces each silo by a resource `silo:<name>`. `DaskTransport` pins each call to the
worker that hosts the silo. There, `on_worker` looks up the service.
"""

import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from fedbnsl.algorithms.core.protocol import SiloLost
from fedbnsl.algorithms.errors import BadInput, SilosUnavailable
from fedbnsl.algorithms.secure.masks import Refused

from ..fork_server import fork_server, scripts_not_repeated
from ..silo.policy import NotAllowed
from ..silo.service import MethodCall, SiloService
from .configuration import FederationFile
from .unpickling import restrict_unpickling, restricted_unpickling

THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
"""one BLAS thread per worker: with one thread per core, two workers are a hundred times slower"""

SERVICES_ATTRIBUTE = "fedbnsl_silos"
LOG_ATTRIBUTE = "fedbnsl_log"


def resource(silo: str) -> str:
    """The Dask resource that pins a call to the worker hosting `silo`."""
    return f"silo:{silo}"


def host(worker: Any, services: Iterable[SiloService], log: Callable[[str], None] = lambda line: None) -> None:
    """Attach `services` to a Dask `worker` that is starting, and announce each as a resource.

    `log` gets one line for each call that a silo refuses.
    """
    hosted = {service.name: service for service in services}
    setattr(worker, SERVICES_ATTRIBUTE, hosted)
    setattr(worker, LOG_ATTRIBUTE, log)
    for silo in hosted:
        worker.state.total_resources.setdefault(resource(silo), 1)
        worker.state.available_resources.setdefault(resource(silo), 1)


def hosted_services(worker: Any) -> dict[str, SiloService]:
    """The services attached to a Dask `worker`, by silo."""
    hosted: dict[str, SiloService] = getattr(worker, SERVICES_ATTRIBUTE, {})
    return hosted


@dataclass(frozen=True)
class RemoteError:
    """The exception of a call as a value; Dask would add a traceback with paths and code of the silo's machine."""

    kind: type[Exception]
    arguments: tuple[Any, ...]

    def exception(self) -> Exception:
        """The exception to raise at the coordinator."""
        return self.kind(*self.arguments)


def on_worker(silo: str, call: MethodCall) -> Any:
    """The answer of `silo` to `call`, or its `RemoteError`; runs on the Dask worker that hosts the silo."""
    from distributed import get_worker

    worker = get_worker()
    hosted = hosted_services(worker)
    if silo not in hosted:
        return RemoteError(BadInput, (f"silo {silo} is not hosted by this worker",))
    try:
        return call.on(hosted[silo])
    except Exception as error:
        if isinstance(error, NotAllowed | Refused):
            getattr(worker, LOG_ATTRIBUTE)(f"refused: {error}")
        return RemoteError(type(error), error.args)


POLL_SECONDS = 0.2
"""interval between polls of the connected silos"""
NOTICE_SECONDS = 3.0
"""seconds after which a wait for silos prints a line"""

QUIET: dict[str, Any] = {
    "distributed.scheduler.work-stealing": False,  # a call is pinned to its worker
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.scheduler.allowed-failures": 3,
    "distributed.deploy.lost-worker-timeout": "120s",  # timeout for a nanny to restart a worker
    "distributed.comm.timeouts.connect": "60s",
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.scheduler.allowed-imports": [],  # messages must not name a module to import
}

SCHEDULER_OPTIONS: dict[str, Any] = {"port": 0, "dashboard_address": "127.0.0.1:0"}


@contextmanager
def embedded_cluster(silos: Mapping[str, Path], workers: int | None = None) -> Iterator[Any]:
    """Yield a client of a cluster on this machine whose workers host `silos`; the cluster ends with the `with` block.

    There are `workers` workers, by default one per core, and at most one per silo. The processes of the cluster connect
    only to each other, over mutual TLS with keys of this run (`run_keys.py`), and unpickle only the types of messages
    (`unpickling.py`).
    """
    import dask
    from distributed import Client, Nanny, Scheduler, SpecCluster

    from .run_keys import create_run_security

    _silence()
    names, security = sorted(silos), create_run_security()
    count = max(1, min(len(names), workers or _cores()))
    listening = {"host": "127.0.0.1", "protocol": "tls", "security": security, "dashboard": False}
    listening["extensions"] = {}  # Dask's extensions would send plugins, which the workers refuse to unpickle
    config = QUIET | {"distributed.worker.multiprocessing-method": _start_method()}
    with restricted_unpickling(), scripts_not_repeated(), dask.config.set(config):
        hosted = {f"worker-{i}": {name: silos[name] for name in names[i::count]} for i in range(count)}
        spec = {
            name: {"cls": Nanny, "options": listening | _worker_options(part, notice=name == "worker-0")}
            for name, part in hosted.items()
        }
        scheduler = {"cls": Scheduler, "options": listening | SCHEDULER_OPTIONS}
        cluster = SpecCluster(
            workers=spec, scheduler=scheduler, security=security, silence_logs=logging.CRITICAL, name="fedbnsl"
        )
        try:
            with Client(cluster, set_as_default=False) as client:
                yield client
        finally:
            cluster.close(timeout=20)


@contextmanager
def connect_to_coordinator(file: FederationFile, timeout: float = 15) -> Iterator[Any]:
    """Yield a client of the federation of `file`; raises `SilosUnavailable` if its coordinator does not respond."""
    from distributed import Client
    from distributed.utils import silence_logging_cmgr

    _silence()
    restrict_unpickling()
    try:
        client = Client(
            file.address.tls, timeout=timeout, set_as_default=False, security=file.identity.coordinator_security()
        )
    except (OSError, ValueError, TimeoutError) as error:
        raise SilosUnavailable(
            f"{file.path}: no coordinator responds at {file.address} ({type(error).__name__}): start it with "
            "`fedbnsl coordinator start`"
        ) from None
    # A lost scheduler is reported in one line; Dask would print every failed attempt to reconnect.
    with silence_logging_cmgr(logging.CRITICAL), client:
        yield client


def connected_workers(client: Any) -> dict[str, dict[str, Any]]:
    """The scheduler's information on each worker, by address, from a new request.

    `Client.scheduler_info` cannot be used: it returns a cache from which a timer removes the workers every two seconds,
    which can happen just before the return.
    """
    return dict(client.sync(client.scheduler.identity, n_workers=-1)["workers"])


def hosted_silos(client: Any) -> tuple[str, ...]:
    """The names of the silos that workers host at this moment, sorted.

    Raises `BadInput` if two workers host the same silo, because Dask could send each call to either of them.
    """
    prefix = resource("")
    running = [worker for worker in connected_workers(client).values() if worker["status"] == "running"]
    names = sorted(name.removeprefix(prefix) for w in running for name in w["resources"] if name.startswith(prefix))
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise BadInput(f"two workers host silo {twice}: stop the one that does not have its rows")
    return tuple(names)


def wait_for_silos(client: Any, silos: tuple[str, ...], patience: float, quorum: int | None) -> tuple[str, ...]:
    """Wait until workers host all `silos`, but at most `patience` seconds; returns the hosted silos among them.

    If `silos` is empty, waits for any silo and returns all hosted silos. After `NOTICE_SECONDS`, prints one line.
    Raises `SilosUnavailable` if no silo or fewer than `quorum` silos are hosted, or, without a quorum, if a silo is
    missing.
    """
    begin, printed = time.monotonic(), patience < NOTICE_SECONDS
    while not _all_hosted(silos, present := hosted_silos(client)) and time.monotonic() < begin + patience:
        if not printed and time.monotonic() >= begin + NOTICE_SECONDS:
            absent = ", ".join(silo for silo in silos if silo not in present) or "a silo"
            print(f"waiting for {absent}, at most {patience:g} s", file=sys.stderr, flush=True)
            printed = True
        time.sleep(POLL_SECONDS)
    hosted = tuple(silo for silo in silos or present if silo in present)
    if not hosted or len(hosted) < (quorum or len(silos)):
        missing = [silo for silo in silos if silo not in present] or ["any silo"]
        needed = f"; {quorum} of {len(silos) or 'all connected silos'} are needed" if quorum else ""
        raise SilosUnavailable(
            f"no worker hosts {', '.join(missing)} (available: {', '.join(present) or 'none'}){needed}: its owner "
            "starts one with `fedbnsl silo start`"
        )
    return hosted


def _all_hosted(silos: tuple[str, ...], present: tuple[str, ...]) -> bool:
    return bool(present) and set(silos) <= set(present)


def _worker_options(silos: Mapping[str, Path], *, notice: bool) -> dict[str, Any]:
    """Dask's options of a worker that hosts `silos`; with `notice`, it prints a line if numba compiles for long."""
    hosted = [argument for name, path in silos.items() for argument in ("--silo", f"{name}={path}")]
    return {
        "nthreads": 1,
        "silence_logs": logging.CRITICAL,
        "memory_limit": 0,
        "resources": {resource(name): 1 for name in silos},
        "preload": ["fedbnsl.tasks.worker"],
        "preload_argv": [*hosted, *["--notice"] * notice],
        "env": dict(THREADS),
        "death_timeout": 120,
    }


def _start_method() -> str:
    """The start method of worker processes: `forkserver` with all imports if the system supports it, else `spawn`.

    Measured: forking saves 5 s of CPU per worker at the start, and restarts a dead worker in 0.1 s instead of 6 s.
    """
    return "forkserver" if fork_server() else "spawn"


def _silence() -> None:
    """Silence Dask's loggers: the federation itself reports a missing worker."""
    for name in ("distributed", "tornado.application"):
        logger = logging.getLogger(name)
        logger.propagate = False
        if not logger.handlers:  # without a handler, Python prints warnings and errors
            logger.addHandler(logging.NullHandler())


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class DaskTransport:
    """The workers that a Dask client reaches (see `SiloTransport`)."""

    client: Any

    def present(self) -> tuple[str, ...]:
        """The silos that workers host at this moment, sorted."""
        return hosted_silos(self.client)

    def submit(self, silo: str, call: MethodCall) -> "DaskAnswer":
        """Submit `call` to the worker that hosts `silo`; Dask waits for such a worker if there is none."""
        # A unique key, so that Dask does not reuse the result of an equal call.
        key = f"{call.method}-{uuid4()}"
        return DaskAnswer(silo, self.client.submit(on_worker, silo, call, key=key, resources={resource(silo): 1}))


@dataclass(frozen=True)
class DaskAnswer:
    """The future of a call to `silo` (see `PendingAnswer`)."""

    silo: str
    future: Any

    def result(self, timeout: float) -> Any:
        """The answer; raises the silo's exception, or `TimeoutError` after `timeout` seconds.

        Raises `SiloLost` if the call killed its worker too often for Dask to retry, or the scheduler is lost.
        """
        from asyncio import CancelledError
        from concurrent import futures

        from distributed import KilledWorker

        try:
            answer = self.future.result(timeout=timeout)
        except KilledWorker:
            raise SiloLost((self.silo,), "its worker died repeatedly while solving") from None
        except (CancelledError, futures.CancelledError):  # the type depends on Dask's version
            raise SiloLost((self.silo,), "the connection to the coordinator's scheduler was lost") from None
        if isinstance(answer, RemoteError):
            raise answer.exception()
        return answer

    def release(self) -> None:
        """Let Dask drop the call and its result."""
        self.future.release()
