"""The MLflow store: a tracking server or database, and the experiment "fedbnsl" in it.

A new SQLite database is a copy of an empty template, which the installation stores, because creating the tables takes
seconds. The experiment has two saved views: the run table with its scores, and a comparison of runs in charts. MLflow
stores a view as a tag of the experiment and opens it by a link. The link also selects MLflow's pages for model
training, because MLflow 3.17 shows the pages for language models by default. `source_tags` names the source code of a
run.
"""

import json
import logging
import math
import os
import socket
import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fedbnsl.algorithms.errors import BadInput

from ..metrics import shown_in
from ..own_servers import HOME, MLFLOW, announced_server, own_token, servers_folder, sign_in_to_mlflow
from ..staging import create_private_folder, first_line, write_private

if TYPE_CHECKING:
    from mlflow import MlflowClient
import subprocess
from functools import cache


def template(program: str) -> Path:
    """The path of the empty database of the installed version of `program`, "mlflow" or "prefect"."""
    return Path(sys.prefix) / "share" / "fedbnsl" / f"{program}-{version(program)}.db"


def create_from_template(program: str, database: Path) -> None:
    """Create `database`, private to this user, as a copy of the template, unless it exists.

    Without a template the file is empty, and `program` creates its tables. If the file cannot be written, nothing is
    created, and `program` reports the error when it opens the database.
    """
    source = template(program)
    if database.exists():
        return
    temporary = database.with_name(f".{database.name}-{os.getpid()}")
    with suppress(OSError):
        create_private_folder(database.parent)
        try:
            write_private(temporary, source.read_bytes() if source.exists() else b"")
            os.link(temporary, database)  # fails if another process was faster
        finally:
            temporary.unlink(missing_ok=True)


def save_template(program: str, database: Path, without: tuple[str, ...] = ()) -> None:
    """Save a copy of `database`, which may still be in use, as the template, with the tables `without` emptied."""
    target = template(program)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}-{os.getpid()}")
    temporary.unlink(missing_ok=True)
    with closing(sqlite3.connect(database)) as source:
        source.execute("VACUUM INTO ?", (str(temporary),))
    with closing(sqlite3.connect(temporary)) as copy, copy:
        for table in without:
            copy.execute(f"DELETE FROM {table}")
    os.replace(temporary, target)


VIEW_TAG = "mlflow.sharedViewState."
SCORES, COMPARISON = "fedbnsl-scores", "fedbnsl-comparison"
SAVED_MILLISECONDS = 1_767_225_600_000
"""the constant time stamp of the views, in milliseconds; with a changing one, each run would write the views again"""
TABLE_COLUMNS = (
    *(f"metrics.`{one.name}`" for one in shown_in("runs")),
    *("params.`algorithm`", "params.`dataset`", "params.`family`", "params.`seed`"),
)
"""the columns of the run table"""


def saved_views() -> dict[str, str]:
    """The saved views as tags of the experiment."""
    table: dict[str, Any] = {"selectedColumns": TABLE_COLUMNS}
    return {
        f"{VIEW_TAG}{SCORES}": _view("Scores", table),
        f"{VIEW_TAG}{COMPARISON}": _view("Comparison", table | _charts()),
    }


def table_link(base: str, experiment: str) -> str:
    """The link to the table of runs with their scores, on the server at `base`."""
    return f"{_runs(base, experiment)}&viewStateShareKey={SCORES}"


def comparison_link(base: str, experiment: str) -> str:
    """The link to the charts that compare the runs, on the server at `base`."""
    return f"{_runs(base, experiment)}&compareRunsMode=CHART&viewStateShareKey={COMPARISON}"


def comparison_of(run_link: str) -> str:
    """The link to the charts that compare the run behind `run_link` with the other runs of its experiment."""
    base, _, rest = run_link.partition("/#/experiments/")
    return comparison_link(base, rest.partition("/")[0])


def _runs(base: str, experiment: str) -> str:
    return f"{base.rstrip('/')}/#/experiments/{experiment}/runs?{TRAINING_PAGES}"


def _view(name: str, state: dict[str, Any]) -> str:
    return json.dumps(
        {"name": name, "createdAt": SAVED_MILLISECONDS, "updatedAt": SAVED_MILLISECONDS, "state": json.dumps(state)}
    )


def _charts() -> dict[str, Any]:
    """The charts: settings against results, costs, and the structure by round."""
    charts = (
        _parallel("Settings to errors, bytes and seconds", ("algorithm", "dataset"), ("shd", "megabytes", "seconds")),
        _parallel("Private runs: ε to errors", ("algorithm",), ("epsilon", "shd", "megabytes", "seconds")),
        _chart("BAR", "SHD: edges to correct", metricKey="shd"),
        _chart("SCATTER", "Megabytes sent against SHD", xaxis=_axis("megabytes"), yaxis=_axis("shd")),
        _chart("LINE", "Edges by round", metricKey="round/edges", selectedMetricKeys=["round/edges"], xAxisKey="step"),
        _chart("LINE", "ε by round", metricKey="round/epsilon", selectedMetricKeys=["round/epsilon"], xAxisKey="step"),
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
EXPERIMENT_TAGS = {"mlflow.experimentKind": "custom_model_development"}
"""the kind of the experiment; in MLflow 3.17 the link selects its pages"""
TRAINING_PAGES = "workflowType=machine_learning"
"""the query of a link to MLflow's pages for models; without it, MLflow 3 opens the pages for language models"""
OPEN_TRIES = 2
"""number of attempts to open a database; in each, SQLite waits five seconds for a lock"""
TIMEOUT_SECONDS = 4.0
"""timeout of a connection to a tracking server, and of waiting for another process that opens a database"""
UI_URL = "http://127.0.0.1:5000"
"""the address at which `fedbnsl ui` shows a database if its port is free"""


def ui_url() -> str | None:
    """The address at which `fedbnsl ui` shows runs now; None if it does not run."""
    return announced_server(servers_folder(), own_token, MLFLOW)


def tracking_uri(uri: str | None = None) -> str:
    """The tracking URI: `uri`, else MLFLOW_TRACKING_URI, else the database `mlflow.db` in the folder FEDBNSL_HOME.

    Without FEDBNSL_HOME, the database is in the working folder. Raises `BadInput` for a plain folder, because MLflow 3
    does not store runs in plain folders.
    """
    uri = uri or os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{_home() / 'mlflow.db'}"
    if urlsplit(uri).scheme in ("", "file"):
        raise BadInput(f"tracking URI {uri}: MLflow no longer stores runs in plain files; use sqlite:///path/mlflow.db")
    return uri


def opened_by(link: str) -> str:
    """A note on the command that must run before a browser can show `link`; empty for a user's own server."""
    if not link.startswith(UI_URL) or ui_url():
        return ""
    anywhere = os.environ.get(HOME) or os.environ.get("MLFLOW_TRACKING_URI")
    return f" (once `fedbnsl ui` runs{'' if anywhere else f' in this folder; set {HOME} to keep all runs in one'})"


def open_client(uri: str) -> "MlflowClient":
    """A client of the store at `uri`; a new database is created without log messages.

    Raises `BadInput` if the store cannot be opened.
    """
    from mlflow import MlflowClient
    from mlflow.store.db import utils

    for name in ("mlflow.store.db.utils", "alembic", "urllib3.connectionpool"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # MLflow would try to open a database ten times, for a minute and a half.
    utils.MAX_RETRY_COUNT = OPEN_TRIES
    try:
        _check_listening(uri)
        sign_in_to_mlflow(uri)
        with _creation_lock(database := database_of(uri)):
            if database is not None:
                create_from_template("mlflow", database)
            client = MlflowClient(tracking_uri=uri)
            client.get_experiment_by_name(EXPERIMENT)
    except Exception as error:
        raise BadInput(_without_password(f"tracking URI {uri}: cannot be opened: {first_line(error)}", uri)) from error
    return client


def experiment_id(client: "MlflowClient", uri: str) -> str:
    """The id of the experiment; creates the experiment with its views if needed, at the same time as other processes.

    The artifacts of a database are in `artifact_root`; a server stores artifacts in its own place.
    """
    from mlflow.exceptions import MlflowException

    found, views = client.get_experiment_by_name(EXPERIMENT), saved_views()
    if found is None:
        location = None
        if not uri.startswith("http"):
            create_private_folder(artifact_root(uri))
            location = (artifact_root(uri) / EXPERIMENT).as_uri()
        try:
            return str(client.create_experiment(EXPERIMENT, artifact_location=location, tags=EXPERIMENT_TAGS | views))
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
    """The URL of the run: on the tracking server, or in `fedbnsl ui`."""
    base = uri.rstrip("/") if uri.startswith("http") else ui_url() or UI_URL
    return f"{base}/#/experiments/{experiment}/runs/{run}?{TRAINING_PAGES}"


def _check_listening(uri: str) -> None:
    """Raise `OSError` if nothing accepts connections at the address of a tracking server."""
    parts = urlsplit(uri)
    if parts.scheme in ("http", "https") and parts.hostname:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        with socket.create_connection((parts.hostname, port), timeout=TIMEOUT_SECONDS):
            pass


def _without_password(text: str, uri: str) -> str:
    password = urlsplit(uri).password
    return text.replace(password, "…") if password else text


def database_of(uri: str) -> Path | None:
    """The file of an SQLite database; None for any other store."""
    if not uri.startswith("sqlite:///"):
        return None
    return Path(uri.removeprefix("sqlite:///").partition("?")[0]).resolve()


ARTIFACTS = "mlartifacts"
"""the name of the folder of artifacts"""


def artifact_root(uri: str) -> Path:
    """The folder of all artifacts of the database at `uri`: beside an SQLite database, else in FEDBNSL_HOME."""
    database = database_of(uri)
    return (database.parent if database else _home()) / ARTIFACTS


def _home() -> Path:
    return Path(os.environ.get(HOME) or Path.cwd()).expanduser().absolute()


@contextmanager
def _creation_lock(database: Path | None) -> Iterator[None]:
    """Let only one process at a time create the tables of a database, because MLflow fails if two processes do."""
    if database is None or sys.platform == "win32":
        yield
        return
    create_private_folder(database.parent)
    folder = os.open(database.parent, os.O_RDONLY)
    try:
        _lock(folder)
        yield
    finally:
        os.close(folder)


def _lock(folder: int) -> None:
    """Lock an open folder; raises `TimeoutError` if another process does not release the lock."""
    import fcntl

    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise TimeoutError("another process is opening it and does not finish") from None
            time.sleep(0.05)


HERE = Path(__file__).parent
PLACE = "tracking/mlflow/"
"""the path of this folder in a checkout of the project"""


def source_tags() -> dict[str, str]:
    """The tags with which MLflow names the source of a run: the program and, in a checkout, its commit."""
    commit = checkout_commit(HERE)
    named = {"mlflow.source.name": "fedbnsl", "mlflow.source.type": "LOCAL"}
    return named | ({"mlflow.source.git.commit": commit} if commit else {})


@cache
def checkout_commit(folder: Path) -> str | None:
    """The commit of the checkout of this project that contains `folder`; None outside of a checkout, or without git.

    A package that is installed inside another project's checkout has another path there, and therefore no commit.
    """
    command = ["git", "-C", str(folder), "rev-parse", "--show-prefix", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    lines = done.stdout.split()
    return lines[1] if len(lines) == 2 and lines[0] == PLACE else None


BENCHMARK_WORDS = ("data", "algorithm", "seed", "status", "reason")
"""the columns of a row that are parameters; other columns with numbers are metrics"""
LONGEST_VALUE = 500
"""maximum number of letters of the value of a parameter"""


def log_child_run(
    client: "MlflowClient",
    experiment: str,
    parent: str,
    name: str,
    params: Mapping[str, Any],
    metrics: Mapping[str, float],
    *,
    failed: bool = False,
) -> None:
    """Log a finished run `name` as a child of the run `parent`; empty parameters are left out."""
    from mlflow.entities import Metric, Param

    now, tags = int(1000 * time.time()), {"mlflow.parentRunId": parent}
    child = client.create_run(experiment, run_name=name[:250], tags=tags).info.run_id
    client.log_batch(
        child,
        metrics=[Metric(key, float(value), now, 0) for key, value in metrics.items()],
        params=[Param(key, str(value)[:LONGEST_VALUE]) for key, value in params.items() if value not in ("", None)],
    )
    client.set_terminated(child, "FAILED" if failed else "FINISHED")


def log_benchmark(name: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Log the `rows` of the benchmark `name`, with a child run for each row; returns the id of the parent run.

    Raises `BadInput` if the store cannot be opened.
    """
    uri = tracking_uri()
    client = open_client(uri)
    experiment = experiment_id(client, uri)
    parent = client.create_run(experiment, run_name=f"benchmark {name}"[:250], tags={"benchmark": name}).info.run_id
    client.log_metric(parent, "runs", len(rows))
    for row in rows:
        title = f"{row['algorithm']} on {row['data']}, seed {row['seed']}"
        known = {key: value for key, value in row.items() if key != "key"}
        numbers = {
            key: value
            for key, value in known.items()
            if key not in BENCHMARK_WORDS and isinstance(value, int | float) and not math.isnan(value)
        }
        words = {key: value for key, value in known.items() if key not in numbers}
        log_child_run(client, experiment, parent, title, words, numbers, failed=row["status"] != "ok")
    client.set_terminated(parent, "FINISHED")
    return str(parent)
