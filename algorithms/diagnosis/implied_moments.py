"""Fit of a graph from second moments about the silos' own means: F tests of its missing edges, and its BIC.

A missing edge is tested by an F statistic: of one more regressor, which is equivalent to a partial correlation, or of
all indicators of a label together. The correlation of two statistics of the same later variable is the squared partial
correlation of the two earlier variables given the parents. Cost: O(d²p²) for the tests of d variables with p parents,
O(d³) for the correlations of the tests.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray
from ..graphs.dag import topological_order
from ..statistics.moments import is_positive_definite, unit_diagonal
from .implied import BicGains, Fit, MissingEdgeTests, summarised

MIN_SHARE = 1e-9
"""minimum share of a variance that the parents must leave unexplained for a test"""
MIN_DEGREES = 10
"""minimum residual degrees of freedom of a regression for a test"""
MAX_COMBINED = 500
"""maximum number of columns for Fisher's C, which requires the correlations of all tests of a variable"""


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
