"""The settings that all consensus ADMM algorithms share, and what they mean."""

from dataclasses import dataclass

from ..errors import require


@dataclass(frozen=True)
class ConsensusSettings:
    """Settings of consensus ADMM; the defaults are ours, the papers' own are presets.

    With `scaled`, the silos first tell (the sum of) their variables' mean squares m, d numbers, and every penalty is
    measured in them: ρ₂·m_i and λ·√(m_i·min m) in row i, ρ₁·min m for h. The consensus then gives way where the loss
    is flat and holds where it is steep, and the result does not depend on the unit of measurement. With `settle`, once
    h < `settle_h` the order of the variables is fixed and the rest is a convex lasso over the entries that respect it;
    `turns` then improves on the order, and `relax` takes the shrinkage off what the lasso kept.
    """

    rho1: float = 0.3
    """weight of h² per silo (the papers' ρ₁ is this times the number of silos)"""
    rho1_growth: float = 1.3
    """γ₁ of 001 Eq. 6: the factor of ρ₁ from round to round"""
    rho2: float = 0.3
    """weight of the consensus between the silos and the server"""
    rho2_growth: float = 1.0
    """γ₂ of 001 Eq. 7"""
    l1: float = 0.05
    """λ, the price of an edge's weight"""
    scaled: bool = True
    """measure all penalties in the variables' mean squares"""
    settle: bool = True
    """fix the order of the variables once h is small"""
    settle_h: float = 2e-3
    """how small h must be for that"""
    turns: int = 10
    """how often, at most, to look for edges of the settled order that are better turned (0: never)"""
    relax: bool = True
    """fit again without λ on the entries the lasso kept (relaxed lasso), before τ is applied"""
    rho2_settled: float = 0.03
    """ρ₂ from then on that the order is settled: what is left is convex, and a looser consensus gets there sooner"""
    w_steps: int = 20
    """L-BFGS steps of the server a round"""
    hold: float = 0.01
    """changes of an entry smaller than this (times √(min m / m_i) where `scaled`) are held back, not sent"""
    rounds: int = 100
    """T, at most"""
    tolerance: float = 0.01
    """residuals, relative to the weights, at which the consensus counts as reached"""
    h_tolerance: float = 1e-8
    """h at which a run that settles no order counts as acyclic"""
    threshold: float = 0.3
    """τ: weights not above it are no edges"""
    repair: bool = False
    """drop the weakest edges on cycles that are left"""
    center: bool = False
    """subtract each silo's own column means before anything else"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for a value outside its range."""
        for name in ("rho1", "rho2", "rho2_settled", "settle_h", "tolerance", "h_tolerance"):
            require(getattr(self, name) > 0, name, getattr(self, name), "above 0")
        for name in ("rho1_growth", "rho2_growth"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "1 or more")
        for name in ("l1", "hold", "threshold"):
            require(getattr(self, name) >= 0, name, getattr(self, name), "0 or more")
        for name in ("w_steps", "rounds"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "1 or more")
        require(self.turns >= 0, "turns", self.turns, "0 or more")
