"""`fedbnsl learn`: check what was given, run it with either engine, show how it goes and what came out."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.errors import BadInput

from ..job.finished import Finished
from ..options.learn import LearnSettings, checked
from ..servers.environment import prepare_environment


def learn(
    folder: Path | None, given: dict[str, Any], *, engine: str, resume: Path | None = None, verbose: bool = False
) -> None:
    """Learn from `folder` with the settings `given`, or go on with the run in `resume`, and print what came out."""
    from ..terminal.summary import show_result

    show_result(learned(folder, given, engine=engine, resume=resume, verbose=verbose))


def learned(
    folder: Path | None,
    given: dict[str, Any],
    *,
    engine: str,
    resume: Path | None = None,
    verbose: bool = False,
    check: Callable[[LearnSettings, Any], None] | None = None,
) -> Finished:
    """Learn as `learn` does, and return what came out; `check` may refuse settings and data before anything runs."""
    from ..terminal.progress import progress_bar

    if engine not in ("prefect", "inline"):
        raise BadInput(f"--engine is '{engine}': choose prefect or inline")
    prepare_environment(quiet=not verbose)
    settings = _settings(folder, given, resume, engine)
    if resume is None:
        check_out(Path(str(settings.out)))
        data = precheck(settings)
        if check is not None:
            check(settings, data)
    with progress_bar(str(settings.name)) as bar:
        return learn_inline(settings, data, bar) if engine == "inline" else learn_with_prefect(settings, bar)


def learn_inline(settings: LearnSettings, data: Any, *listeners: Any) -> Finished:
    """Learn in this process from `data` and write the outputs."""
    from fedbnsl.data.folder.folder import silo_files
    from fedbnsl.tracking.outputs import write_outputs

    from ..engines.inline import job_inline, run_inline

    files = silo_files(Path(settings.data))
    result = run_inline(job_inline(settings, uuid4().hex), data, listeners, files)
    folder = Path(str(settings.out))
    return Finished(result, folder, write_outputs(result, folder))


def learn_with_prefect(settings: LearnSettings, *listeners: Any) -> Finished:
    """Learn through Prefect and Dask, with the user's Prefect server or one for this run alone."""
    from ..servers.processes import temporary_server

    with temporary_server() as ready:
        from prefect.settings import PREFECT_API_URL, temporary_settings

        from ..engines.listening import listening
        from ..learn import learn as learn_flow

        with temporary_settings({PREFECT_API_URL: ready()}), listening(*listeners):
            return learn_flow(settings)


def precheck(settings: LearnSettings) -> Any:
    """Return the data if they are here; raises `BadInput` for all that can be known to be wrong before a start."""
    from fedbnsl.data.folder.folder import read_folder

    from ..engines.inline import job_inline
    from ..job.check import check

    spec = settings.spec
    registry.build(spec)
    if settings.dask_address is not None:
        return None
    data = read_folder(Path(settings.data))
    check(job_inline(settings, "", data), data.schema)
    return data


def check_out(folder: Path) -> None:
    """Raise `BadInput` if the results could not be written to `folder`, or would be mixed with others."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"{folder}: exists already; give a new or an empty folder")
    parent = next(path for path in folder.absolute().parents if path.exists())
    if not parent.is_dir():
        raise BadInput(f"{parent}: not a folder")


def _settings(folder: Path | None, given: dict[str, Any], resume: Path | None, engine: str) -> LearnSettings:
    if resume is not None:
        from ..engines.resuming import settings_of

        if engine == "inline":
            raise BadInput("--resume needs the engine prefect: an inline run keeps no journal")
        return settings_of(resume)
    if folder is None:
        raise BadInput("which data? give a FOLDER with one file a silo, or --resume DIR")
    settings: LearnSettings = checked(LearnSettings, data=str(folder), **given)
    if engine == "inline" and settings.dask_address:
        raise BadInput("--dask-address needs the engine prefect")
    return settings.named()
