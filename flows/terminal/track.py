"""`fedbnsl track`: hand over to MLflow what could not be told while a run went on."""

import os
from dataclasses import replace
from pathlib import Path

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.tracking.mlflow.store import tracking_uri
from fedbnsl.tracking.mlflow.untracked import UNTRACKED, hand_over, untracked_in
from fedbnsl.tracking.notice import first_line

from ..engines.alone import alone


def track_run(folder: Path) -> str:
    """Tell MLflow what is kept in `folder` of a finished run, and return a link to the MLflow run.

    The store is the one that the run was begun with, or the one that MLFLOW_TRACKING_URI now names. Raises `BadInput`
    if nothing is kept there, if the run goes on or was interrupted, and if MLflow still cannot be told.
    """
    if not folder.is_dir():
        raise BadInput(f"{folder}: no such folder")
    with alone(folder):
        kept = untracked_in(folder)
        if kept is None:
            raise BadInput(f"{folder}: MLflow has been told everything of it: there is no {UNTRACKED}")
        if kept.ending is None:
            raise BadInput(f"{folder}: this run was interrupted: go on with fedbnsl learn --resume {folder}")
        uri = tracking_uri(os.environ.get("MLFLOW_TRACKING_URI") or kept.opening.uri)
        if uri != kept.opening.uri:
            kept = replace(kept, opening=replace(kept.opening, uri=uri, run_id=""))
        try:
            return hand_over(kept, folder).url
        except BadInput:
            raise
        except Exception as error:
            raise BadInput(f"tracking URI {uri}: cannot be told: {first_line(error)}") from error
