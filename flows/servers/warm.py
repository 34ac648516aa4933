"""`python -m fedbnsl.flows.servers.warm`: do once, after installing, what the first run would otherwise wait for.

It makes the empty databases that new ones are copied from, and has Python and numba compile what a run imports.
"""

import os
import tempfile
from pathlib import Path

from fedbnsl.tracking.new_database import keep_as_template, template

from .environment import prepare_environment
from .processes import temporary_server

ALGORITHMS = ("auto", "fed-sparse")
"""those whose code is compiled; that of the others is when they first run"""


def warm() -> None:
    """Make what is not there yet; the databases are made while this process compiles."""
    with tempfile.TemporaryDirectory() as scratch:
        here = Path(scratch)
        os.environ["PREFECT_HOME"] = scratch
        os.environ.pop("PREFECT_API_URL", None)
        prepare_environment(quiet=True)
        with temporary_server() as ready:
            _learn(here)
            _make_mlflow(here / "mlflow.db")
            ready()
            keep_as_template("prefect", here / "prefect.db")
    print(f"ready: {template('prefect').parent}")


def _learn(scratch: Path) -> None:
    """Learn something tiny, in this process, with each of the algorithms."""
    import fedbnsl.flows.learn  # noqa: F401  (what a run through Prefect imports)
    from fedbnsl.flows.api import learn, prepare

    data = prepare("homogeneous", variables=4, silos=2, rows=50)
    for name in ALGORITHMS:
        learn(data, name, out=scratch / name)


def _make_mlflow(database: Path) -> None:
    """Make an empty MLflow database: the first experiment, whose artifacts have a place, is made with each anew."""
    from fedbnsl.tracking.mlflow.store import open_client

    open_client(f"sqlite:///{database}")
    keep_as_template("mlflow", database, without=("experiment_tags", "experiments"))


if __name__ == "__main__":
    warm()
