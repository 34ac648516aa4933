"""The result of a run, from which output files, reports and MLflow records are written.

It includes the edges of the silos' own structures, and warnings on models of time series.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import numpy as np

from fedbnsl.algorithms.core.experiments import MechanismChange
from fedbnsl.algorithms.core.knowledge import Arc, Knowledge, Prior
from fedbnsl.algorithms.core.protocol import Outcome
from fedbnsl.algorithms.core.release import Disclosed
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.diagnosis.columns import without_causes
from fedbnsl.algorithms.diagnosis.findings import Finding
from fedbnsl.algorithms.diagnosis.implied import NO_FIT, Fit
from fedbnsl.algorithms.events.hawkes import Intensities
from fedbnsl.algorithms.graphs.edges import ClassifiedEdges, Edge, EdgeFigures, EdgeKey
from fedbnsl.algorithms.graphs.imposed_knowledge import experimental_arcs
from fedbnsl.algorithms.graphs.strengths import Strengths
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters.forecast_errors import Forecasts
from fedbnsl.algorithms.parameters.networks import Network
from fedbnsl.algorithms.parameters.survival_node import SurvivalNode
from fedbnsl.algorithms.posterior.sampling import Posterior
from fedbnsl.algorithms.statistics.moments import spectral_radius

from .comparison import Comparison
from .metrics import MetricValue


@dataclass(frozen=True)
class PrivacySpent:
    """The privacy guarantee of a run and the ε in the silos' ledgers; `broken` is the reason for no guarantee."""

    epsilon: float
    delta: float
    adjacency: str
    protects: str
    broken: str
    run: dict[str, float]
    """by silo, ε of this run"""
    ever: dict[str, float]
    """by silo, ε of all runs on its rows, including this one"""
    releases: tuple[tuple[str, int, float], ...]
    """releases at the silo that spent most: kind, number, and total ρ"""
    tight: float | None = None
    """upper bound on the ε of the whole run by tight accounting; None if only zCDP applies"""
    by_round: tuple[tuple[int, float], ...] = ()
    """(round, ε of this run up to this round) for each round with a charge, at the silo that spent most"""

    @property
    def spent(self) -> float:
        """The maximum over silos of ε in this run; ∞ if the guarantee is broken."""
        return math.inf if self.broken else max(self.run.values(), default=0.0)

    @property
    def spent_ever(self) -> float:
        """The maximum over silos of ε in all runs."""
        return max(self.ever.values(), default=0.0)


NOT_COVERED = (
    "the number of rows of each silo, which is public",
    "settings that were chosen by looking at the data or at the results of other runs",
    "a person with records in several silos, or with several records in one silo",
    "runs on the same rows without a privacy budget, which the ledger does not count",
    "whether a silo's file can be read without errors, and which columns are numeric",
    "the levels of discrete variables, which are declared and public",
    "the lengths of uninterrupted segments of time series, and thus how often a time or a value was missing",
    "whether a silo's rows changed since an earlier run, if runs are repeated or resumed",
)
"""disclosures that ε does not cover; they are shown with every ε"""


@dataclass(frozen=True)
class Parameters:
    """The model of a run: its structure with parameters, if there are any."""

    network: Network | None
    how: str
    """the source of the parameters, or the reason why there are none"""
    bytes_sent: int = 0
    """number of bytes in addition to the rounds"""
    forecasts: Forecasts | None = None
    """forecast errors of a dynamic model on the data to which it was fitted, if the silos' sums determine them"""
    intensities: Intensities | None = None
    """the Hawkes process of event sequences"""


CANDIDATE_COLUMNS = ("candidate", "edges", "instability", "held-out log-likelihood", "")
"""the columns of `Tuning.rows`"""


@dataclass(frozen=True)
class TunedCandidate:
    """Candidate settings, and their results on random halves of the rows: means over the halves, and instability."""

    params: dict[str, str]
    edges: float
    instability: float
    """mean of 2θ(1 − θ) over pairs of variables, where θ is the share of halves in which the pair has an edge"""
    log_likelihood: float | None
    """log-likelihood of a row of the other half, in nats; None if candidates were compared by stability"""


@dataclass(frozen=True)
class Tuning:
    """The comparison of candidate settings by `held-out` or `stars`, and the number of the chosen candidate."""

    by: str
    candidates: tuple[TunedCandidate, ...]
    chosen: int
    exchanges: int
    bytes_sent: int

    @property
    def metrics(self) -> dict[str, MetricValue]:
        """The exchanges and bytes of the comparison."""
        return {"tuning_exchanges": self.exchanges, "tuning_bytes": self.bytes_sent}

    @property
    def rows(self) -> list[tuple[str, float, float, float | None, str]]:
        """A row for each candidate: settings, edges, instability, log-likelihood, and "chosen" for the chosen one."""
        return [
            (
                ", ".join(f"{name}={value}" for name, value in one.params.items()),
                one.edges,
                one.instability,
                one.log_likelihood,
                "chosen" * (number == self.chosen),
            )
            for number, one in enumerate(self.candidates)
        ]


@dataclass(frozen=True)
class HeldOutScores:
    """By silo, the mean log-likelihood of one of its rows under the model of the other silos, in nats."""

    by_silo: dict[str, float] = field(default_factory=dict)
    why: str = ""
    """the reason why there are no scores although they were requested"""
    bytes_sent: int = 0

    def mean(self, rows: Mapping[str, int]) -> float | None:
        """The mean over all rows of the silos that have a score; None if no silo has a score."""
        total = sum(rows[silo] for silo in self.by_silo)
        return sum(rows[silo] * score for silo, score in self.by_silo.items()) / total if total else None

    def metrics(self, rows: Mapping[str, int]) -> dict[str, MetricValue]:
        """The mean over all rows and the bytes; empty if the scores were not requested."""
        known: dict[str, MetricValue] = {"held_out_log_likelihood": self.mean(rows), "held_out_bytes": self.bytes_sent}
        return known if self.by_silo or self.why else {}

    def lines(self, rows: Mapping[str, int]) -> tuple[str, ...]:
        """The scores in one line, or the reason why there are none; empty if the scores were not requested."""
        if self.why:
            return (f"Held-out likelihood: {self.why}.",)
        mean = self.mean(rows)
        if mean is None:
            return ()
        least = min(self.by_silo, key=self.by_silo.__getitem__)
        return (
            f"Held-out likelihood: {mean:.4g} nats a row, each silo by the model of the others; "
            f"least at {least}: {self.by_silo[least]:.4g}.",
        )


@dataclass(frozen=True)
class FoundTargets:
    """The mechanisms that were found to differ between silos or conditions, and the cost of finding them."""

    changes: tuple[MechanismChange, ...]
    by: Literal["silo", "condition"]
    compared: int
    """number of silos or conditions that were compared"""
    exchanges: int
    bytes_sent: int

    @property
    def metrics(self) -> dict[str, MetricValue]:
        """The number of changes, and the cost of finding them."""
        return {
            "changed_mechanisms": len(self.changes),
            "target_exchanges": self.exchanges,
            "target_bytes": self.bytes_sent,
        }

    @property
    def lines(self) -> tuple[str, ...]:
        """The comparison that found the targets, in whole sentences."""
        compared = f"the run compared {self.compared} {self.by}s"
        if not self.changes:
            return (f"No mechanism differs between {self.by}s: {compared} and found no targets.",)
        tied = dict.fromkeys(one.variable for one in self.changes if one.tied)
        names = ", ".join(dict.fromkeys(one.variable for one in self.changes))
        lines = [
            f"Mechanisms of {names} differ: {compared} and found these targets. The largest group of {self.by}s with "
            f'equal mechanisms counts as unchanged; below, a mechanism that differs from it is called "set".'
        ]
        if tied:
            lines.append(
                f"For {', '.join(tied)}, the data support equally well that the other {self.by}s are the changed ones; "
                "the directions of edges are the same in both cases."
            )
        return tuple(lines)


@dataclass(frozen=True)
class Diagnosed:
    """Findings on the data and the result; `bytes_sent` is in addition to the rounds."""

    findings: tuple[Finding, ...] = ()
    bytes_sent: int = 0
    sums: Any = None
    """the sums of moments or counts, from which fit and parameters are computed, too"""

    @property
    def metrics(self) -> dict[str, MetricValue]:
        """The names of the findings, their texts with advice, and the bytes, for `metrics.json`."""
        return {
            "findings": ", ".join(one.name for one in self.findings),
            "diagnoses": " ".join(f"{one.message} {one.advice}" for one in self.findings),
            "diagnosis_bytes": self.bytes_sent,
        }


@dataclass(frozen=True)
class Confidence:
    """The edge strengths of a structure, from resamples of the silos' rows."""

    strengths: Strengths
    threshold: float
    """the strength above which an edge is in the averaged network"""
    averaged: Structure
    exchanges: int
    bytes_sent: int


@dataclass(frozen=True)
class SurvivalOutcome:
    """A survival outcome of a run: its columns, and its fitted node or the reason why it has none."""

    name: str
    time: str
    event: str
    node: SurvivalNode | None = None
    why: str = ""
    candidates: int = 0
    """the number of variables among which its parents were selected"""
    bytes_sent: int = 0

    @property
    def reason(self) -> str:
        """Why the outcome has no node, in a sentence; empty if it has one."""
        return "" if self.node else f"Survival outcome {self.name}: no model, because {self.why}."

    @property
    def basis(self) -> str:
        """The assumptions behind the edges to the outcome, in sentences."""
        return (
            f"{self.name} is a sink, as a survival outcome: its parents are those of {self.candidates} variables that "
            "a piecewise-exponential model needs by the BIC of its events. Hazards are proportional, and censoring "
            "does not depend on the time of the event, given the parents. Intervals do not include the selection."
        )


@dataclass(frozen=True)
class GraphPosterior:
    """Graphs sampled from the posterior, or the reason why there are none; both are missing if none were requested."""

    posterior: Posterior | None = None
    why: str = ""
    """the reason why there are no graphs"""
    how: str = ""
    """the score, and the sums from which it was computed"""
    bytes_sent: int = 0
    """number of bytes in addition to the rounds and the diagnosis"""


NO_POSTERIOR = GraphPosterior()
SUPPRESSED_CELLS = (
    "an owner's policy sets small counts to 0 before they are added up: structure, model and diagnoses may differ from "
    "those of the pooled rows"
)
"""the note on a run over silos whose owners suppress cells; it names neither silos nor cells"""
NO_PARAMETERS = Parameters(None, "parameters were not requested")


@dataclass(frozen=True, kw_only=True)
class RunDescription:
    """The task of a run, which is fixed before its first round and part of its result."""

    name: str
    algorithm: str
    params: dict[str, Any]
    """the algorithm's settings"""
    seed: int
    engine: str
    dataset: str
    about: dict[str, Any]
    """the public description of the data set"""
    asked: str = ""
    """the algorithm that the user requested, such as `auto`"""
    bootstrap: int = 0
    """number of resamples from which the run learned"""
    register: str = ""
    """the name under which MLflow registers the model; empty if it is not registered"""
    small_cells: str | None = None
    """whether cells of 1 and 2 rows are published, `blank` or `keep`; None for a run with an ε (noisy counts)"""


@dataclass(frozen=True)
class SiloEdge:
    """An edge of some silos' own structures, and its weight at each of these silos; None without weights."""

    edge: Edge
    weights: dict[str, float | None]
    turned: int
    """number of silos with the opposite edge within one time step"""

    @property
    def known(self) -> list[float]:
        """The weights that are known."""
        return [weight for weight in self.weights.values() if weight is not None]

    @property
    def mean(self) -> float | None:
        """The mean weight over the silos that have the edge; None if no weight is known."""
        return fmean(self.known) if self.known else None


def silo_edges(structures: Mapping[str, ClassifiedEdges]) -> list[SiloEdge]:
    """Every edge of any silo's own structure, sorted by the number of silos, then by strength."""
    first: dict[str, Edge] = {}
    weights: dict[str, dict[str, float | None]] = {}
    for silo in sorted(structures):
        for edge in structures[silo]:
            first.setdefault(edge.text, edge)
            weights.setdefault(edge.text, {})[silo] = edge.weight
    directed = {(one.source, one.target): weights[text] for text, one in first.items() if _turns(one)}
    found = [
        SiloEdge(one, weights[text], len(directed.get((one.target, one.source), ())) if _turns(one) else 0)
        for text, one in first.items()
    ]
    return sorted(found, key=lambda one: (-len(one.weights), -abs(one.mean or 0.0), one.edge.text))


def _turns(edge: Edge) -> bool:
    """Whether the edge could have the opposite direction; not so for a lagged edge, whose direction is that of time."""
    return edge.directed and not edge.lag


@dataclass(frozen=True)
class RunResult(RunDescription):
    """One finished run.

    `rounds` has a row per round: `round`, the algorithm's measures (h, residuals, edges, ...), `bytes_up`,
    `bytes_down` and `formula_bytes` of that round. `metrics` is flat: scores in comparison with the truth (None without
    a truth), rounds, converged, acyclic, seconds, bytes of the whole run, ε spent. `refit` has, per silo, the
    normalised MSE of the consensus weights and of the weights refitted on that silo's rows (Fassy El Fehri et al.,
    B.2.2), if the truth has weights. If the algorithm learns a structure for each silo, `silo_scores` has the scores of
    each of these, compared with the silo's own truth or, without one, with the common truth.
    """

    def __repr__(self) -> str:
        """One line: the run, its learner, its data and its structure."""
        return f"RunResult({self.name}: {self.algorithm} on {self.dataset}, {self.structure}; {self.outcome})"

    schema: Schema
    structure: Structure
    truth: Structure | None
    outcome: Outcome
    lost: tuple[str, ...]
    rounds: tuple[dict[str, float], ...]
    metrics: dict[str, MetricValue]
    local_structures: dict[str, Structure] = field(default_factory=dict)
    silo_scores: dict[str, dict[str, MetricValue]] = field(default_factory=dict)
    averaged: bool = False
    """whether the scores in `metrics` are means over the silos"""
    refit: dict[str, dict[str, float]] = field(default_factory=dict)
    parameters: Parameters = NO_PARAMETERS
    diagnosed: Diagnosed = Diagnosed()
    fit: Fit = NO_FIT
    """the fit of the graph without a truth"""
    edge_figures: Mapping[EdgeKey, EdgeFigures] = field(default_factory=dict)
    """the contribution of each edge to the fit, and its p-values, if they are known"""
    found_targets: FoundTargets | None = None
    """the mechanisms that were found to differ between silos, if the targets of experiments are not known"""
    tuning: Tuning | None = None
    """the comparison of candidate settings, if requested"""
    held_out: HeldOutScores = HeldOutScores()
    """the likelihood of each silo's rows under the model of the other silos, if requested"""
    basis: tuple[str, ...] = ()
    """choices made from the data, and the assumptions behind the directions of the edges"""
    privacy: PrivacySpent | None = None
    """the privacy guarantee and the spent ε; None for a run without noise"""
    secure: bool = False
    """whether replies were masked, so that the coordinator saw only sums"""
    confidence: Confidence | None = None
    """edge strengths, if resamples were requested and completed"""
    unresampled: str = ""
    """why there are no edge strengths, if there should be"""
    graph_posterior: GraphPosterior = NO_POSTERIOR
    """graphs sampled from the posterior, if requested"""
    survival: tuple[SurvivalOutcome, ...] = ()
    """the survival outcomes, which are sinks of the structure"""
    notes: tuple[str, ...] = ()
    """notes on how the silos' tables were read"""
    not_identified: tuple[Arc, ...] = ()
    """pairs of variables that no row observes together, so that an edge between them is not identified"""
    disclosed: Mapping[str, tuple[Disclosed, ...]] = field(default_factory=dict)
    """by silo, what it has sent, by the record of its own gate"""
    changes: Comparison | None = None
    """differences from the previous run, if the run is repeated"""
    ended: str = ""
    """the day on which the run ended, as in 2026-01-31; empty if it is not known"""

    @cached_property
    def edges(self) -> ClassifiedEdges:
        """The edges of the graph."""
        return ClassifiedEdges(self.structure)

    @cached_property
    def compared_edges(self) -> ClassifiedEdges:
        """The edges of the graph in comparison with the true graph, with the edges that are missing."""
        return self.edges if self.truth is None else ClassifiedEdges(self.structure, self.truth)

    @cached_property
    def averaged_edges(self) -> ClassifiedEdges | None:
        """The edges of the averaged network; None without resamples."""
        return ClassifiedEdges(self.confidence.averaged) if self.confidence else None

    @cached_property
    def local_edges(self) -> dict[str, ClassifiedEdges]:
        """By silo, the edges of its own structure."""
        return {silo: ClassifiedEdges(one) for silo, one in self.local_structures.items()}

    @cached_property
    def silo_edges(self) -> list[SiloEdge]:
        """Every edge of any silo's own structure, by `silo_edges`."""
        return silo_edges(self.local_edges)

    @property
    def independent_share(self) -> float:
        """The share of rows that count as independent in scores, tests and intervals."""
        return float(self.params.get("independent_share", 1.0)) * self.schema.independent_share

    @property
    def labelled(self) -> tuple[str, ...]:
        """The variables with labels, if other variables have numbers; empty if all variables are of one kind."""
        return tuple(self.schema.levels) if self.schema.kind == "mixed" else ()

    @cached_property
    def targets(self) -> tuple[str, ...]:
        """The variables that an experiment has set in some silo, in their order; empty without experiments."""
        named = {name for conditions in self.schema.targets.values() for own in conditions for name in own}
        return tuple(name for name in self.schema.variables if name in named)

    @cached_property
    def experimental(self) -> dict[Arc, str]:
        """The arcs whose direction rests on experiments, each with the mark "target" or "follows".

        The mark is "target" if an experiment sets exactly one of the two variables. It is "follows" if Meek's rules
        determine the direction from such directions.
        """
        names, edges = self.structure.variables, self.structure.adjacency
        if not self.targets or self.structure.lags or self.structure.kind == "pag":
            return {}
        d, prior = len(self.schema.variables), self.schema.prior
        both = experimental_arcs(edges[:d, :d], prior.separated, prior.required, prior.possible)
        marks = zip(("target", "follows"), both, strict=True)
        return {(names[i], names[j]): mark for mark, arcs in marks for i, j in np.argwhere(arcs)}

    @cached_property
    def doubted(self) -> dict[Arc, str]:
        """The learned arcs that are not believed, unless background knowledge requires them, each with the reason.

        These are arcs into variables that nothing in a table can cause, judging by their names or labels, and arcs
        between variables that seem to share a hidden cause.
        """
        roots = set(without_causes(self.structure.variables, self.schema.levels))
        sharing = {frozenset(pair) for one in self.diagnosed.findings for pair in one.pairs}
        found = dict[Arc, str]()
        for edge in self.edges:
            arc = (edge.source, edge.target)
            if not edge.directed or edge.source == edge.target or arc in self.knowledge.required:
                continue
            if edge.target in roots:
                found[arc] = f"nothing in a table can cause {edge.target}"
            elif frozenset(arc) in sharing and not edge.lag:
                found[arc] = f"{edge.source} and {edge.target} may share a cause that is not in the data"
        return found

    def basis_of(self, edge: Edge) -> str:
        """What the direction of `edge` rests on, or why it is doubted; empty for an edge without direction.

        It is also empty for edges of a PAG, except if it is doubted.
        """
        arc, prior = (edge.source, edge.target), self._prior
        if arc in self.doubted and edge.directed:
            return f"doubted: {self.doubted[arc]}"
        if edge.lag:
            return "time"
        if not edge.directed or self.structure.kind == "pag" or edge.category == "missing":
            return ""
        i, j = (self.structure.variables.index(name) for name in arc)
        if arc in self.knowledge.required or not prior.possible[j, i]:
            return "background knowledge"
        if arc in self.experimental:
            return "experiments"
        if any(arc[1] == one.name for one in self.survival):
            return "survival outcome"
        said = " ".join(self.basis)
        return next((basis for words, basis in BASES.items() if words in said), "")

    @cached_property
    def _prior(self) -> Prior:
        return self.knowledge.prior(self.structure.variables)

    @property
    def knowledge(self) -> Knowledge:
        """The background knowledge that was imposed on the graph."""
        return self.schema.knowledge


BASES = {
    "errors that are not Gaussian and on effects": "non-Gaussian errors",
    "directed by errors that are not Gaussian": "conditional independences or non-Gaussian errors",
    "rest on equal error variances": "equal variances",
    "rest on errors of equal variance": "equal variances",
    "rest on additive errors": "additive errors",
    "conditional independences": "conditional independences",
}
"""by words in the sentences on the assumptions of a run, what the directions of its edges rest on"""


def strengths_in(result: RunResult) -> Strengths | None:
    """The edge strengths; None if the run had no resamples."""
    return result.confidence.strengths if result.confidence else None


@dataclass(frozen=True)
class CompletedRun:
    """A finished run: its result, its folder with the files, and its page in MLflow."""

    result: RunResult
    folder: Path
    files: dict[str, Path] = field(default_factory=dict)
    tracking_url: str | None = None


def radius_of(structure: Structure) -> float | None:
    """The spectral radius of a dynamic structure; None for other structures."""
    return None if structure.lagged is None else spectral_radius(structure.weights, structure.lagged)


def stability_warning(result: RunResult) -> str | None:
    """A warning if the model of time series, or a silo's own, is not stable; None otherwise."""
    radius = result.metrics.get("spectral_radius")
    if isinstance(radius, float) and radius >= 1:
        return (
            f"Unstable: the spectral radius is {radius:.3f}, not below 1, so long-range forecasts grow without bound."
        )
    own = {silo: radius_of(one) for silo, one in sorted(result.local_structures.items())}
    unstable = [silo for silo, radius in own.items() if radius is not None and radius >= 1]
    return (
        f"Unstable: the spectral radius of the silo's own model is not below 1 at {', '.join(unstable)}."
        if unstable
        else None
    )


MAX_LEVEL_DEVIATIONS = 3.0
"""number of standard deviations from which on a mean counts as far from zero"""
CENTRING_LEARNERS = ("var",)
"""the learners of time series that subtract the mean of all rows"""


def level_warning(result: RunResult) -> str | None:
    """A warning if means far from zero can appear as effects in a model of time series; None otherwise."""
    network = result.parameters.network
    subtracted = result.algorithm in CENTRING_LEARNERS or any(
        result.params.get(name) for name in ("center", "center_series")
    )
    if subtracted or network is None or not network.lags or not network.linear:
        return None
    ratios = np.abs(network.means) / np.sqrt(np.maximum(network.spreads, np.finfo(float).tiny))
    most = int(np.argmax(ratios))
    if ratios[most] < MAX_LEVEL_DEVIATIONS:
        return None
    return (
        f"Not centred: the mean of {network.structure.variables[most]} is {ratios[most]:.3g} standard deviations from "
        "zero. As requested, the learner did not centre the rows, so constant levels can appear as effects."
    )


def forecast_warning(result: RunResult) -> str | None:
    """A warning if the model of time series forecasts no better than persistence; None otherwise."""
    model, same = result.metrics.get("forecast_mse"), result.metrics.get("persistence_mse")
    if not isinstance(model, float) or not isinstance(same, float) or model < same:
        return None
    return "The model predicts the next row no better than the persistence forecast: its lagged edges explain nothing."


def series_warnings(result: RunResult) -> list[str]:
    """The warnings on a model of time series; empty for other data."""
    warnings = (stability_warning(result), level_warning(result), forecast_warning(result))
    return [one for one in warnings if one is not None]
