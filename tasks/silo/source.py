"""The source of a silo's rows: files, with journal, ledger and secret beside them, or a table in memory.

The journal and the ledger of a table in memory end with the process.
"""

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput, quoted
from fedbnsl.algorithms.privacy.ledger import MemoryLedger
from fedbnsl.algorithms.statistics.moments import Table, chunks
from fedbnsl.algorithms.statistics.outliers import farthest_cell
from fedbnsl.data.federated import Fingerprint, with_survival_columns
from fedbnsl.data.folder.about import Declared
from fedbnsl.data.folder.fingerprint import fingerprint
from fedbnsl.data.folder.sources import open_source
from fedbnsl.data.folder.table import Mapper

from .journal import NOT_STARTED, Journal, RunState, journal_path
from .ledger import FileLedger, ledger_of
from .private_folder import private_folder
from .publications import Publications, published_path
from .rows import AnyDescribed, describe_rows, read_clusters, read_rows
from .seals import Purpose, seal, sealed, silo_secret

IN_MEMORY = Fingerprint((), settled=True)
"""the fingerprint of a table without a digest of its content"""


@dataclass(frozen=True)
class Parsed:
    """A parsed table, and the fingerprint of its file from before the parsing."""

    table: Any
    fingerprint: Fingerprint
    survival: NDArray[np.float64] | None = None
    """the columns of survival outcomes, which only some steps of a run read"""


@dataclass(frozen=True)
class FileSource:
    """Rows in their owner's files: `path` is a file, a folder of the parts of a silo, or a folder of silos to pool.

    Without `durable`, the journal is in memory, and runs cannot be resumed.
    """

    silo: str
    path: Path
    durable: bool = True
    """whether the journal persists after the process"""
    parsed: Parsed | None = None
    initial_state: RunState = NOT_STARTED
    mapper: Mapper = map
    """applies a function to each part of rows that are read in passes: the owner's readers, or the built-in `map`"""

    @property
    def described(self) -> Fingerprint | None:
        """The fingerprint of the rows from which the schema was inferred, from before the parsing; None without it."""
        return None if self.parsed is None else self.parsed.fingerprint

    def describe(self, silo: str, declared: Declared) -> AnyDescribed:
        """The public description of the rows; raises `BadInput` if they are unreadable."""
        return describe_rows(silo, self.path, declared, self.mapper)

    def read(self, silo: str, schema: Schema, declared: Declared) -> Any:
        """The parsed table, if the file has not changed since the parsing; otherwise the file is read again."""
        if self.parsed is not None and self.parsed.fingerprint.matches(fingerprint(self.path, self.parsed.fingerprint)):
            return with_survival(self.parsed.table, self.parsed.survival, schema)
        return read_rows(silo, self.path, schema, declared, self.mapper)

    def clusters(self, silo: str, schema: Schema, declared: Declared) -> NDArray[np.int64] | None:
        """The number of the cluster of each row, `[n_rows]`; None if no column of clusters is declared."""
        return read_clusters(silo, self.path, schema, declared)

    def far_cell(self, table: Any, schema: Schema, variable: str, declared: Declared) -> str:
        """Place and content of the cell that is farthest from a variable's other cells.

        They are known only if the rows are a single file and are all in memory; otherwise the text is empty.
        """
        whole = self.path.is_file() and isinstance(table, np.ndarray) and not schema.complete_rows
        found = farthest_cell(table[:, schema.variables.index(variable)]) if whole else None
        if found is None:
            return ""
        row, centre = found
        value = table[row, schema.variables.index(variable)]
        place = open_source(self.path, declared.at_silo(self.silo).form).place(row)
        return f"{place}, column {quoted(variable)}: {value:g}, where the median is {centre:.3g}"

    def fingerprint(self, before: Fingerprint | None, *, digest: bool) -> Fingerprint:
        """The current fingerprint of the rows (see `data.folder.fingerprint`)."""
        return fingerprint(self.path, before, digest=digest)

    def seal(self, purpose: Purpose, context: str = "", now: Fingerprint | None = None) -> str:
        """The seal of the rows under the secret beside them; `now` is their fingerprint with a digest, if known."""
        if now is None:
            return seal(self.path, context, purpose)
        return sealed(silo_secret(private_folder(self.path)), context, purpose, now.digest)

    def journal(self) -> Journal:
        """Open the journal beside the rows, or one in memory."""
        return Journal(journal_path(self.path, self.silo) if self.durable else None)

    def has_journal(self) -> bool:
        """Whether there is a journal beside the rows, from an earlier service."""
        return journal_path(self.path, self.silo).exists()

    def publications(self, journal: Journal) -> Publications | None:
        """The record beside the rows, None without a durable journal."""
        return Publications(published_path(self.path, self.silo), journal) if self.durable else None

    def ledger(self, silo: str) -> FileLedger:
        """The ledger beside the rows."""
        return ledger_of(self.path, silo)


_SECRET = secrets.token_bytes(32)
"""the secret of this process, because a plain digest of a table could be compared with guesses"""


@dataclass(frozen=True, eq=False)
class TableSource:
    """A table `[n_rows, n_variables]` in memory or read in passes, as used in tests, notebooks and benchmarks."""

    table: Table
    memory_ledger: MemoryLedger = field(default_factory=MemoryLedger)
    initial_state: RunState = NOT_STARTED
    """the state of a run whose earlier rounds were in another process"""
    durable: bool = False
    described: Fingerprint | None = None
    row_clusters: NDArray[np.int64] | None = None
    """the number of the cluster of each row, `[n_rows]`"""
    survival: NDArray[np.float64] | None = None
    """the columns of survival outcomes, which only some steps of a run read"""

    def describe(self, silo: str, declared: Declared) -> AnyDescribed:
        """Raise `BadInput`: the caller that has the table also has its schema."""
        raise BadInput(f"silo {silo} is a table in memory: its schema must be given with it")

    def read(self, silo: str, schema: Schema, declared: Declared) -> Any:
        """The table."""
        return with_survival(self.table, self.survival, schema)

    def clusters(self, silo: str, schema: Schema, declared: Declared) -> NDArray[np.int64] | None:
        """The number of the cluster of each row, `[n_rows]`, if it is known."""
        return self.row_clusters

    def far_cell(self, table: Any, schema: Schema, variable: str, declared: Declared) -> str:
        """Empty: a table in memory has no lines."""
        return ""

    def fingerprint(self, before: Fingerprint | None, *, digest: bool) -> Fingerprint:
        """The fingerprint of the table; a digest is computed each time, because changes in memory leave no trace."""
        return Fingerprint((), settled=True, digest=table_digest(self.table)) if digest else IN_MEMORY

    def seal(self, purpose: Purpose, context: str = "", now: Fingerprint | None = None) -> str:
        """The seal of the table under the secret of this process."""
        return sealed(_SECRET, context, purpose, table_digest(self.table) if now is None else now.digest)

    def journal(self) -> Journal:
        """Open a journal in memory."""
        return Journal(None)

    def has_journal(self) -> bool:
        """False: a journal in memory ends with its process."""
        return False

    def publications(self, journal: Journal) -> None:
        """None: publications of a table in memory are not recorded."""

    def ledger(self, silo: str) -> MemoryLedger:
        """The ledger of the table."""
        return self.memory_ledger


def with_survival(table: Any, survival: NDArray[np.float64] | None, schema: Schema) -> Any:
    """`table` `[n_rows, d]` and, if `schema` has the columns of survival outcomes as variables, also these columns."""
    if survival is None or table.shape[1] == len(schema.variables):
        return table
    return with_survival_columns(table, survival)


SiloSource = FileSource | TableSource
"""the rows of one silo"""


def table_digest(table: Table) -> bytes:
    """A SHA-256 digest of the rows of `table`, keyed with the secret of this process."""
    digest = hmac.new(_SECRET, digestmod=hashlib.sha256)
    for rows in chunks(table):
        digest.update(wire.encode(rows))
    return digest.digest()
