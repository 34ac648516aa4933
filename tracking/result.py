"""What one execution of `learn` produced: everything that outputs, reports and MLflow are written from."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedbnsl.algorithms.core.knowledge import Knowledge
from fedbnsl.algorithms.core.protocol import Outcome
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.diagnosis.findings import Finding
from fedbnsl.algorithms.graphs.strengths import Strengths
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters.lagged_regressions import Forecasts
from fedbnsl.algorithms.parameters.networks import DynamicGaussianNetwork, Network
from fedbnsl.algorithms.statistics.stability import spectral_radius

from .comparison import Comparison

Metric = float | int | bool | str | None


@dataclass(frozen=True)
class PrivacySpent:
    """What a private run promised, and the ε that its silos' ledgers say it spent; `broken`: why it is no promise."""

    epsilon: float
    delta: float
    adjacency: str
    protects: str
    broken: str
    run: dict[str, float]
    """by silo, ε of this run"""
    ever: dict[str, float]
    """by silo, ε of all runs on its rows, this one among them"""
    releases: tuple[tuple[str, int, float], ...]
    """what was released, how often, and the ρ of all of that, at the silo that spent most"""
    tight: float | None = None
    """an ε by tight accounting that the run, all of it, keeps to; None where there is none below zCDP's"""

    @property
    def spent(self) -> float:
        """The ε of the silo that spent most in this run; ∞ where nothing is promised."""
        return math.inf if self.broken else max(self.run.values(), default=0.0)

    @property
    def spent_ever(self) -> float:
        """The ε of the silo that spent most in all runs."""
        return max(self.ever.values(), default=0.0)


NOT_COVERED = (
    "the number of rows of each silo, which is public",
    "settings chosen by looking at the data or at other runs' results",
    "a person whose records are in several silos, or several of whose records are in one",
    "runs on the same rows without a privacy budget, which no ledger counts",
    "whether a silo's file can be read without a fault, and which columns hold numbers and which words",
    "the levels of discrete variables, which are declared and public",
    "the lengths of the unbroken stretches of time series, and so how often a time or a cell was missing",
    "whether a silo's rows have changed since an earlier run, where runs are repeated or resumed",
)
"""what ε does not cover, shown with every ε"""


@dataclass(frozen=True)
class Parameters:
    """The model of a run: its structure with parameters, or None."""

    network: Network | None
    how: str
    """where the parameters come from, or why there are none"""
    bytes_sent: int = 0
    """what it took, besides the rounds"""
    forecasts: Forecasts | None = None
    """how well a dynamic model forecasts the data it was fitted to, where the silos' sums tell"""


@dataclass(frozen=True)
class Diagnosed:
    """What a reader must know of the data and the answer; `bytes_sent` is what it took, besides the rounds."""

    findings: tuple[Finding, ...] = ()
    bytes_sent: int = 0

    @property
    def metrics(self) -> dict[str, Metric]:
        """The findings by name and in words, each with what to do, and the bytes, for `metrics.json`."""
        return {
            "findings": ", ".join(one.name for one in self.findings),
            "diagnoses": " ".join(f"{one.said} {one.advice}" for one in self.findings),
            "diagnosis_bytes": self.bytes_sent,
        }


@dataclass(frozen=True)
class Confidence:
    """What resamples of the silos' rows say of a structure: how many of them have each edge."""

    strengths: Strengths
    threshold: float
    """the strength that an edge of the averaged network exceeds"""
    averaged: Structure
    exchanges: int
    bytes_sent: int


NO_PARAMETERS = Parameters(None, "parameters were not asked for")


@dataclass(frozen=True)
class RunResult:
    """One finished run.

    `rounds` has a row per round: `round`, the algorithm's measures (h, residuals, edges, ...), `bytes_up`,
    `bytes_down`, `formula_bytes`, all of that round alone. `metrics` is flat: scores against the truth (None without
    one), rounds, converged, acyclic, seconds, bytes of the whole run, privacy spent. `refit` has, per silo, the
    normalised MSE of the consensus weights and of the weights refitted on that silo's rows (Fassy El Fehri et al.,
    B.2.2), where the truth has weights. `silo_scores` has, per silo, the scores of its own structure against its own
    truth, or against the common one, for what learns a structure for each silo.
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
    silo_scores: dict[str, dict[str, Metric]] = field(default_factory=dict)
    averaged: bool = False
    """whether the scores in `metrics` are means over the silos"""
    refit: dict[str, dict[str, float]] = field(default_factory=dict)
    parameters: Parameters = NO_PARAMETERS
    diagnosed: Diagnosed = Diagnosed()
    basis: tuple[str, ...] = ()
    """what was decided from the data, and what the directions of the edges rest on"""
    asked: str = ""
    """the algorithm as it was asked for, such as `auto`"""
    privacy: PrivacySpent | None = None
    """None for a run without noise"""
    secure: bool = False
    """whether the coordinator saw only sums"""
    bootstrap: int = 0
    """how many resamples were asked for"""
    confidence: Confidence | None = None
    """how sure the edges are, where that was asked for"""
    notes: tuple[str, ...] = ()
    """what is to be known about how the silos' tables were read"""
    changes: Comparison | None = None
    """what has changed since the run before it, for one that is repeated"""

    @property
    def labelled(self) -> tuple[str, ...]:
        """The variables that hold labels where others hold numbers; none if all are of one kind."""
        return tuple(self.schema.levels) if self.schema.kind == "mixed" else ()

    @property
    def knowledge(self) -> Knowledge:
        """What was known of the graph beforehand, and imposed."""
        return self.schema.knowledge


def strengths_in(result: RunResult) -> Strengths | None:
    """Return how many resamples have each edge, None where that is not known."""
    return result.confidence.strengths if result.confidence else None


def radius_of(structure: Structure) -> float | None:
    """Return the spectral radius of a dynamic structure, None of another one."""
    return None if structure.lagged is None else spectral_radius(structure.weights, structure.lagged)


def explosive(result: RunResult) -> str | None:
    """Return a warning if the model of time series, or a silo's own, lets shocks stay or grow, None if none does."""
    radius = result.metrics.get("spectral_radius")
    if isinstance(radius, float) and radius >= 1:
        told = f"the spectral radius is {radius:.3f}, not below 1"
        return f"Explosive: {told}, so forecasts far ahead grow without bound."
    own = {silo: radius_of(one) for silo, one in sorted(result.local_structures.items())}
    loud = [silo for silo, radius in own.items() if radius is not None and radius >= 1]
    return f"Explosive: the silos' own spectral radius is not below 1 at {', '.join(loud)}." if loud else None


FAR = 3.0
"""from this many standard deviations on, a mean is far from zero"""
LEVEL = ("var",)
"""the learners of time series that subtract the mean of all rows"""


def far_from_zero(result: RunResult) -> str | None:
    """Return a warning if variables of time series have levels that the learner took for effects, None if not."""
    network = result.parameters.network
    subtracted = result.algorithm in LEVEL or any(result.params.get(name) for name in ("center", "center_series"))
    if subtracted or not isinstance(network, DynamicGaussianNetwork):
        return None
    ratios = np.abs(network.means) / np.sqrt(np.maximum(network.spreads, np.finfo(float).tiny))
    most = int(np.argmax(ratios))
    if ratios[most] < FAR:
        return None
    return (
        f"Far from zero: the mean of {network.structure.variables[most]} is {ratios[most]:.3g} of its standard "
        "deviations. The learner took the rows as they are, as it was asked to, so levels pass for effects."
    )


def useless(result: RunResult) -> str | None:
    """Return a warning if the model of time series forecasts no better than that nothing changes, None if it does."""
    model, same = result.metrics.get("forecast_mse"), result.metrics.get("persistence_mse")
    if not isinstance(model, float) or not isinstance(same, float) or model < same:
        return None
    return "The model forecasts the next row no better than “as it was” does: its edges explain nothing over time."


def series_warnings(result: RunResult) -> list[str]:
    """Return what a reader must know of a model of time series before trusting it; empty for other data."""
    said = (explosive(result), far_from_zero(result), useless(result))
    return [one for one in said if one is not None]
