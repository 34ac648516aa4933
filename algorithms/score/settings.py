"""The settings of score-based algorithms: scores, searches over orders, searches on the silos' rows, fusions."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Le

from ..core.schema import AUTO, Lags, Schema, check_lags, require_fixed_lags
from ..core.settings import Auto, Count, CountOrNone, NonNegative, Positive, Quota, Seed, Settings
from ..errors import require
from ..statistics.lagged import window_schema

TargetRows = Literal["own", "left-out"]
"""use of the rows in which an experiment set a variable, in its scores (`experiment_scores.py`)"""


@dataclass(frozen=True)
class ScoreSettings(Settings):
    """Settings of the scores of discrete data."""

    score: Literal["bdeu", "bic"] = "bdeu"
    """score of discrete data"""
    ess: Positive = 1.0
    """equivalent sample size of BDeu"""
    expected_parents: NonNegative = 1.0
    """structure prior of BDeu: the expected number of parents of a variable; 0: no prior"""


@dataclass(frozen=True)
class OrderSettings(Settings):
    """Settings of a search over orders of the variables with several starts (`order_starts.py`)."""

    starts: Count = 10
    """largest number of random orders to start from"""
    agreeing_starts: Count | Auto = "auto"
    """the search ends when this number of starts have reached the same best score; auto: 3, for d > 100 variables 300 /
    d, at least 1"""
    patience: Count = 3
    """a search from one start ends after this number of further orders in a row without improvement"""
    seed: Seed = 0
    """seed of the random orders; a run sets its own seed"""

    def agreeing_starts_of(self, d: int) -> int:
        """The number of starts that must agree in a search over `d` variables.

        It is smaller for large d, where nearly all starts agree and a start takes long.
        """
        return max(1, min(3, 300 // d)) if self.agreeing_starts == "auto" else self.agreeing_starts


EXACT_PARENTS = 5
"""maximum number of parents of a variable in the exact search"""


@dataclass(frozen=True)
class SearchSettings(ScoreSettings):
    """Settings of a search over all rows; with equal settings, pooled rows and sums over silos give the same graph."""

    mixed_score: Literal["degenerate-gaussian", "conditional-gaussian"] = "degenerate-gaussian"
    """for mixed data; conditional-gaussian: a separate Gaussian for every configuration of labels, which takes as many
    exchanges as counts, and sends the moments of each configuration"""
    refine: bool = False
    """GES: followed by BOSS from one order, with parents at most two edges away in GES's graph; the result is the class
    with the better score"""
    most_cells: Count = 1 << 15
    """families with larger count tables are excluded: their cells would have too few rows"""
    starts: Count | Auto = "auto"
    """BOSS: largest number of random starts; auto: 10, for d > 40 discrete variables 400 / d, at least 1"""
    exact: Annotated[int, Ge(0), Le(16)] = 11
    """BOSS of at most this number of discrete variables ends with an exact search over families of few parents; 0:
    never"""
    seed: Seed = 0
    """seed of the random orders, and of the order in which equally good changes are considered"""

    def in_tables(self, kind: str) -> bool:
        """Whether scores of this `kind` of data come from tables that are requested during the search."""
        return kind == "discrete" or (kind == "mixed" and self.mixed_score == "conditional-gaussian")

    def starts_of(self, d: int) -> int:
        """The number of orders of `d` variables to start from; fewer for large d: a start takes time in d³."""
        return max(1, min(10, 400 // d)) if self.starts == "auto" else self.starts

    def exact_parents_of(self, d: int) -> int:
        """The maximum number of parents in the exact search over `d` variables; 0 means that there is no search."""
        return EXACT_PARENTS if d <= self.exact else 0


@dataclass(frozen=True)
class SecureSearch(SearchSettings):
    """Settings of `secure-ges` and `secure-boss`."""

    lookahead: CountOrNone = 8
    """number of moves to look ahead (BOSS: any positive number means the whole sweep)"""
    candidates: CountOrNone | Auto = "auto"
    """GES on labels: edges of a variable are considered only to this number of other variables, those with the greatest
    marginal gains. A smaller number needs fewer tables, but may miss edges; 0: all; auto: all, or as many as
    --megabytes allows"""
    cells: int = 4_000_000
    """approximate largest number of table cells to request in one exchange"""
    rounds: Count = 10_000
    """largest number of exchanges"""
    weights: Literal["common", "own"] = "common"
    """for numbers; common: all silos have the same coefficients; own: each silo fits its own coefficients, and the
    silos' scores are added up, for silos that share a structure but differ in the strength of effects"""
    segments: Count = 1
    """time series with weights=own: number of consecutive equal parts of each series with separate weights, for
    strengths that change over time"""
    lags: Lags = AUTO
    """time series: how many steps back an edge may reach; auto: by BIC, in an exchange before the search"""
    target_rows: TargetRows = "own"
    """experiments: use of the rows in which a variable was set, in the score of this variable; own: scored with
    separate parameters; left-out: not scored, which is exact if experiments cut a variable off from its causes"""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.cells >= self.most_cells, "cells", self.cells, f"at least most_cells, {self.most_cells}")
        require(self.segments == 1 or self.own_scores, "segments", self.segments, "1, or with weights=own more")

    @property
    def center_series(self) -> bool:
        """Always True: the moments of windows are centred by the means of each series."""
        return True

    def reach(self, schema: Schema) -> int:
        """The number of lags of the windows; 0 unless the data are time series.

        Raises `BadInput`, naming the silo, if series are too short, and if the number of lags is not chosen yet.
        """
        if schema.kind != "time-series":
            return 0
        lags = require_fixed_lags(self.lags)
        check_lags(schema, lags)
        return lags

    def columns(self, schema: Schema) -> Schema:
        """The public schema of the rows from which the search learns: rows of the table, or windows of time series."""
        reach = self.reach(schema)
        return window_schema(schema, reach) if reach else schema

    @property
    def own_scores(self) -> bool:
        """Whether each silo scores families with its own weights."""
        return self.weights == "own"

    def in_tables(self, kind: str) -> bool:
        """Whether scores of this `kind` of data are requested during the search."""
        return super().in_tables(kind) or self.own_scores


@dataclass(frozen=True)
class FusionSettings(ScoreSettings):
    """Settings of learning in silos and fusing their graphs."""

    quota: Quota = 0.5
    """an arc stays if max(1, ⌊quota·k⌋) or more of k silos have it in the common order: 0 is UNION, .25 C25, .5 C50"""
    insertion: Literal["wary", "full"] = "wary"
    """wary: a silo inserts x → y only if that improves the score without turning any neighbour of y, as in the
    published program; full: Chickering's operator"""
