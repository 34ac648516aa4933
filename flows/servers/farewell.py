"""Before a Prefect server ends: let this process deliver what it still has for it, and stop talking to it.

Prefect sends events and logs from background services, one of each a process, bound to the server that they first spoke
to. Were they left running, the next flow would wait for a server that is gone, and so would the end of the process.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PATIENCE = 30.0
"""seconds for what is still to be delivered"""
GIVING_UP = 5.0
"""seconds for a service to end that is told to drop what it holds"""


def stop_services() -> None:
    """Stop Prefect's background services once they have delivered what they hold; the next flow starts new ones."""
    for service in _services():
        service.drain_all(timeout=PATIENCE, at_exit=False)


def abandon_services() -> None:
    """Stop them at once, with what they hold, and send no more events: the server they speak to is gone."""
    services = _services()
    if services:
        from prefect.events.clients import NullEventsClient
        from prefect.events.worker import EventsWorker

        EventsWorker.set_client_override(NullEventsClient)
    for service in services:
        for instance in tuple(service._instances.values()):
            # Each event would be tried again for ten seconds; Prefect has no call that drops them.
            if instance._loop is not None and instance._task is not None:
                instance._loop.call_soon_threadsafe(instance._task.cancel)
        service.drain_all(timeout=GIVING_UP, at_exit=False)


@contextmanager
def events_again() -> Iterator[None]:
    """Have the next flow send events again after the block, whether they were abandoned within it or not."""
    try:
        yield
    finally:
        if "prefect.events.worker" in sys.modules:
            from prefect.events.worker import EventsWorker

            EventsWorker.set_client_override(None)


def _services() -> tuple[Any, ...]:
    if "prefect" not in sys.modules:
        return ()
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    return EventsWorker, APILogWorker
