"""Start a run with either engine, after all checks that are possible beforehand."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.federated import FederatedData
from fedbnsl.data.folder.about import declarations
from fedbnsl.data.folder.folder import read_folder, silo_files
from fedbnsl.tasks.prefect_internals import restore_events
from fedbnsl.tracking.outputs import FILES, write_outputs
from fedbnsl.tracking.result import CompletedRun
from fedbnsl.tracking.staging import check_writable, first_line, remove_leftovers

from .engines.inline import job_inline, run_inline
from .engines.resuming import run_lock
from .engines.run_context import RunContext
from .job.check import check, check_options
from .job.reading import reading_of, selected_silos
from .job.run import Listener
from .options.learn import LearnSettings

if TYPE_CHECKING:
    from .servers.processes import Ready


ORCHESTRATION = ("prefect", "mlflow", "dask", "distributed")
"""packages of the extra `orchestration`, without which only the engine inline works"""


def orchestration_missing(error: ModuleNotFoundError) -> BadInput:
    """The error of one line for a package of the extra `orchestration`; raises `error` for any other package."""
    if (error.name or "").partition(".")[0] not in ORCHESTRATION:
        raise error
    return BadInput(f"the package {error.name} is not installed: pip install 'fedbnsl[orchestration]'")


def precheck(settings: LearnSettings) -> FederatedData | None:
    """The data, or None if only their owners have them; raises `BadInput` for invalid data or settings."""
    check_options(settings)
    if settings.federation is not None:
        return None
    data = read_folder(Path(settings.data), reading_of(settings))
    check(job_inline(settings, "", data), data.schema)
    return data


def check_inline(settings: LearnSettings) -> None:
    """Raise `BadInput` for settings that need the engine prefect."""
    if settings.federation is not None:
        raise BadInput("--federation needs the engine prefect")
    if settings.register_as is not None:
        raise BadInput("--register needs the engine prefect, which records runs in MLflow")


def check_out(folder: Path) -> None:
    """Raise `BadInput` unless `folder` is new or empty, and results can be written to it."""
    check_results_fit(folder)
    if folder.exists() and any(folder.iterdir()):
        raise BadInput(f"{folder}: already exists; give a new or an empty folder")


def check_results_fit(folder: Path) -> None:
    """Raise `BadInput` if results cannot be written to `folder`, before the run spends time or ε."""
    try:
        if folder.exists() and not folder.is_dir():
            raise BadInput(f"{folder}: already exists; give a new or an empty folder")
        remove_leftovers(folder)
        check_writable(folder, max(FILES, key=len))
    except (OSError, ValueError) as error:
        if isinstance(error, BadInput):
            raise
        why = getattr(error, "strerror", None) or error
        raise BadInput(f"{folder}: results cannot be written there: {why}; choose another folder with --out") from None


def learn_inline(settings: LearnSettings, data: FederatedData, *listeners: Listener) -> CompletedRun:
    """Learn in this process from `data`, the content of the folder in `settings`, and write the outputs."""
    files = silo_files(Path(settings.data), selected_silos(settings), settings.by)
    declared = declarations(data.about, reading_of(settings))
    folder = Path(str(settings.out))
    with run_lock(folder, fresh=True):
        # Masked messages contain the run id. An id as long as that of a flow run makes them as long as with Prefect.
        result = run_inline(job_inline(settings, str(uuid4()), data), data, listeners, files, declared)
        return CompletedRun(result, folder, write_outputs(result, folder))


def learn_with_prefect(settings: LearnSettings, *listeners: Listener, server: "Ready | None" = None) -> CompletedRun:
    """Learn through Prefect and Dask, with the user's Prefect server or a server for this run alone.

    `server` waits for a server that was already started. If Prefect fails after the run has finished, the run is
    returned nevertheless. Raises `BadInput` if Prefect cannot start the run, and the errors of the run.
    """
    from .servers.processes import temporary_server

    with temporary_server() if server is None else nullcontext(server) as ready:
        from .engines.dask import prestarted_workers

        with prestarted_workers(settings) as workers:
            from prefect.settings import temporary_settings

            url = ready()
            try:
                with temporary_settings(client_settings(url)):
                    return _flow_run(settings, url, RunContext(listeners, workers))
            finally:
                restore_events()


def client_settings(url: str) -> dict[Any, Any]:
    """Prefect's settings for a run on the server at `url`.

    If the server ends with the run, heartbeats are off: nobody reads them, and the run would wait a second for the last
    heartbeat.
    """
    from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY

    from .servers.processes import api_settings, users_server

    if users_server():
        return api_settings(url)
    return api_settings(url) | {PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}


def _flow_run(settings: LearnSettings, url: str, context: RunContext) -> CompletedRun:
    """Run the flow; raises the error of its body, and `BadInput` if Prefect at `url` failed before the body started."""
    from .learn import learn_flow

    outcome = context.outcome
    try:
        learn_flow(context)(settings)
    except Exception as error:
        if outcome.error is not None:
            raise outcome.error from None
        if outcome.finished is None:
            raise BadInput(f"Prefect at {url} could not start the run: {first_line(error)}") from error
    assert outcome.finished is not None
    return outcome.finished
