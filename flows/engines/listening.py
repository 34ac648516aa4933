"""Who else follows a run in this process: the command line's progress bar hears the rounds of a flow through this."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from fedbnsl.flows.job.run import Listener

_listeners: ContextVar[tuple[Listener, ...]] = ContextVar("listeners", default=())


@contextmanager
def listening(*listeners: Listener) -> Iterator[None]:
    """Have `listeners` hear every round of the runs within the block."""
    token = _listeners.set((*_listeners.get(), *listeners))
    try:
        yield
    finally:
        _listeners.reset(token)


def listeners() -> tuple[Listener, ...]:
    """Return who listens at this point."""
    return _listeners.get()
