"""The clipping rules of DP-Fed-Sparse-BNSL.

Clipping bounds the contribution of one record to the gradient, and with it the sensitivity (Fassy El Fehri et al.,
§5.3). The data term of the gradient at entry (i, j) is −(1/n) Σ_k g(x_ki, r_kj), with r the residuals. If |g| is at
most L_ij for every record, replacing one record changes the entry by at most 2L_ij/n, for any table.

- "huber": g is the product of x clipped to ±b_i and r clipped to ±c_j, so L_ij = b_i·c_j. For normal data, clipping
  shrinks the gradient by a factor of about P(|x_i| < b_i)·P(|r_j| < c_j), by Stein's lemma. So g and L_ij are divided
  by this factor (for residuals of the expected size).
- "product": g = x·r clipped to ±C_ij, with C_ij = C√(M_i/ΣM) (Fassy El Fehri et al., §5.3, in the reading for which the
  bound is valid): L_ij = C_ij.
- "average": the MEAN of x·r clipped to ±C_ij, as Fassy El Fehri et al., §5.3 is written. The stated sensitivity is
  then not a bound: one record can move the mean from −C_ij to C_ij. Included for comparison; NOT PRIVATE.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import erf

from ..compiled import njit
from ..core.schema import FloatArray

Kind = Literal["huber", "product", "average"]

# Values are clipped to a million times their variable's scale, so that all results are finite.
MAX_SCALE_MULTIPLE = 1e6


@dataclass(frozen=True)
class Clip:
    """A rule of clipping with its bounds, all public."""

    kind: Kind
    values: FloatArray
    """b_i, `[d]`"""
    residuals: FloatArray
    """c_j, `[d]`"""
    products: FloatArray
    """C_ij, `[d, d]`"""
    shrink: float
    """the factor by which "huber" shrinks the gradient of normal data"""

    @property
    def reach(self) -> FloatArray:
        """L_ij, the maximum contribution of one record to n times the gradient, `[d, d]`."""
        if self.kind == "huber":
            return np.outer(self.values, self.residuals) / self.shrink
        return self.products

    def factors(self, table: FloatArray) -> FloatArray:
        """The factors of the residuals, `[d, n_rows]`: the table's columns, clipped for "huber"."""
        return np.ascontiguousarray((np.clip(table, -self.values, self.values) if self.kind == "huber" else table).T)

    def gradient(self, factors: FloatArray, R: FloatArray, which: slice) -> FloatArray:
        """Columns `which` of the data term, `[d, n_which]`, for their residuals `R` `[n_which, n_rows]`."""
        n = R.shape[1]
        if self.kind == "huber":
            bounds = self.residuals[which, None]
            return np.asarray(factors @ np.clip(R, -bounds, bounds).T / (-n * self.shrink))
        bounds = self.products[:, which]
        if self.kind == "product":
            sums = [_product_sums(factors, residual, bounds[:, j]) for j, residual in enumerate(R)]
            return np.asarray(np.stack(sums, axis=1) / -n)
        return np.asarray(np.clip(factors @ R.T / -n, -bounds, bounds))


def huber(values: FloatArray, residuals: FloatArray, scales: FloatArray, spread: FloatArray) -> Clip:
    """The rule "huber" with bounds b, c for variables of deviations `scales` and residuals of `spread`, `[d]`.

    Each bound is the same multiple of the deviation for all variables, so one factor corrects the shrinkage.
    """
    within = erf(values / scales / np.sqrt(2)).min() * erf(residuals / spread / np.sqrt(2)).min()
    return Clip("huber", values, residuals, np.empty((0, 0)), float(within))


def product(kind: Kind, total: float, M: FloatArray) -> Clip:
    """The rule "product" or "average" with C_ij = C√(M_i/Σ_ij M_i), `total` the C, `M` `[d]`."""
    each = total * np.sqrt(M / (len(M) * M.sum()))
    return Clip(kind, np.empty(0), np.empty(0), np.repeat(each[:, None], len(M), axis=1), 1.0)


@njit(cache=True)
def _product_sums(factors, residual, bounds):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Σ_k clip(x_ki·r_k, ±C_i), `[d]`."""
    d, n = factors.shape
    sums = np.zeros(d)
    for i in range(d):
        bound = bounds[i]
        for k in range(n):
            part = factors[i, k] * residual[k]
            sums[i] += part if -bound < part < bound else (bound if part >= bound else -bound)
    return sums
