"""The Dask cluster of a run: embedded (workers on this machine) or one that is already there.

The workers are single-threaded processes, each pinned to its silos by the resources `silo:<name>`, each restarted by
its nanny when it dies.
"""

import logging
import multiprocessing
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedbnsl.algorithms.errors import BadInput

from .hosting import THREADS, resource

QUIET: dict[str, Any] = {
    "distributed.scheduler.work-stealing": False,  # a call is pinned to its worker
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.scheduler.allowed-failures": 3,
    "distributed.deploy.lost-worker-timeout": "120s",  # how long a cluster waits for a nanny to bring a worker back
    "distributed.comm.timeouts.connect": "60s",
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}


@contextmanager
def embedded(silos: Mapping[str, Path], workers: int | None = None) -> Iterator[Any]:
    """Yield a client of min(P, cores) workers on this machine that host `silos`; they end with the block."""
    import dask
    from distributed import Client, Nanny, Scheduler, SpecCluster

    _silence()
    names = sorted(silos)
    count = max(1, min(len(names), workers or _cores()))
    with dask.config.set(QUIET | {"distributed.worker.multiprocessing-method": _start_method()}):
        spec = {
            f"worker-{i}": {"cls": Nanny, "options": _worker_options({name: silos[name] for name in names[i::count]})}
            for i in range(count)
        }
        scheduler = {
            "cls": Scheduler,
            "options": {"host": "127.0.0.1", "port": 0, "dashboard": False, "dashboard_address": "127.0.0.1:0"},
        }
        cluster = SpecCluster(workers=spec, scheduler=scheduler, silence_logs=logging.CRITICAL, name="fedbnsl")
        try:
            with Client(cluster, set_as_default=False) as client:
                yield client
        finally:
            cluster.close(timeout=20)


@contextmanager
def connected(address: str, timeout: float = 15) -> Iterator[Any]:
    """Yield a client of the scheduler at `address`; raises `BadInput` if nothing answers there."""
    from distributed import Client

    _silence()
    try:
        client = Client(address, timeout=timeout, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise BadInput(f"no Dask scheduler answers at {address} ({type(error).__name__})") from None
    with client:
        yield client


def hosted_silos(client: Any) -> tuple[str, ...]:
    """Return the names of the silos that workers host at this moment, sorted."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    prefix = resource("")
    return tuple(
        sorted({name.removeprefix(prefix) for w in workers for name in w["resources"] if name.startswith(prefix)})
    )


def require(client: Any, silos: tuple[str, ...]) -> None:
    """Raise `BadInput` if no worker hosts one of `silos`: Dask would wait for it for ever."""
    present = hosted_silos(client)
    missing = [silo for silo in silos if silo not in present]
    if missing:
        raise BadInput(
            f"no worker hosts {', '.join(missing)} (there are {', '.join(present) or 'none'}): "
            f"its owner starts one with: dask worker {client.scheduler.address} --nthreads 1 "
            f"--preload fedbnsl.tasks.worker --silo {missing[0]}=FILE"
        )


def _worker_options(silos: Mapping[str, Path]) -> dict[str, Any]:
    return {
        "nthreads": 1,
        "host": "127.0.0.1",
        "dashboard": False,
        "silence_logs": logging.CRITICAL,
        "memory_limit": 0,
        "resources": {resource(name): 1 for name in silos},
        "preload": ["fedbnsl.tasks.worker"],
        "preload_argv": [word for name, path in silos.items() for word in ("--silo", f"{name}={path}")],
        "env": dict(THREADS),
        "death_timeout": 120,
    }


def _start_method() -> str:
    """Return how to start worker processes: forked, if the system can, from a process that has imported everything.

    Measured: 5 s of CPU a worker less at the start, and a worker that died is back after 0.1 s instead of 6.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return "spawn"
    import dask
    from distributed.utils import get_mp_context

    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context().set_forkserver_preload(["fedbnsl.tasks.worker", "distributed.nanny"])
    os.environ.update({name: value for name, value in THREADS.items() if name not in os.environ})
    return "forkserver"


def _silence() -> None:
    """Keep Dask's messages out of other handlers: the federation itself reports a worker that stays away."""
    for name in ("distributed", "tornado.application"):
        logging.getLogger(name).propagate = False


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
