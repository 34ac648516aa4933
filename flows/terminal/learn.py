"""`fedbnsl learn`: check what was given, run it with either engine, show how it goes and what came out."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from fedbnsl.algorithms.errors import BadInput, SilosAway
from fedbnsl.data.federated import FederatedData
from fedbnsl.tracking.report.data import worth_showing

from ..engines.resuming import settings_of
from ..job.finished import Finished
from ..options.learn import LearnOptions, LearnSettings
from ..servers.environment import prepare_environment
from ..start import check_inline, check_out, learn_inline, learn_with_prefect, precheck
from .inspect import show_data
from .progress import progress_bar
from .summary import as_document, show_result

Check = Callable[[LearnSettings, FederatedData | None], None]


def learn(
    options: LearnOptions,
    folder: Path | None,
    resume: Path | None,
    *,
    engine: str,
    verbose: bool,
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """Learn from `folder` as `options` say, or go on with the run in `resume`, and print what came out.

    `as_json` prints one JSON document in place of all that, and `quiet` neither progress nor results. How a run is
    shown is no setting of it: it changes nothing in what is learned or written, and a resumed run, a schedule or a
    notebook have their own ways. So neither is a field of the options.
    """
    check_engine(engine)
    if resume is not None:
        if engine == "inline":
            raise BadInput("--resume needs the engine prefect: an inline run keeps no journal")
        settings = settings_of(resume)
    elif folder is None and options.federation is None:
        raise BadInput("which data? give a FOLDER with one file a silo, --federation FILE, or --resume DIR")
    else:
        settings = options.on(str(folder or Path(str(options.federation)).absolute().parent))
    finished = learned(settings, engine=engine, verbose=verbose, tell=not (as_json or quiet), progress=not quiet)
    if as_json:
        print(as_document(finished), end="")
    elif not quiet:
        show_result(finished)
    if finished.result.outcome == "silo lost":
        lost = ", ".join(finished.result.lost)
        raise SilosAway(f"{lost} stayed away and the run could not go on; fedbnsl learn --resume {finished.folder}")


def learned(
    settings: LearnSettings,
    *,
    engine: str,
    verbose: bool = False,
    check: Check = lambda settings, data: None,
    tell: bool = True,
    progress: bool = True,
) -> Finished:
    """Run what `settings` say and return what came out; `check` may refuse settings and data before anything runs.

    `tell` prints how the data were read, where that is worth showing; `progress` shows the rounds.
    """
    check_engine(engine)
    if engine == "inline":
        check_inline(settings)
    prepare_environment(quiet=not verbose)
    settings, data = settings.named(), None
    if not settings.resume:
        check_out(Path(str(settings.out)))
        data = precheck(settings)
        check(settings, data)
        if tell and data is not None and worth_showing(data.schema, data.notes):
            show_data(data.schema, data.notes)
    with progress_bar(str(settings.name)) if progress else nullcontext() as bar:
        listeners = () if bar is None else (bar,)
        if engine == "inline" and data is not None:
            return learn_inline(settings, data, *listeners)
        return learn_with_prefect(settings, *listeners)


def check_engine(engine: str) -> None:
    """Raise `BadInput` for an engine that there is not."""
    if engine not in ("prefect", "inline"):
        raise BadInput(f"--engine is '{engine}': choose prefect or inline")
