"""A silo's journal: what it answered and where it stands, in one SQLite file beside its rows.

A silo that dies and comes back must not solve a round twice: a repeated draw of noise would be a second release. So
every round commits the reply and the state it leaves behind in one transaction, before the reply travels. Whoever asks
for that round again gets the stored reply.
"""

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from fedbnsl.algorithms.errors import BadInput

SCHEMA = """
CREATE TABLE IF NOT EXISTS replies (run TEXT, round INTEGER, reply BLOB NOT NULL, PRIMARY KEY (run, round));
CREATE TABLE IF NOT EXISTS states (run TEXT PRIMARY KEY, round INTEGER NOT NULL, state BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS sums (run TEXT, round INTEGER, survivors TEXT NOT NULL, PRIMARY KEY (run, round));
"""


@dataclass(frozen=True)
class Standing:
    """Where a run stands at this silo: the last finished round (0 before the first) and the state it left."""

    number: int = 0
    state: bytes | None = None


class Journal:
    """The journal of one silo; a context manager. Several processes may open the same file."""

    def __init__(self, path: Path) -> None:
        """Open or create the journal at `path`; raises `BadInput` if its folder cannot be written."""
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
            # FULL: a reply that has left must still be known after a power cut, or it would be drawn anew.
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.executescript(SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise BadInput(
                f"{path.parent}: a silo keeps its journal there, but it cannot be written ({error})"
            ) from None

    def __enter__(self) -> "Journal":
        """Return the open journal."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self._db.close()

    def standing(self, run: str) -> Standing:
        """Return where `run` stands."""
        row = self._db.execute("SELECT round, state FROM states WHERE run = ?", (run,)).fetchone()
        return Standing(*row) if row else Standing()

    def reply(self, run: str, number: int) -> bytes | None:
        """Return what was answered in round `number` of `run`, None if that round was not finished."""
        row = self._db.execute("SELECT reply FROM replies WHERE run = ? AND round = ?", (run, number)).fetchone()
        return row[0] if row else None

    def commit(self, run: str, number: int, reply: bytes, state: bytes) -> None:
        """Store the reply of round `number` and the state after it, both or neither.

        Raises `ValueError` unless `number` follows the last finished round.
        """
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        try:
            last = self.standing(run).number
            if number != last + 1:
                raise ValueError(f"round {number} of run {run} cannot follow round {last}")
            db.execute("INSERT INTO replies VALUES (?, ?, ?)", (run, number, reply))
            db.execute("INSERT OR REPLACE INTO states VALUES (?, ?, ?)", (run, number, state))
            db.execute("COMMIT")
        except BaseException:
            db.execute("ROLLBACK")
            raise

    def one_sum(self, run: str, number: int, survivors: tuple[str, ...]) -> bool:
        """Note that the sum over `survivors` is about to be unmasked; say whether it is the only one of this round.

        The sums over two sets of silos would together tell the part of those who are in one of them only. The same sum
        again tells nothing new.
        """
        names = "\n".join(survivors)
        self._db.execute("INSERT OR IGNORE INTO sums VALUES (?, ?, ?)", (run, number, names))
        row = self._db.execute("SELECT survivors FROM sums WHERE run = ? AND round = ?", (run, number)).fetchone()
        return bool(row[0] == names)

    def close(self, run: str) -> None:
        """Drop what a finished run stored."""
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        db.execute("DELETE FROM replies WHERE run = ?", (run,))
        db.execute("DELETE FROM states WHERE run = ?", (run,))
        db.execute("DELETE FROM sums WHERE run = ?", (run,))
        db.execute("COMMIT")


def journal_path(source: Path, silo: str) -> Path:
    """Return where the journal of `silo` lives, whose rows are the file (or, pooled, the folder) `source`."""
    folder = source if source.is_dir() else source.parent
    return folder / ".fedbnsl" / f"{silo}.sqlite"
