"""Fit of a graph without a truth: its implied independences, Fisher's C, and its BIC (a Markov check).

A DAG implies that two variables without an edge are independent given the parents of the variable that is later in a
topological order (Pearl 1988). So there is one test per missing edge. Numbers are tested by an F statistic: of one
more regressor, which is equivalent to a partial correlation, or of all indicators of a label together. Labels are
tested by χ² (`implied_tables.py`). The share of tests that fail after Benjamini & Hochberg 1995 measures what the graph
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
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray
from ..graphs.dag import topological_order
from ..statistics.moments import is_positive_definite, unit_diagonal

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
    from scipy.special import chdtrc  # late, because listing the commands must not import SciPy

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
