"""Tables that are read in passes: a silo's rows may be more than its memory holds."""

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray


@runtime_checkable
class Chunked(Protocol):
    """Rows that are read anew each time they are iterated over, some at a time: arrays `[n, n_variables]`."""

    shape: tuple[int, int]

    def __iter__(self) -> Iterator[NDArray[Any]]:
        """Read the rows once more, in the same order and in the same parts."""
        ...


Table = NDArray[Any] | Chunked
"""a silo's rows `[n_rows, n_variables]`, in memory or read in passes"""


def chunks(table: Table) -> Iterator[NDArray[Any]]:
    """Yield the rows of `table`: all at once if they are in memory."""
    if isinstance(table, np.ndarray):
        yield table
    else:
        yield from table
