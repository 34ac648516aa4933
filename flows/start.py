"""Start a run with either engine, after all checks that are possible beforehand, and make data sets."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from fedbnsl.algorithms.errors import BadInput, PrefectUnavailable
from fedbnsl.data.federated import FederatedData
from fedbnsl.data.folder.about import declarations
from fedbnsl.data.folder.folder import files_of, read_folder, write_folder
from fedbnsl.tasks.prefect_internals import restore_events
from fedbnsl.tracking.outputs import FILES, write_outputs
from fedbnsl.tracking.result import CompletedRun
from fedbnsl.tracking.staging import check_writable, notice, remove_leftovers

from .engines.inline import job_inline, run_inline
from .engines.resuming import run_lock
from .engines.run_context import Outcome, RunContext
from .job.check import check, check_options
from .job.reading import reading_of
from .job.run import Listener
from .job.signing import write_unsigned
from .options.learn import LearnSettings
from .servers.environment import prepare_environment

if TYPE_CHECKING:
    from .options.prepare import Recipe
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
    if settings.quorum is not None:
        notice(f"--quorum {settings.quorum} has no effect: with the engine inline, all silos are in this process")


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
    files = files_of(Path(settings.data), reading_of(settings))
    declared = declarations(data.about, reading_of(settings))
    folder = Path(str(settings.out))
    with run_lock(folder, fresh=True):
        # Masked messages contain the run id. An id as long as that of a flow run makes them as long as with Prefect.
        result = run_inline(job_inline(settings, str(uuid4()), data), data, listeners, files, declared)
        return CompletedRun(result, folder, write_unsigned(folder, write_outputs(result, folder)))


def learn_with_prefect(settings: LearnSettings, *listeners: Listener, server: "Ready | None" = None) -> CompletedRun:
    """Learn through Prefect and Dask, with the user's Prefect server or a server for this run alone.

    `server` waits for a server that was already started. Prefect never stops a run: if it cannot start the run, a
    notice says so, and the run takes place without it; if it fails later, the run is returned nevertheless. Raises the
    errors of the run.
    """
    from .servers.processes import temporary_server

    with temporary_server() if server is None else nullcontext(server) as ready:
        from .engines.dask import prestarted_workers

        with prestarted_workers(settings) as workers:
            from .learn import learn_flow, learn_without_prefect

            context = RunContext(listeners, workers)
            try:
                return _on_server(ready(), context.outcome, lambda: learn_flow(context)(settings))
            except PrefectUnavailable as reason:
                notice(f"{reason}; the run takes place without Prefect")
                return learn_without_prefect(settings, context)


def make_and_write(recipe: "Recipe", out: Path) -> FederatedData:
    """Make the data set of `recipe` and write it to the folder `out`.

    The Prefect server of the user or of `fedbnsl ui`, if there is one, shows this as a flow run. If it cannot start the
    run, a notice says so, and the data set is made without it. Raises the errors of the recipe and of writing.
    """
    from .servers.processes import check_reachable, standing_server

    with standing_server() as url:
        if url:
            try:
                check_reachable(url)
                prepare_environment(quiet=True)
                from .prepare import prepare_flow

                outcome = Outcome[FederatedData]()
                return _on_server(url, outcome, lambda: prepare_flow(outcome)(recipe, str(out)))
            except PrefectUnavailable as reason:
                notice(f"{reason}; the data set is made without Prefect")
            except ModuleNotFoundError as error:
                notice(f"{orchestration_missing(error)}; the data set is made without Prefect")
        data = recipe.build()
        write_folder(out, data, recipe.file_form)
        return data


Done = TypeVar("Done")


def _on_server(url: str, outcome: Outcome[Done], run: Callable[[], object]) -> Done:
    """The outcome of `run`, which runs a flow on the Prefect server at `url`; raises as `Outcome.of_flow` does."""
    from prefect.settings import temporary_settings

    try:
        with temporary_settings(client_settings(url)):
            return outcome.of_flow(run, url)
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
