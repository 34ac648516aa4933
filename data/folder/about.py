"""`about.json`: the kind of data a folder holds, their levels, how they were made, checksums of the silo files."""

import codecs
import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedbnsl.algorithms.errors import BadInput, shown

from .check import check_labels
from .form import SEPARATORS

ABOUT = "about.json"
KINDS = ("continuous", "discrete", "mixed", "time-series")
COLUMN_KINDS = ("continuous", "discrete")


def read_about(folder: Path) -> dict[str, Any]:
    """Return what `about.json` says, {} if there is none. Raises `BadInput` if it is not a JSON object we know."""
    path = folder / ABOUT
    if not path.exists():
        return {}
    try:
        about = json.loads(path.read_text(encoding="utf-8-sig"))
    except json.JSONDecodeError as error:
        raise BadInput(f"{path}: line {error.lineno}: not JSON: {error.msg}") from None
    except UnicodeDecodeError:
        raise BadInput(f"{path}: not UTF-8 text") from None
    except RecursionError:
        raise BadInput(f"{path}: nested too deeply: nothing in it needs more than three levels") from None
    except ValueError as error:
        raise BadInput(f"{path}: not JSON that can be read: {error}") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror or error}") from error
    if not isinstance(about, dict):
        raise BadInput(f"{path}: not a JSON object with keys such as 'kind'")
    if "kind" in about and about["kind"] not in KINDS:
        raise BadInput(f"{path}: kind: {shown(str(about['kind']))} is not one of {', '.join(KINDS)}")
    for key in ("levels", "columns", "missing", "checksums"):
        if not isinstance(about.get(key, {}), dict):
            raise BadInput(f"{path}: {key}: not a JSON object")
    if declared_levels(about, str(path)) and about.get("kind", "discrete") not in ("discrete", "mixed"):
        raise BadInput(f"{path}: levels: {about['kind']} data have none; is the kind discrete?")
    step = about.get("step", 1.0)
    if isinstance(step, bool) or not isinstance(step, int | float) or not 0 < step < math.inf:
        raise BadInput(f"{path}: step: {shown(str(step))} is not the positive number that lies between two times")
    _check_columns(path, about)
    _check_form(path, about)
    return about


def _check_columns(path: Path, about: Mapping[str, Any]) -> None:
    """Raise `BadInput` for kinds of columns, or marks of missing values, that are none."""
    for name, kind in about.get("columns", {}).items():
        if kind not in COLUMN_KINDS:
            raise BadInput(
                f"{path}: columns: {shown(name)}: {shown(str(kind))} is not one of {', '.join(COLUMN_KINDS)}"
            )
        if about.get("kind", "mixed") not in ("mixed", kind) or (
            kind == "continuous" and name in about.get("levels", {})
        ):
            other = "it has levels" if name in about.get("levels", {}) else f"the kind of the data is {about['kind']}"
            raise BadInput(f"{path}: columns: {shown(name)} is {kind}, but {other}; is the kind mixed?")
    for name, cells in about.get("missing", {}).items():
        if not isinstance(cells, list) or not all(isinstance(cell, str | int | float) for cell in cells):
            raise BadInput(f"{path}: missing: {shown(name)}: not a list of cells that stand for a missing value")


def _check_form(path: Path, about: Mapping[str, Any]) -> None:
    """Raise `BadInput` for a separator, an encoding or a decimal mark that no file can have."""
    if about.get("separator", ",") not in SEPARATORS:
        given = shown(str(about["separator"]))
        raise BadInput(f"{path}: separator: {given} is not one of {', '.join(map(repr, SEPARATORS))}")
    if about.get("decimal", ".") not in (".", ","):
        raise BadInput(f"{path}: decimal: {shown(str(about['decimal']))} is neither '.' nor ','")
    if about.get("decimal") == "," and about.get("separator") == ",":
        raise BadInput(f"{path}: decimal: ',' separates the columns already")
    try:
        codecs.lookup(about.get("encoding", "utf-8"))
    except (LookupError, TypeError):
        raise BadInput(f"{path}: encoding: {shown(str(about['encoding']))} is none that Python knows") from None


def declared_levels(about: Mapping[str, Any], place: str = ABOUT) -> dict[str, tuple[str, ...]]:
    """Return the levels that `about` declares, by variable. Raises `BadInput` for what cannot be levels."""
    levels: dict[str, Any] = about.get("levels") or {}
    for name, labels in levels.items():
        if not isinstance(labels, list | tuple):
            raise BadInput(f"{place}: levels of {shown(name)}: not a list of labels")
    return {name: check_labels(place, name, labels) for name, labels in levels.items()}


def write_about(folder: Path, about: Mapping[str, Any], files: Mapping[str, Path]) -> None:
    """Write `about` with the kind and the checksums of `files`. Raises TypeError if it cannot be written as JSON."""
    content = {"kind": "continuous", **about, "checksums": checksums_of(files)}
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    (folder / ABOUT).write_text(text + "\n", encoding="utf-8")


def checksums_of(files: Mapping[str, Path]) -> dict[str, str]:
    """Return the sha256 of each silo file under its file name, in hexadecimal; of a folder, that of its parts'."""
    return {path.name: _checksum(path) for path in files.values()}


def _checksum(path: Path) -> str:
    if path.is_dir():
        parts = (f"{part.name} {_checksum(part)}" for part in sorted(path.glob("*.parquet")))
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_checksums(folder: Path, about: Mapping[str, Any], files: Mapping[str, Path]) -> None:
    """Raise `BadInput` if silo `files` are not those `about.json` was written for: changed, gone, or new."""
    expected = about.get("checksums")
    if expected is None:
        return
    found = checksums_of(files)
    remedy = "if that is meant, delete 'checksums' from about.json"
    for name in sorted(set(expected) | set(found)):
        if name not in found:
            raise BadInput(f"{folder / name}: no such file, but about.json names it; {remedy}")
        if name not in expected:
            raise BadInput(f"{folder / name}: not there when about.json was written; {remedy}")
        if expected[name] != found[name]:
            raise BadInput(f"{folder / name}: changed since about.json was written; {remedy}")
