"""What all silos together tell of a column."""

from collections.abc import Mapping
from dataclasses import dataclass

from .levels import in_order
from .profile import ColumnProfile, Profile


@dataclass(frozen=True)
class JointColumn:
    """A column of all silos: its profile in each of them, and the sums of these."""

    parts: Mapping[str, ColumnProfile]
    """by silo, in the order of their names"""
    labels: tuple[str, ...] | None
    """all that any silo has, in canonical order; None where some silo does not tell"""
    odd: str
    """where the first word among numbers stands"""

    @property
    def empty(self) -> int:
        """How many cells are empty."""
        return sum(part.empty for part in self.parts.values())

    @property
    def numbers(self) -> int:
        """How many cells are numbers."""
        return sum(part.numbers for part in self.parts.values())

    @property
    def words(self) -> int:
        """How many cells are words."""
        return sum(part.words for part in self.parts.values())

    @property
    def number_like(self) -> int:
        """How many of the words look like numbers."""
        return sum(part.number_like for part in self.parts.values())

    @property
    def kinds_of_words(self) -> int:
        """How many different words there are, at most."""
        return sum(part.kinds_of_words for part in self.parts.values())

    @property
    def filled(self) -> int:
        """How many cells are not empty."""
        return self.numbers + self.words

    @property
    def whole(self) -> bool:
        """Whether all numbers are whole."""
        return all(part.whole for part in self.parts.values())

    @property
    def unique(self) -> bool:
        """Whether no silo has an empty cell or a value twice."""
        return all(part.unique for part in self.parts.values())

    @property
    def consecutive(self) -> bool:
        """Whether every silo has whole numbers without a gap, each once."""
        return all(part.consecutive for part in self.parts.values())


def joint_columns(profiles: Mapping[str, Profile]) -> dict[str, JointColumn]:
    """Return all columns, which are those of the first silo, each with its parts silo after silo."""
    first = next(iter(profiles.values()))
    return {
        name: _joint({silo: profile.columns[name] for silo, profile in profiles.items()}) for name in first.variables
    }


def _joint(parts: Mapping[str, ColumnProfile]) -> JointColumn:
    told = [part.labels for part in parts.values() if part.filled]
    labels = None if None in told else in_order(label for one in told for label in one or ())
    return JointColumn(parts, labels, next((part.odd for part in parts.values() if part.odd), ""))
