"""The public schema of the data: the columns and their levels, the silos and their numbers of rows.

With it travel the model of empty cells that all silos have estimated before a run (`ImputationModel`; public, as sums
over them are), and the number of lags that a federation's series support.

Which names a variable may have, and the one line that says what is wrong with one.

A number of things in words.

Names in CSV files that people open in a spreadsheet, which would take some of them for formulas.

A name that begins with =, +, -, @, a tab or a carriage return is written with an apostrophe before it. So is one that
begins with apostrophes and then one of these, so that every name is read back as it was.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import BadInput, require_number, shown
from .knowledge import NO_KNOWLEDGE, Knowledge


def name_fault(name: str) -> str | None:
    """Return what is wrong with the name of a column, None if nothing is."""
    if not name:
        return "has no name (if it is an index, write the table without it)"
    if name != name.strip():
        return f"has a name with spaces around it, {shown(name)}"
    if any(unicodedata.category(letter) in ("Cc", "Cs") or letter == "\ufeff" for letter in name):
        return f"has a name with a control character, {shown(name)}"
    return None


def check_names(place: str, names: Sequence[str]) -> None:
    """Raise `BadInput` if a column has no usable name, or two columns have the same. `place` is file and line."""
    if not names:
        raise BadInput(f"{place}: no columns")
    seen: dict[str, int] = {}
    for number, name in enumerate(names, start=1):
        fault = name_fault(name)
        if fault:
            raise BadInput(f"{place}: column {number} {fault}")
        if name in seen:
            raise BadInput(f"{place}: columns {seen[name]} and {number} have the same name {shown(name)}")
        seen[name] = number


def pluralize(number: int, one: str, several: str = "") -> str:
    """`number` with what it counts: `one` of them, or `several`, by default that with an s, as in "1 round"."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


FORMULA = re.compile(r"'*[=+\-@\t\r]")


def escape_formula(name: str) -> str:
    """`name` as it is written."""
    return f"'{name}" if FORMULA.match(name) else name


def unescape_formula(cell: str) -> str:
    """The name that `safe_cell` has written as `cell`."""
    return cell[1:] if cell.startswith("'") and FORMULA.match(cell) else cell


FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ImputationModel:
    """A model of the columns with which each silo models or imputes its empty cells; empty by default.

    For continuous and mixed data it is a covariance, for discrete data a Bayesian network. Imputed values never leave
    the silo.
    """

    covariance: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    """of the coded columns about the silos' own means, `[D, D]` (`statistics/em.py`)"""
    dag: NDArray[np.bool_] = field(default_factory=lambda: np.empty((0, 0), np.bool_))
    """`[d, d]`"""
    tables: FloatArray = field(default_factory=lambda: np.empty(0))
    """P(variable | parents), family after family as in `parameters/tables.py`, each with the child's levels last"""
    rows: int = 0
    """the effective number of complete rows: the mean over all pairs of columns of the rows in which both are known"""


NO_IMPUTATION = ImputationModel()


Kind = Literal["continuous", "discrete", "mixed", "time-series"]


@dataclass(frozen=True)
class Schema:
    """The public facts about the data: the columns, and each silo's name and number of rows n_p.

    The numbers of rows are public, as in Fassy El Fehri et al., §5.
    `levels` gives the values of each discrete column, in the order of their codes; empty for continuous data. In mixed
    data the columns without levels are continuous.
    `stretches` gives the lengths of each silo's unbroken stretches of time series, whose rows follow each other in its
    table: between stretches lies a gap, or another series begins. Of continuous rows pooled from several silos they are
    the numbers of rows of those; otherwise empty.
    `units` are about each column's standard deviation, as powers of two: in them, numbers fit the fixed-point
    arithmetic of secure sums (`statistics/moments.py`); empty before that exchange.
    """

    variables: tuple[str, ...]
    rows: dict[str, int]
    kind: Kind = "continuous"
    levels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    stretches: dict[str, tuple[int, ...]] = field(default_factory=dict)
    units: tuple[float, ...] = ()
    empty: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """by silo, the number of empty cells of each column; empty if no silo has any"""
    complete_rows: bool = False
    """whether silos leave out rows with an empty cell: `rows` are the remaining ones"""
    streamed: tuple[str, ...] = ()
    """silos that read their rows in passes, as these exceed their memory limit"""
    aside: dict[str, str] = field(default_factory=dict)
    """excluded columns of the silos' tables, with the reason"""
    imputation_model: ImputationModel = field(default=NO_IMPUTATION, compare=False)
    """the model of the empty cells, after the exchange that estimates it"""
    knowledge: Knowledge = NO_KNOWLEDGE
    """background knowledge of the graph"""

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

    def of_silos(self, silos: tuple[str, ...]) -> "Schema":
        """The same of these `silos` alone."""
        return replace(
            self,
            rows={silo: self.rows[silo] for silo in silos},
            stretches={silo: lengths for silo, lengths in self.stretches.items() if silo in silos},
            empty={silo: counts for silo, counts in self.empty.items() if silo in silos},
        )

    def in_order(self) -> "Schema":
        """The same schema with its silos in sorted order, as a server keeps it."""
        return replace(
            self,
            rows=dict(sorted(self.rows.items())),
            stretches=dict(sorted(self.stretches.items())),
            empty=dict(sorted(self.empty.items())),
        )

    def windows(self, lags: int) -> dict[str, int]:
        """Return, by silo, the number of rows with `lags` earlier rows in the same stretch; with 0 lags all rows."""
        if not lags:
            return dict(self.rows)
        return {silo: sum(max(length - lags, 0) for length in self.stretches[silo]) for silo in self.rows}


Lags = int | Literal["auto"]
AUTO: Literal["auto"] = "auto"


def require_lags(lags: Lags) -> None:
    """Raise `BadInput` for a lag order that is neither 1 or more nor auto."""
    require_number(lags == AUTO or lags >= 1, "parameter lags", lags, "1 or more, or auto")


def check_lags(schema: Schema, lags: int) -> None:
    """Raise `BadInput`, naming the silo, unless each has a stretch of `lags` + 2 rows, so of two windows, at least."""
    for silo in schema.silos:
        longest = max(schema.stretches[silo], default=0)
        if longest < lags + 2:
            raise BadInput(
                f"silo {silo}: fewer rows than lags + 2: its longest unbroken series has {longest} rows, "
                f"lags = {lags} need at least {lags + 2}"
            )


def longest_reach(schema: Schema, most: int) -> int:
    """The number of lags, up to `most`, that all series support. Raises `BadInput` if a silo's support none."""
    check_lags(schema, 1)
    return min(most, *(max(schema.stretches[silo]) - 2 for silo in schema.silos))


def summed_lags(schema: Schema, lags: Lags, most: int) -> int:
    """The number of lags in the sum: `lags`, or `longest_reach` if they are yet to be chosen.

    Raises `BadInput` naming a silo whose series are too short.
    """
    if lags == AUTO:
        return longest_reach(schema, most)
    check_lags(schema, lags)
    return lags


def require_fixed_lags(lags: Lags) -> int:
    """A lag order that is a number. Raises `BadInput` for one that has yet to be chosen."""
    if lags == AUTO:
        raise BadInput("parameter lags is auto, but no exchange chose the lags before the rounds")
    return lags
