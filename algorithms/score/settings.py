"""The settings of the score, shared by all algorithms that search by it."""

from dataclasses import dataclass
from typing import Literal

from ..admm.settings import require


@dataclass(frozen=True)
class ScoreSettings:
    """What a structure is scored by. Continuous data are always scored by Gaussian BIC."""

    score: Literal["bdeu", "bic"] = "bdeu"
    """for discrete data"""
    ess: float = 1.0
    """equivalent sample size of BDeu"""
    expected_parents: float = 1.0
    """structure prior: how many parents a variable is expected to have; 0: no prior"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for a value outside its range."""
        require(self.ess > 0, "ess", self.ess, "above 0")
        require(self.expected_parents >= 0, "expected_parents", self.expected_parents, "0 or more")
