"""Where the rows of a silo are that are read in passes: Parquet files, one text file, or a query; some rows at a time.

A batch is a pyarrow RecordBatch. However many rows there are, no more than some batches are ever in memory.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from fedbnsl.algorithms.core.names import check_names
from fedbnsl.algorithms.errors import BadInput

from .check import check_same_columns

MOST_ROWS, LEAST_ROWS, CELLS = 1 << 17, 1 << 10, 1 << 23
"""rows read at once: at most, at least, and else as many as have so many cells"""
BUFFER = 1 << 18
"""bytes of a column that are read ahead from a Parquet file"""


class Source(Protocol):
    """The rows of a silo; every pass over them gives the same rows in the same order."""

    @property
    def path(self) -> Path:
        """The file or folder that owners know them by."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, without the spaces around their names."""
        ...

    @property
    def words(self) -> frozenset[str]:
        """The columns that are to be read as text, as far as their first rows tell; none where columns have types."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """How the rows are read where that is not beyond doubt."""
        ...

    def batches(self, names: Sequence[str], words: Collection[str] = ()) -> Iterator[Any]:
        """Yield the rows, some at a time: batches with the columns `names` in this order.

        What is written as text comes as numbers but for the columns `words`. Raises `BadInput` for what cannot be read.
        """
        ...


def rows_at_once(columns: int) -> int:
    """Return how many rows of so many columns are read at once."""
    return max(LEAST_ROWS, min(MOST_ROWS, CELLS // max(columns, 1)))


@dataclass(frozen=True)
class Parts:
    """Rows in Parquet files with the same columns, one file after another: `path` is the file, or a folder of them."""

    path: Path
    words: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()

    @cached_property
    def files(self) -> tuple[Path, ...]:
        """The files, sorted by name."""
        return tuple(sorted(self.path.glob("*.parquet"))) if self.path.is_dir() else (self.path,)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns of the first file."""
        return tuple(self._columns(self.files[0]))

    @cached_property
    def rows(self) -> int:
        """The number of rows, as the files state it."""
        total = 0
        for file in self.files:
            with _opened(file) as opened:
                total += opened.metadata.num_rows
        return total

    def batches(self, names: Sequence[str], words: Collection[str] = ()) -> Iterator[Any]:
        """Yield the rows (see `Source.batches`). Raises `BadInput` for a part with other columns than the first."""
        for file in self.files:
            columns = self._columns(file)
            check_same_columns(file, list(columns), self.names, self.files[0].name)
            with _opened(file) as opened:
                wanted = [columns[name] for name in names]
                for batch in opened.iter_batches(rows_at_once(len(names)), columns=wanted, use_threads=False):
                    yield batch.select(wanted)

    @staticmethod
    def _columns(file: Path) -> dict[str, str]:
        """Return the columns of `file` by their names without the spaces around them."""
        with _opened(file) as opened:
            there = opened.schema_arrow.names
        check_names(str(file), [name.strip() for name in there])
        return {name.strip(): name for name in there}


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    """Yield the open Parquet file; raises `BadInput` for one that cannot be read, whenever that is found."""
    import pyarrow  # type: ignore[import-untyped]
    import pyarrow.parquet  # type: ignore[import-untyped]

    try:
        with pyarrow.parquet.ParquetFile(file, pre_buffer=False, buffer_size=BUFFER) as opened:
            yield opened
    except (pyarrow.ArrowException, OSError) as error:
        raise BadInput(f"{file}: not a readable parquet file: {str(error).splitlines()[0]}") from error


def cells_of(file: Path) -> int:
    """Return how many cells a Parquet file states that it has; 0 for one that cannot be read."""
    try:
        with _opened(file) as opened:
            return int(opened.metadata.num_rows * opened.metadata.num_columns)
    except BadInput:
        return 0
