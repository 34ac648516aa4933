"""A linear SEM from one masked sum, directed as far as the data allow (ours): the default for numbers (`auto`).

Exchange 1: the silos' second moments, each about the silo's own means, in one masked sum. Two fits follow: the DAG of
equal error variances, and, unless the residual variances of this DAG are nearly equal, the Markov equivalence class of
least BIC (`score/gaussian_order.py`). `equal_variance.py` decides which of the two fits the data support.

Exchange 2: 14 masked sums for each undirected edge of a class, which direct the edge if errors are not Gaussian
(`non_gaussian.py`). The request lists these edges, so the silos learn them. There is no second exchange if there are no
such edges, if no sparse DAG fits (`model_fit.py`), after a time limit, or with `non_gaussian` off.

With experiments, there is one sum over all rows, and one for each distinct set of excluded conditions (`Experiments`).
BOSS learns the interventional class of least BIC from these sums (`score/experiment_scores.py`). Equal error variances
are not considered, because experiments change the variances, and there is no second exchange.

In time series the rows are windows: the present, and the lagged columns that precede it. Only the present variables are
ordered. Their lagged parents are selected together with their parents within the step (`tiers.py`). If series are short
and the number of lags is to be chosen, the windows of every number of lags are summed, because there are more windows
with few lags than with many.

Cost: O(n_p·d²) at a silo of n_p rows, d(d + 1)/2 numbers sent; at the server O(d³), and for a class a search.
"""

import math
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Gt, Le, Lt
from numpy.typing import NDArray

from fedbnsl.algorithms.graphs.cpdag import dag_extension

from ..core.protocol import FederatedAlgorithm, Replies, Summand, TimedState, sum_each_round
from ..core.schema import AUTO, FloatArray, Lags, Schema, lags_to_sum
from ..core.settings import Auto, Count, NonNegative
from ..errors import BadInput
from ..graphs.cpdag import cpdag, pdag_with_knowledge
from ..graphs.structure import Structure, stacked
from ..score.experiment_scores import experiment_basis
from ..score.gaussian_order import gaussian_boss
from ..score.order_starts import BestOrder
from ..score.settings import OrderSettings, TargetRows
from ..statistics.expected_moments import about_own_means, centred_windows_with_gaps
from ..statistics.lagged import centred_means, window_moments, window_schema
from ..statistics.moments import (
    Table,
    column_units,
    product_units,
    regression_weights,
    require_positive_definite,
    sum_over_chunks,
)
from ..statistics.packing import from_triangle, triangle
from .equal_variance import (
    MAX_CHANCE_SPREAD,
    LinearFit,
    VarianceEvidence,
    best_equal_variance_fit,
    clearly_unequal,
    is_exact,
    loses_to_class,
    variance_evidence,
    variances_near_equal,
)
from .experiments import experiment_products, learn_from_experiments, weights_of_groups
from .model_fit import Misfit, fits_badly, misfit
from .non_gaussian import contrast_sums, correlations, credible_contrasts, direct_edges, standardising, undirected_edges
from .pooled import moments_of_least_bic
from .tiers import best_lagged_fit, free_lagged_fit, has_few_windows, price_of_parent, ridge_strengths

ONE = np.ones(1)
MAX_LOST_WINDOWS = 0.05
"""maximum share of the windows of one lag that may be lost with the largest number of lags"""
APPROXIMATE_THRESHOLD = 0.3
"""τ of the papers, for models that hold only approximately"""
APPROXIMATE_SERIES_THRESHOLD = 0.1
"""τ for time series whose model holds only approximately; a stable series has small weights"""
APPROXIMATE_SHARE = 0.05
"""share of a residual variance that an edge of a class must explain if no sparse DAG fits"""


@dataclass(frozen=True)
class SecureLinear(OrderSettings):
    """Settings of `secure-linear`."""

    error_variances: Literal["auto", "equal", "free"] = "auto"
    """equal: assume that all errors have one variance, so that the data determine one DAG; free: learn a class without
    this assumption; auto: decide from the data"""
    threshold: NonNegative | Auto = "auto"
    """equal variances: τ; edges with smaller absolute weight are dropped; auto: 0 if the error variances are equal up
    to sampling error; otherwise 0.3, or 0.1 in time series, because an approximate model adds weak edges"""
    non_gaussian: bool = True
    """for a class: request the sums that direct undirected edges if the errors are not Gaussian"""
    min_log_likelihood_ratio: NonNegative = 10.0
    """minimum log-likelihood ratio to direct an edge"""
    min_share: Annotated[float, Ge(0), Lt(1)] = 0.0
    """for a class: share of a residual variance that an edge must explain, for models that hold only approximately"""
    independent_share: Annotated[float, Gt(0), Le(1)] = 1.0
    """share of the rows that count as independent in scores and tests"""
    lags: Lags = AUTO
    """time series: how many steps back an edge may reach; auto: by BIC, from the same sum"""
    max_lags: Count = 5
    """time series: the largest number of lags that `auto` considers, if the series are long enough"""
    target_rows: TargetRows = "own"
    """experiments: use of the rows in which a variable was set, in the score of this variable; own: scored with
    separate parameters; left-out: not scored, which is exact if experiments cut a variable off from its causes"""
    center_series: bool = True
    """time series: subtract the means of each series, or the means of the silo if its series are short"""

    def reach(self, schema: Schema) -> int:
        """The number of lags of the summed windows, 0 for rows; raises `BadInput` for a silo with too short series."""
        return lags_to_sum(schema, self.lags, self.max_lags) if schema.kind == "time-series" else 0

    def shorter(self, schema: Schema) -> range:
        """The smaller numbers of lags whose windows are also summed, if lags are to be chosen for short series.

        With fewer lags there are more windows, because the first rows of a series have no complete window.
        """
        reach = 0 if schema.gaps else self.reach(schema)  # EM has run on the longest windows only
        counts = [sum(schema.windows(lags).values()) for lags in (1, reach)] if reach > 1 else [1, 1]
        return range(1, reach if self.lags == AUTO and counts[1] < (1 - MAX_LOST_WINDOWS) * counts[0] else 1)

    def columns(self, schema: Schema) -> Schema:
        """The public schema of what is summed: the rows, or the windows of time series."""
        reach = self.reach(schema)
        return window_schema(schema, reach) if reach else schema

    def degrees_of_freedom(self, schema: Schema, silos: tuple[str, ...], lags: int) -> int:
        """The summed rows minus the subtracted means, for windows at least 1; raises `BadInput` if no rows are left."""
        if not lags:
            return degrees_of_freedom(schema, silos)
        lengths, numbers = schema.stretches, schema.windows(lags)
        means = sum(centred_means(lengths[silo], lags) for silo in silos) if self.center_series else 0
        return max(sum(numbers[silo] for silo in silos) - means, 1)


@dataclass(frozen=True)
class Silo:
    """A silo's rows `[n_rows, m]` or windows (the d variables, then their lags), and their moments."""

    table: Table
    """NaN in empty cells"""
    means: FloatArray
    products: FloatArray
    """sums of products about the means, `[m, m]`; expectations if cells are empty"""
    all_rows: int
    """number of rows of all silos"""
    shorter: tuple[FloatArray, ...] = ()
    """short series: the second moments of windows of 1, 2, ... lags; experiments: those of the further sums"""


@dataclass(frozen=True)
class Broadcast:
    """The request for the sums of undirected edges; if empty, for second moments."""

    edges: NDArray[np.int32]
    """`[n_edges, 2]`"""
    standard: FloatArray
    """a matrix `[m, m]`; rows times this matrix are residuals given compelled parents, with variance 1"""
    correlations: FloatArray
    """the correlation of the two ends of each edge, `[n_edges]`"""


@dataclass(frozen=True)
class Server(TimedState):
    """The sums so far, and the fits to them."""

    schema: Schema
    S: FloatArray
    """covariance of rows, or of windows of time series, within the silos, `[m, m]`; empty before the first sum"""
    rows: int
    """degrees of freedom of S: effective rows minus the number of subtracted means"""
    fit: LinearFit
    """the fit with equal error variances"""
    graph: NDArray[np.bool_]
    """the class, if it was learned and chosen"""
    evidence: VarianceEvidence
    directed: int
    """number of edges directed by non-Gaussian errors, without those directed by Meek's rules"""
    dependent: int
    """number of edges with non-Gaussian errors if the linear model is wrong and directs no edge; otherwise 0"""
    misfit: Misfit
    """the evidence against every sparse DAG; 0 if it was not computed"""
    done: bool
    sums: FloatArray = field(default_factory=lambda: np.empty((0, 0, 0)))
    """with experiments: the covariance of each sum, `[n_sums, d, d]`; otherwise empty"""
    group: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """with experiments: the number of the sum in which each variable is regressed, `[d]`; otherwise empty"""


def build(settings: SecureLinear) -> FederatedAlgorithm[Server, Silo, Broadcast, Summand]:
    """The algorithm: one exchange, or two if undirected edges are left."""
    return sum_each_round(
        open_silo=lambda table, schema, silo, rng: (
            open_windows(table, schema, silo, settings)
            if settings.reach(schema)
            else open_silo(table, schema, silo, rng)
        ),
        open_server=open_server,
        broadcast=broadcast,
        part=part,
        aggregate=lambda server, replies: aggregate(server, replies, settings),
        converged=lambda server: server.done,
        structure=lambda server: structure(server, settings),
        server_type=Server,
        broadcast_type=Broadcast,
        max_rounds=2,
        entry_units=lambda schema, request: ONE if len(request.standard) else _moment_units(schema, settings),
        needs_secure_sum=True,
        measures=measures,
        basis=basis,
    )


def open_silo(table: Table, schema: Schema, silo: str, rng: np.random.Generator) -> Silo:
    """The silo with the rows of `table` `[n_rows, d]`; moments are about the means of the silo or of each condition."""
    if schema.has_targets:
        first, *further = experiment_products(table, schema, silo)
        return Silo(table, np.zeros(len(first)), first, sum(schema.rows.values()), tuple(further))
    own = about_own_means(table, schema)
    return Silo(table, own.mean, own.products, sum(schema.rows.values()))


def open_windows(table: Table, schema: Schema, silo: str, settings: SecureLinear) -> Silo:
    """The silo with the windows of the series `table` `[n_rows, d]`; with `center_series`, moments are about means.

    Products with empty cells are expectations under the schema's imputation model; they need `center_series`.
    """
    if schema.gaps and not settings.center_series:
        raise BadInput("series with empty cells need center_series=true: the model of empty cells has their own means")
    all_rows = sum(schema.windows(settings.reach(schema)).values())
    if schema.gaps:
        assert isinstance(table, np.ndarray)  # series that are read in passes have no gaps
        complete, total = centred_windows_with_gaps(table, schema, silo, settings.reach(schema))
        return Silo(complete, np.zeros(len(total)), total, all_rows)
    (rows, products), *shorter = (
        window_moments(table, schema.stretches[silo], lags, center=settings.center_series)
        for lags in (settings.reach(schema), *settings.shorter(schema))
    )
    return Silo(rows, np.zeros(len(products)), products, all_rows, tuple(own for _, own in shorter))


def _moment_units(schema: Schema, settings: SecureLinear) -> FloatArray:
    """The units of the reply with second moments."""
    if schema.has_targets:
        return np.tile(product_units(column_units(schema)), schema.experiments.n_sums)
    orders = (settings.reach(schema), *settings.shorter(schema))
    return np.concatenate([product_units(column_units(schema, lags)) for lags in orders])


def open_server(schema: Schema) -> Server:
    """The state before the first sum."""
    empty = np.zeros((len(schema.variables),) * 2)
    nothing, graph = LinearFit(empty, empty[0], 0.0), empty.astype(np.bool_)
    unknown = VarianceEvidence(equal=False, spread=math.nan, marginal=math.nan, gain=math.nan)
    return Server(schema.in_order(), np.empty((0, 0)), 0, nothing, graph, unknown, 0, 0, Misfit(), done=False)


def broadcast(server: Server) -> Broadcast:
    """The request for second moments, then for the sums of the undirected edges."""
    if not len(server.S):
        return Broadcast(np.empty((0, 2), np.int32), np.empty((0, 0)), np.empty(0))
    edges, standard = edges_to_direct(server), standardising(server.S, server.graph)
    return Broadcast(edges, standard, correlations(server.S, standard, edges))


def part(silo: Silo, request: Broadcast) -> FloatArray:
    """The silo's part of the requested sums, divided by the number of all rows."""
    n, chosen = silo.all_rows, len(request.standard)
    if not chosen:
        return np.concatenate([triangle(one / n) for one in (silo.products, *silo.shorter)])

    means = silo.means  # other processes receive only the means, not the silo's state

    def edge_sums(rows: FloatArray) -> FloatArray:
        return contrast_sums((rows - means)[:, :chosen], request.standard, request.edges, request.correlations)

    return np.asarray(sum_over_chunks(silo.table, edge_sums).ravel() / n)


def aggregate(server: Server, replies: Replies[Summand], settings: SecureLinear) -> Server:
    """The state after an exchange, whose sums are divided by the number of rows of the silos that answered.

    After exchange 1, the state has the covariance S, the fits to it and the choice between them; with experiments, the
    interventional class. After exchange 2, it has the class with the edges that non-Gaussian errors direct.
    """
    schema = settings.columns(server.schema)
    answered_rows = sum(schema.rows[silo] for silo in replies.silos)
    sums_per_row = replies.total * (sum(schema.rows.values()) / answered_rows)
    if len(server.S):  # exchange 2
        edges, min_ratio = edges_to_direct(server), settings.min_log_likelihood_ratio
        R, dependent = credible_contrasts(sums_per_row.reshape(len(edges), -1), server.rows, min_ratio)
        graph, count = direct_edges(server.graph, edges, R, server.rows, min_ratio)
        return replace(server, graph=graph, directed=count, dependent=dependent, done=True)
    sums = sums_per_row * answered_rows
    if schema.has_targets:
        answered = server.schema.of_silos(replies.silos).in_order()
        found = learn_from_experiments(sums, server.schema, answered, settings, settings.target_rows)
        evidence = replace(server.evidence, equal=False)
        server = replace(server, schema=answered, S=found.S[0], rows=int(found.rows[0]), evidence=evidence, done=True)
        return replace(server, graph=found.graph, sums=found.S, group=found.group)
    # One triangle of second moments for the longest windows, then one for each smaller number of lags.
    d, reach, shorter = len(server.schema.variables), settings.reach(server.schema), settings.shorter(server.schema)
    sizes = np.cumsum([(lags + 1) * d * ((lags + 1) * d + 1) // 2 for lags in (reach, *shorter)])
    longest, *rest = np.split(sums, sizes[:-1])
    rows = settings.degrees_of_freedom(server.schema, replies.silos, reach)
    S = require_positive_definite(from_triangle(longest) / rows, schema)
    if reach and settings.lags == AUTO:
        S = moments_of_least_bic(S, rows, d)
        lags = len(S) // d - 1
        if lags in shorter:
            rows = settings.degrees_of_freedom(server.schema, replies.silos, lags)
            S = require_positive_definite(from_triangle(rest[lags - 1]) / rows, schema)
    return select_fit(replace(server, S=S, rows=effective_rows(schema, rows)), settings)


def select_again(server: Server, settings: SecureLinear) -> Server:
    """The state with the fits under other `settings` to the second moments of `server`, which has counted all rows."""
    return select_fit(replace(server, directed=0, dependent=0, done=False), settings)


def degrees_of_freedom(schema: Schema, silos: tuple[str, ...]) -> int:
    """The rows of the `silos` that answered, minus one for each silo; raises `BadInput` if no rows are left."""
    rows = sum(schema.rows[silo] for silo in silos) - len(silos)
    if rows < 1:
        raise BadInput("every silo has one row, so subtracting each silo's means leaves nothing to learn from")
    return rows


def effective_rows(schema: Schema, rows: int) -> int:
    """The number of complete, independent rows with as much information as `rows`."""
    return max(1, round(rows * schema.effective_share))


def select_fit(server: Server, settings: SecureLinear) -> Server:
    """The state with the fits to its second moments, and the choice that the data support."""
    server = replace(server, rows=max(1, round(server.rows * settings.independent_share)))
    S, rows, m, d = server.S, server.rows, len(server.S), len(server.schema.variables)
    knowledge = server.schema.knowledge.prior(server.schema.variables)
    price = max(math.log(rows) + 2 * math.log(d), rows * math.log1p(settings.min_share))
    may_be_equal = settings.error_variances == "auto" and not mixes_counts(server.schema)

    @cache
    def search_class() -> BestOrder:
        return gaussian_boss(S, rows, price, settings, knowledge, ends=server.ends)

    def rejects(first: LinearFit) -> bool:
        return settings.error_variances != "equal" and not (
            may_be_equal and not clearly_unequal(S, first, search_class, rows)
        )

    fit = best_lagged_fit(S, rows, knowledge) if m > d else best_equal_variance_fit(S, rows, knowledge, rejects)
    evidence = variances_near_equal(S, fit)
    may_be_equal = may_be_equal and (bool(server.schema.gaps) or not fits_badly(S, fit.weights != 0, rows))
    certain = may_be_equal and evidence.equal and evidence.spread * rows <= MAX_CHANCE_SPREAD
    if settings.error_variances == "equal" or certain:
        return replace(server, fit=fit, evidence=replace(evidence, equal=True), done=True)
    free_fit = free_lagged_fit(S, rows, settings, knowledge, ends=server.ends) if m > d else search_class()
    loses = loses_to_class(fit, free_fit, rows, price_of_parent(rows, m) if m > d else price)
    evidence = variance_evidence(replace(evidence, equal=evidence.equal and not loses), fit, free_fit, rows)
    if may_be_equal and evidence.equal:
        return replace(server, fit=fit, evidence=evidence, done=True)
    return _with_class(replace(server, fit=fit, evidence=replace(evidence, equal=False)), free_fit, price, settings)


def _with_class(server: Server, found: BestOrder, price: float, settings: SecureLinear) -> Server:
    """The state with the class of the DAG `found`, or of one with fewer edges if no sparse DAG fits.

    `price` is the penalty on twice the log-likelihood for an edge between variables of one row.
    """
    S, rows, m, d = server.S, server.rows, len(server.S), len(server.schema.variables)
    knowledge, over_time = server.schema.knowledge.prior(server.schema.variables), m > d
    per_edge = price_of_parent(rows, m) if over_time else price
    against = Misfit() if server.schema.gaps else misfit(S, found.dag, rows, per_edge, d)
    misfits = against.evidence > 1
    if misfits and over_time:
        found = free_lagged_fit(S, rows, settings, knowledge, APPROXIMATE_SHARE, server.ends)
    elif misfits:
        price = max(price, rows * math.log1p(APPROXIMATE_SHARE))
        found = gaussian_boss(S, rows, price, settings, knowledge, ends=server.ends)
    knowledge = knowledge.of_windows(m) if over_time else knowledge
    graph = pdag_with_knowledge(cpdag(found.dag), knowledge.required, knowledge.possible)
    server = replace(server, graph=graph, misfit=against, cut=not found.complete)
    settled = server.cut or not settings.non_gaussian or misfits
    return replace(server, done=settled or not len(edges_to_direct(server)))


def edges_to_direct(server: Server) -> NDArray[np.int32]:
    """The undirected edges `[n_edges, 2]` that errors may direct.

    Edges at counts are excluded, because effects on counts are curved, and the errors of counts depend on their means.
    """
    edges = undirected_edges(server.graph)
    counts = np.isin(server.schema.variables, server.schema.counts)
    return edges[~counts[edges % len(counts)].any(axis=1)]


def mixes_counts(schema: Schema) -> bool:
    """Whether some columns, but not all, are counts, so that error variances are not comparable.

    After the variance-stabilising transform, the error variance of a count is a constant (1/4 for √(x + 3/8)). It
    differs from those of other numbers, but an order with the count first can make all variances equal by accident.
    """
    return 0 < len(schema.counts) < len(schema.variables)


def structure(server: Server, settings: SecureLinear) -> Structure:
    """The DAG of equal variances, or the class, which is a DAG with weights if all its edges have a direction."""
    names = server.schema.variables
    if server.evidence.equal:
        strengths = np.abs(server.fit.weights)
        selected = strengths > threshold_of(server, settings)
        selected[: len(names)] |= server.schema.knowledge.required_matrix(names)
        return _with_strengths(server, stacked(names, np.where(selected, server.fit.weights, 0.0), strengths))
    undirected, d = len(undirected_edges(server.graph)) or not len(server.S), len(names)
    within = Structure(names, server.graph[:d, :d].astype(np.float64), "cpdag")
    if len(server.S) <= d:
        if undirected:
            return within
        weights = regression_weights(server.S, server.graph)
        return Structure(
            names, weights_of_groups(server.sums, server.group, server.graph) if len(server.sums) else weights
        )
    graph = server.graph.copy()
    if undirected:
        graph[:d, :d] = member_of(within)
    weights = regression_weights(server.S, graph)[:, :d]
    found = stacked(names, weights, np.abs(weights))
    return _with_strengths(
        server, replace(within, lagged=found.lagged, lagged_scores=found.lagged_scores) if undirected else found
    )


def member_of(within: Structure) -> NDArray[np.bool_]:
    """A DAG of the class `within`, for lagged weights; all its DAGs have the same lagged edges, not weights."""
    dag = dag_extension(within).dag
    assert dag is not None
    return dag


def _with_strengths(server: Server, found: Structure) -> Structure:
    """`found` with a strength for every lagged pair, if windows are too few to select edges."""
    d = len(found.variables)
    if found.lagged is None or not has_few_windows(server.rows, len(server.S)):
        return found
    return replace(found, scores=np.zeros((d, d)), lagged_scores=ridge_strengths(server.S, d))


def threshold_of(server: Server, settings: SecureLinear) -> float:
    """The weight below which edges of the fit with equal variances are dropped."""
    if settings.threshold != AUTO:
        return settings.threshold
    in_series = len(server.S) > len(server.schema.variables)
    approximate = APPROXIMATE_SERIES_THRESHOLD if in_series else APPROXIMATE_THRESHOLD
    return 0.0 if is_exact(server.fit.variances, server.rows) else approximate


def measures(server: Server) -> dict[str, float]:
    """The number of rows, and the evidence for equal error variances."""
    evidence = {
        "spread": server.evidence.spread,
        "marginal_spread": server.evidence.marginal,
        "gain": server.evidence.gain,
    }
    return {
        "rows": float(server.rows),
        **{name: float(value) for name, value in evidence.items() if math.isfinite(value)},
    }


def _equal_basis(server: Server, spread: str) -> tuple[str, ...]:
    """The evidence for errors of equal variance, and what follows for directions."""
    e, which = server.evidence, "Directions within a time step" if server.schema.stretches else "All directions"
    gain = f"; one variance fits better by {e.gain:.3g}, penalties included" if e.gain > 0 else ""
    return (
        f"The data support errors of equal variance ({spread}{gain}).",
        f"{which} rest on equal error variances: in other units of measurement some might be reversed.",
    )


def basis(server: Server) -> tuple[str, ...]:
    """The decision, its evidence, and the assumptions behind the directions."""
    if len(server.sums):
        return experiment_basis(server.graph, server.schema.variables, server.group, server.schema.prior)
    e = server.evidence
    spread = f"relative spread of the error variances {e.spread:.3g}, of the variables' variances {e.marginal:.3g}"
    if e.equal:
        return _equal_basis(server, spread)
    loss = f"; a variance for each fits better by {-e.gain:.3g}, penalties included" if e.gain <= 0 else ""
    open_edges = len(undirected_edges(server.graph))
    reason = (
        f"Errors of counts ({', '.join(server.schema.counts)}) and of other numbers are not of equal variance"
        if mixes_counts(server.schema)
        else f"The data do not support errors of equal variance ({spread}{loss})"
    )
    lines: tuple[str, ...] = (
        f"{reason}: no direction rests on units of measurement.",
        "Directions of v-structures, and those that follow from them, rest on conditional independences.",
    )
    lines += ("The search for the class reached its time limit: the graph is the best one until then.",) * server.cut
    if server.misfit.evidence > 1:
        lines += (
            "No DAG with few edges explains the dependences. So an edge had to explain "
            f"{100 * APPROXIMATE_SHARE:.0f} % of a residual variance, and errors that are not Gaussian direct no edge.",
        )
    if server.directed:
        were = "s were" if server.directed != 1 else " was"
        lines += (f"{server.directed} further edge{were} directed by errors that are not Gaussian.",)
    if server.dependent:
        these = f"{server.dependent} edges" if server.dependent != 1 else "1 edge"
        lines += (
            f"Errors at {these} are not Gaussian, but residuals depend on the cause, so no linear model fits. Errors "
            "therefore direct no edge.",
        )
    if open_edges:
        have = "s have" if open_edges != 1 else " has"
        lines += (f"{open_edges} edge{have} no direction: these data do not determine it.",)
    return lines
