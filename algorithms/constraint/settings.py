"""The settings of all constraint-based algorithms."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge

from ..core.settings import Count, CountOrNone, NonNegative, Settings, Share

Orientation = Literal["sepset", "conservative", "clear", "majority"]


@dataclass(frozen=True)
class ConstraintSettings(Settings):
    """Settings of a constraint-based search; the defaults are those of Wang, Ma & Wang 2023 if they state one."""

    alpha: Share = 0.05
    """α, the level of the tests: p > α counts as independence"""
    statistic: Literal["chi2", "g2"] = "chi2"
    """the statistic of discrete data; continuous data are tested by Fisher's z, mixed by likelihood ratios"""
    orientation: Orientation = "clear"
    """how colliders are identified: by the separating set found first (sepset); or, with one more exchange, by all
    separating sets, of which all (conservative), four in five (clear) or more than half (majority) must agree"""
    depth: Annotated[int, Ge(-1)] = -1
    """the largest conditioning set (-1: as large as the graph requires)"""
    max_sets: CountOrNone = 100
    """number of conditioning sets of one size to try for a pair, the most promising first (0: all)"""
    rows_per_cell: NonNegative = 1.0
    """a test is made only with at least this number of rows per cell of its table"""
    cells: Count = 2_000_000
    """approximate number of table cells to request in one exchange"""
    rounds: Count = 10_000
    """largest number of exchanges"""
