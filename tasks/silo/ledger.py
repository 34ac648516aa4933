"""A silo's privacy ledger on disk: one SQLite file beside its rows, separate from the journal; no run deletes it.

What was charged stays charged, also if the run fails or is forgotten, or if the process dies between charge and reply.
If the file cannot be read or written, nothing is released.
"""

import sqlite3
from pathlib import Path

from fedbnsl.algorithms.core.promise import Charge
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.privacy.ledger import ChargeRequest, decide

SCHEMA = """
CREATE TABLE IF NOT EXISTS charges (
    run TEXT, number INTEGER, digest TEXT NOT NULL, what TEXT NOT NULL, rho REAL NOT NULL, delta REAL NOT NULL,
    broken TEXT NOT NULL, key BLOB NOT NULL, PRIMARY KEY (run, number)
);
"""
COLUMNS = "run, number, digest, what, rho, delta, broken, key"


class FileLedger:
    """The ledger at `path`. Every call opens the file anew, so that several processes may share it."""

    def __init__(self, path: Path) -> None:
        """Name the file; the first charge creates it."""
        self.path = path

    def reserve(self, request: ChargeRequest, key: bytes) -> bytes:
        """Charge `request` (see `algorithms.privacy.ledger.Ledger`); raises `BadInput` if it cannot be recorded."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._opened() as db:
                # Locked before the charges are read: no other process may add one between the check and the insert.
                db.execute("BEGIN IMMEDIATE")
                charges = _charges(db)
                charge = decide(charges, request, key)
                if charge not in charges:
                    db.execute(f"INSERT INTO charges ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", _row(charge))
                db.execute("COMMIT")
                return charge.key
        except (OSError, sqlite3.Error) as error:
            raise BadInput(
                f"{self.path}: the privacy ledger cannot be written, so nothing is released ({error})"
            ) from None

    def charges(self, run: str | None = None) -> tuple[Charge, ...]:
        """Return the charges of `run`, or all; raises `BadInput` if the file is not a ledger."""
        if not self.path.exists():
            return ()
        try:
            with self._opened() as db:
                return tuple(charge for charge in _charges(db) if run in (None, charge.run))
        except sqlite3.Error as error:
            raise BadInput(f"{self.path}: the privacy ledger cannot be read ({error})") from None

    def _opened(self) -> "_Connection":
        return _Connection(self.path)


class _Connection:
    """An open ledger; what was not committed when it closes is rolled back."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> sqlite3.Connection:
        self._db = sqlite3.connect(self._path, timeout=30, isolation_level=None)
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.executescript(SCHEMA)
        return self._db

    def __exit__(self, *error: object) -> None:
        self._db.close()


def _charges(db: sqlite3.Connection) -> tuple[Charge, ...]:
    return tuple(Charge(*row) for row in db.execute(f"SELECT {COLUMNS} FROM charges ORDER BY rowid"))


def _row(charge: Charge) -> tuple[object, ...]:
    return tuple(getattr(charge, name) for name in COLUMNS.split(", "))


def ledger_path(source: Path, silo: str) -> Path:
    """Return the path of the ledger of `silo`, whose rows are the file `source` (or, if pooled, the folder)."""
    folder = source if source.is_dir() else source.parent
    return folder / ".fedbnsl" / f"{silo}.ledger"
