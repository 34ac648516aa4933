"""Where the rows of a silo are that are read in passes: Parquet files, one text file, or a query; some rows at a time.

A batch is a pyarrow RecordBatch. However many rows there are, no more than some batches are ever in memory.

A query as the rows of a silo: a file `<silo>.sql`, whose first line names the database in a comment.

    -- sqlite:////data/hospital.db
    SELECT age, smokes, pressure FROM patients WHERE consent ORDER BY id

The database is a URL as SQLAlchemy takes it (https://docs.sqlalchemy.org/en/20/core/engines.html), or
`duckdb:///data/hospital.duckdb`. A relative path is one from where the silo's process was started. Every pass runs the
query once more: while a run lasts, it must give the same rows in the same order.

A text file as the rows of a silo that are read in passes.
"""

import codecs
import math
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import FloatArray, check_names
from fedbnsl.algorithms.errors import BadInput

from .check import check_same_columns
from .columns import EMPTY, HEADER
from .scan import DECIMAL_COMMA, LOOKED_AT, Form, Text, first_rows, is_empty, number_of, read_header, text_of

MAX_BATCH_ROWS, LEAST_ROWS, CELLS = 1 << 17, 1 << 10, 1 << 23
"""rows read at once: at most, at least, and else as many as have so many cells"""
BUFFER = 1 << 18
"""bytes of a column that are read ahead from a Parquet file"""


IN_MEMORY_BYTES = 1 << 28
"""A table is read in passes if its cells, of 8 bytes each, or its text take more bytes than this."""


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
    """How many rows of so many columns are read at once."""
    return max(LEAST_ROWS, min(MAX_BATCH_ROWS, CELLS // max(columns, 1)))


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
        """The columns of `file` by their names without the spaces around them."""
        with _opened(file) as opened:
            there = opened.schema_arrow.names
        check_names(str(file), [name.strip() for name in there])
        return {name.strip(): name for name in there}


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    """Yield the open Parquet file; raises `BadInput` for one that cannot be read, whenever that is found."""
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(file, pre_buffer=False, buffer_size=BUFFER) as opened:
            yield opened
    except (pyarrow.ArrowException, OSError) as error:
        raise BadInput(f"{file}: not a readable parquet file: {str(error).splitlines()[0]}") from error


def cells_of(file: Path) -> int:
    """How many cells a Parquet file states that it has; 0 for one that cannot be read."""
    try:
        with _opened(file) as opened:
            return int(opened.metadata.num_rows * opened.metadata.num_columns)
    except BadInput:
        return 0


DATABASE = re.compile(r"--\s*([a-z][a-z0-9+]*://\S*)\s*")
MAX_QUERY_ROWS = 1 << 14
"""rows fetched at once: each value is an object of Python"""
DUCKDB = "duckdb:///"


@dataclass(frozen=True)
class QuerySource:
    """Rows that the query in the file `path` gives."""

    path: Path
    words: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()

    @cached_property
    def _said(self) -> tuple[str, str]:
        """The database and the query. Raises `BadInput` for a file that does not name both."""
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
            raise BadInput(f"{self.path}: no query stands below the database")
        return database[1], query.strip().rstrip(";")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns of what the query gives."""
        there = self._run()
        names = [name.strip() for name in next(there)]
        there.close()
        check_names(str(self.path), names)
        return tuple(names)

    def batches(self, names: Sequence[str], words: Collection[str] = ()) -> Iterator[Any]:
        """Yield the rows (see `Source.batches`)."""
        there = self._run()
        found = [name.strip() for name in next(there)]
        for batch in there:
            yield batch.rename_columns(found).select(list(names))

    def _run(self) -> Any:
        """Yield the names of the columns, then the rows, some at a time."""
        database, query = self._said
        return self._of_duckdb(database, query) if database.startswith(DUCKDB) else self._of_sqlalchemy(database, query)

    def _of_sqlalchemy(self, database: str, query: str) -> Iterator[Any]:
        try:
            import sqlalchemy
        except ImportError:
            raise self._lacking("sqlalchemy") from None
        try:
            engine = sqlalchemy.create_engine(database)
        except (sqlalchemy.exc.SQLAlchemyError, ImportError) as error:
            raise BadInput(f"{self.path}: line 1: {_one_line(error)}") from None
        try:
            with engine.connect() as connection:
                asked = connection.execution_options(stream_results=True, yield_per=MAX_QUERY_ROWS)
                result = asked.exec_driver_sql(query)
                names = list(result.keys())
                yield names
                for rows in result.partitions(MAX_QUERY_ROWS):
                    yield _batch(names, rows)
        except sqlalchemy.exc.SQLAlchemyError as error:
            raise BadInput(f"{self.path}: {_one_line(error)}") from None
        finally:
            engine.dispose()

    def _of_duckdb(self, database: str, query: str) -> Iterator[Any]:
        try:
            import duckdb  # type: ignore[import-not-found,unused-ignore]
        except ImportError:
            raise self._lacking("duckdb") from None
        try:
            with duckdb.connect(database.removeprefix(DUCKDB), read_only=True) as connection:
                reader = connection.sql(query).to_arrow_reader(MAX_QUERY_ROWS)
                yield reader.schema.names
                yield from reader
        except duckdb.Error as error:
            raise BadInput(f"{self.path}: {_one_line(error)}") from None

    def _lacking(self, package: str) -> BadInput:
        return BadInput(f"{self.path}: its database needs the package {package}: pip install 'fedbnsl[sql]'")


def _batch(names: Sequence[str], rows: Sequence[Any]) -> Any:
    """Rows of Python values as a batch; a column of values of several types is text."""
    import pyarrow

    columns = []
    for values in zip(*rows, strict=True):
        try:
            columns.append(pyarrow.array(values))
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
            columns.append(pyarrow.array([None if value is None else str(value) for value in values]))
    return pyarrow.RecordBatch.from_arrays(columns, names=list(names))


def _one_line(error: Exception) -> str:
    return str(error).splitlines()[0]


NO_FORM = Form()
HEAD = 1 << 20
"""bytes from which it is told how a file is written"""
BLOCK = 1 << 24
"""bytes that are parsed at once"""


@dataclass(frozen=True)
class TextFile:
    """Rows in a text file, a header above them; `form` is what is declared of how it is written."""

    path: Path
    form: Form = NO_FORM

    @cached_property
    def _head(self) -> Text:
        """The first lines, and how they are written."""
        import pyarrow

        try:
            with pyarrow.input_stream(str(self.path), compression="detect") as stream:
                content: bytes = stream.read(HEAD)
        except (pyarrow.ArrowException, OSError) as error:
            raise BadInput(f"{self.path}: cannot be read: {str(error).splitlines()[0]}") from error
        if len(content) == HEAD and b"\n" in content:
            content = content[: content.rindex(b"\n") + 1]
        if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise BadInput(f"{self.path}: a file in UTF-16 of this size cannot be read: write it as UTF-8 or Parquet")
        return text_of(str(self.path), content, self.form)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns that the header names."""
        return tuple(read_header(self.path, self._head))

    @cached_property
    def words(self) -> frozenset[str]:
        """The columns of which not all of the first cells are numbers."""
        rows = first_rows(self._head, LOOKED_AT)[1:]
        columns = dict(zip(self.names, zip(*rows, strict=True), strict=bool(rows)))
        return frozenset(name for name, cells in columns.items() if not all(map(self._is_number, cells)))

    def _is_number(self, cell: str) -> bool:
        label = cell.strip()
        if self._head.decimal == "," and DECIMAL_COMMA.fullmatch(label):
            label = label.replace(",", ".")
        return is_empty(label) or not math.isnan(number_of(label))

    @property
    def notes(self) -> tuple[str, ...]:
        """How the file is read where that is not beyond doubt."""
        return ("it is read as cp1252",) * self._head.legacy

    def batches(self, names: Sequence[str], words: Collection[str] = ()) -> Iterator[Any]:
        """Yield the rows (see `Source.batches`)."""
        import pyarrow
        import pyarrow.csv

        head, text = self._head, pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
        header = HEADER.match(head.content)
        assert header is not None
        try:
            with pyarrow.csv.open_csv(
                self.path,
                read_options=pyarrow.csv.ReadOptions(
                    column_names=list(self.names),
                    skip_rows=len(header[0].splitlines()),
                    use_threads=False,
                    block_size=BLOCK,
                    encoding=self.form.encoding or ("cp1252" if head.legacy else "utf8"),
                ),
                parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True, delimiter=head.separator),
                convert_options=pyarrow.csv.ConvertOptions(
                    column_types={name: text if name in words else pyarrow.float64() for name in self.names},
                    strings_can_be_null=False,
                    quoted_strings_can_be_null=False,
                    null_values=EMPTY,
                    decimal_point=head.decimal,
                    include_columns=list(names),
                ),
            ) as stream:
                yield from stream
        except pyarrow.ArrowInvalid as error:
            declare = "; if the column holds labels, declare it in about.json" * ("conversion error" in str(error))
            raise BadInput(f"{self.path}: not a table: {str(error).splitlines()[0]}{declare}") from error
        except (pyarrow.ArrowException, OSError) as error:
            raise BadInput(f"{self.path}: cannot be read: {str(error).splitlines()[0]}") from error


def numbers_in(column: Any) -> FloatArray | None:
    """The numbers in an arrow `column` `[n_rows]`, NaN where there is none; None if it does not hold numbers."""
    import pyarrow

    kind = column.type
    if pyarrow.types.is_floating(kind):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    if pyarrow.types.is_integer(kind) or pyarrow.types.is_decimal(kind) or pyarrow.types.is_null(kind):
        return np.asarray(column.cast(pyarrow.float64()).to_numpy(zero_copy_only=False))
    return None


def cells_in(column: Any) -> tuple[list[str], NDArray[np.int64]]:
    """The distinct cells in an arrow `column` as text, and which of them each row holds, `[n_rows]`.

    A missing one is an empty cell, which comes last.
    """
    import pyarrow
    import pyarrow.compute

    if not pyarrow.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    cells = [_text(value) for value in column.dictionary.to_pylist()]
    codes = np.asarray(pyarrow.compute.fill_null(column.indices, len(cells)), dtype=np.int64)
    return [*cells, ""], codes


def _text(value: Any) -> str:
    if value is None:
        return ""
    return repr(value) if isinstance(value, float) else str(value)
