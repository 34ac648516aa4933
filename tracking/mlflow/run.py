"""One MLflow run per execution of `learn`, logged by the coordinator with explicit run ids.

`RunStart`, `RoundEvent` and `RunEnd` are the records of a run as plain values. `RunLog` sends these records to MLflow,
and `tracker.py` stores them if MLflow is not available. MLflow's active run and global tracking URI are not used, so
that several runs can be logged in one process. Each round logs its metrics, named `round/…`, its structure as JSON, and
in some rounds a picture of the adjacency matrix. The end of the run logs the scores, files and model, and metrics with
plain names.
"""

import re
import tempfile
import time
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedbnsl.algorithms.effects.answer import Effect, value_text
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.edges import edge_count
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters.network_json import network_as_json

from ..metrics import MetricValue
from ..outputs import FILES
from ..report.files import flat_metrics
from ..result import RunResult, Tuning, series_warnings
from .saved_model import TrackedData, adjacency_image, dataset_input, save_pyfunc, structure_json
from .store import experiment_id, log_child_run, open_client, run_url, source_tags, tracking_uri

if TYPE_CHECKING:
    from mlflow import MlflowClient


@dataclass(frozen=True)
class RunStart:
    """The start of a run: name, parameters, tags, data; `run_id` is the id of its MLflow run at `uri`, if any."""

    name: str
    params: dict[str, Any]
    tags: dict[str, Any]
    data: TrackedData
    uri: str
    run_id: str = ""


@dataclass(frozen=True)
class RoundEvent:
    """A finished round: its row of `rounds.csv`, and its structure."""

    row: dict[str, float]
    structure: Structure


@dataclass(frozen=True)
class RunEnd:
    """The end of a run: the parts of its result that are not in the output files."""

    structure: Structure
    rounds: int
    metrics: dict[str, MetricValue]
    tags: dict[str, str]
    privacy: dict[str, Any] | None
    network: dict[str, Any] | None
    """the model in the form of `network_as_json`"""
    parameters: str
    """the source of the model's parameters, or the reason why there is no model"""
    candidates: tuple[dict[str, Any], ...] = ()
    """for a tuned run: name, params and metrics of each candidate, for child runs"""
    register: str = ""
    """the name under which the model is registered; empty if it is not registered"""


def ending_of(result: RunResult) -> RunEnd:
    """The `RunEnd` of a result."""
    network, warnings = result.parameters.network, series_warnings(result)
    tags = {"outcome": str(result.outcome), "lost": ", ".join(result.lost) or "none"}
    return RunEnd(
        structure=result.structure,
        rounds=len(result.rounds),
        metrics=flat_metrics(result),
        tags=tags | ({"warning": " ".join(warnings)} if warnings else {}),
        privacy=asdict(result.privacy) if result.privacy else None,
        network=None if network is None else network_as_json(network),
        parameters=result.parameters.how,
        candidates=_candidates(result.tuning) if result.tuning else (),
        register=result.register,
    )


def _candidates(tuning: Tuning) -> tuple[dict[str, Any], ...]:
    """The candidates of a tuned run as child runs."""
    found = []
    for number, one in enumerate(tuning.candidates):
        scores = {"held_out_log_likelihood": one.log_likelihood, "instability": one.instability, "edges": one.edges}
        metrics = {name: value for name, value in scores.items() if value is not None}
        name, *_ = tuning.rows[number]
        found.append({"name": name, "params": one.params, "metrics": metrics, "chosen": number == tuning.chosen})
    return tuple(found)


REGISTERED_ALIAS = "current"
"""the alias of the version that was registered last"""


PICTURED = (1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987)
"""the rounds that have a picture, like the last round; structures change most at first, and a picture takes 20 ms of
CPU"""

MAX_BATCH = 1000
"""maximum number of metrics that MLflow accepts in one call"""


@dataclass
class RunLog:
    """A run in progress in MLflow."""

    client: "MlflowClient"
    uri: str
    experiment_id: str
    run_id: str
    pictured: int = field(default=0, init=False)
    """the last round whose adjacency matrix was logged as a picture"""

    @property
    def url(self) -> str:
        """The URL of the run: on the tracking server, or in `fedbnsl ui`."""
        return run_url(self.uri, self.experiment_id, self.run_id)

    def rounds(self, events: Sequence[RoundEvent], known: Container[int] = ()) -> None:
        """Log the metrics and structures of finished rounds; MLflow already has the metrics of `known` rounds."""
        self.figures(
            {"edges": float(edge_count(one.structure)), **one.row} for one in events if one.row["round"] not in known
        )
        for one in events:
            number = int(one.row["round"])
            written = structure_json(one.structure, number)
            self.client.log_text(self.run_id, written, f"rounds/structure-{number:04d}.json")
            if number in PICTURED:
                self._picture(one.structure, number)

    def finish(self, ending: RunEnd, folder: Path) -> str | None:
        """Log scores, the output files in `folder` and the model, and end the run; returns the URI of the model.

        If there is no model, returns None, and the tag `model` has the reason.
        """
        number = ending.rounds
        if number > self.pictured:
            self._picture(ending.structure, number)
        figures = {name: value for name, value in ending.metrics.items() if isinstance(value, int | float)}
        if {"bytes_up", "bytes_down"} <= figures.keys():
            figures["megabytes"] = (figures["bytes_up"] + figures["bytes_down"]) / 1e6
        self._log_metrics((name, value, number) for name, value in figures.items())
        self._log_tags({name: value for name, value in ending.metrics.items() if isinstance(value, str)} | ending.tags)
        for name in FILES:
            if (folder / name).exists():
                self.client.log_artifact(self.run_id, str(folder / name), "outputs")
        if ending.privacy is not None:
            self._log_privacy(ending.privacy)
        model = None if ending.network is None else self._log_model(ending, ending.network)
        self._log_tags({"model": model or f"none: {ending.parameters}"})
        self._log_candidates(ending.candidates)
        if ending.register:
            self._log_tags({"registered": self._register(ending, model) if model else f"none: {ending.parameters}"})
        self.client.set_terminated(self.run_id, "FINISHED")
        return model

    def known_rounds(self) -> set[int]:
        """The rounds whose metrics are in MLflow."""
        return {metric.step for metric in self.client.get_metric_history(self.run_id, "round/bytes_up")}

    def figures(self, rows: Iterable[Mapping[str, float]]) -> None:
        """Log the metrics of finished rounds; a round is logged in one call, so that it is complete or absent."""
        batch: list[tuple[str, float, int]] = []
        for row in rows:
            metrics = [(f"round/{name}", value, int(row["round"])) for name, value in row.items() if name != "round"]
            if len(batch) + len(metrics) > MAX_BATCH:
                self._log_metrics(batch)
                batch = []
            batch += metrics
        self._log_metrics(batch)

    def fail(self, message: str) -> None:
        """End the run as failed, with `message` as its tag `error`."""
        self._log_tags({"error": message})
        self.client.set_terminated(self.run_id, "FAILED")

    def _log_privacy(self, privacy: Mapping[str, Any]) -> None:
        """Log the privacy loss, and its ε by round as a curve."""
        self._log_metrics(("round/epsilon", spent, number) for number, spent in privacy["by_round"])
        self.client.log_dict(self.run_id, dict(privacy), "privacy/ledger.json")

    def _log_metrics(self, figures: Iterable[tuple[str, float, int]]) -> None:
        """Log metrics, which are given as name, value and round."""
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

    def _log_model(self, ending: RunEnd, network: dict[str, Any]) -> str:
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

    def _log_candidates(self, candidates: Sequence[Mapping[str, Any]]) -> None:
        """Log a child run for each candidate, unless an earlier upload has logged them."""
        where = f"tags.`mlflow.parentRunId` = '{self.run_id}'"
        if not candidates or self.client.search_runs([self.experiment_id], where, max_results=1):
            return
        for one in candidates:
            params = one["params"] | {"chosen": str(one["chosen"]).lower()}
            log_child_run(self.client, self.experiment_id, self.run_id, one["name"], params, one["metrics"])

    def _register(self, ending: RunEnd, model: str) -> str:
        """Register the logged `model` as a new version with the alias `current`; returns the URI of the version."""
        from mlflow.exceptions import MlflowException

        try:
            self.client.create_registered_model(ending.register)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        # MLflow would look up a URI "models:/..." in the store that the environment names, which may be another store.
        source = self.client.get_logged_model(model.removeprefix("models:/")).artifact_location
        version = self.client.create_model_version(ending.register, source, run_id=self.run_id).version
        self.client.set_registered_model_alias(ending.register, REGISTERED_ALIAS, version)
        return f"models:/{ending.register}/{version}"


def open_run(opening: RunStart) -> RunLog:
    """Start a run in the experiment "fedbnsl" of the store at `opening.uri`.

    Logs the parameters that are not None, and the numbers of variables, silos and rows.
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
    """Continue an interrupted run; None if the store at `uri` does not have the run, or if the run was deleted.

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


def log_effects(name: str, folder: str, effects: Sequence[Effect]) -> str:
    """Add the `effects` to the MLflow run `name`, whose results are in a folder called `folder`; returns its link.

    An identified effect is a metric such as `effect/dose 0 to 1 on mean of response`, and the ends of its interval are
    the metrics `.../low` and `.../high`. Effects that are not identified are left out. Raises `BadInput` if MLflow has
    no such run.
    """
    uri = tracking_uri()
    client = open_client(uri)
    experiment = experiment_id(client, uri)
    where = f"tags.folder = '{folder}'"
    found = client.search_runs([experiment], where, order_by=["attributes.start_time DESC"], max_results=1)
    if not found:
        raise BadInput(f"MLflow has no run {name} with its results in {folder}: learn with the engine prefect")
    run = found[0].info.run_id
    for one in effects:
        if one.value is None:
            continue
        values = " to ".join(map(value_text, one.values))
        key = _key(f"effect/{one.treatment} {values} on {one.measure}")
        figures = {"": one.value, "/low": one.interval and one.interval[0], "/high": one.interval and one.interval[1]}
        for end, value in figures.items():
            if value is not None:
                client.log_metric(run, f"{key}{end}", value)
    return run_url(uri, experiment, run)


def _key(name: str) -> str:
    """`name` with characters that MLflow does not allow replaced."""
    return re.sub(r"[^\w./ -]", "_", name)[:250]
