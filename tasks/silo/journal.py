"""A silo's journal: its replies and its latest state in every open run, in one SQLite file beside its rows.

A silo that dies and comes back must not solve a round twice: noise drawn a second time would be a second release. So
every round commits its reply and the state after it in one transaction, before the reply is sent. Whoever asks for that
round again gets the stored reply, if nothing it depends on is another: each reply is bound to broadcast, settings and
schema, and of a private run to the rows. Which rounds were charged is never forgotten: a ledger that does not know of
them is not the one they were charged to. Everything has a checksum: a wrong state would make a wrong model, silently.

Seals of a silo's rows, and the private folder `.fedbnsl` beside them.

A seal shows whether rows have changed and discloses nothing about them. A plain digest would allow guessing: whoever
knows all rows but one can try every value of the last one. A seal is an HMAC of the digest under a random secret that
never leaves the silo. Without the secret, it only shows whether two contents are the same within one context.

The folder has the ledger, the journal and the secret, and only its owner may read it. Paths are resolved first, so that
a link to the rows leads to the same folder as the rows.
"""

import hashlib
import hmac
import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.fingerprint import rows_digest

FOLDER = ".fedbnsl"


class BadRecord(BadInput):
    """A file in a silo's private folder is damaged or incomplete, or cannot be read or written."""


def private_folder(source: Path) -> Path:
    """The private folder for the rows at `source`: a file, or a folder if the rows are pooled or in parts."""
    there = source.resolve()
    return (there if there.is_dir() else there.parent) / FOLDER


def make_private_folder(folder: Path) -> None:
    """Create `folder` with access for its owner only, or restrict an existing one; raises `OSError`."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)


def make_private_file(path: Path) -> None:
    """Create an empty file at `path` unless it exists, with access for its owner only; raises `OSError`.

    The files that SQLite writes beside a database have the same permissions as the database.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if os.fstat(descriptor).st_mode & 0o077:
            os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


SECRET, SECRET_BYTES = "secret", 32


def seal(source: Path, context: str) -> str:
    """The seal of the rows at `source` within a `context`: 64 hexadecimal digits.

    Raises `BadInput` if the rows cannot be read, or the secret beside them can be neither read nor created.
    """
    return sealed(source, context, rows_digest(source))


def sealed(source: Path, context: str, digest: bytes) -> str:
    """The seal of rows at `source` whose `rows_digest` is known (see `seal`)."""
    content = context.encode() + b"\0" + digest
    return hmac.new(_secret(private_folder(source)), content, hashlib.sha256).hexdigest()


def _secret(folder: Path) -> bytes:
    """The secret in `folder`, created at its first use."""
    path = folder / SECRET
    try:
        if not path.exists():
            _make_secret(path)
        secret = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path}: cannot read or write the silo's secret ({error.strerror})") from None
    if len(secret) != SECRET_BYTES:
        raise BadInput(
            f"{path}: damaged: a silo's secret has {SECRET_BYTES} bytes, not {len(secret)}; restore the file"
        )
    return secret


def _make_secret(path: Path) -> None:
    """Write a random secret to `path` atomically, unless another process is faster."""
    make_private_folder(path.parent)
    begun = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(begun, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(secrets.token_bytes(SECRET_BYTES))
            opened.flush()
            os.fsync(opened.fileno())
        with suppress(FileExistsError):
            os.link(begun, path)
    finally:
        begun.unlink()


SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (
    run TEXT, round INTEGER, binding TEXT NOT NULL, reply BLOB NOT NULL, checksum TEXT NOT NULL,
    PRIMARY KEY (run, round)
);
CREATE TABLE IF NOT EXISTS standings (
    run TEXT PRIMARY KEY, round INTEGER NOT NULL, state BLOB NOT NULL, checksum TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS charged (run TEXT, round INTEGER, PRIMARY KEY (run, round));
CREATE TABLE IF NOT EXISTS sums (run TEXT, round INTEGER, survivors TEXT NOT NULL, PRIMARY KEY (run, round));
CREATE TABLE IF NOT EXISTS pins (run TEXT PRIMARY KEY, seal TEXT NOT NULL);
"""


@dataclass(frozen=True)
class RunState:
    """Where a run stands at this silo: the last finished round (0 before the first) and the state it left."""

    number: int = 0
    state: bytes | None = None


NOT_BEGUN = RunState()


class Journal:
    """The journal of one silo; a context manager. Several processes may open the same file."""

    def __init__(self, path: Path | None) -> None:
        """Open or create the journal at `path`; raises `BadRecord` if its folder cannot be written.

        Without a path it is in memory and ends with the process.
        """
        self.path = path
        if path is None:
            self._db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            self._db.executescript(SCHEMA)
            return
        try:
            make_private_folder(path.parent)
            make_private_file(path)
            self._db = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
            # FULL: a reply that was sent must survive a power cut, or its noise would be drawn anew.
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("PRAGMA secure_delete = ON")
            self._db.executescript(SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise BadRecord(
                f"{path.parent}: a silo keeps its journal there, but it cannot be written ({error})"
            ) from None

    def __enter__(self) -> "Journal":
        """The open journal."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def standing(self, run: str) -> RunState:
        """Where `run` stands; raises `BadRecord` if its state is damaged."""
        with self._readable():
            row = self._db.execute("SELECT round, state, checksum FROM standings WHERE run = ?", (run,)).fetchone()
        if row is None:
            return NOT_BEGUN
        self._require_whole(row[2] == _checksum(run, *row[:2]), run, row[0])
        return RunState(*row[:2])

    def reply(self, run: str, number: int, binding: str) -> bytes | None:
        """Return what was answered in round `number` of `run`, None if that round was not finished.

        Raises `BadInput` if it was answered to something else than `binding` stands for, `BadRecord` if it is damaged.
        """
        with self._readable():
            row = self._db.execute(
                "SELECT binding, reply, checksum FROM answers WHERE run = ? AND round = ?", (run, number)
            ).fetchone()
        if row is None:
            return None
        self._require_whole(row[2] == _checksum(run, number, *row[:2]), run, number)
        require_same(run, number, row[0], binding)
        return bytes(row[1])

    def commit(self, run: str, number: int, reply: bytes, state: bytes, binding: str, *, charged: bool = False) -> None:
        """Store the reply of round `number` and the state after it, both or neither, and whether it was `charged`.

        Raises `ValueError` unless `number` follows the last finished round.
        """
        db = self._db
        with self._at_once():
            last = db.execute("SELECT round FROM standings WHERE run = ?", (run,)).fetchone()
            if number != (last[0] if last else 0) + 1:
                raise ValueError(f"round {number} of run {run} cannot follow round {last[0] if last else 0}")
            check = _checksum(run, number, binding, reply)
            db.execute("INSERT INTO answers VALUES (?, ?, ?, ?, ?)", (run, number, binding, reply, check))
            check = _checksum(run, number, state)
            db.execute("INSERT OR REPLACE INTO standings VALUES (?, ?, ?, ?)", (run, number, state, check))
            if charged:
                db.execute("INSERT OR IGNORE INTO charged VALUES (?, ?)", (run, number))

    def charged(self) -> set[tuple[str, int]]:
        """The rounds, by run and number, that were charged to the ledger and answered, in all runs ever."""
        with self._readable():
            return set(self._db.execute("SELECT run, round FROM charged"))

    def one_sum(self, run: str, number: int, survivors: tuple[str, ...]) -> bool:
        """Record that the sum over `survivors` is about to be unmasked; return whether it is the only one of the round.

        The difference of the sums over two sets of silos would reveal what those silos added that are in only one of
        them. The same sum once more reveals nothing new.
        """
        names = "\n".join(survivors)
        self._db.execute("INSERT OR IGNORE INTO sums VALUES (?, ?, ?)", (run, number, names))
        row = self._db.execute("SELECT survivors FROM sums WHERE run = ? AND round = ?", (run, number)).fetchone()
        return bool(row[0] == names)

    def pin(self, run: str, seal: str) -> bool:
        """Record that `run` learns from the rows of this `seal`; return whether they are those that it began with."""
        self._db.execute("INSERT OR IGNORE INTO pins VALUES (?, ?)", (run, seal))
        row = self._db.execute("SELECT seal FROM pins WHERE run = ?", (run,)).fetchone()
        return bool(row[0] == seal)

    def forget(self, run: str) -> None:
        """Delete everything that a finished run stored, but for which of its rounds were charged."""
        with self._at_once():
            for table in ("answers", "standings", "sums", "pins"):
                self._db.execute(f"DELETE FROM {table} WHERE run = ?", (run,))
        if self.path is not None:
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @contextmanager
    def _at_once(self) -> Iterator[None]:
        """Do all of the block or, if it raises, nothing."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            self._db.execute("ROLLBACK")
            raise

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise BadRecord(f"{self.path}: the journal is damaged ({error}): begin a new run") from None

    def _require_whole(self, whole: bool, run: str, number: int) -> None:
        if not whole:
            raise BadRecord(f"{self.path}: the journal is damaged, in round {number} of run {run}: begin a new run")


def require_same(run: str, number: int, answered: str, asked: str) -> None:
    """Raise `BadInput` if round `number` of `run` is `asked` for with another binding than it was `answered` with."""
    if answered != asked:
        raise BadInput(
            f"round {number} of run {run} was answered to another broadcast, with other settings or from other rows: "
            "begin a new run"
        )


def _checksum(*parts: object) -> str:
    return hashlib.blake2b(wire.encode(parts), digest_size=16).hexdigest()


def journal_path(source: Path, silo: str) -> Path:
    """The path of the journal of `silo`, whose rows are the file `source` (or, if pooled, the folder)."""
    return private_folder(source) / f"{silo}.sqlite"
