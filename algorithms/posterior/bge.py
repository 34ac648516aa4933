"""BGe, the marginal likelihood of a Gaussian DAG, and the posterior of its regressions, from summed second moments.

The precision of the d variables has a Wishart prior with α_w = d + 2 degrees of freedom and scale T⁻¹, T = I/2. Given
the precision, their mean has a Gaussian prior worth α_μ = 1 row (Geiger & Heckerman 2002; constants of Kuipers, Moffa &
Heckerman 2014, Eq. 12, and of their program). The prior mean is the mean of the data. Variables are scaled to variance
1, so the score does not depend on units. With p parents A of v and R = T + Σ (x − x̄)(x − x̄)ᵀ over N rows,

ln P(x_v | A) = −N/2 ln π + ½ ln(α_μ/(N + α_μ)) + lnΓ((N + α_w − d + p + 1)/2) − lnΓ((α_w − d + p + 1)/2)
                + (α_w − d + 2p + 1)/2 · ln t − ½ ln|R_A| − (N + α_w − d + p + 1)/2 · ln r_v|A,

where t = ½ and r_v|A = |R_{A ∪ v}| / |R_A|. Each silo has its own means, which cost a row for each silo beyond the
first: N is the number of rows less the silos, plus one.
"""

import math
from dataclasses import dataclass

import numpy as np

from ..compiled import njit
from ..core.schema import FloatArray
from ..statistics.moments import SummedMomentsWithin
from .family_space import FamilySpace, structure_prices

PRIOR_ROWS = 1.0
"""α_μ, the rows that the prior of the means is worth"""
PRIOR_SCATTER = 0.5
"""t, the prior scatter of each variable about its mean, in variances: α_μ (α_w − d − 1)/(α_μ + 1)"""


@dataclass(frozen=True)
class GaussianPosterior:
    """The posterior of the precision of d variables."""

    R: FloatArray
    """prior scatter plus the scatter of the scaled rows, `[d, d]`"""
    rows: float
    """N, the rows that count as independent"""
    scales: FloatArray
    """the standard deviation of each variable, `[d]`"""

    @property
    def degrees(self) -> float:
        """α_w + N − d, the degrees of freedom of a residual variance without parents, less 1."""
        return self.rows + 2.0

    def drawn_weights(self, dags: np.ndarray, rng: np.random.Generator) -> FloatArray:
        """Weights from the posterior of the regressions of each DAG in `dags` `[n, d, d]`, in units of the data.

        The residual variance of v given p parents A is r_v|A / χ² with α_w + N − d + p + 1 degrees of freedom. Given
        this variance σ², the weights are Gaussian with mean R_AA⁻¹ R_Av and covariance σ² R_AA⁻¹.
        """
        weights = np.zeros(dags.shape)
        known: dict[tuple[int, bytes], tuple[FloatArray, FloatArray, float]] = {}
        for graph, drawn in zip(dags, weights, strict=True):
            for v in np.flatnonzero(graph.any(axis=0)):
                A = np.flatnonzero(graph[:, v])
                key = int(v), A.tobytes()
                if key not in known:
                    root = np.linalg.cholesky(np.linalg.inv(self.R[np.ix_(A, A)]))
                    mean = root @ (root.T @ self.R[A, v])
                    known[key] = mean, root, float(self.R[v, v] - self.R[A, v] @ mean)
                mean, root, residual = known[key]
                variance = residual / rng.chisquare(self.degrees + len(A) + 1)
                own = mean + math.sqrt(variance) * root @ rng.standard_normal(len(A))
                drawn[A, v] = own * self.scales[v] / self.scales[A]
        return weights


def gaussian_posterior(moments: SummedMomentsWithin, silos: int, independent_share: float = 1.0) -> GaussianPosterior:
    """The posterior from the summed `moments` of `silos`, of which a share of the rows counts as independent."""
    scales = np.sqrt(np.maximum(np.diag(moments.within), np.finfo(float).tiny))
    rows = max(1.0, (moments.rows - silos + 1) * independent_share)
    R = moments.within / np.outer(scales, scales) * rows + PRIOR_SCATTER * np.eye(len(scales))
    return GaussianPosterior(R, rows, scales)


def bge_scores(posterior: GaussianPosterior, space: FamilySpace) -> FloatArray:
    """BGe of every family, with the prior of its number of parents, `[d, masks, slots]`."""
    d, n = len(posterior.R), posterior.rows
    p, freedom = np.arange(d), posterior.degrees + np.arange(d) + 1
    by_size = -n / 2 * math.log(math.pi) + 0.5 * math.log(PRIOR_ROWS / (n + PRIOR_ROWS)) + structure_prices(d)
    by_size += [math.lgamma(one / 2) - math.lgamma((one - n) / 2) for one in freedom]
    by_size += (2 * p + 3) / 2 * math.log(PRIOR_SCATTER)
    scores = np.full(space.shape, -np.inf)
    _score(posterior.R, space.candidates, space.outside, by_size, freedom, scores)
    return scores


@njit(cache=True)
def _score(R, candidates, outside, by_size, freedom, scores):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write the scores of all families.

    For each mask, `cross` has the covariances of the child (first) and its candidates with all variables given the
    candidates in the mask, and `own` the variances. One more candidate is one rank-one update.
    """
    d, k = candidates.shape
    cross, own = np.empty((1 << k, k + 1, d)), np.empty((1 << k, d))
    log_det, size = np.zeros(1 << k), np.zeros(1 << k, np.int64)
    for v in range(d):
        known = (candidates[v] >= 0).sum()
        cross[0, 0], own[0] = R[v], np.diag(R)
        for i in range(known):
            cross[0, i + 1] = R[candidates[v, i]]
        for mask in range(1 << known):
            _condition(mask, candidates[v], known, cross, own, log_det, size)
            p = size[mask]
            scores[v, mask, 0] = by_size[p] - 0.5 * (log_det[mask] + freedom[p] * math.log(own[mask, v]))
            for s in range(outside.shape[1]):
                u = outside[v, s]
                if u >= 0:
                    left = own[mask, v] - cross[mask, 0, u] ** 2 / own[mask, u]
                    determinant = log_det[mask] + math.log(own[mask, u])
                    scores[v, mask, s + 1] = by_size[p + 1] - 0.5 * (determinant + freedom[p + 1] * math.log(left))


@njit(cache=True)
def _condition(mask, candidates, known, cross, own, log_det, size):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write the covariances given the candidates in `mask`, from those without its last candidate."""
    last = 0
    if mask == 0:
        return
    while mask >> (last + 1):
        last += 1
    before, at = mask ^ (1 << last), candidates[last]
    pivot, row = own[before, at], cross[before, last + 1]
    for i in range(known + 1):
        cross[mask, i] = cross[before, i] - cross[before, i, at] / pivot * row
    own[mask] = own[before] - row * row / pivot
    log_det[mask], size[mask] = log_det[before] + math.log(pivot), size[before] + 1
