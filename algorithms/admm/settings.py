"""Settings of consensus ADMM: those of the papers' loop, those of our additions, and both together."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from ..core.schema import AUTO, Schema
from ..core.settings import Auto, Count, CountOrNone, Factor, NonNegative, Positive, Settings

NOISE_SHARE = 0.7
"""λ with few rows, relative to the size of weights that are noise"""


@dataclass(frozen=True)
class ConsensusSettings(Settings):
    """Settings of the papers' loop, with the papers' values for d = 20 variables and P = 8 silos.

    Fassy El Fehri et al., Algorithm 1 and Appendix B.3.2; Ng & Zhang 2022, Algorithm 1.
    """

    rho1: Positive = 1000 / 8
    """weight of h² per silo (the papers' ρ₁ is this times the number of silos)"""
    rho1_growth: Factor = 1.0
    """γ₁ of Ng & Zhang 2022, Eq. 6: the factor of ρ₁ from round to round"""
    rho2: Positive = 1.0
    """weight of the consensus between the silos and the server"""
    rho2_growth: Factor = 1.0
    """γ₂ of Ng & Zhang 2022, Eq. 7"""
    l1: NonNegative | Auto = 0.1
    """λ, the ℓ₁ penalty on the edge weights; auto: a constant, or more if the rows are few"""
    least_l1: ClassVar[float] = 0.05
    """the constant of auto"""
    rounds: Count = 100
    """T, the maximum number of rounds"""
    tolerance: Positive = 0.01
    """residuals, relative to the weights, below which consensus is reached"""
    h_tolerance: Positive = 1e-8
    """h below which the graph counts as acyclic, in runs that do not fix the order"""
    threshold: NonNegative = 0.3
    """τ: edges of at most this absolute weight are dropped"""
    repair: Literal["no", "cycles", "threshold"] = "no"
    """how cycles are removed; cycles: drop the weakest edges on cycles; threshold: drop the weakest edges of the graph
    until it has no cycle, as Ng & Zhang do"""
    center: bool = False
    """subtract each silo's own column means first"""

    def price(self, schema: Schema) -> float:
        """λ for the data of `schema`.

        If λ is automatic, it is `least_l1`, or a share of √(ln d / n) if that is more, for n rows of all silos: with
        few rows, weights of this size are noise.
        """
        if self.l1 != AUTO:
            return float(self.l1)
        noise = math.sqrt(math.log(max(len(schema.variables), 2)) / sum(schema.rows.values()))
        return max(self.least_l1, NOISE_SHARE * noise)


@dataclass(frozen=True)
class Additions(Settings):
    """Settings of our additions to the papers' loop; the defaults add nothing.

    With `scaled`, the silos first send the mean squares of their variables. Their mean over the silos, m, scales every
    penalty: ρ₂·m_i and λ·√(m_i·min m) in row i, ρ₁·min m for h. The consensus is then loose where the loss is flat and
    tight where the loss is steep, and the result does not depend on a common unit of measurement. With `fix_order`, the
    server fixes the order of the variables once h < `fix_order_h`. What remains is a convex lasso over the entries that
    respect the order. After that, `order_searches` improves the order, and `relax` removes the shrinkage of selected
    entries.
    """

    scaled: bool = False
    """scale all penalties by the variables' mean squares"""
    fix_order: bool = False
    """fix the order of the variables once h is small"""
    fix_order_h: ClassVar[float] = 2e-3
    """h below which the order is fixed; above 20 variables, the limit is this times d / 20"""
    order_searches: CountOrNone = 0
    """maximum number of searches for a better order after the order is fixed, by reversed edges and by the fitted model
    (0: none)"""
    relax: bool = False
    """with many rows, refit without λ before applying τ: the selected entries, or all entries that the order allows"""
    send_threshold: NonNegative = 0.0
    """silos send only changes of an entry of at least this size (times √(min m / m_i) with `scaled`)"""

    @property
    def any(self) -> bool:
        """Whether `scaled`, `fix_order` or `send_threshold` is on; `order_searches` and `relax` alone do not count."""
        return self.scaled or self.fix_order or self.send_threshold > 0


@dataclass(frozen=True)
class RefinedSettings(Additions, ConsensusSettings):
    """Settings of the papers' loop and of our additions, with our defaults."""

    rho1: Positive = 0.3
    rho1_growth: Factor = 1.3
    rho2: Positive = 0.3
    l1: NonNegative | Auto = AUTO
    scaled: bool = True
    fix_order: bool = True
    order_searches: CountOrNone = 10
    relax: bool = True
    send_threshold: NonNegative = 0.01
    center: bool = True
