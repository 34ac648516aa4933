"""The private folder `.fedbnsl` beside a silo's rows: ledger, journal and secret, which only the owner can read.

Symbolic links are resolved first, so that a link to the rows leads to the same folder as the rows.
"""

import os
from pathlib import Path

from fedbnsl.algorithms.errors import BadInput

FOLDER = ".fedbnsl"


class BadRecord(BadInput):
    """A file in a silo's private folder is damaged or incomplete, or cannot be read or written."""


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
