"""How Dask workers start: forked from a process with slow modules imported, and without running the user's script."""

import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import spawn
from typing import Any

PRELOADED = (
    "fedbnsl.tasks.worker",
    "distributed.nanny",
    "fedbnsl.tasks.transport.run_keys",
    "pandas",
    "pyarrow.csv",
    "scipy.optimize",
    "scipy.special",
    "scipy.sparse.csgraph",
)
"""modules that the fork server imports in advance, because their import is slow and would delay the first round"""
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
"""one BLAS thread per worker: with one thread per core, two workers are a hundred times slower"""
SAFE_PATH = "PYTHONSAFEPATH"
"""environment variable with which Python imports nothing from the working directory

Otherwise, a file `statistics.py` or a folder `fedbnsl` beside the user's data would replace the module of that name.
"""


def fork_server() -> bool:
    """Start the fork server in the background unless it runs; returns False if the system has no fork servers."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return False
    from multiprocessing import forkserver

    multiprocessing.get_context("forkserver").set_forkserver_preload(list(PRELOADED))
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        forkserver.ensure_running()
    finally:
        del os.environ[SAFE_PATH]
        if before is not None:
            os.environ[SAFE_PATH] = before
    return True


WORKER_NAME = "Dask Worker process"
"""the beginning of the names that Dask gives to worker processes"""


@contextmanager
def scripts_not_repeated() -> Iterator[None]:
    """Within the block, new Dask workers do not import the user's main module.

    By default, new Python processes import it. A script without `if __name__ == "__main__"` would then run again in
    each worker, and fail.
    """
    original = spawn.get_preparation_data

    def prepared(name: str) -> dict[str, Any]:
        data = original(name)
        if name.startswith(WORKER_NAME):
            data = {key: value for key, value in data.items() if not key.startswith("init_main_from")}
        return data

    spawn.get_preparation_data = prepared
    try:
        yield
    finally:
        spawn.get_preparation_data = original
