"""Whether any sparse linear DAG with independent errors fits the second moments (ours).

Whatever the data, some equivalence class has the least BIC. But if there are hidden common causes, feedback or coarse
rounding, no sparse DAG has these moments. The search then adds many edges, each of which gains more than its price, and
directs nearly all of them by v-structures. Two figures detect this from the moments that the server has, without a
further exchange:

- `residual_excess`: the dependence between nonadjacent variables. For each variable in the order of the DAG, take ln of
  the ratio of its residual variance given the parents to its residual variance v given all k earlier variables. If
  the DAG holds, this logarithm has a known mean and variance, because n·v is σ²·χ² with n − k degrees of freedom for
  any distribution of the parents. Each dependence may be too weak for an edge although their sum is significant. The
  figure is the excess of the sum over its mean, in standard deviations.
- `hidden_causes`: the gain in BIC if correlated errors replace the edges between two or three variables. If a hidden
  cause of a and b is modelled by a → b, then b seems to depend on the parents of a as well; with correlated errors
  these edges disappear. The regressions are fitted by generalised least squares (Zellner 1962), with backward
  elimination of parents.

`misfit` adds up the two figures, each in its own unit. For time series, the columns are those of windows, and only the
variables at present are compared: of aggregated series, or series observed less often than effects act, more lagged
columns matter than those that have effects. If a sparse DAG holds, both figures are small, or only one is larger by
chance, even with weak effects, dense graphs or few rows. A good fit does not exclude hidden causes: if their effects
have no other causes, or the same ones, a DAG fits them as well. Cost: O(d³), and O(p³) for each elimination at a group
that has p parents.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray
from ..graphs.dag import topological_order, transitive_closure
from ..statistics.moments import regression_weights, residual_variances

EXCESS_UNIT, GAIN_UNIT = 5.5, 12.0
"""a `residual_excess` of this many standard deviations is a misfit, as is a sum of gains of `hidden_causes` of
this many nats"""
MIN_GAIN = 0.01
"""a smaller gain, in nats, is a rounding error: with the same parents, edges fit as well as correlated errors"""
GAIN_VARIABLES = 40
"""above this number of variables, `GAIN_UNIT` grows with the number, because the gain is a sum over more edges"""
GLS_STEPS = 20
"""largest number of steps of generalised least squares"""


@dataclass(frozen=True)
class Misfit:
    """The evidence against every sparse DAG."""

    evidence: float = 0.0
    """above 1 if no sparse DAG fits"""
    groups: tuple[tuple[int, ...], ...] = ()
    """the groups of variables that seem to share a hidden cause, each sorted, best first; empty if other dependences
    are more of the evidence"""


def misfit(S: FloatArray, dag: NDArray[np.bool_], rows: int, price: float, present: int) -> Misfit:
    """The evidence against `dag` `[d, d]` as a model of the covariance `S` `[d, d]`.

    `rows` are the degrees of freedom of S, and `price` is the penalty on twice the log-likelihood for an edge. The
    first `present` columns are compared; further columns are lagged.
    """
    excess = max(residual_excess(S, dag, rows, present), 0.0) / EXCESS_UNIT
    causes = hidden_causes(S, dag, rows, price, present)
    gain = sum(gain for gain, _ in causes) / (GAIN_UNIT * max(1.0, present / GAIN_VARIABLES))
    return Misfit(excess + gain, tuple(group for _, group in causes) if gain > excess else ())


def residual_excess(S: FloatArray, dag: NDArray[np.bool_], rows: int, present: int) -> float:
    """The deviance of `dag` `[d, d]` minus its mean, in standard deviations; 0 for too few rows.

    `S` `[d, d]` is the covariance on `rows` degrees of freedom, of which the first `present` columns are compared.
    """
    from scipy.special import digamma, polygamma  # late, because listing the commands must not import SciPy

    d = len(S)
    if rows <= d + 1:
        return 0.0
    now = np.array(topological_order(dag[:present, :present]))
    order = np.concatenate([np.arange(present, d), now])
    given_parents = residual_variances(S, regression_weights(S, dag))[now]
    given_earlier = np.diag(np.linalg.cholesky(S[np.ix_(order, order)]))[d - present :] ** 2
    free, most = (rows - dag.sum(axis=0)[now]) / 2, (rows - np.arange(d - present, d)) / 2
    mean = float((digamma(free) - digamma(most)).sum())
    variance = float((polygamma(1, most) - polygamma(1, free)).sum())
    deviance = float(np.log(given_parents / given_earlier).sum())
    return (deviance - mean) / math.sqrt(variance) if variance > 0 else 0.0


def fits_badly(S: FloatArray, parents: NDArray[np.bool_], rows: int) -> bool:
    """Whether the parents `[m, d]` of d variables leave much more dependence in `S` `[m, m]` than chance does."""
    dag = np.zeros(S.shape, np.bool_)
    dag[:, : parents.shape[1]] = parents
    return residual_excess(S, dag, rows, parents.shape[1]) > EXCESS_UNIT


def hidden_causes(
    S: FloatArray, dag: NDArray[np.bool_], rows: int, price: float, present: int
) -> list[tuple[float, tuple[int, ...]]]:
    """The disjoint groups of variables of which correlated errors gain more than edges, with the gain in nats.

    `price` is the penalty on twice the log-likelihood for an edge or a correlation. Groups are two or three of the
    first `present` variables that are all adjacent in `dag` `[d, d]`; those that gain most are first. A group without
    common parents is skipped, because nothing is gained there. It is also skipped if a path leads from one of its
    variables through a parent of another.
    """
    variances, below = residual_variances(S, regression_weights(S, dag)), transitive_closure(dag)
    adjacent = np.triu(dag | dag.T)[:present, :present]
    pairs = [(a, b) for a, b in np.argwhere(adjacent).tolist()]
    triangles = [(a, b, int(c)) for a, b in pairs for c in np.flatnonzero(adjacent[a] & adjacent[b])]
    gains: list[tuple[float, tuple[int, ...]]] = []
    for group in (*pairs, *triangles):
        members = list(group)
        parents = dag[:, members].copy()
        parents[members] = False
        if parents.sum(axis=1).max() < 2 or (below[members].any(axis=0) & parents.any(axis=1)).any():
            continue
        before = rows * float(np.log(variances[members]).sum()) + price * int(dag[:, members].sum())
        gains.append((0.5 * (before - _least_bic(S, group, parents, rows, price)), group))
    found, used = list[tuple[float, tuple[int, ...]]](), set[int]()
    for gain, group in sorted(gains, reverse=True):
        if gain > MIN_GAIN and not used & set(group):
            found.append((gain, group))
            used |= set(group)
    return found


def _least_bic(S: FloatArray, group: tuple[int, ...], parents: NDArray[np.bool_], rows: int, price: float) -> float:
    """The least −2·BIC of regressions with correlated errors while parents are eliminated one by one.

    `parents` `[d, k]` has the parents of each of the k variables of `group`.
    """
    chosen = [(place, int(v)) for place in range(len(group)) for v in np.flatnonzero(parents[:, place])]
    best = math.inf
    while True:
        log_determinant, worth = _correlated_fit(S, group, chosen)
        best = min(best, rows * log_determinant + price * (len(chosen) + len(group) * (len(group) - 1) // 2))
        if not chosen or rows * worth.min() > price:
            return best
        del chosen[int(np.argmin(worth))]


def _correlated_fit(S: FloatArray, group: tuple[int, ...], chosen: list[tuple[int, int]]) -> tuple[float, FloatArray]:
    """The log determinant of the errors' covariance, and the squared t-value per row of each parent in `chosen`."""
    side, column = np.array([one for one, _ in chosen], int), np.array([v for _, v in chosen], int)
    products, targets = S[np.ix_(column, column)], S[column][:, list(group)]
    errors, weights, inverse = np.eye(len(group)), np.zeros(len(chosen)), np.zeros((len(chosen), len(chosen)))
    for _ in range(GLS_STEPS):
        precision, old = np.linalg.inv(errors), weights
        inverse = np.linalg.inv(precision[np.ix_(side, side)] * products)
        weights = inverse @ (precision[side] * targets).sum(axis=1)
        residual_map = np.zeros((len(S), len(group)))
        residual_map[group, range(len(group))] = 1.0
        residual_map[column, side] = -weights
        errors = residual_map.T @ S @ residual_map
        if not chosen or np.abs(weights - old).max() < 1e-6 * np.abs(weights).max():
            break
    return float(np.linalg.slogdet(errors)[1]), weights**2 / np.diag(inverse)
