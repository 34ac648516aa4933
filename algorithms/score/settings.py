"""The settings that the score-based algorithms share."""

from dataclasses import dataclass
from typing import Literal

from ..errors import require


@dataclass(frozen=True)
class ScoreSettings:
    """What a structure is scored by. Continuous data always have Gaussian BIC, mixed the degenerate Gaussian score."""

    score: Literal["bdeu", "bic"] = "bdeu"
    """for discrete data"""
    ess: float = 1.0
    """equivalent sample size of BDeu"""
    expected_parents: float = 1.0
    """structure prior of BDeu: how many parents a variable is expected to have; 0: no prior"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for a value outside its range."""
        require(self.ess > 0, "ess", self.ess, "above 0")
        require(self.expected_parents >= 0, "expected_parents", self.expected_parents, "0 or more")


@dataclass(frozen=True)
class OrderSettings:
    """Settings of a search over orders of the variables that starts several times (`gaussian_order.py`)."""

    starts: int = 10
    """random orders to start from, at most"""
    agreeing: int | Literal["auto"] = "auto"
    """no other start once so many ended at the same best score; auto: 3, of d > 100 variables 300 / d, at least 1"""
    patience: int = 3
    """how many orders of the class found may bring nothing before a search ends"""
    sweeps: int = 50
    """most sweeps of moves from one order"""
    seed: int = 0
    """which random orders; a run fills in its own seed"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for a value outside its range."""
        for name in ("starts", "patience", "sweeps"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "1 or more")
        if self.agreeing != "auto":
            require(self.agreeing >= 1, "agreeing", self.agreeing, "1 or more, or auto")
        require(self.seed >= 0, "seed", self.seed, "0 or more")

    def agreeing_of(self, d: int) -> int:
        """Return how many starts must agree in a search over `d` variables: where d is great, they nearly always do."""
        return max(1, min(3, 300 // d)) if self.agreeing == "auto" else self.agreeing


@dataclass(frozen=True)
class SearchSettings(ScoreSettings):
    """Settings of a search over all rows, pooled or by sums: with equal settings the two find the same graph."""

    mixed_score: Literal["degenerate-gaussian", "conditional-gaussian"] = "degenerate-gaussian"
    """for mixed data; conditional-gaussian: another Gaussian for every configuration of labels, which takes as many
    exchanges as counts do, and sends as many moments for each of them"""
    turning: bool = True
    """GES: also turn edges, and repeat all phases until nothing changes"""
    most_cells: int = 1 << 15
    """families whose count table has more cells are not considered: too few rows would fall in each cell"""
    starts: int | Literal["auto"] = "auto"
    """BOSS: random orders to start from, at most; auto: 10, of d > 40 discrete variables 400 / d, at least 1"""
    exact: int = 11
    """BOSS of at most so many discrete variables ends with an exact search over families of few parents; 0: never"""
    exact_parents: int = 5
    """most parents of a variable in that exact search"""
    seed: int = 0
    """of the random orders, and of the order in which equally good changes are considered"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for a value outside its range."""
        super().__post_init__()
        require(self.most_cells >= 1, "most_cells", self.most_cells, "1 or more")
        if self.starts != "auto":
            require(self.starts >= 1, "starts", self.starts, "1 or more, or auto")
        require(0 <= self.exact <= 16, "exact", self.exact, "from 0 to 16")
        require(self.exact_parents >= 1, "exact_parents", self.exact_parents, "1 or more")
        require(self.seed >= 0, "seed", self.seed, "0 or more")

    def in_tables(self, kind: str) -> bool:
        """Return whether scores of that `kind` of data come from tables that are asked for as the search goes on."""
        return kind == "discrete" or (kind == "mixed" and self.mixed_score == "conditional-gaussian")

    def starts_of(self, d: int) -> int:
        """Return how many orders of `d` variables to start from: a start takes about as long as d³ scores."""
        return max(1, min(10, 400 // d)) if self.starts == "auto" else self.starts

    def exact_parents_of(self, d: int) -> int:
        """Return the most parents in the exact search over `d` variables; 0: there is none."""
        return self.exact_parents if d <= self.exact else 0


@dataclass(frozen=True)
class FusionSettings(ScoreSettings):
    """Settings of learning in silos and fusing their graphs."""

    quota: float = 0.5
    """an arc is kept if max(1, ⌊quota·k⌋) of k silos have it in the common order: 0 is UNION, .25 C25, .5 C50"""
    insertion: Literal["wary", "full"] = "wary"
    """wary: a silo inserts x → y only if that gains without turning any neighbour of y, as the published program does;
    full: Chickering's operator"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for a value outside its range."""
        super().__post_init__()
        require(0 <= self.quota <= 1, "quota", self.quota, "from 0 to 1")
