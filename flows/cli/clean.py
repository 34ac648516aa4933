"""`fedbnsl clean`: remove old runs and their leftovers.

Leftovers are in the silos' journals, in Prefect's database and in the logs of unexpected errors. Results and MLflow
runs are removed only if the user names their folder. Ledgers are never removed, so the spent ε remains recorded.
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


def clean_up(folder: Path | None, days: float, *, really: bool, runs: Path | None = None) -> Iterator[str]:
    """Yield a line for everything older than `days` that would be removed or, with `really`, was removed.

    Lines cover Prefect's database and the logs of errors on this machine, the journals beside the rows in `folder`, and
    the runs in the folder `runs`. Raises `BadInput` if `folder` or `runs` is not a folder, if `days` is not from 1 to
    36,500, or if another process has locked a database.
    """
    if not 1 <= days <= 36_500:
        raise BadInput(f"--older-than is {days:g}: it must be from 1 to 36,500 days")
    for given in (folder, runs):
        if given is not None and not given.is_dir():
            raise BadInput(f"{given}: no such folder")
    age = timedelta(days=days)
    prepare_environment(quiet=True)
    if folder is not None:
        yield from _clean_journals(folder, age, really=really)
    if runs is not None:
        yield from _clean_runs(runs, age, really=really)
    yield from _clean_logs(age, really=really)
    yield from _clean_prefect(age, really=really)


def _clean_journals(folder: Path, age: timedelta, *, really: bool) -> Iterator[str]:
    from fedbnsl.algorithms.errors import pluralize

    for journal in old_journals(folder, age):
        yield f"{journal.path}: {pluralize(len(journal.runs), 'run')}, last used on {journal.used:%Y-%m-%d}"
        if really:
            forget(journal)


def _clean_runs(runs: Path, age: timedelta, *, really: bool) -> Iterator[str]:
    from fedbnsl.tracking.staging import notice

    from ..engines.retention import remove, runs_older_than

    for run in runs_older_than(runs, age):
        what = "an interrupted run" if run.is_interrupted else "a run"
        line = f"{run.folder}: {what}{' and its MLflow run' * bool(run.record.tracking_id)}, of {run.used:%Y-%m-%d}"
        try:
            if really:
                remove(run)
        except BadInput as why:
            notice(str(why))
        else:
            yield line


def _clean_logs(age: timedelta, *, really: bool) -> Iterator[str]:
    from fedbnsl.algorithms.errors import pluralize
    from fedbnsl.tracking.own_servers import errors_folder

    before = (datetime.now() - age).timestamp()
    logs = [log for log in errors_folder().glob("*.log") if log.stat().st_mtime < before]
    if logs:
        yield f"{errors_folder()}: {pluralize(len(logs), 'log')} of unexpected errors"
        for log in logs if really else ():
            log.unlink(missing_ok=True)


def _clean_prefect(age: timedelta, *, really: bool) -> Iterator[str]:
    from fedbnsl.algorithms.errors import pluralize

    from ..servers.prune import damage, database_file, old_history, prune, set_aside

    database = database_file()
    if database is None:
        return
    if fault := damage(database):
        yield f"{database}: damaged ({fault}), {f'now {set_aside(database).name}' if really else 'to be set aside'}"
        return
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
    runs: Annotated[
        Path | None,
        typer.Option(help="Folder of the folders of runs: also remove old results, and their runs in MLflow."),
    ] = None,
    older_than: Annotated[
        float, typer.Option(metavar="DAYS", help="Age in days, 1 or more, above which leftovers are removed.")
    ] = 30.0,
    yes: Annotated[bool, typer.Option("--yes", help="Remove the leftovers; without this option, list them.")] = False,
) -> None:
    """Show old runs and their leftovers: Prefect's records, silos' journals, logs of errors; with --yes, remove them.

    Results and MLflow runs are removed only with --runs. The last run of a deployment stays, and so do privacy ledgers.
    With --yes, interrupted runs whose leftovers are removed cannot be resumed afterwards.
    """
    lines = list(clean_up(folder, older_than, really=yes, runs=runs))
    for line in lines:
        print(f"{'removed from' if yes else 'old, in'} {line}")
    if not lines:
        print("nothing to remove")
    elif not yes:
        print("nothing was removed; add --yes to remove it")
