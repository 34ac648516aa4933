"""Where runs are kept: an MLflow tracking server or database, and the experiment "fedbnsl" in it."""

import logging
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fedbnsl.algorithms.errors import BadInput

from ..new_database import begin_from_template
from .views import saved_views

if TYPE_CHECKING:
    from mlflow import MlflowClient

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
    """Return where runs are kept: `uri`, else MLFLOW_TRACKING_URI, else the database `mlflow.db` in this folder.

    Raises `BadInput` for a plain folder, where MLflow 3 keeps no runs any more.
    """
    uri = uri or os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{Path.cwd() / 'mlflow.db'}"
    if urlsplit(uri).scheme in ("", "file"):
        raise BadInput(
            f"tracking URI {uri}: MLflow keeps no runs in plain files any more; use sqlite:///path/mlflow.db"
        )
    return uri


def open_client(uri: str) -> "MlflowClient":
    """Return a client of the store at `uri`; a new database is created without log messages.

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
    """Return the id of our experiment, which is made if it is not there, also when two processes make it at once.

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
    """Return where the run can be looked at: on the tracking server, or in `fedbnsl ui`."""
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
    """Return the file of an SQLite database, None for any other store."""
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
