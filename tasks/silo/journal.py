"""The journal of a silo: one SQLite file with its replies, and its latest state in every open run.

A silo that crashes and restarts must not solve a round twice, since noise drawn a second time would be a second
release. So every round commits its reply and the state after it in one transaction, before the reply is sent. A
repeated request for that round gets the stored reply if the binding is the same. The binding is a digest of broadcast,
settings, schema, seed and declaration, and in a private run also of the rows. Every reply and state has a checksum
under the silo's secret, because a damaged or forged state would give a wrong model without notice.

The end of a run deletes its replies and its state. The journal keeps the numbers of charged rounds, so that a ledger
without these charges is detected, the silos whose sums were unmasked, and the lines of the disclosure statements.
"""

import hashlib
import hmac
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.release import Disclosed
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.tracking.kept_files import require_database

from .private_folder import BadRecord, make_private_file, make_private_folder, private_folder, record_error
from .seals import SECRET_BYTES, silo_secret

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
CREATE TABLE IF NOT EXISTS terms (run TEXT PRIMARY KEY, digest TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS signed (run TEXT PRIMARY KEY, digest TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS versions (name TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS summed_units (units BLOB PRIMARY KEY);
CREATE TABLE IF NOT EXISTS choices (rows TEXT, what TEXT, choice TEXT NOT NULL, PRIMARY KEY (rows, what));
CREATE TABLE IF NOT EXISTS disclosed (run TEXT, line INTEGER, content BLOB NOT NULL, PRIMARY KEY (run, line));
"""

MAX_SUMS = 10_000
"""maximum number of different sets of silos whose sums the journal records"""
MAX_LINES = 1_000_000
"""maximum number of lines of disclosure statements, over all runs"""


@dataclass(frozen=True)
class RunState:
    """The progress of a run at this silo: the last finished round (0 before the first) and the state after it."""

    number: int = 0
    state: bytes | None = None


NOT_STARTED = RunState()


class Journal:
    """The journal of one silo; a context manager. Several processes may open the same file."""

    def __init__(self, path: Path | None) -> None:
        """Open or create the journal at `path`; without a path, the journal is in memory and ends with the process.

        Raises `BadRecord` if the file cannot be opened or written, `BadInput` if the silo's secret is unusable.
        """
        self.path = path
        self.key = secrets.token_bytes(SECRET_BYTES) if path is None else silo_secret(path.parent)
        if path is None:
            self._db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            self._db.executescript(SCHEMA)
            return
        try:
            make_private_folder(path.parent)
            make_private_file(path)
            self._db = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
            # FULL: a reply that was sent must survive a power failure; otherwise its noise would be drawn again.
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("PRAGMA secure_delete = ON")
            require_database(path, self._db, BadRecord)
            self._db.executescript(SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise record_error(f"{path}: the silo's journal", error) from None

    def __enter__(self) -> "Journal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def run_state(self, run: str) -> RunState:
        """The last finished round of `run` and the state after this round; raises `BadRecord` for damaged records."""
        with self._readable():
            row = self._db.execute("SELECT round, state, checksum FROM standings WHERE run = ?", (run,)).fetchone()
        if row is None:
            return NOT_STARTED
        self._require_intact(self._is_intact(row[2], run, *row[:2]), run, row[0])
        return RunState(*row[:2])

    def reply(self, run: str, number: int, binding: str) -> bytes | None:
        """The stored reply of round `number` of `run`, None if that round is not finished.

        Raises `BadInput` if the reply has a binding other than `binding`, `BadRecord` if the record is damaged.
        """
        with self._readable():
            row = self._db.execute(
                "SELECT binding, reply, checksum FROM answers WHERE run = ? AND round = ?", (run, number)
            ).fetchone()
        if row is None:
            return None
        self._require_intact(self._is_intact(row[2], run, number, *row[:2]), run, number)
        require_same_binding(run, number, row[0], binding)
        return bytes(row[1])

    def commit(self, run: str, number: int, reply: bytes, state: bytes, binding: str, *, charged: bool = False) -> None:
        """Store the reply of round `number`, the state after it, and whether it was `charged`, in one transaction.

        Raises `ValueError` unless `number` follows the last finished round.
        """
        db = self._db
        with self.transaction():
            last = db.execute("SELECT round FROM standings WHERE run = ?", (run,)).fetchone()
            if number != (last[0] if last else 0) + 1:
                raise ValueError(f"round {number} of run {run} cannot follow round {last[0] if last else 0}")
            check = keyed_checksum(self.key, run, number, binding, reply)
            db.execute("INSERT INTO answers VALUES (?, ?, ?, ?, ?)", (run, number, binding, reply, check))
            check = keyed_checksum(self.key, run, number, state)
            db.execute("INSERT OR REPLACE INTO standings VALUES (?, ?, ?, ?)", (run, number, state, check))
            if charged:
                db.execute("INSERT OR IGNORE INTO charged VALUES (?, ?)", (run, number))

    def charged(self) -> set[tuple[str, int]]:
        """(run, number) of every round that was charged to the ledger and answered, over all runs."""
        with self._readable():
            return set(self._db.execute("SELECT run, round FROM charged"))

    def record_sum(self, run: str, number: int, survivors: tuple[str, ...]) -> bool:
        """Record that the sum over `survivors` is about to be unmasked; returns False if the round had another sum.

        The difference of the sums over two sets of silos would reveal the summands of the silos that are in only one
        set. Unmasking the same sum again reveals nothing new.
        """
        names = "\n".join(survivors)
        with self._readable():
            self._db.execute("INSERT OR IGNORE INTO sums VALUES (?, ?, ?)", (run, number, names))
            row = self._db.execute("SELECT survivors FROM sums WHERE run = ? AND round = ?", (run, number)).fetchone()
        return bool(row[0] == names)

    def pin(self, run: str, seal: str) -> bool:
        """Record that `run` learns from the rows with this `seal`; returns False if the run began with other rows."""
        with self._readable():
            self._db.execute("INSERT OR IGNORE INTO pins VALUES (?, ?)", (run, seal))
            row = self._db.execute("SELECT seal FROM pins WHERE run = ?", (run,)).fetchone()
        return bool(row[0] == seal)

    def first_terms(self, run: str, digest: str) -> str:
        """The digest of the terms under which `run` began; if it has not begun, it begins under terms with `digest`."""
        with self._readable():
            self._db.execute("INSERT OR IGNORE INTO terms VALUES (?, ?)", (run, digest))
            return str(self._db.execute("SELECT digest FROM terms WHERE run = ?", (run,)).fetchone()[0])

    def first_signed(self, run: str, digest: str) -> str:
        """The digest of the result of `run` that the silo signed first; if it has signed none, `digest`, for good."""
        with self._readable():
            self._db.execute("INSERT OR IGNORE INTO signed VALUES (?, ?)", (run, digest))
            return str(self._db.execute("SELECT digest FROM signed WHERE run = ?", (run,)).fetchone()[0])

    def versions(self) -> set[str]:
        """The names of the versions of the rows that `Publications` must contain."""
        with self._readable():
            return {name for (name,) in self._db.execute("SELECT name FROM versions")}

    def names_version(self, name: str) -> bool:
        """Whether a version has this name: no record that the owner has deleted since then."""
        with self._readable():
            return self._db.execute("SELECT 1 FROM versions WHERE name = ?", (name,)).fetchone() is not None

    def name_version(self, name: str) -> None:
        """Add the name of a version."""
        with self._readable():
            self._db.execute("INSERT OR IGNORE INTO versions VALUES (?)", (name,))

    def first_choice(self, rows: str, what: str, choice: str) -> str:
        """What the first run from the rows with this seal chose for `what`; if there was none, `choice`, for good."""
        with self._readable():
            self._db.execute("INSERT OR IGNORE INTO choices VALUES (?, ?, ?)", (rows, what, choice))
            asked = "SELECT choice FROM choices WHERE rows = ? AND what = ?"
            return str(self._db.execute(asked, (rows, what)).fetchone()[0])

    def record_sum_over(self, units: frozenset[tuple[str, int]]) -> None:
        """Record, for all runs and for good, that a sum over these conditions of silos is about to be unmasked.

        Raises `BadRecord` if the record is full.
        """
        with self._readable():
            if self._db.execute("SELECT COUNT(*) FROM summed_units").fetchone()[0] >= MAX_SUMS:
                raise BadRecord(
                    f"{self.path}: the record of sums is full, so no other sum is answered; the owner can end the "
                    "comparison with earlier sums with `fedbnsl silo forget`"
                )
            self._db.execute("INSERT OR IGNORE INTO summed_units VALUES (?)", (wire.encode(tuple(sorted(units))),))

    def sums_over(self) -> list[frozenset[tuple[str, int]]]:
        """The conditions of silos in each sum that was unmasked in any run."""
        with self._readable():
            rows = self._db.execute("SELECT units FROM summed_units").fetchall()
        return [frozenset(wire.decode(tuple[tuple[str, int], ...], units)) for (units,) in rows]

    def disclosed(self, run: str) -> list[Disclosed]:
        """The lines of the disclosure statement of `run`, in the order in which they were begun."""
        with self._readable():
            rows = self._db.execute("SELECT content FROM disclosed WHERE run = ? ORDER BY line", (run,)).fetchall()
        return [wire.decode(Disclosed, content) for (content,) in rows]

    def disclosed_runs(self) -> list[str]:
        """The runs that have a disclosure statement, the earliest first."""
        with self._readable():
            return [run for (run,) in self._db.execute("SELECT run FROM disclosed GROUP BY run ORDER BY MIN(rowid)")]

    def record_disclosed(self, run: str, number: int, line: Disclosed) -> None:
        """Record line `number` of the disclosure statement of `run`, for good; raises `BadRecord` if it is full."""
        with self._readable():
            if (self._db.execute("SELECT MAX(rowid) FROM disclosed").fetchone()[0] or 0) >= MAX_LINES:
                raise BadRecord(
                    f"{self.path}: the record of what left this silo is full, so nothing else leaves; the owner can "
                    "delete it with `fedbnsl silo forget`"
                )
            self._db.execute(
                "INSERT INTO disclosed VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET content = excluded.content",
                (run, number, wire.encode(line)),
            )

    def forget_publications(self) -> None:
        """Delete the names of the versions, the sets of silos whose sum was unmasked, and the disclosure statements.

        Later publications are then not compared with earlier ones.
        """
        with self.transaction():
            for table in ("versions", "summed_units", "disclosed"):
                self._db.execute(f"DELETE FROM {table}")

    def forget(self, run: str) -> None:
        """Delete the records of a finished run, except charges, the silos in its sums, and its disclosure statement."""
        with self.transaction():
            for table in ("answers", "standings", "pins", "terms"):
                self._db.execute(f"DELETE FROM {table} WHERE run = ?", (run,))
        if self.path is not None:
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """One transaction, in which no other process writes; it is rolled back if the block raises.

        Raises `BadRecord` if the file cannot be written.
        """
        with self._readable():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # SQLite itself rolls back after some errors, such as a full disk
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Raise `BadRecord` if the file cannot be read or written in the block."""
        try:
            yield
        except (OSError, sqlite3.DatabaseError) as error:
            raise record_error(f"{self.path}: the journal", error) from None

    def _is_intact(self, checksum: str, *parts: object) -> bool:
        return hmac.compare_digest(checksum, keyed_checksum(self.key, *parts))

    def _require_intact(self, intact: bool, run: str, number: int) -> None:
        if not intact:
            raise BadRecord(f"{self.path}: the journal is damaged, in round {number} of run {run}: start a new run")


def require_same_binding(run: str, number: int, stored: str, requested: str) -> None:
    """Raise `BadInput` if round `number` of `run` has a reply `stored` under a binding other than `requested`."""
    if stored != requested:
        raise BadInput(
            f"round {number} of run {run} was answered for another broadcast, other settings or other rows: "
            "start a new run"
        )


def keyed_checksum(key: bytes, *parts: object) -> str:
    """The HMAC-SHA256 of `parts` under a silo's secret: only its owner can write a valid record."""
    return hmac.new(key, wire.encode(parts), hashlib.sha256).hexdigest()


def journal_path(source: Path, silo: str) -> Path:
    """The path of the journal of `silo`, whose rows are the file `source` (or, if pooled, the folder)."""
    return private_folder(source) / f"{silo}.sqlite"
