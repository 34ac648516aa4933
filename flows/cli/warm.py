"""`python -m fedbnsl.flows.cli.warm`: prepare compiled code and databases once after installing, for a fast first run.

The command makes templates of empty databases, and compiles the modules and numba functions of a run.
"""

import os
import sys
import tempfile
from importlib import import_module
from pathlib import Path

from fedbnsl.tracking.mlflow.store import save_template, template

from ..servers.environment import prepare_environment
from ..servers.processes import CHILD, process, temporary_server


def warm() -> None:
    """Run all steps at once, each in a separate process."""
    with tempfile.TemporaryDirectory() as scratch:
        here = Path(scratch)
        os.environ["PREFECT_HOME"] = scratch
        os.environ.pop("PREFECT_API_URL", None)
        prepare_environment(quiet=True)
        with temporary_server() as ready, process([*CHILD, "fedbnsl.flows.cli.warm", "mlflow", scratch], {}) as mlflow:
            _learn(here / "out")
            ready()
            save_template("prefect", here / "prefect.db")
            if mlflow.wait():
                raise SystemExit("the empty MLflow database could not be made")
    print(f"ready: {template('prefect').parent}")


def _learn(out: Path) -> None:
    """Learn a tiny graph by the default algorithm; numba compiles the code of other algorithms when they first run."""
    from fedbnsl.tasks.fork_server import PRELOADED

    from ..api import learn, prepare

    # A run through Prefect and Dask also imports these modules.
    for module in ("fedbnsl.flows.learn", *PRELOADED):
        import_module(module)
    learn(prepare("homogeneous", variables=4, silos=2, rows=50), out=out)


def _make_mlflow(database: Path) -> None:
    """Make a template of an empty MLflow database, without its first experiment, whose artifact path is temporary."""
    from fedbnsl.tracking.mlflow.store import open_client

    open_client(f"sqlite:///{database}")
    save_template("mlflow", database, without=("experiment_tags", "experiments"))


if __name__ == "__main__":
    if sys.argv[1:2] == ["mlflow"]:
        _make_mlflow(Path(sys.argv[2]) / "mlflow.db")
    else:
        warm()
