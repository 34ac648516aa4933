"""Linear algebra on one thread, so that silos on the same machine do not compete for its processors."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib import import_module
from threading import Lock

from threadpoolctl import ThreadpoolController


class _Limit:
    """The limit to one thread, with a counter of open blocks.

    The limit applies to the whole process, so the first block sets it, and the last block to end removes it.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._blocks = 0
        self._limit = ExitStack()

    def enter(self) -> None:
        with self._lock:
            if not self._blocks:
                self._limit.enter_context(_libraries().limit(limits=1))
            self._blocks += 1

    def leave(self) -> None:
        with self._lock:
            self._blocks -= 1
            if not self._blocks:
                self._limit.close()


_LIMIT = _Limit()


@contextmanager
def on_one_thread() -> Iterator[None]:
    """Limit linear algebra to one thread within the block; nested blocks cost nothing."""
    _LIMIT.enter()
    try:
        yield
    finally:
        _LIMIT.leave()


@cache
def _libraries() -> ThreadpoolController:
    # The search for libraries costs more than most solves: it runs once, after the last library is loaded.
    import_module("scipy.linalg")
    return ThreadpoolController()
