"""The settings of DP-Fed-Sparse-BNSL."""

from dataclasses import dataclass, replace
from typing import Literal

from ..core.settings import Count, CountOrNone, Factor, NonNegative, Positive, Share
from ..errors import BadInput, require
from ..privacy.ledger import PrivateSettings
from ..published import presets_of
from .clipping import Kind


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


PRESETS = presets_of("dp-fed-sparse", DpFedSparse)
PRESETS["paper"] = PRESETS["paper-epsilon-5"]
PRESETS["paper-mangold"] = replace(PRESETS["paper"], mechanism="mangold")
