"""Two saved views of our experiment in MLflow: the run table with its scores, and a comparison of runs in charts.

MLflow's pages keep a view that is saved with "Views" as a tag of the experiment, and open it by a link. Their model
training pages are chosen by the link, too: without it, MLflow 3.17 shows those for language models.
"""

import json
from typing import Any

SHARED = "mlflow.sharedViewState."
SCORES, COMPARISON = "fedbnsl-scores", "fedbnsl-comparison"
SAVED = 1_767_225_600_000
"""when the views are said to have been saved, in milliseconds: always the same, so that they are written once"""
SHOWN = (
    *("metrics.`shd`", "metrics.`f1`", "metrics.`megabytes`", "metrics.`epsilon`"),
    *("params.`algorithm`", "params.`dataset`", "params.`family`", "params.`seed`"),
)
"""the columns of the run table"""


def saved_views() -> dict[str, str]:
    """Return the tags of the experiment that are the saved views."""
    table: dict[str, Any] = {"selectedColumns": SHOWN}
    return {
        f"{SHARED}{SCORES}": _saved("Scores", table),
        f"{SHARED}{COMPARISON}": _saved("Comparison", table | _charts()),
    }


def table_link(base: str, experiment: str) -> str:
    """Return the link to the table of runs with their scores, on the server at `base`."""
    return f"{_runs(base, experiment)}&viewStateShareKey={SCORES}"


def comparison_link(base: str, experiment: str) -> str:
    """Return the link to the charts that compare the runs, on the server at `base`."""
    return f"{_runs(base, experiment)}&compareRunsMode=CHART&viewStateShareKey={COMPARISON}"


def comparison_of(run_link: str) -> str:
    """Return the link to the charts that compare the run behind `run_link` with the others of its experiment."""
    base, _, rest = run_link.partition("/#/experiments/")
    return comparison_link(base, rest.partition("/")[0])


def _runs(base: str, experiment: str) -> str:
    return f"{base.rstrip('/')}/#/experiments/{experiment}/runs?workflowType=machine_learning"


def _saved(name: str, state: dict[str, Any]) -> str:
    return json.dumps({"name": name, "createdAt": SAVED, "updatedAt": SAVED, "state": json.dumps(state)})


def _charts() -> dict[str, Any]:
    """Return the charts: what was set against what came of it, its price, and the structure round by round."""
    charts = (
        _parallel("Settings to errors, bytes and seconds", ("algorithm", "dataset"), ("shd", "megabytes", "seconds")),
        _parallel("Private runs: ε to errors", ("algorithm",), ("epsilon", "shd", "megabytes", "seconds")),
        _chart("BAR", "SHD: edges to correct", metricKey="shd"),
        _chart("SCATTER", "Megabytes sent against SHD", xaxis=_axis("megabytes"), yaxis=_axis("shd")),
        _chart("LINE", "Edges by round", metricKey="round/edges", selectedMetricKeys=["round/edges"], xAxisKey="step"),
        _chart("IMAGE", "The structure by round: rows cause columns", imageKeys=["adjacency"]),
    )
    numbered = [chart | {"uuid": f"fedbnsl-{number}"} for number, chart in enumerate(charts)]
    section = {
        "uuid": "fedbnsl",
        "name": "Comparison",
        "display": True,
        "isReordered": True,
        "columns": 2,
        "cardHeight": 380,
    }
    return {
        "compareRunCharts": numbered,
        "compareRunSections": [section],
        "isAccordionReordered": True,
        "hideEmptyCharts": True,
        "runsHiddenMode": "FIRST_20_RUNS",
    }


def _parallel(title: str, params: tuple[str, ...], metrics: tuple[str, ...]) -> dict[str, Any]:
    return _chart("PARALLEL", title, selectedParams=params, selectedMetrics=metrics, showAllRuns=True)


def _chart(kind: str, title: str, **of_kind: Any) -> dict[str, Any]:
    common = {"type": kind, "displayName": title, "metricSectionId": "fedbnsl", "deleted": False, "isGenerated": False}
    return common | {"runsCountToCompare": 20} | of_kind


def _axis(metric: str) -> dict[str, str]:
    return {"key": metric, "type": "METRIC"}
