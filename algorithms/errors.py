"""Errors in the user's input, and helpers for messages."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

UNEXPECTED, INVALID, UNAVAILABLE, STOPPED = 1, 2, 3, 130
EXIT_CODES = {
    0: "success",
    UNEXPECTED: "an error that nobody foresaw: one line with the name of a log, which only this user can read",
    INVALID: "invalid input or settings, or a full or unusable disk; one line states what is wrong",
    UNAVAILABLE: "silos were unreachable; retry, with `--resume` if the run had begun",
    STOPPED: "stopped by Ctrl-C or SIGTERM, or cancelled in Prefect; `--resume` continues the run",
}
"""the exit codes of the command line and their meaning, as `docs/failures.md` lists them"""


class BadInput(ValueError):  # noqa: N818 - the word users see
    """Invalid input or settings; the message says where the fault is.

    The first sentence of each of these classes, its exit code and `may_pass` are in `docs/failures.md`.
    """

    exit_code = INVALID
    may_pass = False
    """whether the same run may succeed later, without other input"""

    def _render_traceback_(self, *_: object) -> list[str]:
        """The line that IPython shows in a notebook instead of a traceback."""
        return [f"{type(self).__name__}: {foreign_text(str(self), MAX_LINE_LENGTH)}"]


class NotApplicable(BadInput):
    """The algorithm does not learn from data of this kind, or needs a true graph."""


class SilosUnavailable(BadInput):
    """Some silos of a run cannot be reached."""

    exit_code = UNAVAILABLE
    may_pass = True


class PrefectUnavailable(BadInput):
    """Prefect's server cannot be started or does not respond; a run takes place without it."""


class RunCancelled(BadInput):
    """Somebody has cancelled the run, which ends with what it has learned so far."""

    exit_code = STOPPED

    def __init__(self, message: str = "the run was cancelled before its first round had ended") -> None:
        """The error of a run that has learned nothing yet, unless another `message` is given."""
        super().__init__(message)


MAX_QUOTED_LENGTH = 40
"""maximum number of characters of a value quoted in a message"""


def quoted(value: str) -> str:
    """`value` quoted for a message, on one line, truncated to `MAX_QUOTED_LENGTH` characters."""
    return repr(value if len(value) <= MAX_QUOTED_LENGTH else value[:MAX_QUOTED_LENGTH] + "…")


MAX_FOREIGN_LENGTH = 500
"""default limit of `foreign_text`, in characters"""
MAX_LINE_LENGTH = 10_000
"""maximum number of characters of a line that a command prints as an error or a notice, or writes to its log"""


def foreign_text(text: str, limit: int = MAX_FOREIGN_LENGTH) -> str:
    """`text` of another party on one line that a terminal, a log or a page shows as it is.

    Runs of white space become one space. Characters that are not printable appear as escapes, such as `\\x1b`: control
    characters, and therefore sequences that control a terminal; marks that change the direction of writing or have no
    width; unpaired surrogates and unassigned characters. A text of more than `limit` characters is truncated.
    """
    # The text is cut first, so that a message of megabytes costs no more than a short one.
    line = escape_unprintable(" ".join(text[: 2 * limit].split()))
    return line if len(line) <= limit and len(text) <= 2 * limit else f"{line[: limit - 1]}…"


def with_name_of(silo: str, text: str) -> str:
    """`text`, a message on `silo`, after the name of the silo, unless the text has the name."""
    named = re.search(rf"(?<!\w){re.escape(silo)}(?!\w)", text)
    return text if named else f"silo {silo}: {text}"


def escape_unprintable(text: str) -> str:
    """`text` with escapes in place of the characters that are not printable, except line feeds."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one == "\n" else one.encode("unicode_escape").decode() for one in text)


def pluralize(number: int, one: str, several: str = "") -> str:
    """`number` with its noun, as in "1 round" and "2 rounds".

    `one` is the singular, and `several` is the plural, by default the singular with an s.
    """
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


MAX_LISTED = 6
"""number of names that a sentence lists by default"""


def listed(names: Iterable[str], most: int = MAX_LISTED) -> str:
    """The first `most` of `names`, and the number of the remaining names."""
    all_names = list(names)
    more = f" and {len(all_names) - most} more" if len(all_names) > most else ""
    return ", ".join(all_names[:most]) + more


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
