"""Sources of rows that a silo reads in passes, some rows at a time: Parquet files, a database query, or a text file.

A batch is a pyarrow RecordBatch. Only a few batches are in memory at a time, whatever the number of rows.

A query is a file `<silo>.sql` whose first line names the database in a comment.

    -- sqlite:////data/hospital.db
    SELECT age, smokes, pressure FROM patients WHERE consent ORDER BY id

The database is a URL for SQLAlchemy (https://docs.sqlalchemy.org/en/20/core/engines.html), or
`duckdb:///data/hospital.duckdb`. A relative path starts at the working directory of the silo's process. Every pass
executes the query again, so the query must return the same rows in the same order during a run.
"""

import codecs
import io
import math
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import FloatArray, check_names
from fedbnsl.algorithms.errors import BadInput, quoted

from .check import Keep, check_same_columns, is_repeated
from .columns import EMPTY, HEADER, with_point
from .formats import BROKEN, cell_text, memory_limit, open_bytes, parquet_parts
from .harmonise import check_harmonised, factor_of, harmonised
from .scan import (
    SNIFFED_ROWS,
    Form,
    Text,
    cell_fault,
    find_fault,
    first_rows,
    is_empty,
    label_of,
    number_of,
    numbered_rows,
    place_in_text,
    place_of_row,
    read_header,
    text_of,
)

MAX_BATCH_ROWS, MIN_BATCH_ROWS, BATCH_CELLS = 1 << 17, 1 << 10, 1 << 23
"""maximum and minimum number of rows of a batch, and its number of cells if its number of rows is between these two"""
BUFFER_BYTES = 1 << 18
"""number of bytes that are read ahead in each column of a Parquet file"""


PART_CELLS = 1 << 24
"""minimum number of cells of a part that one process reads; the last part may have fewer"""
IN_MEMORY_BYTES = memory_limit()
"""A table is read in passes if its cells, of 8 bytes each, or its text take more bytes than this."""


class Source(Protocol):
    """The rows of a silo; every pass yields the same rows in the same order."""

    @property
    def path(self) -> Path:
        """The file or folder."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, stripped."""
        ...

    @property
    def words(self) -> frozenset[str]:
        """The columns to read as text, judging by the first rows; empty if the source has column types."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on doubtful choices in reading the rows."""
        ...

    def batches(self, names: Sequence[str], words: Collection[str] = ()) -> Iterator[Any]:
        """Yield batches of rows with the columns `names` in this order.

        A text file yields numbers, except in the columns `words`. Raises `BadInput` for unreadable content, and
        `NotNumbersError` for a cell of a text file that should be a number.
        """
        ...

    def place(self, row: int) -> str:
        """The place of row `row` (from 0) in messages."""
        ...


class NotNumbersError(BadInput):
    """A `column` of a text file that was read as numbers has a cell that is not a number."""

    def __init__(self, message: str, column: str) -> None:
        """An error with this `message`."""
        super().__init__(message)
        self.column = column


def rows_at_once(columns: int) -> int:
    """The number of rows of a batch with this number of columns."""
    return max(MIN_BATCH_ROWS, min(MAX_BATCH_ROWS, BATCH_CELLS // max(columns, 1)))


@dataclass(frozen=True)
class ParquetParts:
    """Rows in Parquet files with the same columns, one file after another; `path` is a file or a folder of files."""

    path: Path
    words: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    groups: tuple[tuple[Path, tuple[int, ...]], ...] | None = None
    """the files and the row groups of each that are read; if None, all are read"""

    @cached_property
    def files(self) -> tuple[Path, ...]:
        """The files, sorted by name."""
        return tuple(parquet_parts(self.path)) if self.path.is_dir() else (self.path,)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns of the first file."""
        return tuple(self._columns(self.files[0]))

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
            check_same_columns(file, list(columns), self.names, self.files[0].name)
            with _open_parquet(file) as parquet:
                selected, size = [columns[name] for name in names], rows_at_once(len(names))
                for batch in parquet.iter_batches(size, row_groups=groups, columns=selected, use_threads=False):
                    yield batch.select(selected)

    def place(self, row: int) -> str:
        """The place of row `row` (from 0): the file, and the row within the file."""
        return place_of_row(self.path, row)

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

    @staticmethod
    def _columns(file: Path) -> dict[str, str]:
        """The names of the columns of `file` as written, by their stripped names."""
        with _open_parquet(file) as parquet:
            written = parquet.schema_arrow.names
        check_names(str(file), [name.strip() for name in written])
        return {name.strip(): name for name in written}


@contextmanager
def _open_parquet(file: Path) -> Iterator[Any]:
    """Yield the open Parquet file; raises `BadInput` if opening or reading it fails."""
    import pyarrow
    import pyarrow.parquet

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


DATABASE = re.compile(r"--\s*([a-z][a-z0-9+]*://\S*)\s*")
MAX_QUERY_ROWS = 1 << 14
"""number of rows that are fetched at once; each value is a Python object"""
DUCKDB = "duckdb:///"


@dataclass(frozen=True)
class QuerySource:
    """The rows returned by the query in the file `path`."""

    path: Path
    words: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()

    @cached_property
    def _database_and_query(self) -> tuple[str, str]:
        """The database and the query. Raises `BadInput` if the file lacks one of them."""
        try:
            first, _, query = self.path.read_text(encoding="utf-8-sig").strip().partition("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"{self.path}: cannot be read as UTF-8 text: {error}") from error
        database = DATABASE.fullmatch(first.strip())
        if database is None:
            raise BadInput(
                f"{self.path}: line 1 names no database: it must be a comment such as -- sqlite:////data/hospital.db"
            )
        if not query.strip():
            raise BadInput(f"{self.path}: there is no query below line 1")
        return database[1], query.strip().rstrip(";")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns of the query's result."""
        result = self._run()
        names = [name.strip() for name in next(result)]
        result.close()
        check_names(str(self.path), names)
        return tuple(names)

    def batches(self, names: Sequence[str], words: Collection[str] = ()) -> Iterator[Any]:
        """Yield the rows (see `Source.batches`)."""
        result = self._run()
        columns = [name.strip() for name in next(result)]
        for batch in result:
            yield batch.rename_columns(columns).select(list(names))

    def place(self, row: int) -> str:
        """The place of row `row` (from 0) of the result."""
        return f"{self.path}: row {row + 1}"

    def _run(self) -> Any:
        """Yield the names of the columns, then batches of rows."""
        database, query = self._database_and_query
        return (
            self._run_duckdb(database, query) if database.startswith(DUCKDB) else self._run_sqlalchemy(database, query)
        )

    def _run_sqlalchemy(self, database: str, query: str) -> Iterator[Any]:
        try:
            import sqlalchemy
        except ImportError:
            raise self._missing_package("sqlalchemy") from None
        try:
            engine = sqlalchemy.create_engine(database)
        except (sqlalchemy.exc.SQLAlchemyError, ImportError) as error:
            raise BadInput(f"{self.path}: line 1: {_one_line(error)}") from None
        try:
            with engine.connect() as connection:
                driver: Any = connection.connection.driver_connection
                if engine.dialect.name == "sqlite":  # whose text need not be UTF-8
                    driver.text_factory = lambda text: text.decode(errors="replace")
                streaming = connection.execution_options(stream_results=True, yield_per=MAX_QUERY_ROWS)
                result = streaming.exec_driver_sql(query)
                names = list(result.keys())
                yield names
                for rows in result.partitions(MAX_QUERY_ROWS):
                    yield _batch(names, rows)
        except sqlalchemy.exc.SQLAlchemyError as error:
            raise BadInput(f"{self.path}: {_one_line(error)}") from None
        finally:
            engine.dispose()

    def _run_duckdb(self, database: str, query: str) -> Iterator[Any]:
        try:
            import duckdb  # type: ignore[import-not-found,unused-ignore]
        except ImportError:
            raise self._missing_package("duckdb") from None
        try:
            with duckdb.connect(database.removeprefix(DUCKDB), read_only=True) as connection:
                reader = connection.sql(query).to_arrow_reader(MAX_QUERY_ROWS)
                yield reader.schema.names
                yield from reader
        except duckdb.Error as error:
            raise BadInput(f"{self.path}: {_one_line(error)}") from None

    def _missing_package(self, package: str) -> BadInput:
        return BadInput(f"{self.path}: its database needs the package {package}: pip install 'fedbnsl[sql]'")


def _batch(names: Sequence[str], rows: Sequence[Any]) -> Any:
    """Rows of Python values as a batch; a column with values of several types becomes text."""
    import pyarrow

    columns = []
    for values in zip(*rows, strict=True):
        try:
            columns.append(pyarrow.array(values))
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, OverflowError):
            columns.append(pyarrow.array([None if value is None else str(value) for value in values]))
    return pyarrow.RecordBatch.from_arrays(columns, names=list(names))


def _one_line(error: Exception) -> str:
    return str(error).splitlines()[0]


NO_FORM = Form()
PLAIN_WHOLE = re.compile(r"(0|-?[1-9]\d{0,14})(\.0*)?", re.ASCII)
"""pattern of a whole number that has one spelling as a label and as a float"""
HEAD_BYTES = 1 << 20
"""size of the part of a file from which its dialect is detected"""
UNREADABLE = re.compile(r"In CSV column #(\d+): Row #(\d+): CSV conversion error to double: invalid value '(.*?)'")
"""arrow's message on a cell that is not a number, with the column (from 0), the line and the content of the cell"""
BLOCK_BYTES, MAX_BLOCK_BYTES, LINES_OF_BLOCK = 1 << 19, 1 << 24, 64
"""minimum and maximum size in bytes of the blocks in which a file is parsed, and the number of the longest lines that
fit into a block between these sizes; pyarrow reads 32 blocks ahead"""


@dataclass(frozen=True)
class TextFile:
    """Rows in a text file with a header; `form` has the declared parts of its dialect."""

    path: Path
    form: Form = NO_FORM
    keep: Keep = lambda name: True
    """whether to read the column of a name; columns that are not read may have the same name"""

    @cached_property
    def _head(self) -> Text:
        """The first lines and the dialect; raises `BadInput` if the file cannot be read."""
        try:
            with open_bytes(self.path) as stream:
                content: bytes = stream.read(HEAD_BYTES)
        except BROKEN as error:
            raise BadInput(f"{self.path}: cannot be read: {str(error).splitlines()[0]}") from error
        if len(content) == HEAD_BYTES and b"\n" in content:
            content = content[: content.rindex(b"\n") + 1]
        if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise BadInput(f"{self.path}: UTF-16 files of this size cannot be read: write it as UTF-8 or Parquet")
        return text_of(str(self.path), content, self.form)

    @cached_property
    def header(self) -> tuple[str, ...]:
        """The columns in the header, including columns with the same name, which are marked (see `is_repeated`)."""
        return tuple(read_header(self.path, self._head, self.keep))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that can be read."""
        return tuple(name for name in self.header if not is_repeated(name))

    @cached_property
    def words(self) -> frozenset[str]:
        """The columns whose first cells are not all numbers or empty, or of which one has an unusual whole number.

        A column of whole numbers may hold labels, and as numbers 007 would be 7.
        """
        rows = first_rows(self._head, SNIFFED_ROWS)[1:]
        columns = dict(zip(self.header, zip(*rows, strict=True), strict=bool(rows)))
        return frozenset(name for name, cells in columns.items() if not self._are_numbers(cells))

    def _are_numbers(self, cells: Sequence[str]) -> bool:
        labels = [self._with_point(cell.strip()) for cell in cells if not is_empty(cell.strip())]
        numbers = list(map(number_of, labels))
        if any(map(math.isnan, numbers)):
            return False
        return not all(number.is_integer() for number in numbers) or all(map(PLAIN_WHOLE.fullmatch, labels))

    def _with_point(self, cell: str) -> str:
        return with_point(cell, self._head.decimal)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on doubtful choices in reading the file."""
        return self._head.notes

    def place(self, row: int) -> str:
        """The place of row `row` (from 0): the last line of the row."""
        with self._lines() as lines:
            return place_in_text(self.path, lines, self._head.separator, row)

    def batches(self, names: Sequence[str], words: Collection[str] = ()) -> Iterator[Any]:
        """Yield the rows (see `Source.batches`)."""
        import pyarrow

        read = 0
        try:
            for batch in self._arrow_batches(names, words):
                read += batch.num_rows
                yield batch
            return
        except pyarrow.ArrowInvalid as error:
            found = UNREADABLE.search(str(error))
        except (pyarrow.ArrowException, *BROKEN) as error:
            raise BadInput(f"{self.path}: cannot be read: {str(error).splitlines()[0]}") from error
        column = None if found is None else self.header[int(found[1])]

        def fault_of(name: str, cell: str) -> str | None:
            label = self._with_point(cell.strip())
            return cell_fault(cell) if name == column and not is_empty(label) and cell_fault(label) else None

        with self._lines() as lines:
            header = [*self.header, *[""] * self._head.unnamed]
            fault = find_fault(self.path, lines, self._head.separator, header, fault_of)
        if fault is None:  # unusual but allowed, such as a line of spaces
            yield from self._row_batches(names, words, read)
        elif column is None or f", column {quoted(column)}: " not in fault:
            raise BadInput(fault)
        else:
            raise NotNumbersError(f"{fault}; if the column has labels, declare its levels in about.json", column)

    def _arrow_batches(self, names: Sequence[str], words: Collection[str]) -> Iterator[Any]:
        import pyarrow
        import pyarrow.csv

        head, text = self._head, pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
        unnamed = [f"\0unnamed {number}" for number in range(head.unnamed)]
        longest = max(map(len, head.content.splitlines()), default=0)
        header = HEADER.match(head.content)
        assert header is not None
        if len(head.content.encode()) < HEAD_BYTES and not head.content[header.end() :].strip():
            return
        types = {name: text if name in words else pyarrow.float64() for name in self.header}
        with (
            open_bytes(self.path) as file,
            pyarrow.csv.open_csv(
                file,
                read_options=pyarrow.csv.ReadOptions(
                    column_names=[*self.header, *unnamed],
                    skip_rows=len(header[0].splitlines()),
                    use_threads=False,
                    block_size=max(BLOCK_BYTES, min(LINES_OF_BLOCK * longest, MAX_BLOCK_BYTES)),
                    encoding=self.form.encoding or ("cp1252" if head.legacy else "utf8"),
                ),
                parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True, delimiter=head.separator),
                convert_options=pyarrow.csv.ConvertOptions(
                    column_types=types | dict.fromkeys(unnamed, pyarrow.null()),
                    strings_can_be_null=False,
                    quoted_strings_can_be_null=False,
                    null_values=EMPTY,
                    decimal_point=head.decimal,
                    include_columns=[*names, *unnamed],
                ),
            ) as stream,
        ):
            for batch in stream:
                columns = batch.select(list(names)).columns
                if head.decimal == ",":
                    columns = [self._with_points(column) for column in columns]
                yield pyarrow.RecordBatch.from_arrays(columns, names=list(names)) if names else batch.select([])

    def _with_points(self, column: Any) -> Any:
        """The arrow `column` with decimal points instead of commas."""
        import pyarrow

        if not pyarrow.types.is_dictionary(column.type):
            return column
        cells = [self._with_point(cell) for cell in column.dictionary.to_pylist()]
        return pyarrow.array(cells, pyarrow.string()).take(column.indices)

    def _row_batches(self, names: Sequence[str], words: Collection[str], read: int) -> Iterator[Any]:
        """Yield the rows after the first `read` rows, which are read one by one."""
        import pyarrow

        with self._lines() as lines:
            rows = (row for _, row in islice(numbered_rows(lines, self._head.separator), 1 + read, None))
            while some := list(islice(rows, MAX_BATCH_ROWS)):
                columns = dict(
                    zip(self.header, zip(*(row[: len(self.header)] for row in some), strict=True), strict=True)
                )
                arrays = []
                for name in names:
                    cells = [self._with_point(cell) for cell in columns[name]]
                    numbers = np.array([number_of(cell.strip()) for cell in cells])
                    as_text = name in words
                    arrays.append(
                        pyarrow.array(cells if as_text else numbers, mask=None if as_text else np.isnan(numbers))
                    )
                yield pyarrow.RecordBatch.from_arrays(arrays, names=list(names))

    def _lines(self) -> io.TextIOWrapper:
        encoding = self.form.encoding or ("cp1252" if self._head.legacy else "utf-8-sig")
        return io.TextIOWrapper(open_bytes(self.path), encoding=encoding, errors="replace", newline="")


@dataclass(frozen=True)
class HarmonisedSource:
    """The rows of one silo in `source`, with the recoding and the units of its `form`."""

    source: Source
    form: Form

    @property
    def path(self) -> Path:
        """The file or folder."""
        return self.source.path

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns. Raises `BadInput` if `about.json` names a column that does not exist."""
        check_harmonised(self.path, self.form, self.source.names)
        return self.source.names

    @property
    def words(self) -> frozenset[str]:
        """The columns to read as text, including recoded columns."""
        return self.source.words | {name for name, _ in self.form.recode}

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on doubtful choices in reading the rows."""
        return self.source.notes

    def batches(self, names: Sequence[str], words: Collection[str] = ()) -> Iterator[Any]:
        """Yield the rows of the silo (see `Source.batches`)."""
        import pyarrow

        by = () if self.form.rows is None else (self.form.rows[0],)
        text = frozenset(words) | {name for name, _ in self.form.recode} | set(by)
        for batch in self.source.batches([*names, *(one for one in by if one not in names)], text):
            own = (
                batch
                if self.form.rows is None
                else batch.filter(pyarrow.array(self._own(batch.column(batch.schema.names.index(*by)))))
            )
            yield self._harmonised(own.select(list(range(len(names)))), names)

    def place(self, row: int) -> str:
        """The place of row `row` (from 0) of the silo."""
        if self.form.rows is None:
            return self.source.place(row)
        by, start = self.form.rows[0], 0
        for batch in self.source.batches([by], [by]):
            own = np.flatnonzero(self._own(batch.column(0)))
            if row < len(own):
                return self.source.place(start + int(own[row]))
            row, start = row - len(own), start + batch.num_rows
        return str(self.path)

    def _own(self, column: Any) -> NDArray[np.bool_]:
        """Whether each row belongs to the silo, by the `column` that names the silo."""
        cells, codes = cells_in(column)
        own = np.array([label_of(cell) == (self.form.rows or ("", ""))[1] for cell in cells], dtype=np.bool_)
        return np.asarray(own[codes])

    def _harmonised(self, batch: Any, names: Sequence[str]) -> Any:
        import pyarrow

        recoded = {name for name, _ in self.form.recode}
        columns = [
            harmonised_array(self.form, name, column, self.path)
            if name in recoded or factor_of(self.form, name) != 1.0
            else column
            for name, column in zip(names, batch.columns, strict=True)
        ]
        return pyarrow.RecordBatch.from_arrays(columns, names=list(names)) if columns else batch


def harmonised_array(form: Form, name: str, column: Any, path: Path) -> Any:
    """An arrow column of numbers or text with the recoding and the units of this silo's `form`."""
    import pyarrow

    as_text = name in dict(form.recode) or any(marks for scaled, _, marks in form.scale if scaled == name)
    values = None if as_text else numbers_in(column)
    if values is not None:
        scaled = values * factor_of(form, name)
        return pyarrow.array(scaled, mask=np.isnan(scaled))
    cells, codes = cells_in(column)
    return pyarrow.array(harmonised(form, name, cells, path)).take(pyarrow.array(codes))


def numbers_in(column: Any) -> FloatArray | None:
    """The numbers in an arrow `column` `[n_rows]`, NaN in empty cells; None if the column does not hold numbers."""
    import pyarrow

    kind = column.type
    if pyarrow.types.is_floating(kind):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    if pyarrow.types.is_integer(kind) or pyarrow.types.is_decimal(kind) or pyarrow.types.is_null(kind):
        # Of a whole number above 2^53, the nearest float is taken.
        return np.asarray(column.cast(pyarrow.float64(), safe=False).to_numpy(zero_copy_only=False))
    return None


def cells_in(column: Any) -> tuple[list[str], NDArray[np.int64]]:
    """The distinct cells in an arrow `column` as text, and the index of each row's cell among them, `[n_rows]`.

    The last distinct cell is an empty cell, which stands for missing values.
    """
    import pyarrow
    import pyarrow.compute

    if not pyarrow.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    cells = [cell_text(value) for value in column.dictionary.to_pylist()]
    codes = np.asarray(pyarrow.compute.fill_null(column.indices, len(cells)), dtype=np.int64)
    return [*cells, ""], codes
