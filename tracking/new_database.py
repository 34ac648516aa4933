"""A new SQLite database as a copy of an empty one, kept with the installation: making its tables takes seconds."""

import os
import shutil
import sqlite3
import sys
from contextlib import closing, suppress
from importlib.metadata import version
from pathlib import Path


def template(program: str) -> Path:
    """Return where the empty database of the installed version of `program`, "mlflow" or "prefect", is kept."""
    return Path(sys.prefix) / "share" / "fedbnsl" / f"{program}-{version(program)}.db"


def begin_from_template(program: str, database: Path) -> None:
    """Begin `database` as a copy of the empty one, unless it is there already, or there is none to copy.

    Where that does not work, `program` makes its tables itself.
    """
    source = template(program)
    if database.exists() or not source.exists():
        return
    beside = database.with_name(f".{database.name}-{os.getpid()}")
    with suppress(OSError):
        database.parent.mkdir(parents=True, exist_ok=True)
        try:
            shutil.copyfile(source, beside)
            os.link(beside, database)  # which fails if another process was faster
        finally:
            beside.unlink(missing_ok=True)


def keep_as_template(program: str, database: Path, without: tuple[str, ...] = ()) -> None:
    """Keep a copy of `database`, which may still be in use, as the empty one; the tables `without` are emptied."""
    kept = template(program)
    kept.parent.mkdir(parents=True, exist_ok=True)
    beside = kept.with_name(f".{kept.name}-{os.getpid()}")
    beside.unlink(missing_ok=True)
    with closing(sqlite3.connect(database)) as source:
        source.execute("VACUUM INTO ?", (str(beside),))
    with closing(sqlite3.connect(beside)) as copy, copy:
        for table in without:
            copy.execute(f"DELETE FROM {table}")
    os.replace(beside, kept)
