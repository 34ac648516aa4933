"""`fedbnsl serve`: learn on a schedule."""

from pathlib import Path
from typing import Annotated

import typer

from ..options.repeat import ServeOptions
from .from_model import taking

app = typer.Typer(add_completion=False)


@app.command()
@taking(ServeOptions, without=("name", "out"))
def serve(
    options: ServeOptions,
    folder: Annotated[Path, typer.Argument(help="Federated data set: a folder with one file a silo.")],
    cron: Annotated[
        str | None, typer.Option(metavar="CRON", help='When to learn, e.g. "0 3 * * *": every night at three.')
    ] = None,
    interval: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Instead of --cron: learn every so many seconds.")
    ] = None,
    deployment: Annotated[str, typer.Option("--name", metavar="NAME", help="Name of the deployment.")] = "scheduled",
) -> None:
    """Learn from FOLDER on a schedule, until Ctrl-C.

    Every run writes to a folder of its own, runs/<name>, and says what has changed since the one before. Runs can also
    be started from the Prefect UI.
    """
    from ..schedule import serve_learn

    serve_learn(options.learn().on(str(folder)), options.repeat(deployment), cron=cron, interval=interval)
