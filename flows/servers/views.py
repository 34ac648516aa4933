"""Where the MLflow server shows our runs: the addresses of the saved views of our experiment."""

import json
import urllib.request
from urllib.parse import quote

from fedbnsl.tracking.mlflow.store import EXPERIMENT
from fedbnsl.tracking.mlflow.views import comparison_link, table_link

PATIENCE = 10.0
"""seconds for the server to name the experiment"""


def view_lines(mlflow: str) -> list[str]:
    """Return a line for each saved view on the MLflow server at `mlflow`; none if it has no runs of ours yet."""
    asked = f"{mlflow.rstrip('/')}/api/2.0/mlflow/experiments/get-by-name?experiment_name={quote(EXPERIMENT)}"
    try:
        with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:
            experiment = json.load(answer)["experiment"]["experiment_id"]
    except (OSError, ValueError, KeyError):
        return []
    return [
        f"  runs with their scores: {table_link(mlflow, experiment)}",
        f"  all runs compared:      {comparison_link(mlflow, experiment)}",
    ]
