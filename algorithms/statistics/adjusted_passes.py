"""Time series that are adjusted inside their silo while they are read in passes (see `core/adjustment.py`).

A trend or season needs one more pass over the rows, for the fits of the stretches that several chunks share. The fits
of other stretches are computed again in each pass. So memory grows at most with the number of chunks.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..core.adjustment import Adjustment, StretchFit, StretchSums
from ..core.schema import FloatArray
from ..errors import BadInput
from .moments import Chunked, Table


def adjusted_series(
    table: Table, adjustment: Adjustment, stretches: Sequence[int], labels: Sequence[int] = ()
) -> Table:
    """The adjusted rows of `table` `[n_rows, d]`, read in passes if `table` is; see `Adjustment.adjusted`.

    `labels` are the columns of labels. There are none in series that are read in passes.
    """
    if isinstance(table, np.ndarray):
        return adjustment.adjusted(table, stretches, labels)
    return AdjustedPasses(table, adjustment, tuple(stretches))


@dataclass(frozen=True)
class AdjustedPasses:
    """The adjusted rows of `table`, whose unbroken `stretches` have these lengths: a `Chunked` table."""

    table: Chunked
    adjustment: Adjustment
    stretches: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        rows, columns = self.table.shape
        return rows - self.adjustment.difference * sum(length > 0 for length in self.stretches), columns

    def __iter__(self) -> Iterator[FloatArray]:
        last = np.empty((0, self.table.shape[1]))
        for pieces in self._pieces():
            found = []
            for number, begin, rows in pieces:
                flat = self._fit(number, begin, rows).subtracted(rows, begin) if self.adjustment.fits else rows
                if self.adjustment.difference:
                    flat, last = np.diff(np.concatenate([last, flat] if begin else [flat]), axis=0), flat[-1:].copy()
                found.append(flat)
            if sum(map(len, found)):
                yield np.concatenate(found)

    def _pieces(self) -> Iterator[list[tuple[int, int, FloatArray]]]:
        """Yield each chunk as pieces: the number of the stretch, the time of the first row in the stretch, the rows."""
        ends = np.cumsum(self.stretches, dtype=np.int64)
        read = 0
        for chunk in filter(len, self.table):
            first, last = np.searchsorted(ends, [read, read + len(chunk) - 1], side="right").tolist()
            pieces = []
            for number in range(first, min(last + 1, len(ends))):
                if not self.stretches[number]:
                    continue
                start = int(ends[number]) - self.stretches[number]
                rows = chunk[max(start - read, 0) : int(ends[number]) - read]
                pieces.append((number, max(read - start, 0), rows))
            read += len(chunk)
            yield pieces

    def _fit(self, number: int, begin: int, rows: FloatArray) -> StretchFit:
        """The fit of a stretch; `rows` are the rows of the stretch in one chunk, from time `begin` on."""
        if len(rows) == self.stretches[number]:
            sums = self.adjustment.sums(rows.shape[1])
            sums.add(rows)
            return sums.fit()
        if number not in self._shared_fits:
            raise BadInput("a silo's series have changed while a run read them: begin again")
        return self._shared_fits[number]

    @cached_property
    def _shared_fits(self) -> dict[int, StretchFit]:
        """The fits of the stretches that several chunks share, by number, after one pass."""
        fits, shared = dict[int, StretchFit](), dict[int, StretchSums]()
        for number, begin, rows in (piece for pieces in self._pieces() for piece in pieces):
            if len(rows) == self.stretches[number]:
                continue
            sums = shared.pop(number) if begin and number in shared else self.adjustment.sums(rows.shape[1])
            sums.add(rows)
            if begin + len(rows) == self.stretches[number]:
                fits[number] = sums.fit()
            else:
                shared[number] = sums
        return fits
