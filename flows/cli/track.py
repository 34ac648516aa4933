"""`fedbnsl track`: tell MLflow what it could not be told while a run went on."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False)


@app.command()
def track(
    run: Annotated[Path, typer.Argument(help="The results of a run: the folder that said MLflow could not be told.")],
) -> None:
    """Tell MLflow the rest of a finished run whose folder is RUN.

    The MLflow run goes on, or a new one begins if that is gone, or if MLFLOW_TRACKING_URI now names another store.
    """
    from ..terminal.track import track_run

    print(f"MLflow: {track_run(run)}")
