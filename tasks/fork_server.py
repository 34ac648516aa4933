"""The process that worker processes are forked from, which has imported everything that they need."""

import multiprocessing

PRELOADED = (
    "fedbnsl.tasks.worker",
    "fedbnsl.tasks.worker",
    "distributed.nanny",
    "pyarrow.csv",
    "scipy.optimize",
    "scipy.special",
    "scipy.sparse.csgraph",
)
"""what takes long to import and every learner's first round would wait for"""


def fork_server() -> bool:
    """Start the process unless it runs, without waiting for it; return whether the system has such processes."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return False
    from multiprocessing import forkserver

    multiprocessing.get_context("forkserver").set_forkserver_preload(list(PRELOADED))
    forkserver.ensure_running()
    return True
