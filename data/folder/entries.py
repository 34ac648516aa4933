"""The entries of a folder: each is a silo's rows, or known not to be, or named in an error.

Nothing is left out in silence: a silo whose file has another form would be missing from what is learned.
"""

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from fedbnsl.algorithms.errors import BadInput, shown

KINDS = {
    stat.S_IFDIR: "a folder, not a file",
    stat.S_IFIFO: "a named pipe, not a file",
    stat.S_IFSOCK: "a socket, not a file",
    stat.S_IFCHR: "a device, not a file",
    stat.S_IFBLK: "a device, not a file",
}

IGNORED_PREFIXES = (".", "_")
"""of names of files and folders that belong to other programs"""
IGNORED_ENDINGS = (
    *(".md", ".rst", ".pdf", ".html", ".htm", ".doc", ".docx", ".odt", ".tex", ".bib", ".log", ".cff"),
    *(".png", ".jpg", ".jpeg", ".svg", ".gif"),
    *(".py", ".r", ".rmd", ".ipynb", ".sh", ".do", ".sps", ".yaml", ".yml", ".toml", ".ini", ".bif"),
)
"""of files that cannot hold a table: documents, pictures, programs, settings, networks"""
IGNORED_STEMS = ("readme", "license", "licence", "copying", "notes", "changelog", "citation", "codebook", "makefile")
"""names of documents that are often written as plain text"""
TEXT_ENDINGS = ("", ".txt")
IGNORED_FOLDERS = ("runs", "mlruns", "mlartifacts")
"""where results are written if the folder is the working folder"""
TRACKING = "mlflow.db"
"""where runs are recorded, and what SQLite writes beside it, if the folder is the working folder"""
DATABASES = tuple(
    f".{kind}{beside}" for kind in ("db", "sqlite", "sqlite3", "duckdb") for beside in ("", "-wal", "-shm")
)
KNOWLEDGE = "knowledge.csv"
"""background knowledge (`knowledge.py`), if its first line says so"""


def is_ignored(path: Path) -> bool:
    """Say whether the entry at `path` is known not to be the rows of a silo."""
    name = path.name.lower()
    if name.startswith(IGNORED_PREFIXES):
        return True
    if path.is_dir():
        return name in IGNORED_FOLDERS
    stem, dot, ending = name.partition(".")
    document = stem in IGNORED_STEMS and dot + ending in TEXT_ENDINGS
    return document or name.endswith(IGNORED_ENDINGS) or name.startswith(TRACKING)


def is_database(path: Path) -> bool:
    """Say whether `path` is a database, which a query beside it may read."""
    return path.name.lower().endswith(DATABASES)


def is_knowledge(path: Path) -> bool:
    """Say whether `path` holds background knowledge."""
    if path.name != KNOWLEDGE:
        return False
    try:
        with path.open(encoding="utf-8-sig") as opened:
            return opened.readline().replace(" ", "").startswith("rule,")
    except (OSError, UnicodeDecodeError):
        return False


def refuse_unread(folder: Path, unread: Sequence[Path]) -> None:
    """Raise `BadInput` that names the first of the entries `unread`, which would be left out in silence."""
    if not unread:
        return
    first, more = unread[0], f" (and {len(unread) - 1} more)" if len(unread) > 1 else ""
    what = "a folder without Parquet parts" if first.is_dir() else "no table of a form that can be read"
    raise BadInput(
        f"{folder}: {shown(first.name)}{more} is {what}: convert it to CSV or Parquet, move it out of the folder, or "
        "name the silos to learn from by --silos"
    )


def check_is_file(path: Path) -> None:
    """Raise `BadInput` that says what `path` is, unless it is a file or a link to one."""
    fault = _fault(path)
    if fault:
        raise BadInput(f"{path.parent}: {shown(path.name)} is {fault}; take it away, or put the file there")


def _fault(path: Path) -> str | None:
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
    except FileNotFoundError:
        return f"a link to {shown(os.readlink(path))}, which is not there"
    except OSError as error:
        return (
            f"a link that leads nowhere ({error.strerror})" if path.is_symlink() else f"unreadable ({error.strerror})"
        )
    return None if kind == stat.S_IFREG else KINDS.get(kind, "no file")


def listed(folder: Path) -> list[Path]:
    """Return what is in `folder`, sorted, but for names that begin with a dot.

    Raises `BadInput` if it is no folder, or one that may not be looked into.
    """
    if not folder.exists():
        raise BadInput(f"{folder}: no such folder")
    if not folder.is_dir():
        raise BadInput(f"{folder}: not a folder; a federated data set is a folder with one file a silo")
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise BadInput(f"{folder}: cannot be read: {error.strerror or error}") from None
