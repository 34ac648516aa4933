"""The preload of a Dask worker on the coordinator's machine, with which the worker hosts silos of a folder.

`--silo NAME=PATH` names a silo and its file, and may be repeated. The worker announces the resource `silo:NAME` for
each silo, but not its path. `fedbnsl silo start` serves the silos of other owners (`transport/channel.py`).

Importing this module also initialises Numba's compiler with one small function. The process from which workers are
forked imports this module (`fork_server.py`), so that each worker saves 0.3 s in its first round.
"""

import os
import signal
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
from numba import njit

from fedbnsl.data.folder.formats import has_query

from .compile_notice import compile_notice
from .fork_server import THREADS
from .silo.heartbeat import Heartbeat
from .silo.service import SiloService
from .transport.cluster import host, hosted_services

_NOTICE = ExitStack()
"""holds the compile notice, which is open as long as the worker runs"""


def parse_silo_options(pairs: tuple[str, ...]) -> dict[str, Path]:
    """Silo -> path from `NAME=PATH` pairs; raises `click.BadParameter` for anything else or a missing path."""
    found = {}
    for pair in pairs:
        name, equals, path = pair.partition("=")
        if not (name and equals and path):
            raise click.BadParameter(f"'{pair}' is not NAME=PATH", param_hint="--silo")
        if not Path(path).exists():
            raise click.BadParameter(f"{path}: no such file", param_hint="--silo")
        found[name] = Path(path).absolute()
    return found


@click.command()
@click.option("--silo", "silos", multiple=True, required=True, help="NAME=PATH of a silo's rows; repeat for more.")
@click.option("--notice", is_flag=True, help="Print a line if numba compiles for long (set for one worker).")
def dask_setup(worker: Any, silos: tuple[str, ...], notice: bool) -> None:
    """Host the silos; Dask calls this when the worker starts, before it announces its resources to the scheduler.

    The worker ignores Ctrl-C, which a terminal also sends to the coordinator. The coordinator ends its workers itself.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if notice:
        _NOTICE.enter_context(compile_notice(f" (silo {silos[0].partition('=')[0]})"))
    os.environ.update(THREADS)
    paths = parse_silo_options(silos)
    heartbeat = Heartbeat(remote_rows=any(map(has_query, paths.values())))
    host(worker, [SiloService(name, path) for name, path in paths.items()], heartbeat)


def dask_teardown(worker: Any) -> None:
    """Close the journals when the worker stops."""
    for service in hosted_services(worker).values():
        service.close()


@njit(cache=True)
def _twice(x: float) -> float:
    return 2 * x


_twice(1.0)
