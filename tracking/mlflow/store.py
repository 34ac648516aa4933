"""Where runs are kept: an MLflow tracking server or database, and the experiment "fedbnsl" in it.

A new SQLite database as a copy of an empty one, kept with the installation: making its tables takes seconds.

Two saved views of our experiment in MLflow: the run table with its scores, and a comparison of runs in charts.

MLflow's pages keep a view that is saved with "Views" as a tag of the experiment, and open it by a link. Their model
training pages are chosen by the link, too: without it, MLflow 3.17 shows those for language models.

Where the code of a run comes from, as MLflow's column "Source" shows it.
"""

import json
import logging
import os
import shutil
import socket
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fedbnsl.algorithms.errors import BadInput

if TYPE_CHECKING:
    from mlflow import MlflowClient
import subprocess
from functools import cache


def template(program: str) -> Path:
    """Where the empty database of the installed version of `program`, "mlflow" or "prefect", is kept."""
    return Path(sys.prefix) / "share" / "fedbnsl" / f"{program}-{version(program)}.db"


def begin_from_template(program: str, database: Path) -> None:
    """Begin `database` as a copy of the empty one, unless it is there already, or there is none to copy.

    Where that does not work, `program` makes its tables itself.
    """
    source = template(program)
    if database.exists() or not source.exists():
        return
    beside = database.with_name(f".{database.name}-{os.getpid()}")
    with suppress(OSError):
        database.parent.mkdir(parents=True, exist_ok=True)
        try:
            shutil.copyfile(source, beside)
            os.link(beside, database)  # which fails if another process was faster
        finally:
            beside.unlink(missing_ok=True)


def keep_as_template(program: str, database: Path, without: tuple[str, ...] = ()) -> None:
    """Keep a copy of `database`, which may still be in use, as the empty one; the tables `without` are emptied."""
    kept = template(program)
    kept.parent.mkdir(parents=True, exist_ok=True)
    beside = kept.with_name(f".{kept.name}-{os.getpid()}")
    beside.unlink(missing_ok=True)
    with closing(sqlite3.connect(database)) as source:
        source.execute("VACUUM INTO ?", (str(beside),))
    with closing(sqlite3.connect(beside)) as copy, copy:
        for table in without:
            copy.execute(f"DELETE FROM {table}")
    os.replace(beside, kept)


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
    """The tags of the experiment that are the saved views."""
    table: dict[str, Any] = {"selectedColumns": SHOWN}
    return {
        f"{SHARED}{SCORES}": _saved("Scores", table),
        f"{SHARED}{COMPARISON}": _saved("Comparison", table | _charts()),
    }


def table_link(base: str, experiment: str) -> str:
    """The link to the table of runs with their scores, on the server at `base`."""
    return f"{_runs(base, experiment)}&viewStateShareKey={SCORES}"


def comparison_link(base: str, experiment: str) -> str:
    """The link to the charts that compare the runs, on the server at `base`."""
    return f"{_runs(base, experiment)}&compareRunsMode=CHART&viewStateShareKey={COMPARISON}"


def comparison_of(run_link: str) -> str:
    """The link to the charts that compare the run behind `run_link` with the others of its experiment."""
    base, _, rest = run_link.partition("/#/experiments/")
    return comparison_link(base, rest.partition("/")[0])


def _runs(base: str, experiment: str) -> str:
    return f"{base.rstrip('/')}/#/experiments/{experiment}/runs?workflowType=machine_learning"


def _saved(name: str, state: dict[str, Any]) -> str:
    return json.dumps({"name": name, "createdAt": SAVED, "updatedAt": SAVED, "state": json.dumps(state)})


def _charts() -> dict[str, Any]:
    """The charts: what was set against what came of it, its price, and the structure round by round."""
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


EXPERIMENT = "fedbnsl"
KIND = {"mlflow.experimentKind": "custom_model_development"}
"""says what the experiment is; which pages MLflow 3.17 shows of it, the link says (`views.py`)"""
TRIES = 2
"""how often a database is tried to be opened, each time for the five seconds that SQLite waits for a lock"""
PATIENCE = 4.0
"""seconds for a tracking server to take a connection, and for another process to let go of a database"""
UI = "http://127.0.0.1:5000"
"""where `fedbnsl ui` shows what is in a database"""


def tracking_uri(uri: str | None = None) -> str:
    """Where runs are kept: `uri`, else MLFLOW_TRACKING_URI, else the database `mlflow.db` in this folder.

    Raises `BadInput` for a plain folder, where MLflow 3 keeps no runs any more.
    """
    uri = uri or os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{Path.cwd() / 'mlflow.db'}"
    if urlsplit(uri).scheme in ("", "file"):
        raise BadInput(
            f"tracking URI {uri}: MLflow keeps no runs in plain files any more; use sqlite:///path/mlflow.db"
        )
    return uri


def open_client(uri: str) -> "MlflowClient":
    """A client of the store at `uri`; a new database is created without log messages.

    Raises `BadInput` if the store cannot be opened.
    """
    from mlflow import MlflowClient
    from mlflow.store.db import utils

    for name in ("mlflow.store.db.utils", "alembic", "urllib3.connectionpool"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # MLflow would try to open a database ten times, for a minute and a half.
    utils.MAX_RETRY_COUNT = TRIES
    try:
        _check_listening(uri)
        with _alone(database := database_of(uri)):
            if database is not None:
                begin_from_template("mlflow", database)
            client = MlflowClient(tracking_uri=uri)
            client.get_experiment_by_name(EXPERIMENT)
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise BadInput(_without_password(f"tracking URI {uri}: cannot be opened: {reason}", uri)) from error
    return client


def experiment_id(client: "MlflowClient", uri: str) -> str:
    """The id of our experiment, which is made if it is not there, also when two processes make it at once.

    It has our saved views. The artifacts of an SQLite database lie beside it, in `mlartifacts`; those of a server where
    the server says.
    """
    from mlflow.exceptions import MlflowException

    found, views = client.get_experiment_by_name(EXPERIMENT), saved_views()
    if found is None:
        try:
            return str(client.create_experiment(EXPERIMENT, artifact_location=_artifacts(uri), tags=KIND | views))
        except MlflowException:
            found = client.get_experiment_by_name(EXPERIMENT)
            if found is None:
                raise
    if found.lifecycle_stage == "deleted":
        client.restore_experiment(found.experiment_id)
    for tag, view in views.items():
        if found.tags.get(tag) != view:
            client.set_experiment_tag(found.experiment_id, tag, view)
    return str(found.experiment_id)


def run_url(uri: str, experiment: str, run: str) -> str:
    """Where the run can be looked at: on the tracking server, or in `fedbnsl ui`."""
    base = uri.rstrip("/") if uri.startswith("http") else UI
    return f"{base}/#/experiments/{experiment}/runs/{run}"


def _check_listening(uri: str) -> None:
    """Raise `OSError` if nothing takes a connection at the address of a tracking server."""
    parts = urlsplit(uri)
    if parts.scheme in ("http", "https") and parts.hostname:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        with socket.create_connection((parts.hostname, port), timeout=PATIENCE):
            pass


def _without_password(text: str, uri: str) -> str:
    password = urlsplit(uri).password
    return text.replace(password, "…") if password else text


def database_of(uri: str) -> Path | None:
    """The file of an SQLite database, None for any other store."""
    if not uri.startswith("sqlite:///"):
        return None
    return Path(uri.removeprefix("sqlite:///").partition("?")[0]).resolve()


def _artifacts(uri: str) -> str | None:
    database = database_of(uri)
    return (database.parent / "mlartifacts" / EXPERIMENT).as_uri() if database else None


@contextmanager
def _alone(database: Path | None) -> Iterator[None]:
    """Let only one process on this machine create the tables of a database at a time: MLflow fails when two do."""
    if database is None or sys.platform == "win32":
        yield
        return
    database.parent.mkdir(parents=True, exist_ok=True)
    folder = os.open(database.parent, os.O_RDONLY)
    try:
        _lock(folder)
        yield
    finally:
        os.close(folder)


def _lock(folder: int) -> None:
    """Lock an open folder; raises `TimeoutError` if another process keeps it locked."""
    import fcntl

    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise TimeoutError("another process is opening it and does not end") from None
            time.sleep(0.05)


HERE = Path(__file__).parent
PLACE = "tracking/mlflow/"
"""this folder in a checkout of the project"""


def source_tags() -> dict[str, str]:
    """The tags by which MLflow names the source of a run: the program and, in a checkout, its commit."""
    commit = checked_out(HERE)
    named = {"mlflow.source.name": "fedbnsl", "mlflow.source.type": "LOCAL"}
    return named | ({"mlflow.source.git.commit": commit} if commit else {})


@cache
def checked_out(folder: Path) -> str | None:
    """The commit of the checkout of this project that `folder` is in, None outside of one or without git.

    A package installed below somebody else's checkout has another place in it, and no commit.
    """
    words = ["git", "-C", str(folder), "rev-parse", "--show-prefix", "HEAD"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    lines = done.stdout.split()
    return lines[1] if len(lines) == 2 and lines[0] == PLACE else None
