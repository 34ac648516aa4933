"""The preload of a Dask worker on the coordinator's machine: which silos of a folder it hosts, where their rows are.

`--silo NAME=PATH` may be repeated. The resource `silo:NAME` is announced for each; the path stays in this process.
Owners' own workers are started by `fedbnsl silo start` (`transport/silo_worker.py`).

Numba made ready: importing this module loads what Numba loads for the first compiled function of a process.

The process that workers are forked from imports it, so that no worker spends 0.3 s on that in its first round.
"""

import os
from pathlib import Path
from typing import Any

import click
from numba import njit

from .silo.service import SiloService
from .transport.cluster import THREADS, host, hosted_by


def parse_silo_options(pairs: tuple[str, ...]) -> dict[str, Path]:
    """Silo -> path from `NAME=PATH` pairs; raises `click.BadParameter` for anything else or a missing path."""
    found = {}
    for pair in pairs:
        name, equals, path = pair.partition("=")
        if not (name and equals and path):
            raise click.BadParameter(f"'{pair}' is not NAME=PATH", param_hint="--silo")
        if not Path(path).exists():
            raise click.BadParameter(f"there is no {path}", param_hint="--silo")
        found[name] = Path(path).absolute()
    return found


@click.command()
@click.option("--silo", "silos", multiple=True, required=True, help="NAME=PATH of a silo's rows; repeat for more.")
def dask_setup(worker: Any, silos: tuple[str, ...]) -> None:
    """Host the silos: called by Dask when the worker starts, before it tells the scheduler what it has."""
    os.environ.update(THREADS)
    host(worker, [SiloService(name, path) for name, path in parse_silo_options(silos).items()])


def dask_teardown(worker: Any) -> None:
    """Close the journals when the worker stops."""
    for service in hosted_by(worker).values():
        service.close()


@njit(cache=True)
def _twice(x: float) -> float:
    return 2 * x


_twice(1.0)
