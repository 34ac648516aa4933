"""The format of each kind of file that fedbnsl writes and reads again, and how a file states it.

A file states the version of its format where its kind allows it: JSON in the key `format`, a database in SQLite's
`user_version`, other files in their first line. A file that states none has format 1. A file of another format is
refused in one line that names the file, both versions and the remedy. Whoever changes what a file contains, so that an
earlier version cannot read it or this version cannot read earlier files, raises its number in `FORMATS`.

Not in this table: tables of results (CSV), whose format is that of the `config.json` beside them; models in the BIF
format; empty lock files; keys, tokens and random secrets.
"""

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from fedbnsl.algorithms.errors import BadInput

from .staging import replace_private

UNSTATED = 1
"""the format of a file that states none"""
NEW_RUN = "continue with the version of fedbnsl that wrote it, or learn again without --resume"
SAME_VERSION = "use the version of fedbnsl that wrote it"
FORMAT = "format"
"""the key of the version in JSON"""


@dataclass(frozen=True)
class Format:
    """What a kind of file is, the version of its format, and what to do with a file of another version."""

    what: str
    version: int
    remedy: str


FORMATS = {
    "*.sqlite": Format("the journal of a silo", 1, "end its runs with the version that wrote it, then move it away"),
    "*.ledger": Format("a privacy ledger", 1, SAME_VERSION),
    "*.published": Format("the record of publications", 1, "its owner can delete it with `fedbnsl silo forget`"),
    "checkpoint.bin": Format("a checkpoint", 1, NEW_RUN),
    "started.json": Format("the settings of an interrupted run", 1, NEW_RUN),
    "untracked.bin": Format("records for MLflow", 1, SAME_VERSION),
    "config.json": Format("the description of a run", 1, SAME_VERSION),
    "signatures.json": Format("the signed records of a run", 1, SAME_VERSION),
    "model.json": Format("a model", 1, SAME_VERSION),
    ".repeated/*.json": Format("the last run of a deployment", 1, "delete it, and the next run begins anew"),
    ".repeated/*.claim": Format("the claim of a deployment", 1, "delete it, and the next run begins anew"),
    ".repeated/*.lock": Format("the lock of a deployment", 1, "delete it while no run is in progress"),
    "fedbnsl-server": Format("the address of a server", 1, "start `fedbnsl ui` again"),
    "fedbnsl-mlflow": Format("the address of a server", 1, "start `fedbnsl ui` again"),
    ".record.json": Format("the record of a run", 1, "remove the folder, and its runs in MLflow and Prefect, by hand"),
    "runs.jsonl": Format("the journal of a benchmark", 1, "repeat the benchmark in a new folder"),
}
"""by pattern of the end of a path"""


def format_of(path: Path) -> Format | None:
    """The format of the file at `path`; None for a file that is not in the table."""
    return next((one for name, one in FORMATS.items() if fnmatch(f"/{path.as_posix()}", f"*/{name}")), None)


def _known(path: Path) -> Format:
    found = format_of(path)
    assert found is not None, f"{path}: not in FORMATS"
    return found


def require_format(path: Path, stated: object, error: type[BadInput] = BadInput) -> None:
    """Raise `error` unless `stated`, the format that the file at `path` states, is the one that this version reads."""
    known = _known(path)
    if stated != known.version:
        raise error(
            f"{path}: {known.what} in format {str(stated)[:20]}; this version of fedbnsl reads format {known.version}: "
            f"{known.remedy}"
        )


def with_format(path: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON `content` of the file at `path`, with the version of its format."""
    return {FORMAT: _known(path).version, **content}


def without_format(path: Path, content: dict[str, Any]) -> dict[str, Any]:
    """The JSON `content` of the file at `path` without the version of its format; raises `BadInput` for another one."""
    require_format(path, content.get(FORMAT, UNSTATED))
    return {name: value for name, value in content.items() if name != FORMAT}


def read_json(path: Path) -> dict[str, Any]:
    """The JSON content of the file at `path` without the version of its format; raises `BadInput` for another one.

    Also raises `OSError`, `ValueError`, `RecursionError` or `AttributeError` for an unreadable or damaged file.
    """
    return without_format(path, json.loads(path.read_text("utf-8")))


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Replace the file at `path` by the JSON `content` with the version of its format; raises as `replace_private`."""
    replace_private(path, json.dumps(with_format(path, content), indent=1).encode())


def first_line(path: Path) -> bytes:
    """The first line of the file at `path`, which is neither JSON nor a database."""
    return f"fedbnsl {path.name} {_known(path).version}\n".encode()


def after_first_line(path: Path, content: bytes) -> bytes:
    """The `content` of the file at `path` after its first line; raises `BadInput` if that states another version.

    Content without such a line is returned as it is.
    """
    line, end, _ = content[:500].partition(b"\n")
    words = line.split(b" ")
    if not end or words[0] != b"fedbnsl" or not words[-1].isdigit():
        return content
    require_format(path, int(words[-1]))
    return content[len(line) + 1 :]


def require_database(path: Path, db: sqlite3.Connection, error: type[BadInput] = BadInput) -> None:
    """Raise `error` for a database of another format; a database without tables gets the format of this version."""
    if not db.execute("SELECT 1 FROM sqlite_master").fetchone():
        db.execute(f"PRAGMA user_version = {_known(path).version:d}")
    require_format(path, db.execute("PRAGMA user_version").fetchone()[0] or UNSTATED, error)
