"""A column at all silos: its profile at each, their sums, and what most of its cells suggest."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from fedbnsl.algorithms.errors import BadInput, shown

from .about import Declared
from .profile import ColumnProfile, Profile
from .scan import canonical_order

MANY_VALUES = 20
"""distinct values above which a note reports zeros that are far from all other values"""


@dataclass(frozen=True)
class JointColumn:
    """A column at all silos: its profile at each, and their sums."""

    parts: Mapping[str, ColumnProfile]
    """by silo, in the order of their names"""
    labels: tuple[str, ...] | None
    """the labels of all silos in canonical order; None if a silo does not report its labels"""
    odd: str
    """place of the first word among numbers"""

    @property
    def empty(self) -> int:
        """Number of empty cells."""
        return sum(part.empty for part in self.parts.values())

    @property
    def marks(self) -> Counter[str]:
        """The cells that mark a missing value, except those without content, and their numbers."""
        total = Counter[str]()
        for part in self.parts.values():
            total.update(dict(part.marks))
        return total

    @property
    def dates(self) -> bool:
        """Whether all filled cells are dates."""
        return bool(self.filled) and all(part.dates for part in self.parts.values() if part.filled)

    @property
    def periods(self) -> bool:
        """Whether all filled cells are quarters or months."""
        return bool(self.filled) and all(part.periods for part in self.parts.values() if part.filled)

    @property
    def has_words(self) -> bool:
        """Whether most of its cells are words."""
        return self.words > self.number_like and self.words >= self.numbers + self.number_like

    @property
    def numbers(self) -> int:
        """Number of cells that are numbers."""
        return sum(part.numbers for part in self.parts.values())

    @property
    def words(self) -> int:
        """Number of cells that are words."""
        return sum(part.words for part in self.parts.values())

    @property
    def number_like(self) -> int:
        """Number of words that look like numbers."""
        return sum(part.number_like for part in self.parts.values())

    @property
    def kinds_of_words(self) -> int:
        """Upper bound on the number of distinct words."""
        return sum(part.kinds_of_words for part in self.parts.values())

    @property
    def filled(self) -> int:
        """Number of cells that are not empty."""
        return self.numbers + self.words

    @property
    def negative(self) -> bool:
        """Whether a number is below 0."""
        return any(part.negative for part in self.parts.values())

    @property
    def zeros(self) -> int:
        """Number of cells that are 0."""
        return sum(part.zeros for part in self.parts.values())

    def majority(self, of: Callable[[ColumnProfile], str], otherwise: str) -> str:
        """What `of` says of the silos of most filled cells: `otherwise` if these disagree, "" if it is "" for most."""
        votes = Counter[str]()
        for part in self.parts.values():
            votes[of(part)] += part.filled
        if 2 * votes[""] >= self.filled:
            return ""
        word, number = votes.most_common(1)[0]
        return word if 2 * number > self.filled else otherwise

    @property
    def zeros_apart(self) -> dict[str, int]:
        """The number of zeros by silo, if all other values of the column are far from 0; else empty."""
        sized = [part for part in self.parts.values() if part.size is not None]
        if all(part.distinct <= MANY_VALUES for part in sized) or not all(part.apart for part in sized):
            return {}
        return {silo: part.zeros for silo, part in self.parts.items() if part.zeros}

    @property
    def values(self) -> int:
        """The number of distinct values, or a lower bound of it."""
        return len(self.labels) if self.labels is not None else max(part.distinct for part in self.parts.values())

    @property
    def whole(self) -> bool:
        """Whether all numbers are integers."""
        return all(part.whole for part in self.parts.values())

    @property
    def unique(self) -> bool:
        """Whether no silo has an empty cell or a value twice."""
        return all(part.unique for part in self.parts.values())

    @property
    def consecutive(self) -> bool:
        """Whether every silo has consecutive integers, each once."""
        return all(part.consecutive for part in self.parts.values())


LACKING = ColumnProfile(0, 0, 0, whole=True, unique=True, consecutive=True)
"""the description of a column that a silo does not have, for no rows"""


def joined_columns(
    place: str, profiles: Mapping[str, Profile], declared: Declared
) -> tuple[dict[str, Profile], dict[str, str]]:
    """The `profiles` with the same columns, and the columns that were left out for that, with the reason.

    With `--columns union` a column that a silo does not have is empty there; with `common` it is left out. Otherwise
    the profiles stay as they are. Raises `BadInput` for a union in a run with an ε, and for no common column.
    """
    how, names = declared.reading.columns, dict.fromkeys(name for one in profiles.values() for name in one.variables)
    lacking = [name for name in names if not all(name in one.columns for one in profiles.values())]
    if how == "same" or not lacking:
        return dict(profiles), {}
    if how == "common":
        if len(lacking) == len(names):
            raise BadInput(f"{place}: --columns common: no column is common to all silos")
        kept = {
            silo: replace(one, columns={name: one.columns[name] for name in one.variables if name not in lacking})
            for silo, one in profiles.items()
        }
        return kept, dict.fromkeys(lacking, "only some silos have it, and --columns is common")
    if declared.reading.private:
        raise BadInput(
            f"{place}: --columns union: not every silo has {shown(lacking[0])}, and with an ε an empty cell counts "
            "as 0: use --columns common"
        )
    filled = {
        silo: replace(one, columns={name: one.columns.get(name, replace(LACKING, empty=one.rows)) for name in names})
        for silo, one in profiles.items()
    }
    return filled, {}


def joint_columns(profiles: Mapping[str, Profile]) -> dict[str, JointColumn]:
    """The columns, in the order of the first silo, each with its profile at every silo."""
    first = next(iter(profiles.values()))
    return {
        name: _joint({silo: profile.columns[name] for silo, profile in profiles.items()}) for name in first.variables
    }


def _joint(parts: Mapping[str, ColumnProfile]) -> JointColumn:
    reported = [part.labels for part in parts.values() if part.filled]
    labels = None if None in reported else canonical_order(label for one in reported for label in one or ())
    return JointColumn(parts, labels, next((part.odd for part in parts.values() if part.odd), ""))
