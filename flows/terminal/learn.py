"""`fedbnsl learn`: check what was given, run it with either engine, show how it goes and what came out."""

from collections.abc import Callable
from pathlib import Path

from fedbnsl.algorithms.errors import BadInput, SilosAway
from fedbnsl.data.federated import FederatedData
from fedbnsl.tracking.report.data import worth_showing

from ..engines.resuming import settings_of
from ..job.finished import Finished
from ..options.learn import LearnOptions, LearnSettings
from ..servers.environment import prepare_environment
from ..servers.processes import Ready
from ..start import check_inline, check_out, learn_inline, learn_with_prefect, precheck
from .inspect import show_data
from .progress import progress_bar
from .summary import show_result

Check = Callable[[LearnSettings, FederatedData | None], None]


def learn(
    options: LearnOptions, folder: Path | None, resume: Path | None, *, engine: str, server: Ready | None = None
) -> None:
    """Learn from `folder` as `options` say, or go on with the run in `resume`, and print what came out."""
    check_engine(engine)
    if resume is not None:
        if engine == "inline":
            raise BadInput("--resume needs the engine prefect: an inline run keeps no journal")
        settings = settings_of(resume)
    elif folder is None and options.federation is None:
        raise BadInput("which data? give a FOLDER with one file a silo, --federation FILE, or --resume DIR")
    else:
        settings = options.on(str(folder or Path(str(options.federation)).absolute().parent))
    finished = learned(settings, engine=engine, server=server)
    show_result(finished)
    if finished.result.outcome == "silo lost":
        lost = ", ".join(finished.result.lost)
        raise SilosAway(f"{lost} stayed away and the run could not go on; fedbnsl learn --resume {finished.folder}")


def learned(
    settings: LearnSettings,
    *,
    engine: str,
    server: Ready | None = None,
    check: Check = lambda settings, data: None,
) -> Finished:
    """Run what `settings` say and return what came out; `check` may refuse settings and data before anything runs.

    `server` waits for a Prefect server that has been started already.
    """
    check_engine(engine)
    if engine == "inline":
        check_inline(settings)
    prepare_environment(quiet=True)
    settings, data = settings.named(), None
    if not settings.resume:
        check_out(Path(str(settings.out)))
        data = precheck(settings)
        check(settings, data)
        if data is not None and worth_showing(data.schema, data.notes):
            show_data(data.schema, data.notes)
    with progress_bar(str(settings.name)) as bar:
        if engine == "inline" and data is not None:
            return learn_inline(settings, data, bar)
        return learn_with_prefect(settings, bar, server=server)


def check_engine(engine: str) -> None:
    """Raise `BadInput` for an engine that there is not."""
    if engine not in ("prefect", "inline"):
        raise BadInput(f"--engine is '{engine}': choose prefect or inline")
