"""Where a silo's rows are, and what belongs to them: files with journal, ledger and secret beside them, or a table.

A table in memory is nobody's file: its journal and its ledger end with the process.
"""

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.privacy.ledger import MemoryLedger
from fedbnsl.algorithms.statistics.moments import Table, chunks
from fedbnsl.data.federated import Fingerprint
from fedbnsl.data.folder.about import Declared
from fedbnsl.data.folder.fingerprint import fingerprint

from .journal import NOT_BEGUN, Journal, RunState, journal_path, seal, sealed
from .ledger import FileLedger, ledger_of
from .rows import AnyDescribed, describe_rows, read_rows

IN_MEMORY = Fingerprint((), settled=True)
"""of a table whose content has not been read for its digest"""


class SiloSource(Protocol):
    """The rows of one silo."""

    @property
    def durable(self) -> bool:
        """Whether the journal outlives the process."""
        ...

    @property
    def described(self) -> Fingerprint | None:
        """The fingerprint of the rows from which the schema was made, where that was done before."""
        ...

    def describe(self, silo: str, declared: Declared) -> AnyDescribed:
        """Return what is public of the rows; raises `BadInput` for unreadable ones."""
        ...

    def read(self, silo: str, schema: Schema, declared: Declared) -> Any:
        """The rows, in memory or to be read in passes (see `read_rows`)."""
        ...

    def fingerprint(self, before: Fingerprint | None, *, digest: bool) -> Fingerprint:
        """The fingerprint of the rows as they are now (see `data.folder.fingerprint`)."""
        ...

    def seal(self, context: str, now: Fingerprint | None = None) -> str:
        """The seal of the rows for one use; `now` is their fingerprint, with its digest, where it is known."""
        ...

    def journal(self) -> Journal:
        """Open the journal."""
        ...

    def has_journal(self) -> bool:
        """Whether a journal was kept before."""
        ...

    @property
    def begun(self) -> RunState:
        """Where a run stands when it is opened without a durable journal."""
        ...

    def ledger(self, silo: str) -> FileLedger | MemoryLedger:
        """The privacy ledger."""
        ...


@dataclass(frozen=True)
class Parsed:
    """A table that has been parsed already, and the fingerprint of its file from before that."""

    table: Any
    of: Fingerprint


@dataclass(frozen=True)
class FileSource:
    """Rows in their owner's files: `path` is a file, or a folder of parts or of silos to be pooled.

    Without `durable` the journal is kept in memory: for a run that nobody could resume.
    """

    silo: str
    path: Path
    durable: bool = True
    parsed: Parsed | None = None
    begun: RunState = NOT_BEGUN

    @property
    def described(self) -> Fingerprint | None:
        """The fingerprint from before the file was parsed, if it has been."""
        return None if self.parsed is None else self.parsed.of

    def describe(self, silo: str, declared: Declared) -> AnyDescribed:
        """Return what is public of the rows; raises `BadInput` for unreadable ones."""
        return describe_rows(silo, self.path, declared)

    def read(self, silo: str, schema: Schema, declared: Declared) -> Any:
        """The rows: those parsed before, if the file is as it was then."""
        if self.parsed is not None and self.parsed.of.matches(fingerprint(self.path, self.parsed.of)):
            return self.parsed.table
        return read_rows(silo, self.path, schema, declared)

    def fingerprint(self, before: Fingerprint | None, *, digest: bool) -> Fingerprint:
        """The fingerprint of the rows as they are now."""
        return fingerprint(self.path, before, digest=digest)

    def seal(self, context: str, now: Fingerprint | None = None) -> str:
        """The seal of the rows for one use, under the secret beside them."""
        return seal(self.path, context) if now is None else sealed(self.path, context, now.digest)

    def journal(self) -> Journal:
        """Open the journal beside the rows, or one in memory."""
        return Journal(journal_path(self.path, self.silo) if self.durable else None)

    def has_journal(self) -> bool:
        """Whether there is a journal beside the rows."""
        return journal_path(self.path, self.silo).exists()

    def ledger(self, silo: str) -> FileLedger:
        """The ledger beside the rows."""
        return ledger_of(self.path, silo)


_SECRET = secrets.token_bytes(32)
"""of this process: a plain digest of a table could be compared with guesses"""


@dataclass(frozen=True, eq=False)
class TableSource:
    """A table `[n_rows, n_variables]` in memory, or one that is read in passes: in tests, notebooks and benchmarks."""

    table: Table
    charged: MemoryLedger = field(default_factory=MemoryLedger)
    begun: RunState = NOT_BEGUN
    """where a run stands that was begun elsewhere and goes on here"""
    durable: bool = False
    described: Fingerprint | None = None

    def describe(self, silo: str, declared: Declared) -> AnyDescribed:
        """Raise `BadInput`: whoever holds a table knows its schema."""
        raise BadInput(f"silo {silo} is a table in memory: its schema comes with it")

    def read(self, silo: str, schema: Schema, declared: Declared) -> Any:
        """The table."""
        return self.table

    def fingerprint(self, before: Fingerprint | None, *, digest: bool) -> Fingerprint:
        """The fingerprint of the table, read anew for a digest: in memory nothing tells when it changes."""
        return Fingerprint((), settled=True, digest=table_digest(self.table)) if digest else IN_MEMORY

    def seal(self, context: str, now: Fingerprint | None = None) -> str:
        """The seal of the table for one use, under the secret of this process."""
        digest = table_digest(self.table) if now is None else now.digest
        return hmac.new(_SECRET, context.encode() + b"\0" + digest, hashlib.sha256).hexdigest()

    def journal(self) -> Journal:
        """Open a journal in memory."""
        return Journal(None)

    def has_journal(self) -> bool:
        """False: nothing was kept."""
        return False

    def ledger(self, silo: str) -> MemoryLedger:
        """The ledger of the table."""
        return self.charged


def table_digest(table: Table) -> bytes:
    """A SHA-256 digest of the rows of `table`, keyed with the secret of this process."""
    digest = hmac.new(_SECRET, digestmod=hashlib.sha256)
    for rows in chunks(table):
        digest.update(wire.encode(rows))
    return digest.digest()
