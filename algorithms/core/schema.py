"""The public schema of the data: the columns and their levels, the silos and their numbers of rows.

An imputation model (`ImputationModel`) is part of the schema, because all silos estimate it together before a run. At
the end: the number of lags for which the time series of all silos are long enough.

Spreadsheets interpret some names in CSV files as formulas. So a name that begins with =, +, -, @, a tab or a carriage
return is written with an apostrophe before it. A name that begins with apostrophes and then one of these characters
also gets one more apostrophe, so that reading restores every name.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import BadInput, quoted
from .adjustment import NO_ADJUSTMENT, Adjustment
from .experiments import Experiments, Targets, experiments_of, experiments_of_each
from .knowledge import NO_KNOWLEDGE, Knowledge, Prior
from .settings import Auto, Count

if TYPE_CHECKING:
    import pandas as pd


def name_fault(name: str) -> str | None:
    """The fault of a column name, as the end of a message; None if the name is valid."""
    if not name:
        return "has no name (if it is an index, write the table without it)"
    if name != name.strip():
        return f"has a name with spaces around it, {quoted(name)}"
    if any(unicodedata.category(letter) in ("Cc", "Cs") or letter == "\ufeff" for letter in name):
        return f"has a name with a control character, {quoted(name)}"
    return None


def check_names(place: str, names: Sequence[str]) -> None:
    """Raise `BadInput` for an invalid column name, or two columns with the same name.

    `place` is the file and the line of the names, for the message.
    """
    if not names:
        raise BadInput(f"{place}: no columns")
    seen: dict[str, int] = {}
    for number, name in enumerate(names, start=1):
        fault = name_fault(name)
        if fault:
            raise BadInput(f"{place}: column {number} {fault}")
        if name in seen:
            raise BadInput(f"{place}: columns {seen[name]} and {number} have the same name {quoted(name)}")
        seen[name] = number


FORMULA = re.compile(r"'*[=+\-@\t\r]")


def escape_formula(name: str) -> str:
    """`name` as it is written to a CSV file."""
    return f"'{name}" if FORMULA.match(name) else name


def unescape_formula(cell: str) -> str:
    """The name that `escape_formula` has written as `cell`."""
    return cell[1:] if cell.startswith("'") and FORMULA.match(cell) else cell


def escape_formulas(frame: "pd.DataFrame") -> "pd.DataFrame":
    """`frame` as it is written to a CSV file: names of columns and labels escaped, except labels that are numbers."""

    def escaped(cell: object) -> object:
        return escape_formula(cell) if isinstance(cell, str) and not _is_number(cell) else cell

    columns = {
        escape_formula(str(name)): column if column.dtype.kind in "biuf" else column.astype(object).map(escaped)
        for name, column in frame.items()
    }
    return type(frame)(columns, index=frame.index)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ImputationModel:
    """A model of the columns, with which each silo models or imputes its empty cells; empty by default.

    The model is a covariance for continuous and mixed data and for time series, and a Bayesian network for discrete
    data. The model is public, but imputed values never leave the silo.
    """

    covariance: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    """the covariance of the D coded columns (numbers, and indicators of labels) about each silo's means, `[D, D]`
    (`statistics/em.py`)"""
    dag: NDArray[np.bool_] = field(default_factory=lambda: np.empty((0, 0), np.bool_))
    """the DAG of the network, `[d, d]`"""
    tables: FloatArray = field(default_factory=lambda: np.empty(0))
    """P(variable | parents) of all families, flattened as in `parameters/tables.py`, the child's levels last"""
    rows: int = 0
    """the effective sample size: the number of rows in which both columns of a pair have values, averaged over pairs"""
    windows: int = 0
    """for time series, the number of windows (a row together with its lagged rows); `rows` is then the effective number
    of windows, and `covariance` is the covariance of windows"""
    apart: NDArray[np.bool_] = field(default_factory=lambda: np.empty((0, 0), np.bool_))
    """for each pair of variables, whether no row has values of both, so that their covariance is not identified,
    `[d, d]`; empty if there is no such pair"""
    screens: tuple[FloatArray, ...] = ()
    """covariances `[D, D]` with which silos find outliers and treat them as empty cells, one after the other
    (`statistics/outliers.py`)"""


NO_IMPUTATION = ImputationModel()


Kind = Literal["continuous", "discrete", "mixed", "time-series", "events"]
EVENT_COLUMNS = ("device", "time", "event", "start", "end")
"""columns of a table of events: number of the device (from 0), time, index of the event's type, and start and end of
the observation window"""
Transform = Literal["log", "log1p", "sqrt", "anscombe", "normal-scores", "log-ratio", "bounded"]
"""the transform of a column of numbers at each silo before learning (`statistics/transforms.py`)"""


SURVIVAL_EVENTS = ("0", "1")
"""the cells of a column of events: follow-up ended without the event (censored), or with it"""


@dataclass(frozen=True)
class Schema:
    """The public facts about the data: the columns, and each silo's name and number of rows n_p.

    The numbers of rows are public, as in Fassy El Fehri et al., §5.

    `levels` has the values of each discrete column, in the order of their codes; it is empty for continuous data. In
    mixed data the columns without levels are continuous. For event sequences, the variables are the types of events,
    and each row of a silo's table is one event, with the columns `EVENT_COLUMNS`.

    `stretches` divides the rows of each silo's table into consecutive parts, given by their lengths:

    - time series: the unbroken stretches; one ends at a gap or at the end of a series;
    - a table with conditions: the conditions;
    - continuous rows pooled from several silos: these silos.

    Other tables have none.

    `units` has, for each column, a power of two close to its standard deviation. In these units, numbers fit the
    fixed-point arithmetic of secure sums (`statistics/moments.py`). `units` is empty before the exchange that computes
    the units.
    """

    variables: tuple[str, ...]
    rows: dict[str, int]
    kind: Kind = "continuous"
    levels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    stretches: dict[str, tuple[int, ...]] = field(default_factory=dict)
    units: tuple[float, ...] = ()
    empty: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """by silo, the number of empty cells of each column; an empty dictionary if no silo has empty cells"""
    complete_rows: bool = False
    """whether silos drop rows with an empty cell; `rows` then counts the remaining rows"""
    streamed: tuple[str, ...] = ()
    """silos that read their rows in passes, because the rows exceed their memory limit"""
    aside: dict[str, str] = field(default_factory=dict)
    """for each excluded column of the silos' tables, the reason"""
    transforms: dict[str, Transform] = field(default_factory=dict)
    """by column, the transform that each silo applies; tables in memory have the untransformed numbers"""
    counts: tuple[str, ...] = ()
    """columns of counts: whole numbers from 0 or 1 on, skewed to the right"""
    dates: dict[str, tuple[str, str]] = field(default_factory=dict)
    """for each column of dates, which is read as days: the order of day, month and year, and the date of day 0"""
    unit_of: dict[str, str] = field(default_factory=dict)
    """by column, the unit of its numbers; "" for a column whose cells have other marks but no unit"""
    derived: dict[str, str] = field(default_factory=dict)
    """for each column of numbers that one or two other columns determine at every silo, the formula, such as the sum of
    x and y"""
    skewed: dict[str, Transform] = field(default_factory=dict)
    """for each skewed column without a transform, the transform that would make it nearly symmetric"""
    imputation_model: ImputationModel = field(default=NO_IMPUTATION, compare=False)
    """the model of the empty cells, after the exchange that estimates it"""
    independent_share: float = 1.0
    """the share of the rows that count as independent in scores and tests, because rows of one cluster depend on each
    other (`statistics/design_effect.py`)"""
    knowledge: Knowledge = NO_KNOWLEDGE
    """background knowledge of the graph"""
    adjustment: Adjustment = NO_ADJUSTMENT
    """the components that silos subtract from time series; `rows` and `stretches` describe the adjusted series"""
    targets: dict[str, Targets] = field(default_factory=dict)
    """for each silo and each of its conditions, the variables that an experiment set; empty without experiments"""
    condition_names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """for each silo, the names of its conditions, whose rows are its `stretches`; empty if the silos have no
    conditions"""
    compares_conditions: bool = False
    """whether each condition has its own sum, because the targets are unknown and the run finds them"""
    survival: dict[str, tuple[str, str]] = field(default_factory=dict)
    """for each survival outcome, its column of times and its column of events, which are not among the variables"""
    survival_empty: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """by silo, the number of empty cells of each of the `survival_columns`; empty if there are none"""

    @property
    def survival_columns(self) -> tuple[str, ...]:
        """The columns of times and events of the survival outcomes."""
        return tuple(dict.fromkeys(name for pair in self.survival.values() for name in pair))

    @property
    def nodes(self) -> tuple[str, ...]:
        """The variables of the learned graph: those of the tables, then the survival outcomes."""
        return (*self.variables, *self.survival)

    def with_survival_columns(self) -> "Schema":
        """The schema of the tables with the columns of survival outcomes as further variables; events are 0 or 1."""
        columns, d = self.survival_columns, len(self.variables)
        levels = self.levels | {event: SURVIVAL_EVENTS for _, event in self.survival.values()}
        none, none_added = (0,) * d, (0,) * len(columns)
        counted = dict.fromkeys((*self.empty, *self.survival_empty))
        return replace(
            self,
            variables=(*self.variables, *columns),
            kind="mixed" if columns else self.kind,
            levels=levels,
            empty={s: (*self.empty.get(s, none), *self.survival_empty.get(s, none_added)) for s in counted},
            survival={},
            survival_empty={},
        )

    def without_survival_columns(self, survival: dict[str, tuple[str, str]], kind: Kind) -> "Schema":
        """The schema without the columns of the outcomes in `survival` among its variables.

        This undoes `with_survival_columns`; `kind` is the kind of the other columns.
        """
        columns = tuple(dict.fromkeys(name for pair in survival.values() for name in pair))
        places = [self.variables.index(name) for name in columns]
        kept = [v for v in range(len(self.variables)) if v not in places]
        variables = tuple(self.variables[v] for v in kept)
        levels = {name: own for name, own in self.levels.items() if name not in columns}
        own, others = self._counts_of_empty(places), self._counts_of_empty(kept)
        remaining: dict[str, Any] = {
            name: {key: one for key, one in getattr(self, name).items() if key not in columns}
            for name in ("transforms", "dates", "unit_of", "derived", "skewed")
        }
        return replace(
            self,
            variables=variables,
            levels=levels,
            kind=kind,
            empty=others,
            counts=tuple(name for name in self.counts if name not in columns),
            survival=survival,
            survival_empty=own,
            **remaining,
        )

    def _counts_of_empty(self, places: Sequence[int]) -> dict[str, tuple[int, ...]]:
        """The numbers of empty cells of the columns at these `places`; {} if there are none."""
        found = {silo: tuple(counts[v] for v in places) for silo, counts in self.empty.items()}
        return found if any(map(any, found.values())) else {}

    @property
    def silos(self) -> tuple[str, ...]:
        """The names of the silos, sorted: the order of all sums over silos."""
        return tuple(sorted(self.rows))

    @property
    def table_columns(self) -> tuple[str, ...]:
        """The names of the columns of a silo's table: `EVENT_COLUMNS` for events, otherwise the variables."""
        return EVENT_COLUMNS if self.kind == "events" else self.variables

    @property
    def discrete(self) -> NDArray[np.bool_]:
        """Whether each variable has levels, `[d]`."""
        return np.array([name in self.levels for name in self.variables], dtype=np.bool_)

    @property
    def gaps(self) -> bool:
        """Whether any cell of any silo is empty, or may be treated as empty because it is an outlier."""
        return bool(self.imputation_model.screens) or any(any(counts) for counts in self.empty.values())

    @property
    def has_targets(self) -> bool:
        """Whether an experiment has, or may have, set a variable in any silo."""
        return self.compares_conditions or any(any(conditions) for conditions in self.targets.values())

    def conditions(self, silo: str) -> tuple[int, ...]:
        """The number of rows of each condition of `silo`, in the order of its rows; one number without conditions."""
        return self.stretches.get(silo, (self.rows[silo],))

    @property
    def named_conditions(self) -> dict[str, tuple[str, ...]]:
        """For each silo, the names of its conditions, or its own name if it has none."""
        return {silo: self.condition_names.get(silo, (silo,)) for silo in self.rows}

    @property
    def experiments(self) -> Experiments:
        """The sums from which variables are scored; raises `BadInput` for a variable that every condition targets."""
        if self.compares_conditions:
            return experiments_of_each(self.variables, self.named_conditions)
        sizes = {silo: len(self.conditions(silo)) for silo in self.rows}
        return experiments_of(self.variables, sizes, self.targets)

    @property
    def prior(self) -> Prior:
        """The background knowledge as matrices, with the pairs whose direction experiments determine."""
        known = self.knowledge.prior(self.variables)
        return replace(known, separated=self.experiments.separated) if self.has_targets else known

    @property
    def columns_apart(self) -> NDArray[np.bool_]:
        """For each pair of columns, whether no silo has values in both, `[d, d]`."""
        d = len(self.variables)
        together = np.zeros((d, d), np.bool_)
        for silo, n in self.rows.items():
            there = np.array(self.empty.get(silo, (0,) * d)) < n
            together |= np.outer(there, there)
        return ~together

    @property
    def pairs_together(self) -> int:
        """The number of rows in which both columns of a pair have values, averaged over all pairs of columns.

        It is an estimate from the number of empty cells, as if columns had empty cells independently of each other.
        """
        if not self.gaps:
            return sum(self.rows.values())
        total = 0.0
        for silo, n in self.rows.items():
            share = 1 - np.array(self.empty.get(silo, (0,) * len(self.variables))) / n
            d = len(share)
            both = (share.sum() ** 2 - (share**2).sum()) / max(d * (d - 1), 1)
            total += n * (both if d > 1 else share[0])
        return round(total)

    @property
    def effective_share(self) -> float:
        """The share of the rows that count as complete and independent in scores and tests.

        Cells may be empty, and rows of one cluster depend on each other.
        """
        complete = self.imputation_model.rows / sum(self.rows.values()) if self.gaps else 1.0
        return complete * self.independent_share

    def of_silos(self, silos: tuple[str, ...]) -> "Schema":
        """The schema of only these `silos`."""
        return replace(
            self,
            rows={silo: self.rows[silo] for silo in silos},
            stretches={silo: lengths for silo, lengths in self.stretches.items() if silo in silos},
            empty={silo: counts for silo, counts in self.empty.items() if silo in silos},
            survival_empty={silo: counts for silo, counts in self.survival_empty.items() if silo in silos},
            targets={silo: targets for silo, targets in self.targets.items() if silo in silos},
            condition_names={silo: names for silo, names in self.condition_names.items() if silo in silos},
        )

    def in_order(self) -> "Schema":
        """The schema with its silos in sorted order."""
        return replace(
            self,
            rows=dict(sorted(self.rows.items())),
            stretches=dict(sorted(self.stretches.items())),
            empty=dict(sorted(self.empty.items())),
            survival_empty=dict(sorted(self.survival_empty.items())),
            targets=dict(sorted(self.targets.items())),
            condition_names=dict(sorted(self.condition_names.items())),
        )

    def adjusted(self, adjustment: Adjustment) -> "Schema":
        """The schema of the adjusted series; differencing removes one row from each stretch.

        If the schema already has this adjustment, no further rows are removed.
        """
        if not adjustment.difference or self.adjustment == adjustment:
            return replace(self, adjustment=adjustment)
        stretches = {silo: tuple(n - 1 for n in lengths) for silo, lengths in self.stretches.items()}
        rows = {silo: sum(lengths) for silo, lengths in stretches.items()}
        return replace(self, adjustment=adjustment, stretches=stretches, rows=rows)

    def recorded_stretches(self, silo: str) -> tuple[int, ...]:
        """The lengths of the stretches of `silo` before any adjustment."""
        return tuple(n + self.adjustment.difference for n in self.stretches[silo])

    def windows(self, lags: int) -> dict[str, int]:
        """By silo, the number of rows with `lags` earlier rows in the same stretch; all rows if `lags` is 0."""
        if not lags:
            return dict(self.rows)
        return {silo: sum(max(length - lags, 0) for length in self.stretches[silo]) for silo in self.rows}


Lags = Count | Auto
AUTO: Literal["auto"] = "auto"
NOT_SERIES = '; if these rows are not time series, declare {"kind": "continuous"} in about.json, or "mixed" with labels'


def check_lags(schema: Schema, lags: int) -> None:
    """Raise `BadInput`, naming the silo, if a silo has no stretch of at least `lags` + 2 rows (two windows)."""
    for silo in schema.silos:
        longest = max(schema.stretches[silo], default=0)
        if longest < lags + 2:
            raise BadInput(
                f"silo {silo}: fewer rows than lags + 2: its longest unbroken series has {longest} rows, "
                f"lags = {lags} need at least {lags + 2}{NOT_SERIES}"
            )


def max_common_lags(schema: Schema, max_lags: int) -> int:
    """The largest number of lags, up to `max_lags`, for which every silo has a stretch of two windows.

    Raises `BadInput`, naming the silo, if a silo has no such stretch for one lag.
    """
    check_lags(schema, 1)
    return min(max_lags, *(max(schema.stretches[silo]) - 2 for silo in schema.silos))


def lags_to_sum(schema: Schema, lags: Lags, max_lags: int) -> int:
    """The number of lags in the sum: `lags`, or `max_common_lags` if `lags` is auto.

    Raises `BadInput`, naming the silo, if the series of a silo are too short.
    """
    if lags == AUTO:
        return max_common_lags(schema, max_lags)
    check_lags(schema, lags)
    return lags


def require_fixed_lags(lags: Lags) -> int:
    """`lags` as a number. Raises `BadInput` for auto."""
    if lags == AUTO:
        raise BadInput("parameter lags is auto, but no exchange has chosen the number of lags before the rounds")
    return lags
