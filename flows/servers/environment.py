"""Preparation of a run before Prefect and MLflow are imported: their settings, and the start of a server.

The settings are defaults: the user's own settings take precedence.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fedbnsl.tracking.own_servers import HOME, servers_folder

PROFILES = Path.home() / ".prefect" / "profiles.toml"
"""the user's profiles, in which Prefect keeps the address of a server"""
DEFAULTS = {
    # The first start creates the database, which takes longer than the 20 s Prefect allows.
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    # A dead server delays each call of a run by six seconds instead of a minute, and a hung server by half a minute.
    "PREFECT_CLIENT_MAX_RETRIES": "2",
    "PREFECT_API_REQUEST_TIMEOUT": "10",
    # Prefect's database keeps runs for a month and events for a day. Without a limit, it grows by 0.25 MB a round.
    "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",
    "PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD": str(30 * 24 * 3600),
    "PREFECT_SERVER_EVENTS_RETENTION_PERIOD": "P1D",
    # Task runs are written together once a second. Written one by one, each would take a transaction of 6 ms of CPU.
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
    # Nothing is sent anywhere: no telemetry of Prefect (server, client) nor of MLflow.
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    # MLflow's server would start six workers of 250 MB each, for jobs that this project does not use.
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "PREFECT_CLI_PROMPT": "false",
    # One BLAS thread per process, because the silos run in parallel.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}

QUIET = {
    # Errors reach the user as one line of our own; Prefect would print a traceback as well.
    "PREFECT_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_SERVER_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_TO_API_ENABLED": "false",
}


def prepare_environment(*, quiet: bool = False) -> None:
    """Set the defaults; `quiet` also silences Prefect's own messages, for the command line.

    With FEDBNSL_HOME, Prefect's database is in that folder too; the user's profiles stay where they are.
    """
    if os.environ.get(HOME) and not os.environ.get("PREFECT_HOME"):
        os.environ["PREFECT_HOME"] = str(servers_folder())
        if PROFILES.exists():
            os.environ.setdefault("PREFECT_PROFILES_PATH", str(PROFILES))
    for name, value in (DEFAULTS | QUIET if quiet else DEFAULTS).items():
        os.environ.setdefault(name, value)


@contextmanager
def prestart(engine: str, *, quiet: bool) -> Iterator[Callable[[], str] | None]:
    """Start a Prefect server unless the user has one, and the process from which workers are forked.

    Yield a function that waits for the server and returns the URL of its API. For an engine other than Prefect, yield
    None and start nothing. `quiet` silences Prefect's own messages.
    """
    prepare_environment(quiet=quiet)
    if engine != "prefect":
        yield None
        return
    # Imported here, because other engines need neither module.
    from fedbnsl.tasks.fork_server import fork_server

    from .processes import temporary_server

    with temporary_server() as ready:
        fork_server()
        yield ready
