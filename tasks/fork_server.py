"""The process from which Dask worker processes are forked; it has imported every module that they need."""

import multiprocessing

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
"""slow imports, which would otherwise delay the first round of every learner"""


def fork_server() -> bool:
    """Start the process if it is not running, without waiting for it; False if the system does not support one."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return False
    from multiprocessing import forkserver

    multiprocessing.get_context("forkserver").set_forkserver_preload(list(PRELOADED))
    forkserver.ensure_running()
    return True
