"""Silos on Dask workers of one owner: the embedded cluster of a run, and the transport to it.

All processes of the cluster belong to the user who started the run. Silos of other owners are never reached by Dask,
whose messages are pickles, but by `relay.py`.

A worker is a process with one thread. If a worker dies, Dask's nanny process restarts it. A worker has the services of
its silos as an attribute, and announces each silo by a resource `silo:<name>`. `DaskTransport` pins each call to the
worker that hosts the silo. There, `on_worker` looks up the service. The count of the worker's heartbeats is one of its
metrics.
"""

import contextlib
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any
from uuid import uuid4

from fedbnsl.algorithms.core.protocol import SiloLost
from fedbnsl.algorithms.errors import SilosUnavailable
from fedbnsl.tracking.staging import first_line

from ..fork_server import THREADS, fork_server, scripts_not_repeated
from ..silo.heartbeat import Heartbeat
from ..silo.messages import MethodCall, answer
from ..silo.service import SiloService
from .federation import Liveness, PackedAnswer, transport_errors

SERVICES_ATTRIBUTE, HEARTBEATS = "fedbnsl_silos", "fedbnsl_heartbeats"


def resource(silo: str) -> str:
    """The Dask resource that pins a call to the worker hosting `silo`."""
    return f"silo:{silo}"


def host(worker: Any, services: Iterable[SiloService], heartbeat: Heartbeat) -> None:
    """Attach `services` and `heartbeat` to a Dask `worker` that is starting, and announce each silo as a resource."""
    hosted = {service.name: service for service in services}
    setattr(worker, SERVICES_ATTRIBUTE, hosted)
    setattr(worker, HEARTBEATS, heartbeat)
    worker.metrics[HEARTBEATS] = lambda _: heartbeat.count()
    for silo in hosted:
        worker.state.total_resources.setdefault(resource(silo), 1)
        worker.state.available_resources.setdefault(resource(silo), 1)


def hosted_services(worker: Any) -> dict[str, SiloService]:
    """The services attached to a Dask `worker`, by silo."""
    hosted: dict[str, SiloService] = getattr(worker, SERVICES_ATTRIBUTE, {})
    return hosted


def on_worker(silo: str, packed: bytes) -> bytes:
    """The answer of `silo` to the call in `packed`; runs on the Dask worker that hosts the silo."""
    from distributed import get_worker

    worker = get_worker()
    with getattr(worker, HEARTBEATS).answering():
        return answer(hosted_services(worker)[silo], packed)


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
}

SCHEDULER_OPTIONS: dict[str, Any] = {"port": 0}


@contextmanager
def embedded_cluster(silos: Mapping[str, Path], workers: int | None = None) -> Iterator[Any]:
    """Yield a client of a cluster on this machine whose workers host `silos`; the cluster ends with the `with` block.

    There are `workers` workers, by default one per core, and at most one per silo. The processes of the cluster connect
    only to each other, over mutual TLS with keys of this run (`run_keys.py`). Raises `SilosUnavailable` if they cannot
    be started.
    """
    import dask
    from distributed import Client

    _silence()
    names = sorted(silos)
    count = max(1, min(len(names), workers or _cores()))
    config = QUIET | {"distributed.worker.multiprocessing-method": _start_method()}
    with scripts_not_repeated(), dask.config.set(config):
        hosted = {f"worker-{i}": {name: silos[name] for name in names[i::count]} for i in range(count)}
        workers_options = {name: _worker_options(part, notice=name == "worker-0") for name, part in hosted.items()}
        try:
            cluster = local_cluster(workers_options)
        except (OSError, RuntimeError) as error:
            why = f"{type(error).__name__}: {first_line(error)}"
            raise SilosUnavailable(f"{', '.join(names)}: no worker could be started on this machine ({why})") from None
        try:
            with Client(cluster, set_as_default=False) as client:
                yield client
        finally:
            cluster.close(timeout=20)


def local_cluster(workers: Mapping[str, dict[str, Any]]) -> Any:
    """A new cluster on this machine with `workers`, whose options of Dask are given by name.

    Every account of this machine reaches its ports, and whoever may talk to one runs code as this user. So each process
    listens at one port only, which requires a certificate of this cluster.
    """
    from distributed import Nanny, SpecCluster

    from .run_keys import TlsScheduler, TlsWorker, create_run_security

    security = create_run_security()
    listening = {"host": "127.0.0.1", "protocol": "tls", "security": security, "dashboard": False, "extensions": {}}
    common: dict[str, Any] = listening | {"worker_class": TlsWorker, "nthreads": 1, "silence_logs": logging.CRITICAL}
    return SpecCluster(
        workers={name: {"cls": Nanny, "options": common | options} for name, options in workers.items()},
        scheduler={"cls": TlsScheduler, "options": listening | SCHEDULER_OPTIONS},
        security=security,
        silence_logs=logging.CRITICAL,
        name="fedbnsl",
    )


def connected_workers(client: Any) -> dict[str, dict[str, Any]]:
    """The scheduler's information on each worker, by address, from a new request.

    `Client.scheduler_info` cannot be used: it returns a cache from which a timer removes the workers every two seconds,
    which can happen just before the return.
    """
    return dict(client.sync(client.scheduler.identity, n_workers=-1)["workers"])


def hosted_silos(client: Any) -> dict[str, tuple[str, int]]:
    """The silos that workers host at this moment, sorted: the worker's address and its number of heartbeats."""
    prefix = resource("")
    return dict(
        sorted(
            (name.removeprefix(prefix), (address, worker["metrics"][HEARTBEATS]))
            for address, worker in connected_workers(client).items()
            if worker["status"] == "running"
            for name in worker["resources"]
            if name.startswith(prefix)
        )
    )


def _worker_options(silos: Mapping[str, Path], *, notice: bool) -> dict[str, Any]:
    """Dask's options of a worker that hosts `silos`; with `notice`, it prints a line if numba compiles for long."""
    hosted = [argument for name, path in silos.items() for argument in ("--silo", f"{name}={path}")]
    return {
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
    liveness: Liveness = field(default_factory=Liveness)

    def present(self) -> tuple[str, ...]:
        """The silos that workers host at this moment, sorted."""
        return tuple(self._hosted())

    def silence(self) -> Mapping[str, float]:
        """The seconds since the worker of each hosted silo has sent a heartbeat; workers send two per second."""
        return self.liveness.look(self._hosted)

    def _hosted(self) -> dict[str, tuple[str, int]]:
        """The hosted silos; none if the scheduler does not respond."""
        with contextlib.suppress(SiloLost, TimeoutError), transport_errors("the scheduler"):
            return hosted_silos(self.client)
        return {}

    def submit(self, silo: str, call: MethodCall) -> PackedAnswer:
        """Submit `call` to the worker that hosts `silo`; Dask waits for such a worker if there is none."""
        # A unique key, so that Dask does not reuse the result of an equal call.
        key, packed, ended = f"{call.method}-{uuid4()}", call.pack(), Event()
        with transport_errors(silo):
            future = self.client.submit(on_worker, silo, packed, key=key, resources={resource(silo): 1})
            future.add_done_callback(lambda _: ended.set())
        return PackedAnswer(silo, call.method, DaskAnswer(future, ended))


TRANSFER_SECONDS = 60.0
"""timeout for the transfer of an answer that is ready"""


@dataclass(frozen=True)
class DaskAnswer:
    """The future of a call, whose result are bytes (see `PendingAnswer`)."""

    future: Any
    ended: Event
    """set once the call has ended"""

    def result(self, timeout: float) -> bytes:
        """The packed answer; raises `TimeoutError` after `timeout` seconds, and Dask's errors."""
        # A timeout during the transfer of the answer would begin the transfer again.
        if not self.ended.wait(timeout):
            raise TimeoutError
        packed: bytes = self.future.result(timeout=TRANSFER_SECONDS)
        return packed

    def release(self) -> None:
        """Let Dask drop the call and its result."""
        self.future.release()
