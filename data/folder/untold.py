"""What is said of a file that a run with an ε cannot read: which one it is, and nothing of what is in it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedbnsl.algorithms.errors import BadInput

from .declared import Reading


@contextmanager
def untold(path: Path, reading: Reading) -> Iterator[None]:
    """Where a private run reads `path`, raise a `BadInput` that names the file alone instead of line, column and value.

    Such a line would tell of single rows at no price, and it reaches the coordinator.
    """
    try:
        yield
    except BadInput:
        if not reading.private or not path.exists():
            raise
        raise BadInput(
            f"{path}: it has empty cells, or lines or cells that cannot be read, and a run with an ε tells no more: "
            "`fedbnsl inspect` names them to who has the file"
        ) from None
