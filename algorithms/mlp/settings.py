"""Settings that all NOTEARS-MLP learners share, with the values of the authors' program."""

from dataclasses import dataclass

from ..errors import require


@dataclass(frozen=True)
class MlpSettings:
    """The network and its penalties (Zheng et al. 2020, §5 and their program)."""

    units: int = 10
    """hidden sigmoid units of each variable's network"""
    l1: float = 0.01
    """λ₁, the price of a first-layer weight"""
    l2: float = 0.01
    """λ₂, the price of a squared weight of either layer (half of it)"""
    start: int = 0
    """seed of the small random weights that every silo starts from"""
    threshold: float = 0.3
    """τ: norms of first-layer weights not above it are no edges"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for a value outside its range."""
        require(self.units >= 1, "units", self.units, "1 or more")
        for name in ("l1", "l2", "threshold", "start"):
            require(getattr(self, name) >= 0, name, getattr(self, name), "0 or more")
