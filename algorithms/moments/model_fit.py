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
- `hidden_cause_gain`: the gain in BIC if an edge a → b is replaced by correlated errors of a and b. A hidden cause of
  both makes a a collider, so b seems to depend on the parents of a as well; with correlated errors these edges
  disappear. The two regressions are fitted by generalised least squares (Zellner 1962), with backward elimination of
  parents.

`misfit` adds up the two figures, each in its own unit. If a sparse DAG holds, both are small, or only one is larger by
chance, even with weak effects, dense graphs or few rows. Cost: O(d³), and O(p³) for each elimination at an edge whose
ends have p parents.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, polygamma

from ..core.schema import FloatArray
from ..graphs.dag import topological_order, transitive_closure
from ..statistics.moments import regression_weights, residual_variances

EXCESS_UNIT, GAIN_UNIT = 6.0, 15.0
"""a `residual_excess` of this many standard deviations is a misfit, as is a `hidden_cause_gain` of this many nats"""
GAIN_VARIABLES = 50
"""above this number of variables, `GAIN_UNIT` grows with the number, because the gain is a sum over more edges"""
GLS_STEPS = 20
"""largest number of steps of generalised least squares"""


def misfit(S: FloatArray, dag: NDArray[np.bool_], rows: int, price: float) -> float:
    """The evidence against `dag` `[d, d]` as a model of the covariance `S` `[d, d]`: above 1 if no sparse DAG fits.

    `rows` are the degrees of freedom of S, and `price` is the penalty on twice the log-likelihood for an edge.
    """
    excess = max(residual_excess(S, dag, rows), 0.0)
    unit = GAIN_UNIT * max(1.0, len(S) / GAIN_VARIABLES)
    return excess / EXCESS_UNIT + hidden_cause_gain(S, dag, rows, price) / unit


def residual_excess(S: FloatArray, dag: NDArray[np.bool_], rows: int) -> float:
    """The deviance of `dag` `[d, d]` minus its mean, in standard deviations; 0 for too few rows.

    `S` `[d, d]` is the covariance on `rows` degrees of freedom.
    """
    d = len(S)
    if rows <= d + 1:
        return 0.0
    order = np.array(topological_order(dag))
    given_parents = residual_variances(S, regression_weights(S, dag))[order]
    given_earlier = np.diag(np.linalg.cholesky(S[np.ix_(order, order)])) ** 2
    free, most = (rows - dag.sum(axis=0)[order]) / 2, (rows - np.arange(d)) / 2
    mean = float((digamma(free) - digamma(most)).sum())
    variance = float((polygamma(1, most) - polygamma(1, free)).sum())
    deviance = float(np.log(given_parents / given_earlier).sum())
    return (deviance - mean) / math.sqrt(variance) if variance > 0 else 0.0


def hidden_cause_gain(S: FloatArray, dag: NDArray[np.bool_], rows: int, price: float) -> float:
    """The gain in nats if correlated errors replace edges of `dag` `[d, d]`, summed over disjoint edges, best first.

    `price` is the penalty on twice the log-likelihood for an edge or a correlation. An edge a → b is skipped if a and b
    have no common parent, because nothing is gained there. It is also skipped if a path leads from a through another
    parent of b.
    """
    variances, below = residual_variances(S, regression_weights(S, dag)), transitive_closure(dag)
    gains: list[tuple[float, int, int]] = []
    for a, b in np.argwhere(dag).tolist():
        of_a, of_b = dag[:, a].copy(), dag[:, b].copy()
        of_b[a] = False
        if not (of_a & of_b).any() or (below[a] & of_b).any():
            continue
        before = rows * math.log(variances[a] * variances[b]) + price * (of_a.sum() + of_b.sum() + 1)
        gains.append((0.5 * (before - _least_bic(S, (a, b), (of_a, of_b), rows, price)), a, b))
    total, used = 0.0, set[int]()
    for gain, a, b in sorted(gains, reverse=True):
        if gain > 0 and not {a, b} & used:
            total, used = total + gain, used | {a, b}
    return total


def _least_bic(
    S: FloatArray,
    ends: tuple[int, int],
    parents: tuple[NDArray[np.bool_], NDArray[np.bool_]],
    rows: int,
    price: float,
) -> float:
    """The least −2·BIC of two regressions with correlated errors while their `parents` are eliminated one by one."""
    chosen = [(side, int(v)) for side in (0, 1) for v in np.flatnonzero(parents[side])]
    best = math.inf
    while True:
        log_determinant, worth = _correlated_fit(S, ends, chosen)
        best = min(best, rows * log_determinant + price * (len(chosen) + 1))
        if not chosen or rows * worth.min() > price:
            return best
        del chosen[int(np.argmin(worth))]


def _correlated_fit(S: FloatArray, ends: tuple[int, int], chosen: list[tuple[int, int]]) -> tuple[float, FloatArray]:
    """The log determinant of the errors' covariance, and the squared t-value per row of each parent in `chosen`."""
    side, column = np.array([one for one, _ in chosen], int), np.array([v for _, v in chosen], int)
    products, targets = S[np.ix_(column, column)], S[column][:, list(ends)]
    errors, weights, inverse = np.eye(2), np.zeros(len(chosen)), np.zeros((len(chosen), len(chosen)))
    for _ in range(GLS_STEPS):
        precision, old = np.linalg.inv(errors), weights
        inverse = np.linalg.inv(precision[np.ix_(side, side)] * products)
        weights = inverse @ (precision[side] * targets).sum(axis=1)
        residual_map = np.zeros((len(S), 2))
        residual_map[ends, (0, 1)] = 1.0
        residual_map[column, side] = -weights
        errors = residual_map.T @ S @ residual_map
        if not chosen or np.abs(weights - old).max() < 1e-6 * np.abs(weights).max():
            break
    return float(np.linalg.slogdet(errors)[1]), weights**2 / np.diag(inverse)
