"""Rows that a query returns from a database.

A query is a file `<silo>.sql` whose first line names the database in a comment.

    -- sqlite:////data/hospital.db
    SELECT age, smokes, pressure FROM patients WHERE consent ORDER BY id

The database is a URL for SQLAlchemy (https://docs.sqlalchemy.org/en/20/core/engines.html), or
`duckdb:///data/hospital.duckdb`. A relative path starts at the working directory of the silo's process. Every pass
executes the query again, so the query must return the same rows in the same order during a run.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fedbnsl.algorithms.core.schema import check_names
from fedbnsl.algorithms.errors import BadInput

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
