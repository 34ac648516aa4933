"""The Dask worker of a data owner, as a preload: says which silos it hosts and where their rows are.

    dask worker tcp://coordinator:8786 --nthreads 1 --resources "silo:hospital-a=1" \
        --preload fedbnsl.tasks.worker --silo hospital-a=/data/hospital-a.csv

`--budget E` bounds the ε that all runs on these rows may spend together, whatever a coordinator asks for. `--silo` may
be repeated; the resource `silo:NAME` is announced for each, whether or not `--resources` names it. The path stays in
this process.
"""

import os
from pathlib import Path
from typing import Any

import click

from .silo import service as silo_runtime

THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
"""One BLAS thread a worker: two workers with a thread per core each take a hundred times as long."""


def resource(silo: str) -> str:
    """Return the Dask resource that pins a task to the worker hosting `silo`."""
    return f"silo:{silo}"


def hosted(pairs: tuple[str, ...]) -> dict[str, Path]:
    """Return silo -> path from `NAME=PATH` pairs; raises `click.BadParameter` for anything else or a missing path."""
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
@click.option("--budget", type=click.FloatRange(0, min_open=True), help="The most ε that all runs may spend together.")
def dask_setup(worker: Any, silos: tuple[str, ...], budget: float | None) -> None:
    """Host the silos: called by Dask when the worker starts, before it tells the scheduler what it has."""
    os.environ.update(THREADS)
    silo_runtime.HOSTED.update(hosted(silos))
    if budget is not None:
        silo_runtime.BUDGETS.update(dict.fromkeys(silo_runtime.HOSTED, budget))
    for silo in silo_runtime.HOSTED:
        worker.state.total_resources.setdefault(resource(silo), 1)
        worker.state.available_resources.setdefault(resource(silo), 1)


def dask_teardown(worker: Any) -> None:
    """Close the journals when the worker stops."""
    silo_runtime.forget_all()
