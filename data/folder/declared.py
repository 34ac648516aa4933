"""What is said of a federated data set before it is read: by its `about.json`, and by those who read it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from fedbnsl.algorithms.core.schema import Kind
from fedbnsl.algorithms.errors import BadInput

from .about import declared_levels
from .form import NO_FORM, Form

ColumnKind = Literal["continuous", "discrete"]
Missing = Literal["model", "complete-rows", "refuse"]
IGNORED, NOT_ASKED_FOR = "left out by --ignore", "not among --only"


@dataclass(frozen=True)
class Reading:
    """What those who read a data set want of it."""

    ignore: tuple[str, ...] = ()
    """columns to leave out"""
    only: tuple[str, ...] = ()
    """columns to take, all others left out; empty for all"""
    missing: Missing = "model"
    """what to do about empty cells: keep them for the learner, leave out their rows, or refuse them"""
    silos: tuple[str, ...] = ()
    """the silos to take, all others left out; empty for all"""
    private: bool = False
    """whether a run with a privacy budget reads: nothing is then told of rows but their number"""

    learned_from: bool = False
    """whether a learner is to compute with the numbers: sizes whose powers are no numbers are then refused"""

    def __post_init__(self) -> None:
        """Refuse a column that is both asked for and left out."""
        both = sorted(set(self.ignore) & set(self.only))
        if both:
            raise BadInput(f"--ignore and --only both name the column '{both[0]}'")

    def leaves_out(self, name: str) -> str | None:
        """Return why a column is left out, None if it is not."""
        if name in self.ignore:
            return IGNORED
        return NOT_ASKED_FOR if self.only and name not in self.only else None


@dataclass(frozen=True)
class Declared:
    """What `about.json` declares, and how the data are to be read: a silo is told all of it."""

    kind: Kind | None = None
    columns: Mapping[str, ColumnKind] = field(default_factory=dict)
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    marks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """by column, the cells that stand for a missing value besides the usual ones"""
    form: Form = NO_FORM
    step: float | None = None
    """between two times of time series"""
    reading: Reading = Reading()
    complete: tuple[str, ...] = ()
    """the variables of which a row must have all, if rows with an empty cell are left out or refused"""

    def kind_of(self, name: str) -> ColumnKind | None:
        """Return the kind that is declared for a column, None if nothing is."""
        if name in self.levels:
            return "discrete"
        if name in self.columns:
            return self.columns[name]
        return self.kind if self.kind in ("continuous", "discrete") else None

    def keeps(self, name: str) -> bool:
        """Say whether a column is read."""
        return self.reading.leaves_out(name) is None

    @property
    def may_be_series(self) -> bool:
        """Whether a column of times would make the data time series."""
        return self.kind is None and not self.levels and not self.columns

    def of_complete(self, kinds: Mapping[str, ColumnKind]) -> "Declared":
        """Return the same for rows that have all variables, whose `kinds` are known by now."""
        return replace(self, complete=tuple(kinds), columns=kinds)


NOTHING_DECLARED = Declared()
READ_ALL = Reading()


def declared(about: Mapping[str, Any], reading: Reading = READ_ALL) -> Declared:
    """Return what the content of `about.json`, as `read_about` returns it, declares to those who read."""
    form = Form(*(about.get(key) for key in ("separator", "encoding", "decimal")))
    marks = {name: tuple(map(str, cells)) for name, cells in (about.get("missing") or {}).items()}
    levels = declared_levels(about)
    return Declared(about.get("kind"), about.get("columns") or {}, levels, marks, form, about.get("step"), reading)
