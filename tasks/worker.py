"""The preload of a data owner's Dask worker: which silos it hosts, and where their rows are.

    dask worker tcp://coordinator:8786 --nthreads 1 --resources "silo:hospital-a=1" \
        --preload fedbnsl.tasks.worker --silo hospital-a=/data/hospital-a.csv

`--silo` may be repeated. The resource `silo:NAME` is announced for each, whether or not `--resources` names it; the
path stays in this process. `--budget E` bounds the ε that all runs on these rows may spend together, at the δ of
`--budget-delta D` (1/n² of the silo's rows), whatever a coordinator asks for.
"""

import math
import os
from pathlib import Path
from typing import Any

import click

from fedbnsl.algorithms.privacy.ledger import Budget

from .silo.service import SiloService
from .transport.hosting import THREADS, host, hosted_by


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
@click.option("--budget-delta", type=click.FloatRange(0, 1, min_open=True, max_open=True), help="The δ of that budget.")
def dask_setup(worker: Any, silos: tuple[str, ...], budget: float | None, budget_delta: float | None) -> None:
    """Host the silos: called by Dask when the worker starts, before it tells the scheduler what it has."""
    os.environ.update(THREADS)
    limit = Budget(budget or math.inf, budget_delta or 0.0)
    host(worker, [SiloService(name, path, limit) for name, path in hosted(silos).items()])


def dask_teardown(worker: Any) -> None:
    """Close the journals when the worker stops."""
    for service in hosted_by(worker).values():
        service.close()
