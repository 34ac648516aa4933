"""`about.json`: the kind of data a folder holds, their levels, how they were made, checksums of the silo files."""

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedbnsl.algorithms.errors import BadInput, shown

from .check import check_labels

ABOUT = "about.json"
KINDS = ("continuous", "discrete", "mixed", "time-series")


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
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror or error}") from error
    if not isinstance(about, dict):
        raise BadInput(f"{path}: not a JSON object with keys such as 'kind'")
    if "kind" in about and about["kind"] not in KINDS:
        raise BadInput(f"{path}: kind: {shown(str(about['kind']))} is not one of {', '.join(KINDS)}")
    for key in ("levels", "checksums"):
        if not isinstance(about.get(key, {}), dict):
            raise BadInput(f"{path}: {key}: not a JSON object")
    if declared_levels(about, str(path)) and about.get("kind", "discrete") not in ("discrete", "mixed"):
        raise BadInput(f"{path}: levels: {about['kind']} data have none; is the kind discrete?")
    step = about.get("step", 1.0)
    if isinstance(step, bool) or not isinstance(step, int | float) or not 0 < step < math.inf:
        raise BadInput(f"{path}: step: {shown(str(step))} is not the positive number that lies between two times")
    return about


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
    """Return the sha256 of each silo file under its file name, in hexadecimal."""
    found = {}
    for path in files.values():
        with path.open("rb") as file:
            found[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def check_checksums(folder: Path, about: Mapping[str, Any], found: Mapping[str, str]) -> None:
    """Raise `BadInput` if silo files are not those `about.json` was written for: changed, gone, or new."""
    expected = about.get("checksums")
    if expected is None:
        return
    remedy = "if that is meant, delete 'checksums' from about.json"
    for name in sorted(set(expected) | set(found)):
        if name not in found:
            raise BadInput(f"{folder / name}: no such file, but about.json names it; {remedy}")
        if name not in expected:
            raise BadInput(f"{folder / name}: not there when about.json was written; {remedy}")
        if expected[name] != found[name]:
            was, now = str(expected[name])[:8], found[name][:8]
            raise BadInput(
                f"{folder / name}: changed since about.json was written (sha256 {now}…, not {was}…); {remedy}"
            )
