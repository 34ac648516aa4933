"""What every participant may know of the data: the columns, their levels, the silos and their numbers of rows."""

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .filling import NOTHING_FILLED, Filling
from .knowledge import NOTHING_KNOWN, Knowledge

FloatArray = NDArray[np.float64]
Kind = Literal["continuous", "discrete", "mixed", "time-series"]


@dataclass(frozen=True)
class Schema:
    """What every participant may know: the columns, and each silo's name and number of rows n_p.

    The numbers of rows are public, as in Fassy El Fehri et al., §5.
    `levels` gives the values of each discrete column, in the order of their codes; empty for continuous data. In mixed
    data the columns without levels are continuous.
    `stretches` gives the lengths of each silo's unbroken stretches of time series, whose rows follow each other in its
    table: between stretches lies a gap, or another series begins. Of continuous rows pooled from several silos they are
    the numbers of rows of those; otherwise empty.
    `units` are about how large each column's deviations from its means are, powers of two: in them, numbers fit the
    fixed-point arithmetic of secure sums (`statistics/units.py`); empty where nobody has asked.
    """

    variables: tuple[str, ...]
    rows: dict[str, int]
    kind: Kind = "continuous"
    levels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    stretches: dict[str, tuple[int, ...]] = field(default_factory=dict)
    units: tuple[float, ...] = ()
    empty: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """by silo, how many cells of each column are empty; nothing at all where no silo has any"""
    complete_rows: bool = False
    """whether silos leave out their rows with an empty cell: `rows` are those that remain"""
    streamed: tuple[str, ...] = ()
    """silos that read their rows in passes, as they are more than their memory is to hold"""
    aside: dict[str, str] = field(default_factory=dict)
    """columns that are in the silos' tables and not among the variables, with why"""
    filling: Filling = field(default=NOTHING_FILLED, compare=False)
    """what is known of the empty cells, once the silos have been asked"""
    knowledge: Knowledge = NOTHING_KNOWN
    """what is known of the graph beforehand"""

    @property
    def silos(self) -> tuple[str, ...]:
        """The names of the silos, sorted: the order in which anything is ever added up."""
        return tuple(sorted(self.rows))

    @property
    def discrete(self) -> NDArray[np.bool_]:
        """Which variables have levels, `[d]`."""
        return np.array([name in self.levels for name in self.variables], dtype=np.bool_)

    @property
    def gaps(self) -> bool:
        """Whether any cell of any silo is empty."""
        return any(any(counts) for counts in self.empty.values())

    @property
    def pairs_together(self) -> int:
        """About how many rows have both cells of a pair of columns: the mean over the pairs, were gaps independent."""
        if not self.gaps:
            return sum(self.rows.values())
        total = 0.0
        for silo, n in self.rows.items():
            share = 1 - np.array(self.empty[silo]) / n
            d = len(share)
            apart = (share.sum() ** 2 - (share**2).sum()) / max(d * (d - 1), 1)
            total += n * (apart if d > 1 else share[0])
        return round(total)

    def in_order(self) -> "Schema":
        """Return the same schema with its silos in sorted order, as a server keeps it."""
        return replace(
            self,
            rows=dict(sorted(self.rows.items())),
            stretches=dict(sorted(self.stretches.items())),
            empty=dict(sorted(self.empty.items())),
        )

    def windows(self, lags: int) -> dict[str, int]:
        """Return, by silo, how many rows have `lags` rows of the same stretch before them; with 0 lags all rows."""
        if not lags:
            return dict(self.rows)
        return {silo: sum(max(length - lags, 0) for length in self.stretches[silo]) for silo in self.rows}
