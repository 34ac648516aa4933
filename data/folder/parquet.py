"""Rows in Parquet files: a file, or a folder of files whose rows follow each other."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from fedbnsl.algorithms.errors import BadInput

from .batches import keep_all, readable_names, rows_at_once
from .check import Keep, check_same_columns, distinct_names
from .formats import parquet_parts

BUFFER_BYTES = 1 << 18
"""number of bytes that are read ahead in each column"""
PART_CELLS = 1 << 24
"""minimum number of cells of a part that one process reads; the last part may have fewer"""


@dataclass(frozen=True)
class ParquetParts:
    """Rows in Parquet files with the same columns, one file after another; `path` is a file or a folder of files."""

    path: Path
    keep: Keep = keep_all
    """whether to read the column of a name; columns that are not read may have the same name"""
    words: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    groups: tuple[tuple[Path, tuple[int, ...]], ...] | None = None
    """the files and the row groups of each that are read; if None, all are read"""

    @cached_property
    def files(self) -> tuple[Path, ...]:
        """The files, sorted by name."""
        return tuple(parquet_parts(self.path)) if self.path.is_dir() else (self.path,)

    @cached_property
    def header(self) -> tuple[str, ...]:
        """The columns of the first file, including columns with the same name, which are marked (see `is_repeated`)."""
        return tuple(self._columns(self.files[0]))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns that can be read."""
        return readable_names(self.header)

    @cached_property
    def labelled(self) -> frozenset[str]:
        """The columns of categories (factors), and those that pandas has as `string`."""
        with _open_parquet(self.files[0]) as parquet:
            schema = parquet.schema_arrow
        of_pandas = (schema.pandas_metadata or {}).get("columns", ())
        # pandas' own type of text is `str`, and says nothing.
        as_text = {
            one.get("name")
            for one in of_pandas
            if one.get("pandas_type") == "categorical" or one.get("numpy_type") == "string"
        }
        return frozenset(
            name
            for name, written in self._columns(self.files[0]).items()
            if written in as_text or str(schema.field(written).type).startswith("dictionary")
        )

    @cached_property
    def rows(self) -> int:
        """The number of rows in the metadata of the files."""
        total = 0
        for file in self.files:
            with _open_parquet(file) as parquet:
                total += parquet.metadata.num_rows
        return total

    def batches(self, names: Sequence[str], words: Collection[str] = ()) -> Iterator[Any]:
        """Yield the rows (see `Source.batches`). Raises `BadInput` if the files have different columns."""
        for file, groups in self.groups or ((file, None) for file in self.files):
            columns = self._columns(file)
            check_same_columns(file, list(columns), self.header, self.files[0].name)
            with _open_parquet(file) as parquet:
                selected, size = [columns[name] for name in names], rows_at_once(len(names))
                for batch in parquet.iter_batches(size, row_groups=groups, columns=selected, use_threads=False):
                    yield batch.select(selected).rename_columns(list(names))

    def place(self, row: int) -> str:
        """The place of row `row` (from 0) of all files: the file, and the row within the file."""
        for file in self.files:
            if file == self.path:
                break
            with _open_parquet(file) as parquet:
                rows = parquet.metadata.num_rows
            if row < rows:
                break
            row -= rows
        return f"{file}: row {row + 1}"

    def parts(self, columns: int) -> "Sequence[tuple[ParquetParts, int]]":
        """Consecutive row groups of at least `PART_CELLS` cells (see `parts_of`)."""
        found: list[tuple[ParquetParts, int]] = []
        groups: dict[Path, tuple[int, ...]] = {}
        rows = 0
        for file, group, size in self._row_groups():
            groups[file] = (*groups.get(file, ()), group)
            rows += size
            if rows * columns >= PART_CELLS:
                found.append((replace(self, groups=tuple(groups.items())), rows))
                groups, rows = {}, 0
        if groups:
            found.append((replace(self, groups=tuple(groups.items())), rows))
        return found if len(found) > 1 else ()

    def _row_groups(self) -> Iterator[tuple[Path, int, int]]:
        """Every file and row group, with its number of rows."""
        for file in self.files:
            with _open_parquet(file) as parquet:
                metadata = parquet.metadata
                sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
            yield from ((file, group, size) for group, size in enumerate(sizes))

    def _columns(self, file: Path) -> dict[str, str]:
        """The names of the columns of `file` as written, by their distinct names; without an index that pandas wrote.

        Raises `BadInput` for invalid names, and if several columns that are to be read have the same name.
        """
        with _open_parquet(file) as parquet:
            schema = parquet.schema_arrow
        index = (schema.pandas_metadata or {}).get("index_columns", ())
        written = [name for name in schema.names if name not in index]
        return dict(zip(distinct_names(str(file), [name.strip() for name in written], self.keep), written, strict=True))


@contextmanager
def _open_parquet(file: Path) -> Iterator[Any]:
    """Yield the open Parquet file; raises `BadInput` if opening or reading it fails."""
    import pyarrow
    import pyarrow.parquet

    if file.exists() and file.stat().st_size == 0:
        raise BadInput(f"{file}: the file is empty")
    try:
        with pyarrow.parquet.ParquetFile(file, pre_buffer=False, buffer_size=BUFFER_BYTES) as parquet:
            yield parquet
    except (pyarrow.ArrowException, OSError) as error:
        raise BadInput(f"{file}: not a readable parquet file: {str(error).splitlines()[0]}") from error


def cell_count(file: Path) -> int:
    """The number of cells in the metadata of a Parquet file; 0 for an unreadable file."""
    try:
        with _open_parquet(file) as parquet:
            return int(parquet.metadata.num_rows * parquet.metadata.num_columns)
    except BadInput:
        return 0
