"""The listeners of a flow that runs in this process: how the command line's progress bar follows its rounds."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from fedbnsl.flows.job.run import Listener

_listeners: ContextVar[tuple[Listener, ...]] = ContextVar("listeners", default=())


@contextmanager
def listening(*listeners: Listener) -> Iterator[None]:
    """Have `listeners` told of every round of the runs within the block."""
    token = _listeners.set((*_listeners.get(), *listeners))
    try:
        yield
    finally:
        _listeners.reset(token)


def listeners() -> tuple[Listener, ...]:
    """Return the listeners at this point."""
    return _listeners.get()
