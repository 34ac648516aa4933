"""`fedbnsl serve`: learn on a schedule."""

from pathlib import Path
from typing import Annotated

import typer

from ..options.repeat import ServeOptions
from .options_from_model import options_from_model

app = typer.Typer(add_completion=False)


@app.command()
@options_from_model(ServeOptions, without=("name", "out"))
def serve(
    options: ServeOptions,
    folder: Annotated[Path | None, typer.Argument(help="Federated data set: a folder with one file per silo.")] = None,
    cron: Annotated[
        str | None,
        typer.Option(
            metavar="CRON",
            help='When to learn, as a cron expression: "0 3 * * *" is every night at three in --timezone.',
        ),
    ] = None,
    timezone: Annotated[
        str | None,
        typer.Option(metavar="ZONE", help="Time zone of --cron, such as Europe/Vienna; default: that of this machine."),
    ] = None,
    interval: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Learn every SECONDS seconds, instead of --cron.")
    ] = None,
    deployment: Annotated[str, typer.Option("--name", metavar="NAME", help="Name of the deployment.")] = "scheduled",
    prefect_port: Annotated[
        int,
        typer.Option(
            metavar="PORT", help="Port of a new Prefect server; without use if there is one, such as that of ui."
        ),
    ] = 4200,
) -> None:
    """Learn from FOLDER, or from the silos of a federation (--federation), on a schedule, until Ctrl-C.

    Every run writes to its own folder, runs/<name>, and reports the changes since the previous run.
    Runs can also be started from the Prefect UI.
    """
    from ..schedule import serve_learn

    settings, repeat = options.learn().with_data(folder), options.repeat(deployment)
    serve_learn(
        settings,
        repeat,
        options.hooks(),
        cron=cron,
        timezone=timezone,
        interval=interval,
        prefect_port=prefect_port,
    )
