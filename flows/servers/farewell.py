"""Before a Prefect server ends: let this process deliver what it still has for it, and stop talking to it.

Prefect sends events and logs from background services, one of each a process, bound to the server that they first spoke
to. Were they left running, the next flow would wait for a server that is gone, and so would the end of the process.
"""

import sys

PATIENCE = 30.0
"""seconds for what is still to be delivered"""


def stop_services() -> None:
    """Stop Prefect's background services once they have delivered what they hold; the next flow starts new ones."""
    if "prefect" not in sys.modules:
        return
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    for service in (EventsWorker, APILogWorker):
        service.drain_all(timeout=PATIENCE, at_exit=False)
