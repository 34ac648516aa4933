"""The plan for spending the privacy budget of DP-Fed-Sparse-BNSL, from its settings and public numbers alone."""

import math
from dataclasses import dataclass

from ..core.promise import Cost, Promise, ReplaceOne, no_cost
from ..core.schema import Schema
from ..privacy.private_scales import BUCKETS
from ..privacy.tight import MAX_SELECTIONS, Composition, tight_epsilon
from ..privacy.zcdp import epsilon
from .settings import DpFedSparse
from .step_noise import SLACK, GumbelGaussian, LaplacePair, StepNoise, pure_epsilon

# Largest step of any noise grid, in standard deviations of the noise (`noise_on_grid`).
MAX_GRID_STEP = 2.0**-20
AVERAGED = "it clips the average, so one record can change a gradient by far more than its noise hides"


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
