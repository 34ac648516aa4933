"""`fedbnsl learn`: check the options, run with either engine, show progress and results; or resume a run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedbnsl.algorithms.errors import BadInput, RunCancelled, SilosUnavailable

from ..options.learn import LearnOptions, LearnSettings
from ..servers.environment import prepare_environment, prestart
from ..servers.processes import Ready
from .completion import engines
from .inspect import show_data
from .options_from_model import options_from_model

if TYPE_CHECKING:
    from fedbnsl.data.federated import FederatedData
    from fedbnsl.tracking.outputs import OutputsNotWritten
    from fedbnsl.tracking.result import CompletedRun

Check = Callable[[LearnSettings, "FederatedData | None"], None]


def run_learn(
    options: LearnOptions,
    folder: Path | None,
    resume: Path | None,
    *,
    engine: str,
    server: Ready | None = None,
    as_json: bool = False,
    quiet: bool = False,
    details: bool = False,
) -> None:
    """Learn from `folder` with `options`, or continue the run in `resume`, and print the result.

    `server` waits for a Prefect server that has already been started. With `as_json`, a JSON document replaces the
    printed findings and results. With `quiet`, progress and findings are hidden and, without `as_json`, also the
    results. With `details`, the printed results are complete. These parameters do not affect the results and their
    files, so they are not fields of the options.

    Raises `BadInput` for an unknown engine and for `resume` with the engine inline, and `SilosUnavailable` if the run
    stopped because silos did not respond, and `RunCancelled` if somebody cancelled it in Prefect. Errors after which
    the run can be continued end with the command to do so. If the files of the result cannot be written, its edges are
    printed nevertheless.
    """
    from fedbnsl.tracking.outputs import OutputsNotWritten
    from fedbnsl.tracking.staging import expiring

    from ..engines.resuming import repeated, resume_settings, to_continue
    from ..terminal.summary import as_document, show_result

    check_engine(engine)
    if resume is not None:
        if engine == "inline":
            raise BadInput("--resume needs the engine prefect: an inline run keeps no journal")
        settings = resume_settings(resume)
    else:
        settings = options.with_data(folder).named()
        settings = settings if engine == "inline" else repeated(settings)
    findings = not (as_json or quiet)
    try:
        finished = learn_and_show(settings, engine=engine, server=server, show_findings=findings, progress=not quiet)
    except OutputsNotWritten as error:
        print_unwritten(error, Path(str(settings.out)), as_json=as_json)
        raise
    if as_json:
        print(as_document(finished), end="")
    elif not quiet:
        show_result(finished, details=details)
    for line in expiring(finished.result.notes):
        print(line, file=sys.stderr, flush=True)
    if finished.result.outcome == "silo lost":
        lost = ", ".join(finished.result.lost)
        raise SilosUnavailable(f"{lost} did not respond and the run stopped; {to_continue(finished.folder)}")
    if finished.result.outcome == "cancelled":
        raise RunCancelled(f"the run was cancelled; {to_continue(finished.folder)}")


def print_unwritten(error: OutputsNotWritten, folder: Path, *, as_json: bool) -> None:
    """Print the result that could not be written to `folder`, as its edges or as a JSON document."""
    from fedbnsl.tracking.result import CompletedRun

    from ..terminal.summary import as_document, show_edges

    if as_json:
        print(as_document(CompletedRun(error.result, folder)), end="")
    else:
        show_edges(error.result.edges)


def learn_and_show(
    settings: LearnSettings,
    *,
    engine: str,
    server: Ready | None = None,
    check: Check = lambda settings, data: None,
    show_findings: bool = True,
    progress: bool = True,
) -> CompletedRun:
    """Run `settings` and return the finished run.

    Unless a run is resumed, `check` is called with the settings and the data before the run, and raises `BadInput` to
    refuse them. The data are None if they are not on this machine. `server` waits for a Prefect server that has already
    been started. With `show_findings`, findings on how the data were read are printed; with `progress`, the rounds are
    shown.
    """
    from fedbnsl.tracking.report.tables import has_findings

    from ..start import check_inline, check_out, learn_inline, learn_with_prefect, precheck
    from ..terminal.summary import progress_bar

    check_engine(engine)
    if engine == "inline":
        check_inline(settings)
    prepare_environment(quiet=True)
    settings, data = settings.named(), None
    if not settings.resume:
        check_out(Path(str(settings.out)))
        data = precheck(settings)
        check(settings, data)
        if show_findings and data is not None and has_findings(data.schema, data.notes):
            show_data(data.schema, data.notes)
    with progress_bar(str(settings.name)) if progress else nullcontext() as bar:
        listeners = () if bar is None else (bar,)
        if engine == "inline" and data is not None:
            return learn_inline(settings, data, *listeners)
        return learn_with_prefect(settings, *listeners, server=server)


def check_engine(engine: str) -> None:
    """Raise `BadInput` for an unknown engine."""
    if engine not in ("prefect", "inline"):
        raise BadInput(f"--engine is '{engine}': choose prefect or inline")


app = typer.Typer(add_completion=False)

Engine = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        autocompletion=engines,
        help="prefect, or inline: run in this process, without Prefect, Dask and MLflow.",
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show all details, and Prefect's own messages.")]


@app.command()
@options_from_model(LearnOptions)
def learn(
    options: LearnOptions,
    folder: Annotated[
        Path | None, typer.Argument(help="Federated data set: a folder with one file per silo, or one file with --by.")
    ] = None,
    engine: Engine = "prefect",
    resume: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Continue the interrupted run whose results are in DIR.")
    ] = None,
    verbose: Verbose = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print only a JSON document: metrics, folder and spent ε.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Show neither progress nor results; with --json, hide only the progress.")
    ] = False,
) -> None:
    """Learn a structure from the silos of FOLDER; print it with its scores and the path of the report.

    The results are written to runs/<name>. If FOLDER has a truth.csv, the structure is compared with it.

    Example: fedbnsl learn my_folder -a fed-pc -p alpha=0.01 --seed 1
    """
    with prestart(engine, quiet=not verbose) as server:
        run_learn(options, folder, resume, engine=engine, server=server, as_json=as_json, quiet=quiet, details=verbose)
