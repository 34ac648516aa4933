"""What MLflow is told of a run, as plain values: at its opening, after a round, at its end.

They can be told at once (`run.py`), or kept in a file and told later (`untracked.py`).
"""

from dataclasses import asdict, dataclass
from typing import Any

from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters.network_json import as_json

from ..model import why_no_model
from ..outputs import flat_metrics
from ..result import Metric, RunResult, series_warnings
from .dataset_input import TrackedData


@dataclass(frozen=True)
class Opening:
    """A run that begins: its name, parameters, tags and data; `uri` and `run_id` name its MLflow run if it has one."""

    name: str
    params: dict[str, Any]
    tags: dict[str, Any]
    data: TrackedData
    uri: str
    run_id: str = ""


@dataclass(frozen=True)
class ToldRound:
    """A finished round: its row of `rounds.csv`, and the structure as it then was."""

    row: dict[str, float]
    structure: Structure


@dataclass(frozen=True)
class Ending:
    """A run that is over: what was found, in as far as it is not in the output files."""

    structure: Structure
    rounds: int
    metrics: dict[str, Metric]
    tags: dict[str, str]
    privacy: dict[str, Any] | None
    network: dict[str, Any] | None
    """the model as `as_json` writes it"""
    parameters: str
    """where the model's parameters come from, or why there is no model"""


def ending_of(result: RunResult) -> Ending:
    """Return what MLflow is told when the run of `result` is over."""
    reason, network, said = why_no_model(result), result.parameters.network, series_warnings(result)
    tags = {"outcome": str(result.outcome), "lost": ", ".join(result.lost) or "none"}
    return Ending(
        structure=result.structure,
        rounds=len(result.rounds),
        metrics=flat_metrics(result),
        tags=tags | ({"warning": " ".join(said)} if said else {}),
        privacy=asdict(result.privacy) if result.privacy else None,
        network=None if network is None else as_json(network),
        parameters=reason or result.parameters.how,
    )
