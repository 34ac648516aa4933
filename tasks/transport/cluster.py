"""The Dask cluster of a run: embedded (workers on this machine) or one that is already there.

The workers are single-threaded processes, each pinned to its silos by the resources `silo:<name>`, each restarted by
its nanny when it dies.
"""

import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedbnsl.algorithms.errors import BadInput, SilosAway

from ..fork_server import fork_server
from .configuration import FederationFile
from .hosting import THREADS, resource
from .unpickling import only_messages

LOOK_AGAIN = 0.2
"""seconds between two looks at who has come"""

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
def connected(file: FederationFile, timeout: float = 15) -> Iterator[Any]:
    """Yield a client of the federation of `file`; raises `SilosAway` if its coordinator does not answer."""
    from distributed import Client
    from distributed.utils import silence_logging_cmgr

    _silence()
    only_messages()
    try:
        client = Client(file.address.tls, timeout=timeout, set_as_default=False, security=file.identity.security())
    except (OSError, ValueError, TimeoutError) as error:
        raise SilosAway(
            f"{file.path}: no coordinator answers at {file.address} ({type(error).__name__}): is it started, by "
            "`fedbnsl coordinator start`?"
        ) from None
    # A scheduler that goes is told of in one line; Dask would print how its client failed to reach it again.
    with silence_logging_cmgr(logging.CRITICAL), client:
        yield client


def hosted_silos(client: Any) -> tuple[str, ...]:
    """Return the names of the silos that workers host at this moment, sorted.

    Raises `BadInput` if two workers host the same one: they would answer in turn.
    """
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    running, prefix = [worker for worker in workers if worker["status"] == "running"], resource("")
    names = sorted(name.removeprefix(prefix) for w in running for name in w["resources"] if name.startswith(prefix))
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise BadInput(f"two workers host silo {twice}: which of them has its rows?")
    return tuple(names)


def gathered(client: Any, silos: tuple[str, ...], patience: float, quorum: int | None) -> tuple[str, ...]:
    """Return those of `silos` (none named: whoever is there) that workers host, once all do or `patience` is over.

    Raises `SilosAway` if then fewer than `quorum` of them are there, or, where none is given, if one is missing.
    """
    deadline = time.monotonic() + patience
    while not _all_there(silos, present := hosted_silos(client)) and time.monotonic() < deadline:
        time.sleep(LOOK_AGAIN)
    there = tuple(silo for silo in silos or present if silo in present)
    if not there or len(there) < (quorum or len(silos)):
        missing = [silo for silo in silos if silo not in present] or ["any silo"]
        needed = f"; {quorum} of {len(silos) or 'those that come'} are needed" if quorum else ""
        raise SilosAway(
            f"no worker hosts {', '.join(missing)} (there are {', '.join(present) or 'none'}){needed}: its owner "
            "starts one with `fedbnsl silo start`"
        )
    return there


def _all_there(silos: tuple[str, ...], present: tuple[str, ...]) -> bool:
    return bool(present) and set(silos) <= set(present)


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
    return "forkserver" if fork_server() else "spawn"


def _silence() -> None:
    """Keep Dask's messages out of other handlers: the federation itself reports a worker that stays away."""
    for name in ("distributed", "tornado.application"):
        logger = logging.getLogger(name)
        logger.propagate = False
        if not logger.handlers:  # without any, Python prints warnings and errors
            logger.addHandler(logging.NullHandler())


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
