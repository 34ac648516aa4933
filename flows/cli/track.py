"""`fedbnsl track`: upload records of a finished run that MLflow missed."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from fedbnsl.algorithms.errors import BadInput


def track_run(folder: Path) -> str:
    """Upload the outbox in `folder` of a finished run, and return a link to the MLflow run.

    The records go to the store that MLFLOW_TRACKING_URI names now; without it, to the store in which the run started.
    Raises `BadInput` if the folder has no outbox, if the run is in progress or was interrupted, or if MLflow still does
    not respond.
    """
    from fedbnsl.tracking.mlflow.store import tracking_uri
    from fedbnsl.tracking.mlflow.tracker import OUTBOX_FILE, read_outbox, upload_outbox
    from fedbnsl.tracking.staging import first_line

    from ..engines.resuming import run_lock
    from ..engines.retention import read_record, write_record

    if not folder.is_dir():
        raise BadInput(f"{folder}: no such folder")
    with run_lock(folder):
        kept = read_outbox(folder)
        if kept is None:
            raise BadInput(f"{folder}: MLflow has the complete run: there is no {OUTBOX_FILE}")
        if kept.ending is None:
            raise BadInput(f"{folder}: this run was interrupted: continue it with fedbnsl learn --resume {folder}")
        uri = tracking_uri(os.environ.get("MLFLOW_TRACKING_URI") or kept.opening.uri)
        if uri != kept.opening.uri:
            kept = replace(kept, opening=replace(kept.opening, uri=uri, run_id=""))
        try:
            log = upload_outbox(kept, folder)
        except BadInput:
            raise
        except Exception as error:
            raise BadInput(f"tracking URI {uri}: upload failed: {first_line(error)}") from error
        write_record(folder, replace(read_record(folder), tracking_uri=uri, tracking_id=log.run_id))
        return log.url


app = typer.Typer(add_completion=False)


@app.command()
def track(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run whose MLflow record is incomplete.")],
) -> None:
    """Upload the records of the run in the folder RUN that MLflow missed.

    The records are added to the MLflow run of this run. If it was deleted, or if MLFLOW_TRACKING_URI names another
    store, they are added to a new MLflow run.
    """
    print(f"MLflow: {track_run(run)}")
