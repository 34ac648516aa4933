"""A silo's journal: its replies and its latest state in every open run, in one SQLite file beside its rows.

A silo that dies and comes back must not solve a round twice: noise drawn a second time would be a second release. So
every round commits its reply and the state after it in one transaction, before the reply is sent. Whoever asks for that
round again gets the stored reply.
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
            # FULL: a reply that was sent must survive a power cut, or its noise would be drawn anew.
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
        self.close()

    def close(self) -> None:
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
        """Record that the sum over `survivors` is about to be unmasked; return whether it is the only one of the round.

        The difference of the sums over two sets of silos would reveal what those silos added that are in only one of
        them. The same sum once more reveals nothing new.
        """
        names = "\n".join(survivors)
        self._db.execute("INSERT OR IGNORE INTO sums VALUES (?, ?, ?)", (run, number, names))
        row = self._db.execute("SELECT survivors FROM sums WHERE run = ? AND round = ?", (run, number)).fetchone()
        return bool(row[0] == names)

    def forget(self, run: str) -> None:
        """Delete everything that a finished run stored."""
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        db.execute("DELETE FROM replies WHERE run = ?", (run,))
        db.execute("DELETE FROM states WHERE run = ?", (run,))
        db.execute("DELETE FROM sums WHERE run = ?", (run,))
        db.execute("COMMIT")


def journal_path(source: Path, silo: str) -> Path:
    """Return the path of the journal of `silo`, whose rows are the file `source` (or, if pooled, the folder)."""
    folder = source if source.is_dir() else source.parent
    return folder / ".fedbnsl" / f"{silo}.sqlite"
