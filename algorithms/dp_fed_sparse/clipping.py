"""Clipping: how much one record may contribute to the gradient, and the sensitivity that follows.

Source: Fassy El Fehri et al., §5.3.

The data term of the gradient at entry (i, j) is −(1/n) Σ_k g(x_ki, r_kj), with r the residuals. If |g| is at most
L_ij for every record, replacing one record moves the entry by at most 2L_ij/n, whatever the table.

- "huber": g = x̄·r̄, with x clipped to ±b_i and r to ±c_j: L_ij = b_i·c_j. Up to a factor it is the gradient of
  a convex function, the Huber loss. For normal data it is too small by about P(|x_i| < b_i)·P(|r_j| < c_j), by Stein's
  lemma, and is divided by that (for residuals as large as expected), L_ij too.
- "product": g = x·r clipped to ±C_ij, with C_ij = C√(M_i/ΣM) (Fassy El Fehri et al., §5.3, read as it must be for
  the bound to hold): L_ij = C_ij.
- "average": the MEAN of x·r clipped to ±C_ij, as Fassy El Fehri et al., §5.3 is written. The stated sensitivity is
  then no bound: one record can move the mean all the way from −C_ij to C_ij. Kept for comparison; NOT PRIVATE.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numba import njit
from scipy.special import erf

from ..core.schema import FloatArray

Kind = Literal["huber", "product", "average"]

# Values are clipped to a million times their variable's scale, so that everything computed from them stays finite.
BEYOND = 1e6


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
        """L_ij, the most that one record adds to n times the gradient, `[d, d]`."""
        if self.kind == "huber":
            return np.outer(self.values, self.residuals) / self.shrink
        return self.products

    def factors(self, table: FloatArray) -> FloatArray:
        """Return what residuals are multiplied by, `[d, n_rows]`: the table's columns, cut off for "huber"."""
        return np.ascontiguousarray((np.clip(table, -self.values, self.values) if self.kind == "huber" else table).T)

    def gradient(self, factors: FloatArray, R: FloatArray, which: slice) -> FloatArray:
        """Return columns `which` of the data term, `[d, n_which]`, for their residuals `R` `[n_which, n_rows]`."""
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
    """Return the rule "huber" with bounds b, c for variables of deviations `scales` and residuals of `spread`, `[d]`.

    Both bounds are the same multiple of the deviation for all variables, so one factor undoes what they shrink.
    """
    within = erf(values / scales / np.sqrt(2)).min() * erf(residuals / spread / np.sqrt(2)).min()
    return Clip("huber", values, residuals, np.empty((0, 0)), float(within))


def product(kind: Kind, total: float, M: FloatArray) -> Clip:
    """Return the rule "product" or "average" with C_ij = C√(M_i/Σ_ij M_i), `total` the C, `M` `[d]`."""
    each = total * np.sqrt(M / (len(M) * M.sum()))
    return Clip(kind, np.empty(0), np.empty(0), np.repeat(each[:, None], len(M), axis=1), 1.0)


@njit(cache=True)
def _product_sums(factors, residual, bounds):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return Σ_k clip(x_ki·r_k, ±C_i), `[d]`."""
    d, n = factors.shape
    sums = np.zeros(d)
    for i in range(d):
        bound = bounds[i]
        for k in range(n):
            part = factors[i, k] * residual[k]
            sums[i] += part if -bound < part < bound else (bound if part >= bound else -bound)
    return sums
