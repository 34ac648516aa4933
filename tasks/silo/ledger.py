"""A silo's privacy ledger on disk: one SQLite file beside its rows, separate from the journal; no run deletes it.

A charge is permanent, even if the run fails or is deleted, or if the process ends between charge and reply. If the file
cannot be read or written, nothing is released. Each charge includes the seal of the rows. Ledgers in the same folder
whose charges have the same seal share one budget, so a renamed file gets no new budget.
"""

import fcntl
import hashlib
import hmac
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.promise import Charge
from fedbnsl.algorithms.privacy.ledger import ChargeRequest, decide
from fedbnsl.tracking.kept_files import require_database

from .journal import keyed_checksum
from .private_folder import BadRecord, make_private_file, make_private_folder, private_folder, record_error
from .seals import seal, silo_secret

LEDGER_SCHEMA = """
CREATE TABLE IF NOT EXISTS charges (
    run TEXT, number INTEGER, digest TEXT NOT NULL, what TEXT NOT NULL, rho REAL NOT NULL, delta REAL NOT NULL,
    broken TEXT NOT NULL, key BLOB NOT NULL, rows TEXT NOT NULL DEFAULT '', checksum TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (run, number)
);
"""
ADDED_COLUMNS = ("rows", "checksum")
"""columns that are missing in ledgers of earlier versions"""
COLUMNS = "run, number, digest, what, rho, delta, broken, key, rows, checksum"
RESTORE = "restore the file"
LEDGER_SUFFIX, SEAL_CONTEXT = ".ledger", "ledger"


class FileLedger:
    """The ledger at `path`. Every call reopens the file, so that several processes may share it."""

    def __init__(self, path: Path, rows: Callable[[], str] = lambda: "") -> None:
        """Set the file; the first charge creates it. `rows` returns the seal of the rows, "" if there are no rows."""
        self.path = path
        self._rows = rows
        self._reserved: set[tuple[str, int]] = set()
        """(run, number) of each charge of this process: a ledger that lacks such a charge has been tampered with"""

    def reserve(self, request: ChargeRequest, key: bytes) -> bytes:
        """Charge `request` (see `algorithms.privacy.ledger.Ledger`); raises `BadRecord` if the file is unusable."""
        rows = self._rows()
        try:
            make_private_folder(self.path.parent)
            make_private_file(self.path)
            # Locked before charges are read, so that no other process adds one between the check and the insert.
            with _locked(self.path.parent), closing(_open(self.path)) as db:
                db.execute("BEGIN IMMEDIATE")
                charges = self._complete(_charges(db, self.path))
                charge = decide(charges, request, key, self._other_charges({rows}))
                if charge not in charges:
                    db.execute(
                        f"INSERT INTO charges ({COLUMNS}) VALUES (?{', ?' * 9})",
                        _row(charge, rows, silo_secret(self.path.parent)),
                    )
                db.execute("COMMIT")
        except (OSError, sqlite3.Error) as error:
            raise record_error(f"nothing is released: {self.path}: the privacy ledger", error, RESTORE) from None
        self._reserved.add((charge.run, charge.number))
        return charge.key

    def charges(self, run: str | None = None) -> tuple[Charge, ...]:
        """The charges of `run`; without `run`, all charges, including charges on the same rows in the folder's ledgers.

        Raises `BadRecord` if the file is not a ledger or is damaged, or if a charge of this process is missing.
        """
        own = self._complete(self._own())
        if run is not None:
            return tuple(charge for charge in own if charge.run == run)
        others = tuple(path for path in self.path.parent.glob("*" + LEDGER_SUFFIX) if path != self.path)
        return (*own, *self._other_charges({self._rows()})) if others else own

    def require(self, charged: set[tuple[str, int]]) -> None:
        """Raise `BadRecord` unless the ledger has all rounds in `charged`, given as (run, number)."""
        self._require(self._own(), charged)

    def finish(self, run: str) -> None:
        """Overwrite the noise keys of the finished `run`, keep its charges; raises `BadRecord` as `reserve` does."""
        if not self.path.exists():
            return
        try:
            with closing(_open(self.path)) as db:
                db.execute("BEGIN IMMEDIATE")
                charged = db.execute(f"SELECT {COLUMNS} FROM charges WHERE run = ?", (run,)).fetchall()
                for row in charged:
                    erased = (*row[:7], b"", row[8])
                    db.execute(
                        "UPDATE charges SET key = x'', checksum = ? WHERE run = ? AND number = ?",
                        (keyed_checksum(silo_secret(self.path.parent), erased), *row[:2]),
                    )
                db.execute("COMMIT")
        except sqlite3.Error as error:
            raise record_error(f"{self.path}: the privacy ledger", error, RESTORE) from None

    def _own(self) -> tuple[Charge, ...]:
        return _read(self.path, lambda db: _charges(db, self.path)) if self.path.exists() else ()

    def _complete(self, charges: tuple[Charge, ...]) -> tuple[Charge, ...]:
        self._require(charges, self._reserved)
        return charges

    def _require(self, charges: tuple[Charge, ...], charged: set[tuple[str, int]]) -> None:
        for run, number in sorted(charged - {(charge.run, charge.number) for charge in charges})[:1]:
            raise BadRecord(
                f"{self.path}: round {number} of run {run} was charged but is missing in the privacy ledger: restore "
                "the file; nothing is released without it"
            )

    def _other_charges(self, rows: set[str]) -> tuple[Charge, ...]:
        """The charges in other ledgers of this folder whose rows have one of the seals `rows`."""
        found: list[Charge] = []
        for path in sorted(self.path.parent.glob("*" + LEDGER_SUFFIX)):
            if path != self.path:
                found += _read(path, lambda db, path=path: _charges(db, path, rows - {""}))  # type: ignore[misc]
        return tuple(found)


def ledger_of(source: Path, silo: str) -> FileLedger:
    """The ledger of `silo`, whose rows are at `source`."""
    return FileLedger(ledger_path(source, silo), partial(seal, source, SEAL_CONTEXT))


def ledger_path(source: Path, silo: str) -> Path:
    """The path of the ledger of `silo`, whose rows are the file `source` (or, if pooled, the folder)."""
    return private_folder(source) / f"{silo}{LEDGER_SUFFIX}"


def _open(path: Path) -> sqlite3.Connection:
    """The open ledger; closing it rolls back uncommitted changes."""
    db = sqlite3.connect(path, timeout=30, isolation_level=None)
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA secure_delete = ON")
    require_database(path, db, BadRecord)
    db.executescript(LEDGER_SCHEMA)
    present = {row[1] for row in db.execute("PRAGMA table_info(charges)")}
    for name in ADDED_COLUMNS:
        if name not in present:
            db.execute(f"ALTER TABLE charges ADD COLUMN {name} TEXT NOT NULL DEFAULT ''")
    return db


def _read(path: Path, read: Callable[[sqlite3.Connection], tuple[Charge, ...]]) -> tuple[Charge, ...]:
    try:
        with closing(_open(path)) as db:
            return read(db)
    except sqlite3.Error as error:
        raise record_error(f"{path}: the privacy ledger", error, RESTORE) from None


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock `folder`: within the block, no other process can charge a ledger in it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def reseal(path: Path) -> int:
    """Give each charge that an earlier version wrote to the ledger at `path` a checksum under the silo's secret.

    Returns the number of these charges. Only the owner may call this function: earlier checksums had no key, so anybody
    could have written such a charge. Raises `BadRecord` if the earlier checksum of a charge is wrong.
    """
    key, count = silo_secret(path.parent), 0
    with closing(_open(path)) as db:
        db.execute("BEGIN IMMEDIATE")
        for row in db.execute(f"SELECT {COLUMNS} FROM charges").fetchall():
            if row[9] == keyed_checksum(key, row[:9]):
                continue
            if row[9] not in ("", hashlib.blake2b(wire.encode(row[:9]), digest_size=16).hexdigest()):
                raise BadRecord(f"{path}: the privacy ledger is damaged, in round {row[1]} of run {row[0]}")
            sealed = (keyed_checksum(key, row[:9]), *row[:2])
            db.execute("UPDATE charges SET checksum = ? WHERE run = ? AND number = ?", sealed)
            count += 1
        db.execute("COMMIT")
    return count


def _charges(db: sqlite3.Connection, path: Path, rows: set[str] | None = None) -> tuple[Charge, ...]:
    """The charges in `db`, or only the charges whose rows have one of the seals `rows`.

    Raises `BadRecord` if a charge is damaged.
    """
    found, key = [], silo_secret(path.parent)
    for row in db.execute(f"SELECT {COLUMNS} FROM charges ORDER BY rowid"):
        if not hmac.compare_digest(row[9], keyed_checksum(key, row[:9])):
            raise BadRecord(
                f"{path}: the privacy ledger is damaged, in round {row[1]} of run {row[0]}: restore the file; a ledger "
                "of an earlier version is sealed with `fedbnsl silo reseal`"
            )
        if rows is None or row[8] in rows:
            found.append(Charge(*row[:8]))
    return tuple(found)


def _row(charge: Charge, rows: str, key: bytes) -> tuple[object, ...]:
    names = ("run", "number", "binding", "what", "rho", "delta", "broken", "key")
    row = (*(getattr(charge, name) for name in names), rows)
    return (*row, keyed_checksum(key, row))
