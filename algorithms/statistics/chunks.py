"""Tables that are read in passes: a silo's rows may be more than its memory holds."""

from collections.abc import Callable, Iterator
from functools import reduce
from operator import add
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray


@runtime_checkable
class Chunked(Protocol):
    """Rows that are read anew each time they are iterated over, some at a time: arrays `[n, n_variables]`."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        ...

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


def sum_over_chunks(table: Table, of: Callable[[NDArray[Any]], NDArray[Any]]) -> NDArray[Any]:
    """Return the sum of what `of` makes of the rows of `table`, part after part."""
    return reduce(add, map(of, chunks(table)))


def thin_rows(table: Table, most: int) -> NDArray[Any]:
    """Return rows `[n, n_variables]` for what cannot be summed, such as medians: all of a table that is in memory.

    Of one that is read in passes they are every k-th row, the least k with which there are no more than `most`.
    """
    if isinstance(table, np.ndarray):
        return table
    step, begin, kept = -(-table.shape[0] // most), 0, []
    for rows in chunks(table):
        kept.append(rows[-begin % step :: step].copy())
        begin += len(rows)
    return np.concatenate(kept)
