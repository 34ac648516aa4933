"""What a user can get wrong, and how it is said."""

from collections.abc import Iterable
from difflib import get_close_matches


class BadInput(ValueError):  # noqa: N818 - the word users see
    """Something the user gave is wrong: one clear line naming file, column, row and value; the program exits with 2."""

    exit_code = 2

    def _render_traceback_(self, *_: object) -> list[str]:
        """Return what a notebook shows in place of a traceback: the line alone, as IPython asks the error for it."""
        return [f"{type(self).__name__}: {self}"]


class SilosAway(BadInput):
    """Silos that a run needs cannot be reached, which is worth another attempt; the program exits with 3."""

    exit_code = 3


class RenamedWarning(FutureWarning):
    """A name that the user gave is deprecated: the message has the new one."""


SHOWN = 40
"""letters of a value that a message quotes"""


def shown(value: str) -> str:
    """`value` quoted for a message, on one line and not too long."""
    return repr(value if len(value) <= SHOWN else value[:SHOWN] + "…")


def choices_text(given: str, known: Iterable[str]) -> str:
    """Return what there is in place of a name that there is not, for a message: the nearest first, then all."""
    names = list(known)
    near = get_close_matches(given, names, 1)
    meant = f"did you mean {near[0]}? " if near else ""
    return f"{meant}there are {', '.join(names) or 'none'}"


def require(holds: bool, name: str, value: float, range_: str) -> None:
    """Raise `BadInput` naming the parameter, its value and what it must be, unless it `holds`."""
    require_number(holds, f"parameter {name}", value, range_)


def require_number(holds: bool, name: str, value: float | str, range_: str) -> None:
    """Raise `BadInput` naming the number, its value and what it must be, unless it `holds`."""
    if not holds:
        raise BadInput(f"{name} is {value}: it must be {range_}")
