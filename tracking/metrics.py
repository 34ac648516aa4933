"""The registry of metrics: the name, labels and places of every figure in `metrics.json`.

A metric is computed in one place and declared here, once. The terminal, the report, `metrics.json`, MLflow, Prefect,
`compare`, benchmarks and the help of `evaluate` show it by this declaration, in the order of `METRICS`. A figure that
is not declared is written to `metrics.json` and MLflow by its name, and is published as a statistic.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal

MetricValue = float | int | bool | str | None
Best = Literal["least", "greatest"]


class Kind(Enum):
    """The kind of a published number; the value is its number of significant digits, if it is rounded to digits."""

    EXACT = "exact"
    SHARE = "share"
    STATISTIC = 3
    LIKELIHOOD = 4


PLACES = {
    "always": "`metrics.json` has it in every run, null if it is unknown",
    "terminal": "the scores that `learn` and `evaluate` print, and `compare` for two runs",
    "tile": "the head of the report",
    "lenient": "the head of the report, if the graph is no DAG",
    "silos": "the report's scores of the silos' own graphs",
    "headline": "the line that a notebook shows",
    "log": "Prefect's log",
    "runs": "MLflow's table of runs",
    "results": "the results of a benchmark",
    "benchmark": "the results of a benchmark, and its tables",
    "picture": "the pictures of a benchmark",
}


@dataclass(frozen=True)
class Metric:
    """One metric: its key in `metrics.json`, and where and how it is shown."""

    name: str
    table: Literal["", "score", "count", "fit", "exchanges"] = ""
    """the table of the report; empty if another section shows the metric, or none"""
    label: str = ""
    """its row in this table"""
    heading: str = ""
    """a short label, for tiles, columns and titles"""
    best: Best | None = None
    """which of two values is better; None if neither is, as for what a user chose"""
    kind: Kind = Kind.STATISTIC
    """how the publication gate rounds it (`publication.py`)"""
    places: str = ""
    """names of `PLACES`, separated by spaces"""


def _error(name: str, heading: str, label: str, places: str = "", kind: Kind = Kind.STATISTIC) -> Metric:
    """A score of which less is better."""
    return Metric(name, "score", label, heading, "least", kind, places)


def _score(name: str, heading: str, label: str, places: str = "") -> Metric:
    """A score of which more is better."""
    return Metric(name, "score", label, heading, "greatest", places=places)


def _count(name: str, label: str, places: str = "", kind: Kind = Kind.STATISTIC) -> Metric:
    return Metric(name, "count", label, places=places, kind=kind)


_DECLARED = (
    # The graph in comparison with the true graph (`algorithms/graphs/compare.py`).
    _error(
        "shd",
        "SHD",
        "SHD: pairs of variables whose edge differs",
        "always terminal tile silos headline log runs benchmark picture",
    ),
    _error(
        "shd_cpdag",
        "SHD of the equivalence classes",
        "SHD between the equivalence classes (CPDAGs)",
        "terminal benchmark",
    ),
    _error("shd_skeleton", "SHD of the skeletons", "SHD of the skeletons, ignoring directions", "terminal benchmark"),
    _error("shd_lenient", "lenient SHD", "Lenient SHD: directed and undirected edges match", "terminal lenient"),
    # The true weights of the next two are known only of synthetic data.
    _error(
        "mse_consensus",
        "error of the consensus weights",
        "Normalised error of the consensus weights, median over silos",
        kind=Kind.EXACT,
    ),
    _error(
        "mse_personal",
        "error of the silos' weights",
        "Normalised error of weights refitted by each silo, median over silos",
        kind=Kind.EXACT,
    ),
    _error("smhd", "SMHD", "SMHD: SHD of the moral graphs"),
    _score("tpr", "TPR", "TPR: share of the true edges that were found", "always terminal tile silos log benchmark"),
    _error(
        "fdr",
        "FDR",
        "FDR: share of the learned edges that are extra or reversed",
        "always terminal tile silos log benchmark",
    ),
    _score("precision", "precision", "Precision: share of the learned edges that are correct"),
    _score("f1", "F1", "F1 of precision and TPR", "terminal log runs benchmark"),
    _score("auroc", "AUROC", "AUROC of the edge strengths", "silos results"),
    _score("aupr", "AUPR", "AUPR of the edge strengths"),
    _count("edges", "Edges learned", "always terminal log results", Kind.EXACT),
    _count("true_edges", "Edges in the true graph", "terminal results"),
    _count("correct", "Correct edges"),
    _count("reversed", "Reversed edges"),
    _count("extra", "Extra edges"),
    _count("missing", "Missing edges"),
    _count("half_directed", "Half-directed edges: undirected in one of the two graphs only, or with different marks"),
    _count("correct_skeleton", "Correct edges, ignoring directions"),
    _count("v_structures", "V-structures learned"),
    _count("v_structures_true", "V-structures in the true graph"),
    _count("v_structures_correct", "Correct v-structures"),
    Metric("acyclic", places="always terminal"),
    Metric("lags", places="terminal"),
    _error(
        "lagged_shd",
        "lagged SHD",
        "SHD: lagged edges in only one of the two graphs",
        "terminal tile silos headline log benchmark picture",
    ),
    _score("lagged_tpr", "lagged TPR", "TPR: share of the true lagged edges that were found", "terminal tile silos"),
    _error("lagged_fdr", "lagged FDR", "FDR: share of the learned lagged edges that are extra", "terminal tile silos"),
    _score("lagged_precision", "lagged precision", "Precision: share of the learned lagged edges that are correct"),
    _score("lagged_f1", "lagged F1", "F1 of precision and TPR, lagged edges", "terminal benchmark"),
    _score(
        "lagged_auroc",
        "lagged AUROC",
        "AUROC of the edge strengths, excluding each variable's own past",
        "silos results",
    ),
    _score("lagged_aupr", "lagged AUPR", "AUPR of the edge strengths, excluding each variable's own past"),
    _count("lagged_edges", "Lagged edges learned", "terminal log", Kind.EXACT),
    _count("lagged_true_edges", "Lagged edges in the true graph", "terminal"),
    _count("lagged_correct", "Correct lagged edges"),
    _count("lagged_extra", "Extra lagged edges"),
    _count("lagged_missing", "Missing lagged edges"),
    # The run (`flows/job/run.py`).
    Metric("rounds", "exchanges", "Exchanges in the rounds", places="always results"),
    Metric("converged", places="always results"),
    Metric("seconds", heading="seconds", best="least", places="always log benchmark picture"),
    Metric("cpu", heading="CPU seconds", best="least", places="benchmark"),
    Metric("tests", "exchanges", "Independence tests", kind=Kind.EXACT),
    Metric("tests_left_out", "exchanges", "Tests skipped for lack of rows or memory", kind=Kind.EXACT),
    Metric("families", "exchanges", "Families scored", kind=Kind.EXACT),
    Metric(
        "bytes_up",
        "exchanges",
        "Rounds, silos to coordinator: serialised bytes",
        kind=Kind.EXACT,
        places="always results",
    ),
    Metric(
        "bytes_down",
        "exchanges",
        "Rounds, coordinator to silos: serialised bytes",
        kind=Kind.EXACT,
        places="always results",
    ),
    Metric("megabytes", heading="MB sent in both directions", best="least", places="runs benchmark picture"),
    Metric(
        "formula_megabytes",
        "exchanges",
        "Rounds, both directions: megabytes by the papers' formula (Fassy El Fehri et al., B.2.1)",
        places="always results",
    ),
    Metric("target_exchanges", "exchanges", "Targets, before the rounds: exchanges"),
    Metric("target_bytes", "exchanges", "Targets, before the rounds: bytes in both directions"),
    Metric("design_effect", "exchanges", "Design effect of the clusters of rows", kind=Kind.STATISTIC),
    Metric("cluster_bytes", "exchanges", "Design effect, before the rounds: bytes in both directions"),
    Metric("filling_exchanges", "exchanges", "Imputation model, before the rounds: exchanges"),
    Metric("filling_bytes", "exchanges", "Imputation model, before the rounds: bytes in both directions"),
    Metric("parameter_bytes", "exchanges", "Parameters, after the rounds: bytes in both directions"),
    Metric("diagnosis_bytes", "exchanges", "Diagnoses: bytes in both directions"),
    # The privacy loss (`flows/job/privacy_spent.py`).
    Metric("epsilon", heading="ε spent", places="always log runs benchmark picture"),
    Metric("delta", places="always"),
    # The fit without a true graph (`algorithms/diagnosis/implied.py`), and held-out likelihoods.
    Metric("fit_implied", "fit", "Missing edges: independences that the graph implies"),
    Metric("fit_tested", "fit", "Independences tested"),
    Metric("fit_failing", "fit", "Independences that fail, at a false discovery rate of 5 %"),
    Metric(
        "fit_failing_share", "fit", "Share of the tested independences that fail", kind=Kind.EXACT, places="results"
    ),
    Metric("fit_fisher_c", "fit", "Fisher's C"),
    Metric("fit_fisher_degrees", "fit", "Degrees of freedom of Fisher's C"),
    Metric("fit_fisher_p", "fit", "p-value of Fisher's C, allowing for correlated tests of a variable"),
    Metric("fit_bic_over_empty", "fit", "BIC gain over the empty graph"),
    Metric("fit_bic_over_saturated", "fit", "BIC gain over the saturated graph"),
    Metric("fit_bic_one_more_parent", "fit", "Largest BIC gain by one more parent for each variable"),
    Metric("held_out_log_likelihood", kind=Kind.LIKELIHOOD),
    # The posterior over graphs (`flows/job/graph_posterior.py`).
    Metric("posterior_bytes", "exchanges", "Posterior over graphs: bytes in both directions"),
    # Survival outcomes (`flows/job/survival.py`).
    Metric("survival_bytes", "exchanges", "Survival outcomes: bytes in both directions"),
    # Models of time series (`flows/job/follow_up.py`).
    Metric("spectral_radius", kind=Kind.EXACT),
    Metric("forecast_wrong", kind=Kind.SHARE),
    Metric("persistence_wrong", kind=Kind.SHARE),
)
METRICS = {one.name: one for one in _DECLARED}


def shown_in(*places: str) -> tuple[Metric, ...]:
    """The metrics that any of `places` shows, in the order of the registry."""
    assert set(places) <= set(PLACES)
    return tuple(one for one in METRICS.values() if not set(places).isdisjoint(one.places.split()))


def known_in(place: str, metrics: Mapping[str, MetricValue]) -> dict[str, MetricValue]:
    """The `metrics` that `place` shows and that are known, by name."""
    return {one.name: metrics[one.name] for one in shown_in(place) if metrics.get(one.name) is not None}


def table_rows(table: str, metrics: Mapping[str, MetricValue]) -> Iterator[tuple[Metric, MetricValue]]:
    """Yield the metrics of a table of the report that `metrics` has, each with its value."""
    return ((one, metrics[one.name]) for one in METRICS.values() if one.table == table and one.name in metrics)
