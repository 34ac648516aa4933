"""The settings that the constraint-based algorithms share."""

from dataclasses import dataclass
from typing import Literal

from ..errors import require

Orientation = Literal["sepset", "conservative", "clear", "majority"]


@dataclass(frozen=True)
class ConstraintSettings:
    """Settings of a constraint-based search; the defaults are those of Wang, Ma & Wang 2023 where they state one."""

    alpha: float = 0.05
    """α, the level of the tests: p > α is taken for independence"""
    statistic: Literal["chi2", "g2"] = "chi2"
    """the statistic of discrete data; continuous data are tested by Fisher's z, mixed by likelihood ratios"""
    orientation: Orientation = "clear"
    """how colliders are identified: by the separating set found first (sepset), or by all separating sets, in one more
    exchange, of which all (conservative), four in five (clear) or more than half (majority) must agree"""
    depth: int = -1
    """the largest conditioning set (-1: as large as the graph requires)"""
    most_sets: int = 100
    """how many conditioning sets of one size to try for a pair, the most promising first (0: all)"""
    rows_per_cell: float = 1.0
    """a test is made only if there are at least this many rows per cell of its table"""
    cells: int = 2_000_000
    """approximate number of table cells to ask for in one exchange"""
    rounds: int = 10_000
    """exchanges, at most"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for a value outside its range."""
        require(0 < self.alpha < 1, "alpha", self.alpha, "above 0 and below 1")
        require(self.most_sets >= 0, "most_sets", self.most_sets, "0 or more")
        require(self.depth >= -1, "depth", self.depth, "-1 or more")
        require(self.rows_per_cell >= 0, "rows_per_cell", self.rows_per_cell, "0 or more")
        for name in ("cells", "rounds"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "1 or more")
