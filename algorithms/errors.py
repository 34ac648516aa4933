"""Errors in the user's input, and helpers for their messages."""

from collections.abc import Iterable
from difflib import get_close_matches


class BadInput(ValueError):  # noqa: N818 - the word users see
    """Invalid user input. The message says where the fault is; the program exits with code 2."""

    exit_code = 2

    def _render_traceback_(self, *_: object) -> list[str]:
        """The line that IPython shows in a notebook instead of a traceback."""
        return [f"{type(self).__name__}: {self}"]


class SilosUnavailable(BadInput):
    """Some silos of a run cannot be reached, and a retry may succeed; the program exits with code 3."""

    exit_code = 3


class RenamedWarning(FutureWarning):
    """A name given by the user is deprecated; the message has the new name."""


MAX_QUOTED_LENGTH = 40
"""maximum number of characters of a value quoted in a message"""


def quoted(value: str) -> str:
    """`value` quoted for a message, on one line, truncated to `MAX_QUOTED_LENGTH` characters."""
    return repr(value if len(value) <= MAX_QUOTED_LENGTH else value[:MAX_QUOTED_LENGTH] + "…")


def choices_text(given: str, available: Iterable[str]) -> str:
    """The end of a message about the unknown name `given`: a similar name, if there is one, and all available names."""
    names = list(available)
    near = get_close_matches(given, names, 1)
    suggestion = f"did you mean {near[0]}? " if near else ""
    return f"{suggestion}available: {', '.join(names) or 'none'}"


def require(valid: bool, name: str, value: float | str, range_: str) -> None:
    """Raise `BadInput` naming the parameter, its value and its range, unless `valid`."""
    require_number(valid, f"parameter {name}", value, range_)


def require_number(valid: bool, name: str, value: float | str, range_: str) -> None:
    """Raise `BadInput` naming the number, its value and its range, unless `valid`."""
    if not valid:
        raise BadInput(f"{name} is {value}: it must be {range_}")
