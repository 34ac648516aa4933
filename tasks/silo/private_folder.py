"""The folder `.fedbnsl` beside a silo's rows, where it keeps ledger, journal and secret: for its owner only.

A path is resolved before the folder is looked for, so that a link to the rows leads to the same folder as the rows.
"""

import os
from pathlib import Path

from fedbnsl.algorithms.errors import BadInput

FOLDER = ".fedbnsl"


class BadRecord(BadInput):
    """What a silo keeps beside its rows is damaged or incomplete, or cannot be read or written."""


def private_folder(source: Path) -> Path:
    """Return where a silo keeps what belongs to the rows at `source`, a file or, if pooled or in parts, a folder."""
    there = source.resolve()
    return (there if there.is_dir() else there.parent) / FOLDER


def make_private(folder: Path) -> None:
    """Make `folder`, readable for nobody but its owner, also if it is there already; raises `OSError`."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)


def make_private_file(path: Path) -> None:
    """Make an empty file at `path` unless there is one, and let nobody but its owner read it; raises `OSError`.

    What SQLite writes beside a database has the same permissions as the database.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if os.fstat(descriptor).st_mode & 0o077:
            os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)
