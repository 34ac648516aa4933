"""The private folder `.fedbnsl` beside a silo's rows: ledger, journal and secret, which only the owner can read.

Symbolic links are resolved first, so that a link to the rows leads to the same folder as the rows.
"""

import os
import sqlite3
from pathlib import Path

from fedbnsl.algorithms.errors import BadInput

FOLDER = ".fedbnsl"


class BadRecord(BadInput):
    """A file in a silo's private folder is damaged or incomplete, or cannot be read or written."""


class RecordUnavailable(BadRecord):
    """A sound file in a silo's private folder cannot be read or written now, for instance because its disk is full."""

    may_pass = True


NO_ACCESS = ("FULL", "IOERR", "READONLY", "CANTOPEN", "PERM", "AUTH", "BUSY", "LOCKED", "NOMEM", "TOOBIG")
"""the errors of SQLite, by the first word of their names, after which a file is as sound as before"""


def record_error(record: str, error: OSError | sqlite3.Error, damaged: str = "start a new run") -> BadRecord:
    """The error for a `record` that cannot be used because of `error`; `damaged` says what to do if it is damaged."""
    name = getattr(error, "sqlite_errorname", "")
    if isinstance(error, OSError) or name.removeprefix("SQLITE_").partition("_")[0] in NO_ACCESS:
        why = getattr(error, "strerror", None) or error
        return RecordUnavailable(f"{record} cannot be read or written ({why}): make room or restore access")
    return BadRecord(f"{record} is damaged ({error}): {damaged}")


def private_folder(source: Path) -> Path:
    """The private folder for the rows at `source`, which is a file, or a folder if the rows are pooled or in parts."""
    path = source.resolve()
    return (path if path.is_dir() else path.parent) / FOLDER


def make_private_folder(folder: Path) -> None:
    """Create `folder` with access for its owner only, or restrict an existing one; raises `OSError`."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)


def make_private_file(path: Path) -> None:
    """Create an empty file at `path` unless it exists, with access for its owner only; raises `OSError`.

    SQLite gives the files beside a database the same permissions as the database.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if os.fstat(descriptor).st_mode & 0o077:
            os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)
