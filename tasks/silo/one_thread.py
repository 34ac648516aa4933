"""Linear algebra on one thread, so that silos that share a machine do not take each other's processors."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib import import_module
from threading import Lock

from threadpoolctl import ThreadpoolController


class _Limit:
    """The limit while blocks are open: the number of threads is the process's, not that of one of its threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._blocks = 0
        self._held = ExitStack()

    def enter(self) -> None:
        with self._lock:
            if not self._blocks:
                self._held.enter_context(_libraries().limit(limits=1))
            self._blocks += 1

    def leave(self) -> None:
        with self._lock:
            self._blocks -= 1
            if not self._blocks:
                self._held.close()


_LIMIT = _Limit()


@contextmanager
def on_one_thread() -> Iterator[None]:
    """Have linear algebra use one thread within the block; a block within another costs nothing."""
    _LIMIT.enter()
    try:
        yield
    finally:
        _LIMIT.leave()


@cache
def _libraries() -> ThreadpoolController:
    # The search costs more than most solves, so it is done once, when the last of the libraries has been loaded.
    import_module("scipy.linalg")
    return ThreadpoolController()
