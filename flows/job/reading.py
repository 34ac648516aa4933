"""How the options of a run want the silos' tables read."""

from fedbnsl.data.folder.declared import Reading

from ..options.learn import LearnOptions


def reading_of(options: LearnOptions) -> Reading:
    """Return which columns to take and what to do about empty cells; raises `BadInput` for a column told both ways."""
    return Reading(
        _stripped(options.ignore),
        _stripped(options.only),
        options.missing,
        private=options.epsilon is not None,
        learned_from=True,
    )


def _stripped(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.strip() for name in names if name.strip())
