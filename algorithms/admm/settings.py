"""The settings of consensus ADMM: those of the papers' loop, and those of what we add to it."""

from dataclasses import dataclass

from ..errors import require


@dataclass(frozen=True)
class ConsensusSettings:
    """Settings of the papers' loop, with the papers' values for d = 20 variables and P = 8 silos.

    Fassy El Fehri et al., Algorithm 1 and Appendix B.3.2; Ng & Zhang 2022, Algorithm 1.
    """

    rho1: float = 1000 / 8
    """weight of h² per silo (the papers' ρ₁ is this times the number of silos)"""
    rho1_growth: float = 1.0
    """γ₁ of Ng & Zhang 2022, Eq. 6: the factor of ρ₁ from round to round"""
    rho2: float = 1.0
    """weight of the consensus between the silos and the server"""
    rho2_growth: float = 1.0
    """γ₂ of Ng & Zhang 2022, Eq. 7"""
    l1: float = 0.1
    """λ, the price of an edge's weight"""
    w_steps: int = 15_000
    """L-BFGS steps of the server a round"""
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
        for name in ("rho1", "rho2", "tolerance", "h_tolerance"):
            require(getattr(self, name) > 0, name, getattr(self, name), "above 0")
        for name in ("rho1_growth", "rho2_growth"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "1 or more")
        for name in ("l1", "threshold"):
            require(getattr(self, name) >= 0, name, getattr(self, name), "0 or more")
        for name in ("w_steps", "rounds"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "1 or more")


@dataclass(frozen=True)
class Additions:
    """Settings of what we add to the papers' loop; the defaults add nothing.

    With `scaled`, the silos first send (the sum of) their variables' mean squares m, d numbers, and every penalty is
    measured in them: ρ₂·m_i and λ·√(m_i·min m) in row i, ρ₁·min m for h. The consensus then gives way where the loss
    is flat and holds where it is steep, and the result does not depend on the unit of measurement. With `settle`, once
    h < `settle_h` the order of the variables is fixed and the rest is a convex lasso over the entries that respect it;
    `turns` then improves on the order, and `relax` takes the shrinkage off what the lasso kept.
    """

    scaled: bool = False
    """measure all penalties in the variables' mean squares"""
    settle: bool = False
    """fix the order of the variables once h is small"""
    settle_h: float = 2e-3
    """how small h must be for that"""
    turns: int = 0
    """how often, at most, to look for edges of the settled order that are better turned, and for a better order in the
    model of the fit (0: never)"""
    relax: bool = False
    """where rows are many, fit what the lasso kept, or all that the order allows, without λ before τ is applied"""
    rho2_settled: float = 0.03
    """ρ₂ once the order is settled: what is left is convex, and a looser consensus gets there sooner"""
    send_threshold: float = 0.0
    """changes of an entry smaller than this (times √(min m / m_i) where `scaled`) are held back, not sent"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for a value outside its range."""
        for name in ("rho2_settled", "settle_h"):
            require(getattr(self, name) > 0, name, getattr(self, name), "above 0")
        require(self.send_threshold >= 0, "send_threshold", self.send_threshold, "0 or more")
        require(self.turns >= 0, "turns", self.turns, "0 or more")

    @property
    def any(self) -> bool:
        """Whether anything is added to the papers' loop."""
        return self.scaled or self.settle or self.send_threshold > 0


@dataclass(frozen=True)
class RefinedSettings(Additions, ConsensusSettings):
    """Settings of the papers' loop with all that we add to it, and our values for both."""

    rho1: float = 0.3
    rho1_growth: float = 1.3
    rho2: float = 0.3
    l1: float = 0.05
    w_steps: int = 20
    scaled: bool = True
    settle: bool = True
    turns: int = 10
    relax: bool = True
    send_threshold: float = 0.01
    center: bool = True

    def __post_init__(self) -> None:
        """Raise `BadInput` for a value outside its range."""
        ConsensusSettings.__post_init__(self)
        Additions.__post_init__(self)
