"""A query as the rows of a silo: a file `<silo>.sql`, whose first line names the database in a comment.

    -- sqlite:////data/hospital.db
    SELECT age, smokes, pressure FROM patients WHERE consent ORDER BY id

The database is a URL as SQLAlchemy takes it (https://docs.sqlalchemy.org/en/20/core/engines.html), or
`duckdb:///data/hospital.duckdb`. A relative path is one from where the silo's process was started. Every pass runs the
query once more: while a run lasts, it must give the same rows in the same order.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fedbnsl.algorithms.core.names import check_names
from fedbnsl.algorithms.errors import BadInput

DATABASE = re.compile(r"--\s*([a-z][a-z0-9+]*://\S*)\s*")
MOST_ROWS = 1 << 14
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
                asked = connection.execution_options(stream_results=True, yield_per=MOST_ROWS)
                result = asked.exec_driver_sql(query)
                names = list(result.keys())
                yield names
                for rows in result.partitions(MOST_ROWS):
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
                reader = connection.sql(query).to_arrow_reader(MOST_ROWS)
                yield reader.schema.names
                yield from reader
        except duckdb.Error as error:
            raise BadInput(f"{self.path}: {_one_line(error)}") from None

    def _lacking(self, package: str) -> BadInput:
        return BadInput(f"{self.path}: its database needs the package {package}: pip install 'fedbnsl[sql]'")


def _batch(names: Sequence[str], rows: Sequence[Any]) -> Any:
    """Return rows of Python values as a batch; a column of values of several types is text."""
    import pyarrow  # type: ignore[import-untyped]

    columns = []
    for values in zip(*rows, strict=True):
        try:
            columns.append(pyarrow.array(values))
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
            columns.append(pyarrow.array([None if value is None else str(value) for value in values]))
    return pyarrow.RecordBatch.from_arrays(columns, names=list(names))


def _one_line(error: Exception) -> str:
    return str(error).splitlines()[0]
