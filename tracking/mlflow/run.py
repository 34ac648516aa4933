"""One MLflow run per execution of `learn`, written from the coordinator with explicit run ids.

There is no active run and no global tracking URI, so that several runs may go on in one process. Logged for a round are
its figures, the structure as JSON, and now and then the adjacency matrix as a picture; at the end scores, files and
model. The figures of single rounds are named `round/…`, those of the whole run have plain names.
"""

import re
import tempfile
import time
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedbnsl.algorithms.graphs.edges import edge_count
from fedbnsl.algorithms.graphs.structure import Structure

from ..outputs import AVERAGED, CHANGES, FURTHER, MODELS, OUTPUTS
from .dataset_input import dataset_input
from .round_structure import adjacency_image, structure_json
from .saved_model import save_pyfunc
from .source import source_tags
from .store import experiment_id, open_client, run_url
from .telling import Ending, Opening, ToldRound

if TYPE_CHECKING:
    from mlflow import MlflowClient

PICTURED = (1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987)
"""the rounds with a picture besides the last: structures change most at first, and one costs 20 ms of CPU"""

AT_ONCE = 1000
"""figures that MLflow takes in one call"""


@dataclass
class RunLog:
    """A run in MLflow that is going on."""

    client: "MlflowClient"
    uri: str
    experiment_id: str
    run_id: str
    pictured: int = field(default=0, init=False)
    """the last round whose adjacency matrix was logged as a picture"""

    @property
    def url(self) -> str:
        """A link to the run: on the tracking server, or where `fedbnsl ui` shows the database."""
        return run_url(self.uri, self.experiment_id, self.run_id)

    def rounds(self, told: Sequence[ToldRound], known: Container[int] = ()) -> None:
        """Log finished rounds: of each its figures and the structure as it then was.

        Those that may have been told in part before are `known`: their figures are there already.
        """
        self.figures(
            {"edges": float(edge_count(one.structure)), **one.row} for one in told if one.row["round"] not in known
        )
        for one in told:
            number = int(one.row["round"])
            written = structure_json(one.structure, number)
            self.client.log_text(self.run_id, written, f"rounds/structure-{number:04d}.json")
            if number in PICTURED:
                self._picture(one.structure, number)

    def finish(self, ending: Ending, folder: Path) -> str | None:
        """Log scores, the output files in `folder` and the model, and end the run; return the URI of the model.

        Where there is none, a tag `model` says why.
        """
        number = ending.rounds
        if number > self.pictured:
            self._picture(ending.structure, number)
        figures = {name: value for name, value in ending.metrics.items() if isinstance(value, int | float)}
        if {"bytes_up", "bytes_down"} <= figures.keys():
            figures["megabytes"] = (figures["bytes_up"] + figures["bytes_down"]) / 1e6
        self._log_metrics((name, value, number) for name, value in figures.items())
        self._log_tags({name: value for name, value in ending.metrics.items() if isinstance(value, str)} | ending.tags)
        for name in (*OUTPUTS, AVERAGED, CHANGES, *FURTHER, *MODELS):
            if (folder / name).exists():
                self.client.log_artifact(self.run_id, str(folder / name), "outputs")
        if ending.privacy is not None:
            self.client.log_dict(self.run_id, ending.privacy, "privacy/ledger.json")
        model = None if ending.network is None else self._log_model(ending, ending.network)
        self._log_tags({"model": model or f"none: {ending.parameters}"})
        self.client.set_terminated(self.run_id, "FINISHED")
        return model

    def known_rounds(self) -> set[int]:
        """Return the rounds whose figures the run has already."""
        return {metric.step for metric in self.client.get_metric_history(self.run_id, "round/bytes_up")}

    def figures(self, rows: Iterable[Mapping[str, float]]) -> None:
        """Log the figures of finished rounds alone: those of a round in one call, so that it is known whole or not."""
        batch: list[tuple[str, float, int]] = []
        for row in rows:
            told = [(f"round/{name}", value, int(row["round"])) for name, value in row.items() if name != "round"]
            if len(batch) + len(told) > AT_ONCE:
                self._log_metrics(batch)
                batch = []
            batch += told
        self._log_metrics(batch)

    def fail(self, message: str) -> None:
        """End the run as failed; `message` says why."""
        self._log_tags({"error": message})
        self.client.set_terminated(self.run_id, "FAILED")

    def _log_metrics(self, figures: Iterable[tuple[str, float, int]]) -> None:
        """Log figures: name, value, round."""
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        metrics = [Metric(_key(name), float(value), now, step) for name, value, step in figures]
        if metrics:
            self.client.log_batch(self.run_id, metrics=metrics)

    def _log_tags(self, tags: Mapping[str, Any]) -> None:
        from mlflow.entities import RunTag

        self.client.log_batch(self.run_id, tags=[RunTag(_key(name), str(value)[:5000]) for name, value in tags.items()])

    def _picture(self, structure: Structure, number: int) -> None:
        self.client.log_image(self.run_id, adjacency_image(structure), key="adjacency", step=number)
        self.pictured = number

    def _log_model(self, ending: Ending, network: dict[str, Any]) -> str:
        from mlflow.entities import LoggedModelOutput

        algorithm = self.client.get_run(self.run_id).data.tags.get("algorithm", "")
        tags = {"parameters": ending.parameters, "algorithm": algorithm}
        model = self.client.create_logged_model(
            self.experiment_id, name="network", source_run_id=self.run_id, tags=tags, model_type="Bayesian network"
        )
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "model"
            identity = {"run_id": self.run_id, "model_id": model.model_id, "artifact_path": model.artifact_location}
            save_pyfunc(network, folder, identity)
            self.client.log_model_artifacts(model.model_id, str(folder))
        self.client.finalize_logged_model(model.model_id, "READY")
        self.client.log_outputs(self.run_id, [LoggedModelOutput(model.model_id, step=ending.rounds)])
        self._log_tags({"parameters": tags["parameters"]})
        return f"models:/{model.model_id}"


def open_run(opening: Opening) -> RunLog:
    """Start a run in the experiment "fedbnsl" of the store at `opening.uri`.

    The parameters are logged as they are, those that are None left out, with the numbers of variables, silos and rows.
    Raises `BadInput` if the store cannot be opened.
    """
    from mlflow.entities import Param

    client = open_client(opening.uri)
    experiment = experiment_id(client, opening.uri)
    labels = {_key(key): str(value)[:5000] for key, value in (source_tags() | opening.tags).items()}
    run = client.create_run(experiment, run_name=opening.name, tags=labels)
    schema = opening.data.schema
    sizes = {"variables": len(schema.variables), "silos": len(schema.rows), "rows": sum(schema.rows.values())}
    known = [Param(_key(key), str(value)) for key, value in {**sizes, **opening.params}.items() if value is not None]
    for start in range(0, len(known), 100):
        client.log_batch(run.info.run_id, params=known[start : start + 100])
    client.log_inputs(run.info.run_id, datasets=[dataset_input(opening.data)])
    return RunLog(client, opening.uri, experiment, run.info.run_id)


def reopen_run(run_id: str, uri: str) -> RunLog | None:
    """Go on with a run that was interrupted; None if the store at `uri` has no such run, or has it deleted.

    Raises `BadInput` if the store cannot be opened.
    """
    from mlflow.exceptions import MlflowException

    client = open_client(uri)
    try:
        run = client.get_run(run_id)
    except MlflowException as error:
        if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
            return None
        raise
    if run.info.lifecycle_stage == "deleted":
        return None
    client.update_run(run_id, status="RUNNING")
    return RunLog(client, uri, run.info.experiment_id, run_id)


def _key(name: str) -> str:
    """Return `name` with the characters replaced that MLflow takes in no name."""
    return re.sub(r"[^\w./ -]", "_", name)[:250]
