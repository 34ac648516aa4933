"""Prefect's own database on this machine: count old records, and remove them with Prefect's own functions.

A server removes old records while it runs (`environment.py` has the retention periods). But the server of a single run
ends with the run, and the file of an SQLite database never shrinks by itself.
"""

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.tasks.prefect_internals import COUNT_OLD_EVENTS, COUNT_OLD_RUNS, vacuum


@dataclass(frozen=True)
class OldHistory:
    """The numbers of old runs and events in Prefect's database, and the size of its file."""

    runs: int
    events: int
    bytes_on_disk: int

    @property
    def anything(self) -> bool:
        """Whether there is something to remove."""
        return bool(self.runs or self.events)


def database_file() -> Path | None:
    """The SQLite file in which Prefect keeps the runs of this machine; None if there is no such file."""
    from prefect.settings import PREFECT_API_DATABASE_CONNECTION_URL
    from sqlalchemy import make_url

    url = make_url(str(PREFECT_API_DATABASE_CONNECTION_URL.value()))
    path = Path(url.database) if url.get_backend_name() == "sqlite" and url.database else None
    return path if path is not None and path.exists() else None


def damage(database: Path) -> str:
    """Why `database` is no database of SQLite any more; empty if it is one, or if another process has locked it."""
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=10)) as db:
            db.execute("SELECT COUNT(*) FROM sqlite_schema").fetchone()
    except sqlite3.OperationalError:
        return ""
    except sqlite3.DatabaseError as error:
        return str(error)
    return ""


def set_aside(database: Path) -> Path:
    """Rename the damaged `database`, so that the next server begins a new one; returns its new name."""
    aside = database.with_name(f"{database.name}.damaged-{datetime.now():%Y%m%d-%H%M%S}")
    database.rename(aside)
    for suffix in ("-wal", "-shm"):
        database.with_name(f"{database.name}{suffix}").unlink(missing_ok=True)
    return aside


def old_history(database: Path, age: timedelta) -> OldHistory:
    """Count the finished runs and the events in `database` that are older than `age`; nothing is changed.

    Raises `BadInput` if the database cannot be read.
    """
    before = (datetime.now(UTC) - age).strftime("%Y-%m-%d %H:%M:%S")
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=10)) as db:
            counts = [int(db.execute(query, (before,)).fetchone()[0]) for query in (COUNT_OLD_RUNS, COUNT_OLD_EVENTS)]
    except sqlite3.Error as error:
        raise BadInput(f"{database}: Prefect's database cannot be read: {error}") from None
    return OldHistory(counts[0], counts[1], database.stat().st_size)


def prune(database: Path, age: timedelta) -> int:
    """Remove records older than `age` from `database`, and return the bytes of its file afterwards.

    Raises `BadInput` if the database cannot be cleaned, for instance because another process has locked it.
    """
    from prefect.settings import (
        PREFECT_SERVER_EVENTS_RETENTION_PERIOD,
        PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD,
        temporary_settings,
    )

    periods = {
        PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD: age,
        PREFECT_SERVER_EVENTS_RETENTION_PERIOD: age,
    }
    try:
        with temporary_settings(periods):
            asyncio.run(vacuum())
        with closing(sqlite3.connect(database, timeout=10, isolation_level=None)) as db:
            db.execute("VACUUM")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except Exception as error:
        raise BadInput(f"{database}: Prefect's database cannot be cleaned: {error}") from error
    return database.stat().st_size
