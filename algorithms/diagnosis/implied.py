"""Fit of a graph without a truth: its implied independences, Fisher's C, and its BIC (a Markov check).

A DAG implies that two variables without an edge are independent given the parents of the variable that is later in a
topological order (Pearl 1988). So there is one test per missing edge. Numbers are tested by an F statistic: of one
more regressor, which is equivalent to a partial correlation, or of all indicators of a label together. Labels are
tested by χ² (see below). The share of tests that fail after Benjamini & Hochberg 1995 measures what the graph
leaves unexplained.

Fisher's C = −2 Σ ln p combines the tests (Shipley 2000, "A new inferential test for path models"). If the graph is
true, tests of different later variables are uncorrelated, because an error is independent of all earlier variables.
Tests of the same later variable are correlated: the correlation of two statistics is the squared partial correlation of
the two earlier variables given the parents. So C of k tests is compared with a χ² distribution that is scaled to the
mean of C, 2k, and the variance of C, 4k + 8 Σ ρ². The sum is over pairs of tests of the same variable with partial
correlation ρ (Brown 1975; Kost & McDermott 2002, for two-sided p-values).

All these figures follow from one sum: second moments about the silos' own means, or count tables. Cost: O(d²p²) for the
tests of d variables with p parents, O(d³) for the correlations of the tests.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from ..core.protocol import FederatedAlgorithm, Summand, sum_each_round
from ..core.schema import FloatArray, Schema
from ..core.settings import Settings
from ..graphs.dag import topological_order
from ..parameters.tables import Broadcast, families
from ..privacy.disclosure_control import GRID, MIN_COUNT, publishable_stack
from ..statistics.count_tables import PAD, count, offsets, tables_for
from ..statistics.moments import is_positive_definite, unit_diagonal
from ..statistics.rows import Rows, cardinalities_of, open_rows

FALSE_DISCOVERIES = 0.05
"""false discovery rate of the independences that are reported as failing"""
WORST_IN_LINE = 3
"""number of failing independences in a line of text"""
WORST_SHOWN = 10
"""number of failing independences that are named"""
MIN_SHARE = 1e-9
"""minimum share of a variance that the parents must leave unexplained for a test"""
MIN_DEGREES = 10
"""minimum residual degrees of freedom of a regression for a test"""
MAX_COMBINED = 500
"""maximum number of columns for Fisher's C, which requires the correlations of all tests of a variable"""
MIN_P = 1e-300
"""smaller p-values count as this one in Fisher's C"""


@dataclass(frozen=True)
class Independence:
    """A missing edge between `earlier` and `later`, tested given the parents of `later`."""

    earlier: str
    later: str
    given: tuple[str, ...]
    strength: float
    """the absolute partial correlation; for a number and a label, the multiple one; for labels, Tschuprow's T"""
    p: float
    adjusted: float
    """the p-value, adjusted for the number of tests (Benjamini & Hochberg 1995)"""

    @property
    def text(self) -> str:
        """The pair, and the conditioning variables."""
        given = f" given {', '.join(self.given)}" if self.given else ""
        return f"{self.earlier} – {self.later}{given}"


@dataclass(frozen=True)
class FisherC:
    """Fisher's C with its nominal degrees of freedom 2k, and its p-value for correlated tests."""

    statistic: float
    degrees: int
    p: float


@dataclass(frozen=True)
class BicGains:
    """Gains in BIC in nats; None for a gain that is not defined.

    BIC is the log-likelihood − ½ ln n per parameter; means and offsets, which every graph has, are not counted. The
    likelihood itself is not published.
    """

    over_empty: float
    """the graph's BIC gain over the empty graph"""
    over_saturated: float | None = None
    """the graph's BIC gain over the saturated graph, in which all earlier variables are parents"""
    one_more: float | None = None
    """upper bound on the BIC gain of one more parent for each variable: the sum of the best gains"""


def nats(gain: float) -> str:
    """A gain of BIC with its sign and three significant digits, such as +2,150."""
    return f"{float(f'{gain:.3g}'):+,.0f}" if abs(gain) >= 100 else f"{gain:+.3g}"


@dataclass(frozen=True)
class Fit:
    """How well a graph fits its data."""

    why: str = ""
    """the reason if the fit is not known, otherwise empty"""
    implied: int = 0
    """number of missing edges"""
    tested: int = 0
    failing: int = 0
    worst: tuple[Independence, ...] = ()
    """failing independences, the least likely first"""
    fisher: FisherC | None = None
    bic: BicGains | None = None
    notes: tuple[str, ...] = ()
    """notes on tests and figures that are missing"""
    bytes_sent: int = 0
    """number of bytes of the exchange for count tables, in addition to the rounds"""

    @property
    def metrics(self) -> dict[str, float | int | str]:
        """The known figures for `metrics.json`, and the fit as text."""
        found: dict[str, float | int | str] = {"fit": " ".join(self.lines), "fit_bytes": self.bytes_sent}
        if self.why:
            return found
        found |= {"fit_implied": self.implied, "fit_tested": self.tested, "fit_failing": self.failing}
        if self.tested:
            found["fit_failing_share"] = self.failing / self.tested
        if self.fisher:
            found |= {"fit_fisher_c": self.fisher.statistic, "fit_fisher_degrees": self.fisher.degrees}
            found["fit_fisher_p"] = self.fisher.p
        if self.bic:
            gains = {
                "fit_bic_over_empty": self.bic.over_empty,
                "fit_bic_over_saturated": self.bic.over_saturated,
                "fit_bic_one_more_parent": self.bic.one_more,
            }
            found |= {name: gain for name, gain in gains.items() if gain is not None}
        return found | {"fit_worst": "; ".join(one.text for one in self.worst)}

    @property
    def lines(self) -> tuple[str, ...]:
        """The fit in one or two sentences, or the reason for having none."""
        if self.why:
            return (f"Fit of the graph: {self.why}.",)
        share = f", {100 * self.failing / self.tested:.3g} %" if self.tested else ""
        text = f"Fit of the graph: {self.failing:,} of {self.tested:,} tested independences fail{share}"
        if self.fisher:
            c = self.fisher
            text += f"; Fisher's C {c.statistic:.4g} on {c.degrees:,} degrees of freedom"
            text += f", p = {c.p:.3g} for correlated tests"
        if self.bic:
            text += f"; BIC gain {nats(self.bic.over_empty)} over the empty graph"
            if self.bic.over_saturated is not None:
                text += f" and {nats(self.bic.over_saturated)} over the saturated one (positive: this graph is better)"
            if self.bic.one_more is not None:
                text += f"; one more parent for each variable would gain at most {nats(self.bic.one_more)}"
        missing = f"Most doubtful missing edges: {'; '.join(one.text for one in self.worst[:WORST_IN_LINE])}."
        return (f"{'; '.join((text, *self.notes))}.", *([missing] if self.worst else []))


NO_FIT = Fit("not requested")


@dataclass(frozen=True)
class MissingEdgeTests:
    """Tests of the missing edges of one variable or of several, `[k]` each."""

    earlier: NDArray[np.int64]
    later: NDArray[np.int64]
    strength: FloatArray
    p: FloatArray
    shared: float
    """the sum of the correlations of the statistics over all pairs of these tests"""


def missing_edges(dag: NDArray[np.bool_], order: Sequence[int]) -> int:
    """The number of pairs of variables in `order` without an edge in `dag`."""
    k = len(order)
    return k * (k - 1) // 2 - int(dag[np.ix_(order, order)].sum())


def fit_of_moments(
    S: FloatArray,
    rows: int,
    silos: int,
    dag: NDArray[np.bool_],
    names: Sequence[str],
    owners: NDArray[np.int64],
    tested: NDArray[np.bool_],
    first: Sequence[int] = (),
) -> Fit:
    """The fit of `dag` to second moments about the means of the silos.

    Parameters
    ----------
    S
        Covariance `[m, m]` of the columns about the silos' own means, with the divisor `rows`.
    rows, silos
        Numbers of all rows and of silos. The residual degrees of freedom are rows − silos − the columns of the parents
        and of the tested variable.
    dag
        The graph `[d, d]`, acyclic.
    names
        The names of the variables, `[d]`.
    owners
        The variable of each column, `[m]`: numbers have one column, labels one indicator for each level but the first.
    tested
        Whether each variable is a number, whose independences can be tested, `[d]`.
    first
        Variables that precede all others and are not tested themselves: the lagged variables of windows of time series.
    """
    columns = [np.flatnonzero(owners == v) for v in range(len(dag))]
    present = np.setdiff1d(np.arange(len(dag)), np.asarray(first, int))
    inside = dag[np.ix_(present, present)]
    labels_first = np.argsort(tested[present], kind="stable")
    order = [*first, *present[topological_order(inside, labels_first)].tolist()]
    flat = np.diag(S) <= 0
    R = unit_diagonal(np.where(np.eye(len(S), dtype=bool) & flat, 1.0, S))
    combined = len(S) <= MAX_COMBINED
    found, log_shares, implied = [], dict[int, float](), 0
    for position, j in enumerate(order[len(first) :], len(first)):
        others = [v for v in order[:position] if not dag[v, j]]
        implied += len(others)
        if tested[j]:
            parents = [columns[v] for v in np.flatnonzero(dag[:, j])]
            tests, share = _tests_of(R, rows - silos, parents, columns, others, j, correlated=combined)
            found.append(tests)
            log_shares[j] = math.log(max(share, MIN_SHARE))
    bic = _bic(S, rows, silos, dag, log_shares, list(first)) if tested.all() and not flat.any() else None
    untested = "few rows, or collinear columns" if tested.all() else "those into labels have no test from moments"
    return summarised(found, implied, names, dag, bic, untested=untested, combined=combined)


def _tests_of(
    R: FloatArray,
    rows: int,
    parents: Sequence[NDArray[np.int64]],
    columns: Sequence[NDArray[np.int64]],
    others: Sequence[int],
    j: int,
    *,
    correlated: bool,
) -> tuple[MissingEdgeTests, float]:
    """The tests of `j` against `others` given `parents`, and the share of variance that the parents do not explain.

    `R` has the correlations `[m, m]`, and `columns` has the columns of each variable. `rows` is the number of rows
    minus the number of silos, because each silo subtracts its means.
    """
    P = np.concatenate([np.empty(0, np.int64), *parents])
    both = np.concatenate([np.empty(0, np.int64), *(columns[v] for v in others), columns[j]])
    weights = np.linalg.lstsq(R[np.ix_(P, P)], R[np.ix_(P, both)], rcond=1e-12)[0]
    shares = np.diag(R)[both] - (R[np.ix_(P, both)] * weights).sum(axis=0)
    if not correlated and len(both) == len(others) + 1:
        covariances = R[both[:-1], both[-1]] - R[np.ix_(both[:-1], P)] @ weights[:, -1]
        return _single_column_tests(covariances, shares, rows - len(P), others, j), float(shares[-1])
    within, blocks = R[np.ix_(both, both)] - R[np.ix_(both, P)] @ weights, [len(columns[v]) for v in others]
    tests = _block_tests(within, shares, blocks, rows - len(P), others, j, correlated=correlated)
    return tests, float(shares[-1])


def _single_column_tests(
    covariances: FloatArray, shares: FloatArray, free: int, others: Sequence[int], j: int
) -> MissingEdgeTests:
    """The tests of `j` against `others` that have one column each, without the correlations of the tests."""
    usable = (shares[:-1] > MIN_SHARE) & (shares[-1] > MIN_SHARE) & (free - 1 >= MIN_DEGREES)
    r2 = covariances[usable] ** 2 / (shares[:-1][usable] * shares[-1])
    return _tested(np.minimum(r2, 1.0), np.ones(usable.sum()), free, np.array(others, int)[usable], j, math.nan)


def _block_tests(
    within: FloatArray,
    shares: FloatArray,
    blocks: Sequence[int],
    free: int,
    others: Sequence[int],
    j: int,
    *,
    correlated: bool,
) -> MissingEdgeTests:
    """The tests of `j` from `within`, the residual second moments of the columns of `others` and of `j` given parents.

    Each block of columns is whitened, so that its squared covariances with `j` add up to the explained variance.
    """
    M, begins = within[:-1, :-1], np.concatenate([[0], np.cumsum(blocks)]).astype(int)
    kept, columns, widths, whitening = [], [], [], np.zeros_like(M)
    for k, (a, b) in enumerate(pairwise(begins)):
        if b - a == 1:
            directions, values = np.ones((1, 1)), M[a, a : a + 1]
        else:
            values, directions = np.linalg.eigh(M[a:b, a:b])
        usable = values > MIN_SHARE
        if shares[-1] <= MIN_SHARE or not usable.any() or free - usable.sum() < MIN_DEGREES:
            continue
        at = a + np.arange(int(usable.sum()))
        whitening[a:b, at] = directions[:, usable] / np.sqrt(values[usable])
        kept.append(k)
        columns.append(at)
        widths.append(len(at))
    if not kept:
        return _tested(np.empty(0), np.empty(0), free, np.empty(0, np.int64), j, 0.0)
    every, starts = np.concatenate(columns), np.concatenate([[0], np.cumsum(widths)[:-1]]).astype(int)
    W, w = whitening[:, every], np.array(widths, np.float64)
    r2 = np.add.reduceat((W.T @ within[:-1, -1]) ** 2, starts) / shares[-1]
    shared = math.nan
    if correlated:
        squares = np.add.reduceat(np.add.reduceat((W.T @ M @ W) ** 2, starts, axis=0), starts, axis=1)
        correlations = squares / np.sqrt(np.outer(w, w))
        shared = float((correlations.sum() - np.trace(correlations)) / 2)
    return _tested(np.minimum(r2, 1.0), w, free, np.array(others, int)[kept], j, shared)


def _tested(
    r2: FloatArray, widths: FloatArray, free: int, earlier: NDArray[np.int64], j: int, shared: float
) -> MissingEdgeTests:
    """The F tests of the shares `r2` of the residual variance of `j`, which has `free` degrees of freedom."""
    from scipy.special import fdtrc  # imported late, because listing the commands must not import SciPy

    degrees = free - widths
    statistic = (r2 / widths) / (np.maximum(1 - r2, 1e-15) / np.maximum(degrees, 1))
    p = np.asarray(fdtrc(widths, np.maximum(degrees, 1), statistic), np.float64)
    return MissingEdgeTests(earlier, np.full(len(earlier), j), np.sqrt(r2), p, shared)


def _bic(
    S: FloatArray, rows: int, silos: int, dag: NDArray[np.bool_], log_shares: dict[int, float], first: list[int]
) -> BicGains:
    """The gains of the graph over the empty and the saturated graph, from the residual share of each variance."""
    present, half = list(log_shares), 0.5 * rows
    price = 0.5 * math.log(rows)
    graph = -half * sum(log_shares.values()) - price * int(dag[:, present].sum())
    saturated, order = None, [*first, *present]
    if rows - silos > len(order):
        R = unit_diagonal(S)[np.ix_(order, order)]
        before = np.linalg.slogdet(R[: len(first), : len(first)])[1] if first else 0.0
        pairs = len(order) * (len(order) - 1) // 2 - len(first) * (len(first) - 1) // 2
        if is_positive_definite(R):
            saturated = -half * float(np.linalg.slogdet(R)[1] - before) - price * pairs
    return BicGains(graph, None if saturated is None else graph - saturated)


def adjusted_p_values(p: FloatArray) -> FloatArray:
    """The p-values `[k]` adjusted for the false discovery rate (Benjamini & Hochberg 1995)."""
    order = np.argsort(p)[::-1]
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum.accumulate(p[order] * len(p) / np.arange(len(p), 0, -1))
    return np.minimum(adjusted, 1.0)


def fisher_c(p: FloatArray, shared: float) -> FisherC:
    """Fisher's C of the p-values `[k]` of tests; `shared` is the sum of the correlations over pairs of statistics.

    Source: Brown 1975, Biometrics 31, 987-992.
    """
    from scipy.special import chdtrc  # as above

    statistic, mean = float(-2 * np.log(np.maximum(p, MIN_P)).sum()), 2.0 * len(p)
    scale = (4 * len(p) + 8 * shared) / (2 * mean)
    return FisherC(statistic, 2 * len(p), float(chdtrc(mean / scale, statistic / scale)))


def summarised(
    tests: Sequence[MissingEdgeTests],
    implied: int,
    names: Sequence[str],
    dag: NDArray[np.bool_],
    bic: BicGains | None,
    *,
    untested: str,
    combined: bool = True,
) -> Fit:
    """The fit of `dag`, which has `implied` missing edges, by their `tests`; `untested` says why some have no test."""
    earlier, later, strength, p = (
        np.concatenate([getattr(one, name) for one in tests]) if tests else np.empty(0)
        for name in ("earlier", "later", "strength", "p")
    )
    adjusted = adjusted_p_values(p)
    failing = np.flatnonzero(adjusted <= FALSE_DISCOVERIES)
    worst = failing[np.lexsort((-strength[failing], p[failing]))][:WORST_SHOWN]
    notes = []
    if len(p) < implied:
        notes.append(f"{implied - len(p):,} of {implied:,} missing edges are not tested ({untested})")
    if not combined:
        notes.append("Fisher's C is not computed for so many variables")
    fisher = fisher_c(p, sum(one.shared for one in tests)) if combined and len(p) else None
    return Fit(
        implied=implied,
        tested=len(p),
        failing=len(failing),
        worst=tuple(
            Independence(
                names[int(earlier[t])],
                names[int(later[t])],
                tuple(names[u] for u in np.flatnonzero(dag[:, int(later[t])]).tolist()),
                float(strength[t]),
                float(p[t]),
                float(adjusted[t]),
            )
            for t in worst
        ),
        fisher=fisher,
        bic=bic,
        notes=tuple(notes),
    )


# Fit of a graph of labels from one sum of count tables: its implied independences, Fisher's C and BIC.
#
# One exchange sums the count tables of a run on labels: those for this fit, and those for the model's parameters
# (`parameters/tables.py`) and for the comparison of the silos (`tables.py`), which need no further sum.
#
# For the fit, the broadcast has three kinds of sets of variables: each variable with its parents in a DAG of the
# learned class (its family), each missing edge with the parents of its later variable, and every pair of variables. The
# reply has the count tables of these sets, of which the server needs only the sum. Tables of missing edges with few
# rows per cell are left out, because their statistic is not χ². The families are left out if their tables together have
# more than a quarter of `MAX_TABLE_CELLS` cells, and so are the pairs. Of the tables of missing edges, the smallest are
# kept, as many as fit into the remaining cells. The choice depends only on public numbers.
#
# A missing edge is tested by χ² given the parents, on the levels that are not rare. The correlation of two tests of the
# same later variable is about Tschuprow's T² of their earlier variables given the parents. Here T² is computed from the
# table of the two earlier variables alone, because tables of both with every set of parents would be large. If the
# earlier variables are dependent only through the parents, the p-value of Fisher's C is then too large, which is
# conservative.
#
# Unless the user allows exact small counts, the figures are computed from counts after disclosure control
# (`publishable_stack`), because with exact counts the difference of two figures could disclose one person. Large counts
# are then rounded to a grid, which multiplies χ² by about 1 + (4/3)·(mean of 1/expected over the cells). So χ² is
# divided by this factor. The remaining rows, in no large cell, are divided equally among the small cells.
#
# BIC compares the graph with the empty graph, and with graphs in which a variable has one more parent. It does not
# compare the graph with the saturated graph, which would need the joint table of all variables. In general this table
# has more cells than there are rows.


MIN_ROWS_PER_CELL = 5
"""minimum number of rows per cell of a table that is tested"""
MIN_EXPECTED = 5
"""minimum expected count of the cells that a test includes"""
GRID_VARIANCE = (GRID**2 - 1) / 6
"""mean variance of the rounding of a count to its grid"""
MAX_TABLE_CELLS = 250_000
"""maximum number of cells of all tables together"""


@dataclass(frozen=True)
class FitTables(Settings):
    """Settings of the exchange."""

    masked: bool = False
    """always mask the replies, even if the run does not"""


@dataclass(frozen=True)
class Server:
    """The sets to count and, after the exchange, their summed counts."""

    schema: Schema
    dag: NDArray[np.bool_]
    tests: NDArray[np.int16]
    """missing edges that are tested: the earlier variable, the later variable, its parents; padded `[k, 2 + most]`"""
    implied: int
    """number of missing edges"""
    sets: NDArray[np.int16]
    """the sets to count, in lexicographic order, `[n_sets, size]`"""
    has_families: bool
    """whether each variable with its parents is among the sets"""
    has_pairs: bool
    """whether every pair is among the sets"""
    counts: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))


def start(schema: Schema, dag: NDArray[np.bool_], further: NDArray[np.int16] | None = None) -> Server:
    """The server's state before the exchange, for a `dag` `[d, d]`.

    The tables of `further` sets of at most two variables, `[n_sets, 2]`, are counted for other purposes.
    """
    levels, d = cardinalities_of(schema), len(dag)
    order, width = topological_order(dag, np.arange(d)), 2 + int(dag.sum(axis=0).max(initial=0))
    own, pairs = families(dag), _pairs(d)
    sizes = [float(np.where(sets == PAD, 1.0, levels[sets]).prod(axis=1).sum()) for sets in (own, pairs)]
    with_families, with_pairs = (size <= MAX_TABLE_CELLS / 4 for size in sizes)
    budget = MAX_TABLE_CELLS - sizes[0] * with_families - sizes[1] * with_pairs
    tests, cells = _testable(dag, order, levels, width, sum(schema.rows.values()))
    chosen = tests[: np.searchsorted(np.cumsum(cells), budget, side="right")]
    more = [own] * with_families + [pairs] * with_pairs + ([] if further is None else [further])
    padded = [np.pad(one, ((0, 0), (0, width - one.shape[1])), constant_values=PAD) for one in more]
    sets = tables_for(np.concatenate([chosen, *padded]), d).sets
    implied = missing_edges(dag, order)
    return Server(schema.in_order(), dag, chosen, implied, sets, with_families, with_pairs)


def _testable(
    dag: NDArray[np.bool_], order: Sequence[int], levels: NDArray[np.int64], width: int, rows: int
) -> tuple[NDArray[np.int16], FloatArray]:
    """The tests whose tables have enough `rows` per cell, `[n_tests, width]`, and the number of cells of each table.

    A test is a missing edge with the parents of its later variable. Tests are in ascending order of cells; tests with
    the same number of cells are in the order of the variables.
    """
    place, parents = np.empty(len(dag), np.int64), np.full((len(dag), width - 2), PAD)
    place[list(order)] = np.arange(len(dag))
    for child in range(len(dag)):
        own = np.flatnonzero(dag[:, child])
        parents[child, : len(own)] = own
    of_family = levels * np.where(parents == PAD, 1.0, levels[parents]).prod(axis=1)
    i, j = np.nonzero((place[:, None] < place) & ~dag)
    cells = levels[i] * of_family[j]
    kept = np.flatnonzero(cells * MIN_ROWS_PER_CELL <= rows)
    kept = kept[np.argsort(cells[kept], kind="stable")]  # `nonzero` is in the order of the variables
    return np.column_stack([i[kept], j[kept], parents[j[kept]]]).astype(np.int16), cells[kept]


def _pairs(d: int) -> NDArray[np.int16]:
    """All pairs of `d` variables, `[d(d − 1)/2, 2]`."""
    return np.stack(np.triu_indices(d, 1), axis=1).astype(np.int16)


def build(settings: FitTables) -> FederatedAlgorithm[Server, Rows, Broadcast, Summand]:
    """The one exchange, which begins in the state `start(...)`."""
    return sum_each_round(
        open_silo=open_rows,
        open_server=lambda schema: start(schema, np.zeros((len(schema.variables),) * 2, np.bool_)),
        broadcast=lambda server: Broadcast(server.sets),
        part=lambda silo, request: count(silo.columns, silo.cardinalities, request.sets),
        aggregate=lambda server, replies: replace(server, counts=replies.total),
        server_type=Server,
        broadcast_type=Broadcast,
        whole_numbers=True,
        greatest_total=lambda schema, request: sum(schema.rows.values()),
        needs_secure_sum=settings.masked,
    )


def fit_of_tables(server: Server, *, blank: bool) -> Fit:
    """The fit of the server's DAG to the counts of its final state; if `blank`, to counts after disclosure control."""
    tables, d, variance = CountsBySet(server, blank=blank), len(server.dag), GRID_VARIANCE * blank
    found, by_shape = StratifiedTests.none(len(server.tests)), list(tables.by_shape(server.tests))
    for chosen, strata in by_shape:
        found.put(chosen, stratified_tests(strata, variance))
    usable = np.flatnonzero(found.degrees)
    i, j = (server.tests[usable, end].astype(np.int64) for end in (0, 1))
    shared = 0.0
    if server.has_pairs:
        alike, pairs = np.zeros((d, d)), _pairs(d)
        for chosen, strata in tables.by_shape(pairs):
            a, b = pairs[chosen].T
            alike[a, b] = alike[b, a] = stratified_tests(strata, variance).tschuprow ** 2
        for later in np.unique(j):
            same = i[j == later]
            shared += float(np.triu(alike[np.ix_(same, same)], 1).sum())
    bic = _table_bic(server, tables, by_shape) if server.has_families else None
    tests = MissingEdgeTests(i, j, found.tschuprow[usable], found.p[usable], shared)
    few = "few rows for their tables, or only rare levels"
    return summarised([tests], server.implied, tables.names, server.dag, bic, untested=few, combined=server.has_pairs)


class CountsBySet:
    """The summed count tables of a server's final state; if `blank`, after disclosure control."""

    def __init__(self, server: Server, *, blank: bool) -> None:
        """Find the position of each set's table in the counts."""
        self.names, self.levels = server.schema.variables, cardinalities_of(server.schema)
        self._counts, self._blank, self._rows = server.counts, blank, sum(server.schema.rows.values())
        begins = offsets(server.sets, self.levels).tolist()
        sets = [tuple(v for v in row if v != PAD) for row in server.sets.tolist()]
        self._places = dict(zip(sets, pairwise(begins), strict=True))
        self._tables: dict[tuple[int, ...], FloatArray] = {}

    def table(self, members: Sequence[int]) -> FloatArray:
        """The counts over ascending `members`, one axis for each."""
        return np.asarray(self._stacked([members])[0])

    def _stacked(self, sets: Sequence[Sequence[int]]) -> FloatArray:
        """The counts over each of the `sets` of variables, all with the same numbers of levels; each computed once."""
        unknown = list(dict.fromkeys(key for key in map(tuple, sets) if key not in self._tables))
        if unknown:
            shape = [int(self.levels[v]) for v in unknown[0]]
            counts = np.stack([self._counts[slice(*self._places[key])] for key in unknown])
            counts = counts.reshape(len(unknown), *shape)
            numbers = _blanked(counts, self._rows) if self._blank else counts.astype(np.float64)
            self._tables |= zip(unknown, numbers, strict=True)
        return np.stack([self._tables[tuple(members)] for members in sets])

    def counts(self, sets: NDArray[np.int16]) -> NDArray[np.int64]:
        """The exact counts over `sets` `[n_sets, size]` of ascending members, padded with -1, concatenated."""
        places = [self._places[tuple(v for v in row if v != PAD)] for row in sets.tolist()]
        return np.concatenate([self._counts[slice(*place)] for place in places])

    def strata(self, test: Sequence[int]) -> FloatArray:
        """The counts by state of the other variables, level of the first, and level of the second `[states, x, y]`."""
        ((_, strata),) = self.by_shape(np.array([test], np.int16))
        return np.asarray(strata[0])

    def by_shape(self, tests: NDArray[np.int16]) -> Iterator[tuple[NDArray[np.int64], FloatArray]]:
        """Yield, for each shape of table, the positions in `tests` `[k, size]` of its tests, and their strata.

        The strata are `[tests, states, x, y]`.
        """
        alike: dict[tuple[Any, ...], list[int]] = {}
        sets = [sorted(v for v in test if v != PAD) for test in tests.tolist()]
        for t, ((x, y, *_), members) in enumerate(zip(tests.tolist(), sets, strict=True)):
            key = (*(int(self.levels[v]) for v in members), members.index(x), members.index(y))
            alike.setdefault(key, []).append(t)
        for (*_, x, y), chosen in alike.items():
            stacked = np.moveaxis(self._stacked([sets[t] for t in chosen]), (x + 1, y + 1), (-2, -1))
            yield np.array(chosen), stacked.reshape(len(chosen), -1, *stacked.shape[-2:])

    def family(self, child: int, parents: Sequence[int]) -> FloatArray:
        """The counts by state of the `parents` and level of the `child`, `[states, levels]`."""
        ordered = sorted((child, *parents))
        table = np.moveaxis(self.table(ordered), ordered.index(child), -1)
        return table.reshape(-1, table.shape[-1])


def _blanked(counts: NDArray[np.int64], rows: int) -> FloatArray:
    """The counts of tables `[n_tables, ...]` of `rows` rows after disclosure control.

    The small cells of a table equally share the rows that are in no large cell.
    """
    published, axes = publishable_stack(counts), tuple(range(1, counts.ndim))
    small = published < GRID
    left = rows - np.where(small, 0.0, published).sum(axis=axes, keepdims=True)
    each = np.clip(left / np.maximum(small.sum(axis=axes, keepdims=True), 1), 0.0, MIN_COUNT - 1.0)
    return np.where(small, each, published)


@dataclass(frozen=True)
class StratifiedTests:
    """χ² tests over strata, `[n_tests]` each, with Tschuprow's T of the levels that they include."""

    p: FloatArray
    degrees: NDArray[np.int64]
    """degrees of freedom; 0 if there is nothing to test"""
    tschuprow: FloatArray

    @staticmethod
    def none(n_tests: int) -> "StratifiedTests":
        """Tests that have no result yet."""
        return StratifiedTests(np.ones(n_tests), np.zeros(n_tests, np.int64), np.zeros(n_tests))

    def put(self, chosen: NDArray[np.int64], tests: "StratifiedTests") -> None:
        """Write `tests` to the positions `chosen`."""
        self.p[chosen], self.degrees[chosen], self.tschuprow[chosen] = tests.p, tests.degrees, tests.tschuprow


def stratified_tests(strata: FloatArray, variance: float) -> StratifiedTests:
    """χ² of independence within `strata` `[n_tests, s, x, y]` of counts that were rounded with this `variance`.

    With rare levels, the statistic is not χ²: one row in a cell with an expected count of .01 adds 100. So each stratum
    is reduced to the levels with at least √(5 n) of its n rows, whose expected counts are 5 or more. Independent
    variables are also independent on any subset of levels that is selected by margins.
    """
    n = strata.sum(axis=(-2, -1))
    least = np.sqrt(MIN_EXPECTED * n)[..., None]
    common_x, common_y = strata.sum(axis=-1) >= least, strata.sum(axis=-2) >= least
    strata = strata * common_x[..., :, None] * common_y[..., None, :]
    x, y, n = strata.sum(axis=-1), strata.sum(axis=-2), strata.sum(axis=(-2, -1))
    degrees = np.maximum((x > 0).sum(axis=-1) - 1, 0) * np.maximum((y > 0).sum(axis=-1) - 1, 0)
    expected = x[..., :, None] * y[..., None, :] / np.maximum(n, 1)[..., None, None]
    inverse = np.divide(1.0, expected, out=np.zeros_like(expected), where=expected > 0)
    tested = (expected > 0) & (degrees > 0)[..., None, None]
    df, rows = degrees.sum(axis=-1), np.where(degrees > 0, n, 0.0).sum(axis=-1)
    cells, axes = np.maximum(tested.sum(axis=(-3, -2, -1)), 1), (-3, -2, -1)
    inflation = 1 + variance * (inverse * tested).sum(axis=axes) / cells
    statistic = ((strata - expected) ** 2 * inverse).sum(axis=axes) / inflation
    some = df > 0
    p, t = np.ones(len(df)), np.zeros(len(df))
    p[some] = chdtrc(df[some], statistic[some])
    t[some] = np.sqrt(statistic[some] / (np.sqrt(df[some]) * rows[some]))
    return StratifiedTests(p, df, t)


def _table_bic(server: Server, tables: CountsBySet, tests: list[tuple[NDArray[np.int64], FloatArray]]) -> BicGains:
    """The gain of the graph over the empty graph, and the sum of the gains of the best further parent of each variable.

    `tests` are the strata of the missing edges, as `CountsBySet.by_shape` yields them.
    """
    levels, d = tables.levels.tolist(), len(server.dag)
    parents = [np.flatnonzero(server.dag[:, v]).tolist() for v in range(d)]
    own = [tables.family(v, parents[v]) for v in range(d)]
    price = 0.5 * math.log(max(own[0].sum(), 2))
    fits = [conditional_log_likelihood(one) for one in own]
    graph = sum(fits[v] - price * (levels[v] - 1) * len(own[v]) for v in range(d))
    empty = sum(conditional_log_likelihood(own[v].sum(axis=0)) - price * (levels[v] - 1) for v in range(d))
    gains = np.zeros(d)
    for chosen, strata in tests:  # both scores come from the same table, because two tables are rounded separately
        _, states, x, y = strata.shape
        more = conditional_log_likelihoods(strata) - conditional_log_likelihoods(strata.sum(axis=2))
        np.maximum.at(gains, server.tests[chosen, 1].astype(np.int64), more - price * (y - 1) * states * (x - 1))
    return BicGains(graph - empty, one_more=float(gains.sum()))


def conditional_log_likelihoods(counts: FloatArray) -> FloatArray:
    """Σ n ln(n / Σ n) of the last axis given the other axes, for each element of the first axis."""
    margins = np.broadcast_to(counts.sum(axis=-1, keepdims=True), counts.shape)
    shares = np.divide(counts, margins, out=np.ones_like(counts), where=counts > 0)
    return np.asarray((counts * np.log(shares)).reshape(len(counts), -1).sum(axis=1))


def conditional_log_likelihood(counts: FloatArray) -> float:
    """Σ n ln(n / Σ n) of one table: the maximum log-likelihood of the last axis given the others."""
    return float(conditional_log_likelihoods(counts[None])[0])
