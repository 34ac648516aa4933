"""The settings of DP-Fed-Sparse-BNSL, its clipping rules, and the plan for spending the privacy budget.

The plan (`plan`) depends only on settings and public numbers.

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

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.special import erf

from ..compiled import njit
from ..core.promise import Cost, Promise, ReplaceOne, no_cost
from ..core.schema import FloatArray, Schema
from ..core.settings import Count, CountOrNone, Factor, NonNegative, Positive, Share
from ..errors import BadInput, require
from ..privacy.gram import BUCKETS
from ..privacy.ledger import PrivateSettings
from ..privacy.tight import MAX_SELECTIONS, Composition, tight_epsilon
from ..privacy.zcdp import epsilon
from .step_noise import SLACK, GumbelGaussian, LaplacePair, StepNoise, pure_epsilon

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


# Largest step of any noise grid, in standard deviations of the noise (`noise_on_grid`).
MAX_GRID_STEP = 2.0**-20
AVERAGED = "it clips the average, so one record can change a gradient by far more than its noise hides"


@dataclass(frozen=True)
class DpFedSparse(PrivateSettings):
    """Settings of `dp-fed-sparse`; the defaults are ours, the paper's own are a preset."""

    epsilon: Positive = 1.0
    rounds: Count = 12
    """T, rounds of private steps; one more round estimates the variables' scales"""
    steps: CountOrNone = 0
    """K, private steps of a silo per round; 0: twice the number of variables"""
    acyclicity: Literal["order", "notears"] = "order"
    """order: an order of the variables from released numbers, for errors of equal variance; notears: Fassy El Fehri et
    al., Alg. 1"""
    mechanism: Literal["gumbel", "mangold"] = "gumbel"
    """noise of a step: Gumbel and Gaussian (Fassy El Fehri et al.), or Laplace for both (Mangold et al. 2023, for
    comparison)"""
    clip: Kind = "huber"
    """what is clipped: a record's value and residual, their product, or (NOT PRIVATE) the average of the products"""
    clip_values: Positive = 0.7
    """huber: b_i, in units of the variable's scale"""
    clip_residuals: Positive = 0.7
    """huber: c_j, in units of the residuals' spread"""
    clip_total: Positive = 50.0
    """product, average: C of C_ij = C·√(M_i/ΣM)"""
    smoothness: Literal["histogram", "private", "known"] = "histogram"
    """source of the curvatures M_i: bucket counts, private mean squares (Fassy El Fehri et al., A.3), or public
    knowledge"""
    second_moment_bound: NonNegative = 0.0
    """smoothness private: b, the bound to which squared values are clipped, the same for all variables"""
    known_smoothness: NonNegative = 0.0
    """smoothness known: the mean square of every variable"""
    smoothness_share: Share = 0.1
    """share of the privacy budget spent on the curvatures"""
    spread_share: Share = 0.1
    """share of the privacy budget spent, over all rounds, on the spread of the residuals (acyclicity order)"""
    share: Share = 0.6
    """share of the steps' budget spent on selecting entries; the remaining budget is spent on gradients"""
    gamma: Positive = 1.0
    """γ, the step of an entry relative to its curvature"""
    l1: NonNegative = 0.05
    """λ, the penalty on the weights of edges; order: in units of the smallest spread of residuals"""
    price: NonNegative = 0.0
    """order: variance that a parent must explain, in units of the smallest variance; 0: from the noise"""
    max_parents: Count = 12
    """order: maximum number of parents of a variable"""
    rho1: Positive = 0.3
    """notears: weight of h² per silo"""
    rho1_growth: Factor = 1.3
    """notears: factor of ρ₁ from round to round"""
    rho2: Positive = 0.3
    """notears: weight of the consensus between the silos and the server"""
    scaled: bool = True
    """notears: measure ρ₁, ρ₂ and λ in units of the variables' mean squares"""
    threshold: NonNegative = 0.3
    """τ: edges of at most this absolute weight are dropped"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for a value outside its range."""
        super().__post_init__()
        left = 1 - self.smoothness_share
        require(self.smoothness_share + self.spread_share < 1, "spread_share", self.spread_share, f"less than {left:g}")
        if self.smoothness == "private" and self.second_moment_bound == 0:
            raise BadInput("parameter smoothness is private: second_moment_bound must be given, a public number")
        if self.smoothness == "known" and self.known_smoothness == 0:
            raise BadInput("parameter smoothness is known: known_smoothness must be given, a public number")

    @property
    def settles_order(self) -> bool:
        """Whether an order of the variables, rather than h, excludes cycles."""
        return self.acyclicity == "order"

    @property
    def exchanges(self) -> int:
        """The number of all rounds: T, and the one that estimates the curvatures."""
        return self.rounds + (self.smoothness != "known")


# Fassy El Fehri et al., B.3.2 and Table 5 (ε = 5, d = 20, P = 8), but with clipping of each record, not of the average,
# which needs a larger C. ρ₁ is per silo here.
PAPER = DpFedSparse(
    epsilon=5.0, rounds=100, steps=20, acyclicity="notears", clip="product", share=0.5, gamma=0.5, l1=0.1,
    rho1=1000 / 8, rho1_growth=1.0, rho2=1.0, scaled=False,
)  # fmt: skip
PRESETS = {"paper": PAPER, "paper-mangold": replace(PAPER, mechanism="mangold")}


@dataclass(frozen=True)
class PrivacyPlan:
    """The releases of every silo and their costs, from public numbers alone."""

    promise: Promise
    scales: Cost[ReplaceOne]
    """once: the sizes from which the curvatures are computed"""
    spread: Cost[ReplaceOne]
    """every round: the spread of the residuals"""
    noise: StepNoise
    """each step: a selection and a gradient"""
    steps: int
    """K"""

    @property
    def choices(self) -> Cost[ReplaceOne]:
        """The cost of a round's selections."""
        return self.noise.selection * self.steps

    @property
    def gradients(self) -> Cost[ReplaceOne]:
        """The cost of a round's gradients."""
        return self.noise.step * self.steps


def plan(settings: DpFedSparse, schema: Schema) -> PrivacyPlan:
    """The plan; all its releases together cost at most the promised budget."""
    promise = settings.promise(
        schema,
        "from everyone but the silo that has the record",
        broken=(AVERAGED,) if settings.clip == "average" else (),
    )
    whole, delta = promise.cost, promise.delta
    steps = settings.steps or 2 * len(schema.variables)
    found = 0.0 if settings.smoothness == "known" else settings.smoothness_share
    spread = settings.spread_share if settings.settles_order else 0.0
    return PrivacyPlan(
        promise=promise,
        scales=whole.portion(found),
        spread=whole.portion(spread, settings.rounds) if spread else no_cost(ReplaceOne),
        noise=_step_noise(settings, whole, delta, 1 - found - spread, settings.rounds * steps),
        steps=steps,
    )


def _step_noise(
    settings: DpFedSparse, whole: Cost[ReplaceOne], delta: float, left: float, count: int
) -> GumbelGaussian | LaplacePair:
    """The noise of `count` steps, which together use the share `left` of the budget."""
    if settings.mechanism == "gumbel":
        return GumbelGaussian(
            whole.portion(left * settings.share, count), whole.portion(left * (1 - settings.share), count)
        )
    # Advanced composition must satisfy the (ε, δ) of the steps' share; the cost of the releases in zCDP is then
    # lower.
    pure = pure_epsilon(epsilon(whole.portion(left), delta), delta, 2 * count)
    return LaplacePair(min(pure, math.sqrt(2 * whole.portion(left, 2 * count).rho) * (1 - 1e-9)))


def tight(settings: DpFedSparse, schema: Schema) -> float | None:
    """A valid ε for all releases of the plan by tight accounting; None if tight accounting does not apply.

    The selections are bounded-range; everything else is Gaussian noise on a grid of at most 2⁻²⁰ deviations.
    """
    planned, d = plan(settings, schema), len(schema.variables)
    count = settings.rounds * planned.steps
    if planned.promise.broken or not isinstance(planned.noise, GumbelGaussian) or count > MAX_SELECTIONS:
        return None
    buckets = d * BUCKETS if settings.smoothness == "histogram" else d
    gaussians = [(1, planned.scales, buckets), (settings.rounds, planned.spread, d), (count, planned.noise.step, 1)]
    composition = Composition(
        selections=count,
        bounded_range=math.sqrt(8 * planned.noise.selection.rho) * SLACK,
        gaussian=math.sqrt(math.fsum(2 * times * cost.rho for times, cost, _ in gaussians)) * SLACK,
        lattice=sum(times * 2 * math.sqrt(2 * size * cost.rho) * MAX_GRID_STEP for times, cost, size in gaussians),
    )
    return tight_epsilon(planned.promise.delta, composition)
