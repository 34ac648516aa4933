"""What one execution of `learn` produced: everything that outputs, reports and MLflow are written from."""

from dataclasses import dataclass, field
from typing import Any

from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.protocol import Outcome, Schema

Metric = float | int | bool | str | None


@dataclass(frozen=True)
class RunResult:
    """One finished run.

    `rounds` has a row per round: `round`, the algorithm's measures (h, residuals, edges, ...), `bytes_up`,
    `bytes_down`, `formula_bytes`, all of that round alone. `metrics` is flat: scores against the truth (None without
    one), rounds, converged, acyclic, seconds, bytes of the whole run, privacy spent. `refit` has, per silo, the
    normalised MSE of the consensus weights and of the weights refitted on that silo's rows (000 B.2.2), where the
    truth has weights.
    """

    name: str
    algorithm: str
    params: dict[str, Any]
    seed: int
    engine: str
    dataset: str
    about: dict[str, Any]
    schema: Schema
    structure: Structure
    truth: Structure | None
    outcome: Outcome
    lost: tuple[str, ...]
    rounds: tuple[dict[str, float], ...]
    metrics: dict[str, Metric]
    local_structures: dict[str, Structure] = field(default_factory=dict)
    refit: dict[str, dict[str, float]] = field(default_factory=dict)
    residual_variances: tuple[float, ...] | None = None
    """mean squared residual of each variable given its parents, over all rows: None where it was not asked for"""
