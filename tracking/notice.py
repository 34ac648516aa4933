"""A line for whoever follows a run in a terminal or a log: what an observer of the run cannot do any more."""

import sys


def notice(line: str) -> None:
    """Print `line` to stderr, whatever it holds as one line."""
    said = " ".join(line.split()).encode(errors="backslashreplace").decode()
    print(f"note: {said}", file=sys.stderr, flush=True)


def first_line(error: BaseException) -> str:
    """Return what `error` says in its first line, or the name of its type if it says nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
