"""Rows that a query returns from a database.

A query is a file `<silo>.sql` whose first line names the database in a comment.

    -- sqlite:////data/hospital.db
    SELECT age, smokes, pressure FROM patients WHERE consent ORDER BY id

The database is a URL for SQLAlchemy (https://docs.sqlalchemy.org/en/20/core/engines.html), or
`duckdb:///data/hospital.duckdb`. A relative path starts at the working directory of the silo's process. Rows that fit
into memory are read once. Otherwise every pass runs the query again, so it must return the same rows in the same order
during a run.

Without a query below the first line, the query is compiled from "omop" in the about.json beside the file (`omop.py`).
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fedbnsl.algorithms.core.schema import check_names
from fedbnsl.algorithms.errors import BadInput

from .about import ABOUT, parse_about, read_about
from .batches import exceeds_memory
from .omop import Compiler

DATABASE = re.compile(r"--\s*([a-z][a-z0-9+]*://\S*)\s*")
MAX_QUERY_ROWS = 1 << 14
"""number of rows that are fetched at once; each value is a Python object"""
DUCKDB = "duckdb:///"


@dataclass(frozen=True)
class QuerySource:
    """The rows returned by the query in the file `path`."""

    path: Path
    words: frozenset[str] = frozenset()
    labelled: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()

    @cached_property
    def _lines(self) -> tuple[str, str]:
        """The database, and the query below it, which may be empty; raises `BadInput` without a database."""
        try:
            first, _, query = self.path.read_text(encoding="utf-8-sig").strip().partition("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"{self.path}: cannot be read as UTF-8 text: {error}") from error
        database = DATABASE.fullmatch(first.strip())
        if database is None:
            raise BadInput(
                f"{self.path}: line 1 names no database: it must be a comment such as -- sqlite:////data/hospital.db"
            )
        return database[1], query.strip().rstrip(";")

    @cached_property
    def _cohort(self) -> Compiler | None:
        """What compiles the query from the about.json beside the file; None if the file has its own query.

        Raises `BadInput` if there is neither.
        """
        database, query = self._lines
        if query:
            return None
        place = self.path.parent
        omop = parse_about(read_about(place), str(place / ABOUT)).omop
        if omop is None:
            raise BadInput(f'{self.path}: there is no query below line 1, and no "omop" in the {ABOUT} beside it')
        return Compiler.for_database(omop, database, str(self.path))

    @cached_property
    def compiled(self) -> str | None:
        """The query that is compiled from a declaration; None if the file has its own query."""
        return self._cohort.query if self._cohort else None

    def attrition(self) -> list[tuple[str, int]]:
        """The number of patients in the database and after each step to the cohort; empty without a declaration."""
        return [(step, self._count(query)) for step, query in (self._cohort.attrition if self._cohort else ())]

    def _count(self, query: str) -> int:
        result = self._run(query)
        next(result)
        return int(next(result).column(0)[0].as_py())

    @property
    def header(self) -> tuple[str, ...]:
        """The columns of the query's result."""
        return self.names

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the query's result."""
        return self._begin[0]

    @property
    def fits_memory(self) -> bool:
        """Whether the rows fit into memory; this source then runs the query once."""
        return self._begin[1] is not None

    @cached_property
    def _begin(self) -> tuple[tuple[str, ...], list[Any] | None]:
        """The columns, and the batches of rows if these fit into memory."""
        result, cells, read = self._run(), 0, list[Any]()
        names = [name.strip() for name in next(result)]
        check_names(str(self.path), names)
        for batch in result:
            cells += batch.num_rows * len(names)
            if exceeds_memory(8 * cells):
                result.close()
                return tuple(names), None
            read.append(batch)
        return tuple(names), read

    def batches(self, names: Sequence[str], words: Collection[str] = ()) -> Iterator[Any]:
        """Yield the rows (see `Source.batches`)."""
        columns, read = self._begin
        result = iter(read) if read is not None else self._run()
        if read is None:
            next(result)
        for batch in result:
            yield batch.rename_columns(list(columns)).select(list(names))

    def place(self, row: int) -> str:
        """The place of row `row` (from 0) of the result."""
        return f"{self.path}: row {row + 1}"

    def _run(self, query: str | None = None) -> Any:
        """Yield the names of the columns, then batches of rows, of `query` or, without one, of the file's query."""
        database, own = self._lines
        query = query or self.compiled or own
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
                relation = connection.sql(query)
                if relation is None:
                    raise BadInput(f"{self.path}: there is no statement below line 1")
                reader = relation.to_arrow_reader(MAX_QUERY_ROWS)
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
