"""Sources of a silo's rows: text files, Parquet files, database queries, and files that are read as a whole.

Every source yields its rows in batches, some rows at a time, as pyarrow RecordBatches. Only a few batches are in memory
at a time, whatever the number of rows. `source_of` opens the source of a silo; a source that fits into memory is a
`CachedSource`, which keeps the columns that were read and yields all rows in one batch.

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
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import FloatArray, check_names
from fedbnsl.algorithms.errors import BadInput, quoted

from .about import Declared
from .check import Keep, check_same_columns, distinct_names, is_repeated, written_name
from .formats import (
    BROKEN,
    Sheet,
    cell_text,
    file_stamp,
    has_settled,
    is_sheet,
    is_text,
    kind_of,
    memory_limit,
    open_bytes,
    parquet_parts,
    read_sheet,
)
from .harmonise import check_harmonised, factor_of, harmonised
from .scan import (
    DECIMAL_COMMA,
    MISSING,
    NO_FORM,
    SNIFFED_ROWS,
    Form,
    Text,
    cell_fault,
    empty_cells,
    find_fault,
    first_rows,
    is_empty,
    label_of,
    labels_of,
    number_of,
    numbered_rows,
    place_in_text,
    read_header,
    sniffed_rows,
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
    def header(self) -> tuple[str, ...]:
        """The names of the columns, stripped; names of columns that cannot be read are marked (see `is_repeated`)."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns that can be read."""
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

        A text file yields numbers, except in the columns `words`, or in other columns that are already in memory as
        text. Raises `BadInput` for unreadable content, and `NotNumbersError` for a cell of a text file that should be
        a number.
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


PlaceOf = Callable[[int], str]
"""the place of a row (from 0) in messages"""


def keep_all(name: str) -> bool:
    """Keep every column."""
    return True


def rows_at_once(columns: int) -> int:
    """The number of rows of a batch with this number of columns."""
    return max(MIN_BATCH_ROWS, min(MAX_BATCH_ROWS, BATCH_CELLS // max(columns, 1)))


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

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that can be read."""
        return readable_names(self.header)

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

    @property
    def header(self) -> tuple[str, ...]:
        """The columns of the query's result."""
        return self.names

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


HEADER = re.compile(r"\s*[^\r\n]*(\r\n|\r|\n|\Z)")
EMPTY = sorted({variant for mark in MISSING for variant in (mark, mark.upper(), mark.capitalize(), mark.title())})
EMPTY += ["NaN", "-NaN", "+NaN"]
"""the usual spellings of the markers of missing values"""
PLAIN_WHOLE = re.compile(r"(0|-?[1-9]\d{0,14})(\.0*)?", re.ASCII)
"""pattern of a whole number that has one spelling as a label and as a float"""
HEAD_BYTES = 1 << 20
"""size of the part of a file from which its dialect is detected"""
KEPT_CHARACTERS = 1 << 16
"""size of a head above which only its first rows are kept"""
UNREADABLE = re.compile(r"In CSV column #(\d+): Row #(\d+): CSV conversion error to double: invalid value '(.*?)'")
"""arrow's message on a cell that is not a number, with the column (from 0), the line and the content of the cell"""
BLOCK_BYTES, MAX_BLOCK_BYTES, LINES_OF_BLOCK = 1 << 19, 1 << 24, 64
"""minimum and maximum size in bytes of the blocks in which a file is parsed, and the number of the longest lines that
fit into a block between these sizes; pyarrow reads 32 blocks ahead"""


def _examine(path: Path, form: Form) -> Text:
    """The first lines of a text file and its dialect, for which the whole file is examined if it fits into memory.

    A file is opened several times in a run, and examined once. Raises `BadInput` if the file cannot be read.
    """
    try:
        status = path.stat()
        examine = _examined if has_settled(status) else _examined.__wrapped__
        return examine(path, form, file_stamp("", status), whole=not exceeds_memory(path))
    except BROKEN as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise BadInput(f"{path}: cannot be read: {reason}") from error


@lru_cache(maxsize=256)
def _examined(path: Path, form: Form, stamp: tuple[str | int, ...], *, whole: bool) -> Text:
    """As `_examine`; `stamp` distinguishes versions of the file in the cache."""
    with open_bytes(path) as stream:
        content: bytes = stream.read() if whole else stream.read(HEAD_BYTES)
    if not whole and len(content) == HEAD_BYTES and b"\n" in content:
        content = content[: content.rindex(b"\n") + 1]
    if not whole and content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise BadInput(f"{path}: UTF-16 files of this size cannot be read: write it as UTF-8 or Parquet")
    text = text_of(str(path), content, form)
    end = text.content.rfind("\n", 0, HEAD_BYTES) + 1 if len(text.content) > HEAD_BYTES else 0
    head = text.content[:end] if end else text.content
    longest = max(map(len, head.splitlines()), default=0)
    return replace(
        text, content=sniffed_rows(head, text.separator) if len(head) > KEPT_CHARACTERS else head, longest=longest
    )


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
        return _examine(self.path, self.form)

    @cached_property
    def header(self) -> tuple[str, ...]:
        """The columns in the header, including columns with the same name, which are marked (see `is_repeated`)."""
        return tuple(read_header(self.path, self._head, self.keep))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that can be read."""
        return readable_names(self.header)

    @cached_property
    def words(self) -> frozenset[str]:
        """The columns whose first cells are not all numbers or empty, or of which one has an unusual whole number.

        A column of whole numbers may hold labels, and as numbers 007 would be 7.
        """
        rows = first_rows(self._head, SNIFFED_ROWS)[1:]
        columns = dict(zip(self.header, zip(*rows, strict=True), strict=bool(rows)))
        return frozenset(name for name, cells in columns.items() if not self._are_numbers(cells))

    def _are_numbers(self, cells: Sequence[str]) -> bool:
        labels = [self._with_point(label) for label in {cell.strip() for cell in cells} if not is_empty(label)]
        numbers = list(map(number_of, labels))
        if any(map(math.isnan, numbers)):
            return False
        return not all(map(float.is_integer, numbers)) or all(map(PLAIN_WHOLE.fullmatch, labels))

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
                    block_size=max(BLOCK_BYTES, min(LINES_OF_BLOCK * head.longest, MAX_BLOCK_BYTES)),
                    encoding="utf8" if head.encoding == "utf-8-sig" else head.encoding,
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
        return io.TextIOWrapper(open_bytes(self.path), encoding=self._head.encoding, errors="replace", newline="")


def with_point(cell: str, decimal: str) -> str:
    """A cell whose number has the mark `decimal`, with a decimal point."""
    return cell.replace(",", ".") if decimal == "," and DECIMAL_COMMA.fullmatch(cell.strip()) else cell


@dataclass(frozen=True)
class SheetSource:
    """The rows of a file that is read as a whole (`formats.read_sheet`), in one batch."""

    path: Path
    form: Form = NO_FORM
    keep: Keep = keep_all
    """whether to read the column of a name; columns that are not read may have the same name"""
    words: frozenset[str] = frozenset()

    @property
    def _sheet(self) -> Sheet:
        return read_sheet(self.path, self.form.sheet)

    @cached_property
    def header(self) -> tuple[str, ...]:
        """The columns of the sheet, including columns with the same name, which are marked (see `is_repeated`)."""
        return tuple(distinct_names(str(self.path), self._sheet.header, self.keep))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that can be read."""
        return readable_names(self.header)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on doubtful choices in reading the file."""
        return self._sheet.notes

    def batches(self, names: Sequence[str], words: Collection[str] = ()) -> Iterator[Any]:
        """Yield the rows (see `Source.batches`); a column whose cells have several types has text."""
        import pandas as pd
        import pyarrow

        columns = dict(zip(self.header, self._sheet.columns, strict=True))
        arrays = []
        for name in names:
            values = columns[name]
            if values.dtype.kind == "f":
                arrays.append(pyarrow.array(values, mask=np.isnan(values)))
            else:
                codes, distinct = pd.factorize(values)
                cells = pyarrow.array([cell_text(value) for value in distinct], pyarrow.string())
                arrays.append(pyarrow.DictionaryArray.from_arrays(pyarrow.array(codes, mask=codes < 0), cells))
        if arrays:
            yield pyarrow.RecordBatch.from_arrays(arrays, names=list(names))

    def place(self, row: int) -> str:
        """The place of row `row` (from 0), as the program that wrote the file numbers it."""
        return f"{self.path}: {self._sheet.place(row)}"


@dataclass(frozen=True)
class _OfSource:
    """A source of the rows of another `source`, with the same file, columns and notes."""

    source: Source

    @property
    def path(self) -> Path:
        """The file or folder."""
        return self.source.path

    @property
    def header(self) -> tuple[str, ...]:
        """The columns of the source."""
        return self.source.header

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that can be read."""
        return self.source.names

    @property
    def words(self) -> frozenset[str]:
        """The columns to read as text."""
        return self.source.words

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on doubtful choices in reading the rows."""
        return self.source.notes


@dataclass(frozen=True)
class HarmonisedSource(_OfSource):
    """The rows of one silo in `source`, with the recoding and the units of its `form`."""

    form: Form

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that can be read. Raises `BadInput` if `about.json` names a column that does not exist."""
        check_harmonised(self.path, self.form, self.source.names)
        return self.source.names

    @property
    def words(self) -> frozenset[str]:
        """The columns to read as text, including recoded columns."""
        return self.source.words | {name for name, _ in self.form.recode}

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


@dataclass(frozen=True)
class CachedSource(_OfSource):
    """The rows of a `source` that fits into memory, in one batch; a column is read once."""

    columns: dict[tuple[str, bool], Any] = field(default_factory=dict)
    """the columns that were read, by name and by whether they were read as text"""

    def batches(self, names: Sequence[str], words: Collection[str] = ()) -> Iterator[Any]:
        """Yield the rows (see `Source.batches`)."""
        import pyarrow

        keys = [(name, name in words or self._is_only_text(name)) for name in names]
        missing = [key for key in keys if key not in self.columns]
        read = [*self.source.batches([name for name, _ in missing], words)] if missing else []
        if missing and not read:
            return
        for number, key in enumerate(missing):
            chunks = [batch.column(number) for batch in read]
            whole = chunks[0] if len(chunks) == 1 else pyarrow.chunked_array(chunks).unify_dictionaries()
            self.columns[key] = whole if len(chunks) == 1 else whole.combine_chunks()
        if names:
            yield pyarrow.RecordBatch.from_arrays([self.columns[key] for key in keys], names=list(names))

    def _is_only_text(self, name: str) -> bool:
        """Whether the column was read as text and not as numbers: then it is not read again."""
        return (name, True) in self.columns and (name, False) not in self.columns

    def place(self, row: int) -> str:
        """The place of row `row` (from 0)."""
        return self.source.place(row)


def open_source(path: Path, form: Form = NO_FORM, keep: Keep = keep_all) -> Source:
    """The rows at `path`, of which those columns are read that `keep` accepts, with the dialect, rows, recoding and
    units of `form`.

    Raises `BadInput` for a file that does not exist.
    """
    if not path.exists():
        raise BadInput(f"{path}: no such file")
    source: Source
    if path.is_dir() or kind_of(path) == "parquet":
        source = ParquetParts(path, keep)
    elif kind_of(path) == "query":
        source = QuerySource(path)
    else:
        source = SheetSource(path, form, keep) if is_sheet(path) else TextFile(path, form, keep)
    return HarmonisedSource(source, form) if form.recode or form.scale or form.rows else source


def exceeds_memory(path: Path) -> bool:
    """Whether the rows at `path` must be read in passes.

    Folders of Parquet parts and queries are always read in passes. Parquet files are read in passes if they have more
    than `IN_MEMORY_BYTES` / 8 cells, and text files if they have more than `IN_MEMORY_BYTES` bytes.
    """
    if path.is_dir() or kind_of(path) == "query":
        return True
    if kind_of(path) == "parquet":
        return 8 * cell_count(path) > IN_MEMORY_BYTES
    return is_text(path) and path.is_file() and path.stat().st_size > IN_MEMORY_BYTES


def source_of(path: Path, declared: Declared) -> Source:
    """The rows at `path` as `declared`: a `CachedSource` if they fit into memory. Raises as `open_source`."""
    source = open_source(path, declared.form, declared.keeps)
    return source if exceeds_memory(path) else CachedSource(source)


def readable_names(header: Sequence[str]) -> tuple[str, ...]:
    """The names in `header` that are not marked (see `is_repeated`)."""
    return tuple(name for name in header if not is_repeated(name))


def left_out_names(source: Source, selected: Sequence[str]) -> tuple[str, ...]:
    """The columns of `source` that are not `selected`; the column that names the silo of each row (`--by`) is last."""
    plain = source.source if isinstance(source, CachedSource) else source
    owner = plain.form.rows[:1] if isinstance(plain, HarmonisedSource) and plain.form.rows else ()
    others = [written_name(name) for name in source.header if name not in selected and name not in owner]
    return (*dict.fromkeys(others), *owner)


@dataclass(frozen=True, eq=False)
class Column:
    """A column of text: row i has the text `cells[codes[i]]`; distinct `cells` are in the order of their first rows."""

    name: str
    codes: NDArray[np.integer[Any]]
    cells: list[str]

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.codes)


def columns_in_memory(source: Source, keep: Keep = keep_all) -> list[Column]:
    """The columns of `source` that `keep` accepts as text, with all rows in memory; a missing cell is ""."""
    names = [name for name in source.names if keep(name)]
    numbers: dict[str, dict[str, int]] = {name: {} for name in names}
    codes: dict[str, list[NDArray[np.int64]]] = {name: [] for name in names}
    for batch in source.batches(names, names):
        for name, column in zip(names, batch.columns, strict=True):
            cells, own = cells_in(column)
            number, present = numbers[name], np.bincount(own, minlength=len(cells)) > 0
            found = np.full(len(cells), -1, np.int64)
            found[present] = [number.setdefault(cells[code], len(number)) for code in np.flatnonzero(present).tolist()]
            codes[name].append(found[own])
    empty = np.empty(0, np.int64)
    return [Column(name, np.concatenate([empty, *codes[name]]), list(numbers[name])) for name in names]


def labels_in(source: Source, name: str) -> list[str]:
    """The label in each row of a column. Raises `BadInput` with the place of an empty cell."""
    (column,) = columns_in_memory(source, lambda one: one == name)
    check_cells(source.place, [column], {name: empty_cells(column.cells)})
    labels = labels_of(column.cells, None)
    return [labels[code] for code in column.codes.tolist()]


def check_cells(place_of: PlaceOf, columns: Sequence[Column], faults: Mapping[str, Mapping[str, str]]) -> None:
    """Raise `BadInput` for the first cell, row by row, that is among the `faults` of its column."""
    found = []
    for number, column in enumerate(columns):
        if faulty := faults.get(column.name):
            wrong = np.array([cell in faulty for cell in column.cells], dtype=np.bool_)[column.codes]
            if wrong.any():
                row = int(np.argmax(wrong))
                found.append((row, number, faulty[column.cells[column.codes[row]]]))
    for row, number, fault in sorted(found)[:1]:
        raise BadInput(f"{place_of(row)}, column {quoted(columns[number].name)}: {fault}")


def numbers_in(column: Any) -> FloatArray | None:
    """The numbers in an arrow `column` `[n_rows]`, NaN in empty cells; None if the column does not hold numbers."""
    import pyarrow

    kind = column.type
    if pyarrow.types.is_decimal(kind) or pyarrow.types.is_null(kind):
        column = column.cast(pyarrow.float64(), safe=False)
    elif not (pyarrow.types.is_floating(kind) or pyarrow.types.is_integer(kind)):
        return None
    chunks = column.chunks if isinstance(column, pyarrow.ChunkedArray) else [column]
    return np.concatenate([_numbers_of(chunk) for chunk in chunks]) if chunks else np.empty(0)


def _numbers_of(array: Any) -> FloatArray:
    """The numbers in an arrow array from its buffers, because `to_numpy` imports pandas.

    Of a whole number above 2^53, the nearest float is taken.
    """
    import pyarrow

    valid, data = array.buffers()
    letter = (
        "f" if pyarrow.types.is_floating(array.type) else "i" if pyarrow.types.is_signed_integer(array.type) else "u"
    )
    rows = slice(array.offset, array.offset + len(array))
    stored = np.frombuffer(data or b"", np.dtype(f"{letter}{array.type.bit_width // 8}"))[rows]
    numbers = stored.astype(np.float64, copy=bool(array.null_count))
    if array.null_count:
        numbers[np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little")[rows] == 0] = np.nan
    return numbers


def cells_in(column: Any) -> tuple[list[str], NDArray[np.int64]]:
    """The distinct cells in an arrow `column` as text, and the index of each row's cell among them, `[n_rows]`.

    The last distinct cell is an empty cell, which stands for missing values.
    """
    import pyarrow
    import pyarrow.compute

    if not pyarrow.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    cells = column.dictionary.to_pylist()
    if not pyarrow.types.is_string(column.dictionary.type) or column.dictionary.null_count:
        cells = list(map(cell_text, cells))
    codes = np.asarray(pyarrow.compute.fill_null(column.indices, len(cells)), dtype=np.int64)
    return [*cells, ""], codes
