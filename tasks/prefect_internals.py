"""All calls of Prefect's undocumented API, so that new versions of Prefect are checked in one place.

Tested with the versions in `TESTED_VERSIONS`. All other modules import only Prefect's public API (`PUBLIC_MODULES`,
documented at https://docs.prefect.io). Prefect takes a second to import, so each function imports it when called.
"""

import logging
import os
import signal
import sys
import threading
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

TESTED_VERSIONS = (">=3.8.8", "<3.9")
"""versions of Prefect, as in pyproject.toml"""
PUBLIC_MODULES = (
    "prefect",
    "prefect.artifacts",
    "prefect.cache_policies",
    "prefect.client.orchestration",
    "prefect.client.schemas",
    "prefect.exceptions",
    "prefect.futures",
    "prefect.runtime",
    "prefect.schedules",
    "prefect.settings",
    "prefect.states",
    "prefect.task_runners",
    "prefect.types.entrypoint",
)
"""modules of Prefect, including their submodules, that any module of this package may import"""

SERVER_APP = "prefect.server.api.server:create_app"
"""the factory of the server's ASGI application, in uvicorn's notation"""
EPHEMERAL_SERVER = {"PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}
"""environment variables that keep the server of a single run from starting services that the run does not use"""
TASK_LOGGER = "prefect.task_runs"
"""the name of the logger of task runs"""
COMPLETED_LINE = "Finished in state Completed()"
"""the line that Prefect logs at the end of each task run, at the level of lines on repetitions"""
COUNT_OLD_RUNS = """SELECT COUNT(*) FROM flow_run WHERE parent_task_run_id IS NULL AND end_time < ?
    AND state_type IN ('COMPLETED', 'FAILED', 'CRASHED', 'CANCELLED')"""
COUNT_OLD_EVENTS = "SELECT COUNT(*) FROM events WHERE occurred < ?"

STOP_SECONDS = 30.0
"""maximum number of seconds for a stopped schedule to end its calls to the server"""
DELIVERY_SECONDS = 30.0
"""timeout for the delivery of pending events and logs"""
ABANDON_SECONDS = 5.0
"""timeout for a service to stop after its deliveries are cancelled"""


def serve_until_stopped(deployment: Any) -> None:
    """Serve `deployment` until Ctrl-C or SIGTERM, after which `KeyboardInterrupt` is raised.

    Prefect's own handler of SIGTERM creates a coroutine that nobody awaits, so Python warns and exits with code 0. This
    function replaces it by a handler that acts like Ctrl-C. The runner may then repeat its last calls to a busy server
    for minutes. A second interrupt ends these calls `STOP_SECONDS` after SIGTERM.
    """
    from prefect import serve
    from prefect.logging import get_logger
    from prefect.runner import Runner

    def handle_sigterm(runner: Runner, *given: Any, **options: Any) -> None:
        for name in ("runner", "flows"):
            get_logger(name).setLevel(logging.WARNING)
        again.start()
        signal.raise_signal(signal.SIGINT)

    # asyncio ends the calls to the server at Ctrl-C only if Python's own handler is set.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    get_logger("runner.state_proposer").setLevel(logging.WARNING)  # a line every ten seconds for a run that waits
    again = threading.Timer(STOP_SECONDS, os.kill, (os.getpid(), signal.SIGINT))
    again.daemon = True
    original = Runner.handle_sigterm
    Runner.handle_sigterm = handle_sigterm  # type: ignore[method-assign, assignment]
    try:
        serve(deployment, print_starting_message=False)
    finally:
        again.cancel()
        Runner.handle_sigterm = original  # type: ignore[method-assign]
    raise KeyboardInterrupt


def next_start(cron: str, timezone: str) -> datetime | None:
    """The next time of the schedule `cron` in `timezone`, as Prefect's server computes it; None if there is none."""
    import asyncio

    from prefect.server.schemas.schedules import CronSchedule

    dates = asyncio.run(CronSchedule(cron=cron, timezone=timezone).get_dates(1, start=datetime.now(UTC)))
    return dates[0].astimezone(ZoneInfo(timezone)) if dates else None


def stop_services() -> None:
    """Stop Prefect's background services after they deliver pending events and logs; the next flow starts new ones."""
    for service in _services():
        service.drain_all(timeout=DELIVERY_SECONDS, at_exit=False)


def abandon_services() -> None:
    """Stop the background services at once, without delivery, and send no more events: the server is unreachable.

    Tasks that wait for a slot of a concurrency limit get it, since their waiting requests would follow one another.
    """
    services = _services()
    if services:
        from prefect.events.clients import NullEventsClient
        from prefect.events.worker import EventsWorker

        EventsWorker.set_client_override(NullEventsClient)
        _grant_slots()
    for service in services:
        # All services share one table of instances. Among them are those that wait for slots: tasks whose requests are
        # cancelled would wait for ever.
        for instance in [one for one in service._instances.values() if isinstance(one, service)]:
            # Each pending event would be retried for ten seconds, and Prefect has no call that drops pending events.
            if instance._loop is not None and instance._task is not None:
                instance._loop.call_soon_threadsafe(instance._task.cancel)
        service.drain_all(timeout=ABANDON_SECONDS, at_exit=False)


def _grant_slots() -> None:
    """Let Prefect believe that there is no limit of concurrency for the tags for which tasks wait."""
    from prefect.concurrency import services

    waiting: Any = services.ConcurrencySlotAcquisitionWithLeaseService
    with services._cache_lock:
        for instance in tuple(waiting._instances.values()):
            if isinstance(instance, waiting):
                services._no_limits_cache[frozenset(instance.concurrency_limit_names)] = True


def restore_events() -> None:
    """Enable events again after `abandon_services`."""
    if "prefect.events.worker" in sys.modules:
        from prefect.events.worker import EventsWorker

        EventsWorker.set_client_override(None)


def _services() -> tuple[Any, ...]:
    """The classes of the background services that send events and logs; none if Prefect has not been imported."""
    if "prefect" not in sys.modules:
        return ()
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    return EventsWorker, APILogWorker


def in_prefect_command() -> bool:
    """Whether this process is one of Prefect's own commands, such as `prefect deploy`."""
    return "prefect.cli" in sys.modules


async def vacuum() -> None:
    """Delete runs, logs, artifacts and events past their retention, as Prefect's server does every hour."""
    from prefect.server.database import provide_database_interface
    from prefect.server.services import db_vacuum

    db = provide_database_interface()
    await db_vacuum.vacuum_old_flow_runs(db=db)
    await db_vacuum.vacuum_orphaned_logs(db=db)
    await db_vacuum.vacuum_orphaned_artifacts(db=db)
    await db_vacuum.vacuum_stale_artifact_collections(db=db)
    await db_vacuum.vacuum_old_events(db=db)
    await (await db.engine()).dispose()
