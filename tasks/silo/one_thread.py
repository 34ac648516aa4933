"""Linear algebra on one thread, so that silos that share a machine do not take each other's processors."""

from contextlib import AbstractContextManager
from functools import cache
from importlib import import_module

from threadpoolctl import ThreadpoolController


def on_one_thread() -> AbstractContextManager[object]:
    """Return a block within which linear algebra uses one thread."""
    limit: AbstractContextManager[object] = _libraries().limit(limits=1)
    return limit


@cache
def _libraries() -> ThreadpoolController:
    # The search costs more than most solves, so it is done once, when the last of the libraries has been loaded.
    import_module("scipy.linalg")
    return ThreadpoolController()
