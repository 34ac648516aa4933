"""How the options of a run want the silos' tables read."""

from fedbnsl.data.folder.declared import Reading

from ..options.learn import LearnOptions
from .spec import asks_for_privacy


def reading_of(options: LearnOptions) -> Reading:
    """Return which columns to take and what to do about empty cells; raises `BadInput` for a column told both ways."""
    return Reading(
        _stripped(options.ignore),
        _stripped(options.only),
        options.missing,
        silos_of(options),
        private=asks_for_privacy(options),
        learned_from=True,
    )


def silos_of(options: LearnOptions) -> tuple[str, ...]:
    """Return the silos that are to take part, sorted; none for all."""
    return tuple(sorted(set(_stripped(options.silos))))


def _stripped(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.strip() for name in names if name.strip())
