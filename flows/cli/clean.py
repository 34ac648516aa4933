"""`fedbnsl clean`: remove the leftovers of old runs from the silos' journals and from Prefect's database.

Ledgers and results are never removed, so the spent ε remains recorded.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from fedbnsl.algorithms.errors import BadInput

from ..servers.environment import prepare_environment


@dataclass(frozen=True)
class OldJournal:
    """A silo's journal to which no run has written for a long time, and the abandoned runs in it."""

    path: Path
    used: datetime
    runs: tuple[str, ...]


def clean_up(folder: Path | None, days: float, *, really: bool) -> Iterator[str]:
    """Yield a line for everything older than `days` that would be removed or, with `really`, was removed.

    Lines cover Prefect's database on this machine, and the journals beside the rows in `folder`. Raises `BadInput` if
    `folder` is not a folder, if `days` is not from 1 to 36,500, or if another process has locked a database.
    """
    from fedbnsl.algorithms.core.schema import pluralize

    from ..servers.prune import damage, database_file, old_history, prune, set_aside

    if not 1 <= days <= 36_500:
        raise BadInput(f"--older-than is {days:g}: it must be from 1 to 36,500 days")
    if folder is not None and not folder.is_dir():
        raise BadInput(f"{folder}: no such folder")
    age = timedelta(days=days)
    for journal in old_journals(folder, age) if folder else ():
        yield f"{journal.path}: {pluralize(len(journal.runs), 'run')}, last used on {journal.used:%Y-%m-%d}"
        if really:
            forget(journal)
    prepare_environment(quiet=True)
    database = database_file()
    if database is not None and (fault := damage(database)):
        yield f"{database}: damaged ({fault}), {f'now {set_aside(database).name}' if really else 'to be set aside'}"
    elif database is not None:
        old = old_history(database, age)
        if old.anything:
            size = f"{old.bytes_on_disk / 1e6:.1f} MB"
            line = f"{database}: {pluralize(old.runs, 'run')} and {pluralize(old.events, 'event')} of Prefect's, {size}"
            yield f"{line} before, {prune(database, age) / 1e6:.1f} MB now" if really else line


def old_journals(folder: Path, age: timedelta) -> list[OldJournal]:
    """The journals of the silos in `folder` that contain runs and were not written within the last `age`."""
    found = []
    for path in sorted((folder / ".fedbnsl").glob("*.sqlite")):
        used = datetime.fromtimestamp(max(one.stat().st_mtime for one in _files(path)))
        if used < datetime.now() - age and (runs := _runs_in(path)):
            found.append(OldJournal(path, used, runs))
    return found


def forget(journal: OldJournal) -> None:
    """Remove the runs in the journal, as if they had finished, and free the space."""
    from fedbnsl.tasks.silo.service import SiloService

    silo = SiloService(journal.path.stem, journal.path.parent.parent / journal.path.stem)
    try:
        for run in journal.runs:
            silo.finish(run)
    finally:
        silo.close()
    with closing(sqlite3.connect(journal.path, timeout=30, isolation_level=None)) as db:
        db.execute("VACUUM")


def _files(path: Path) -> list[Path]:
    """The file of a journal, and SQLite's write-ahead log if it is not empty."""
    log = path.with_name(f"{path.name}-wal")
    return [path, log] if log.exists() and log.stat().st_size else [path]


def _runs_in(path: Path) -> tuple[str, ...]:
    asked = "SELECT run FROM standings UNION SELECT run FROM answers UNION SELECT run FROM sums ORDER BY run"
    try:
        with closing(sqlite3.connect(path, timeout=10)) as db:
            return tuple(run for (run,) in db.execute(asked))
    except sqlite3.Error as error:
        raise BadInput(f"{path}: the journal cannot be read: {error}") from None


app = typer.Typer(add_completion=False)


@app.command()
def clean(
    folder: Annotated[
        Path | None, typer.Argument(help="Folder of the silos' files: also clean the journals beside these files.")
    ] = None,
    older_than: Annotated[
        float, typer.Option(metavar="DAYS", help="Age in days, 1 or more, above which leftovers are removed.")
    ] = 30.0,
    yes: Annotated[bool, typer.Option("--yes", help="Remove the leftovers; without this option, list them.")] = False,
) -> None:
    """Show the leftovers of old runs in Prefect's database and in silos' journals; with --yes, remove them.

    Privacy ledgers, results and MLflow runs are never removed.
    With --yes, interrupted runs whose leftovers are removed cannot be resumed afterwards.
    """
    lines = list(clean_up(folder, older_than, really=yes))
    for line in lines:
        print(f"{'removed from' if yes else 'old, in'} {line}")
    if not lines:
        print("nothing to remove")
    elif not yes:
        print("nothing was removed; add --yes to remove it")
