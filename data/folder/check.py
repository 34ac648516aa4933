"""Checks of tables, names and levels, and of the entries of a folder, with errors of one line.

Errors name a place as users count: "line N" is the N-th line of a text file, where the header is line 1 and empty lines
count. "row N" is the N-th row of a parquet file or of a table in memory, counted from 1. Names and values are quoted as
in Python, so that a message is always one line.

Every entry of a folder is a silo, is known not to be a silo, or raises an error. If files of unknown formats were
skipped, silos could be missing in the result without notice.
"""

import os
import re
import stat
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import Schema, check_names, name_fault
from fedbnsl.algorithms.errors import BadInput, quoted

from ..federated import MIN_SILO_ROWS
from .formats import LISTED

UNNAMED = "unnamed: 0"
"""the name of a first column without a name, as pandas writes it"""
Keep = Callable[[str], bool]
"""whether to read the column of a name"""


def check_table(place: str | Path, variables: Sequence[str], values: NDArray[Any]) -> None:
    """Raise `BadInput` unless `values` [n_rows, n_variables] has two rows or more, all finite, and no constant column.

    A column that is constant in only one silo is refused, too, because it has no variance there.
    """
    if len(values) == 0:
        raise BadInput(f"{place}: no rows")
    if len(values) == 1:
        raise BadInput(f"{place}: only one row; at least two are needed")
    finite = np.isfinite(values)
    if not finite.all():
        i, j = np.argwhere(~finite)[0]
        fault = "the cell is empty or not a number" if np.isnan(values[i, j]) else f"{values[i, j]} is not finite"
        raise BadInput(f"{place}: row {i + 1}, column {quoted(variables[j])}: {fault}")
    constant = np.flatnonzero(values.min(axis=0) == values.max(axis=0))
    if constant.size:
        j = int(constant[0])
        raise BadInput(f"{place}: column {quoted(variables[j])}: constant, every row is {values[0, j]}")


LINE_BREAKS = re.compile(r"[\r\n\t\v\f\u2028\u2029]+")


def tidy_names(names: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """The `names` of a header without spaces around them, with a space for line breaks and tabs, and notes on changes.

    A first column without a name, as an index has, gets the name `UNNAMED`.
    """
    tidy = [LINE_BREAKS.sub(" ", name.strip()) for name in names]
    broken = [name for name, given in zip(tidy, names, strict=True) if name != given.strip()]
    notes = [f"line breaks in names are read as spaces: {', '.join(map(quoted, broken))}"] if broken else []
    if len(tidy) > 1 and not tidy[0] and all(tidy[1:]) and UNNAMED not in tidy:
        tidy[0] = UNNAMED
        notes.append(f"the first column has no name: it is read as {quoted(UNNAMED)}")
    return tidy, tuple(notes)


def distinct_names(place: str, names: Sequence[str], keep: Keep) -> list[str]:
    """`names`, in which duplicate names that `keep` does not accept are marked (see `is_repeated`).

    Raises `BadInput` for invalid names, and if several columns that are to be read have the same name.
    """
    counts = Counter(names)
    twice = next((name for name in names if name and counts[name] > 1 and keep(name)), None)
    if twice is not None:
        first, second = [number for number, name in enumerate(names, start=1) if name == twice][:2]
        remedy = f"rename one, or leave both out with --ignore {twice}"
        raise BadInput(f"{place}: columns {first} and {second} have the same name {quoted(twice)}: {remedy}")
    repeated = [bool(name) and counts[name] > 1 for name in names]
    unique = [
        f"{name} ({number})" if again else name
        for number, (name, again) in enumerate(zip(names, repeated, strict=True))
    ]
    check_names(place, unique)
    return [
        f"{name}\0{number}" if again else name for number, (name, again) in enumerate(zip(names, repeated, strict=True))
    ]


def is_repeated(name: str) -> bool:
    """Whether `distinct_names` has marked a name."""
    return "\0" in name


def written_name(name: str) -> str:
    """A name as it is in the file, without the mark of `distinct_names`."""
    return name.partition("\0")[0]


def check_same_columns(place: str | Path, found: Sequence[str], expected: Sequence[str], by: str) -> None:
    """Raise `BadInput` unless `found` are the `expected` columns, in any order; the file `by` has the expected ones."""
    missing = [name for name in expected if name not in set(found)]
    if missing:
        raise BadInput(f"{place}: column {quoted(missing[0])} is missing; {by} has it")
    extra = [name for name in found if name not in set(expected)]
    if extra:
        raise BadInput(f"{place}: column {quoted(extra[0])} is unexpected; {by} does not have it")


def check_silo_name(place: str | Path, name: str) -> None:
    """Raise `BadInput` unless `name` can be the name of a silo, and therefore of its file."""
    wrong = any(letter in "/\\:" or unicodedata.category(letter) in ("Cc", "Cs") for letter in name)
    if not name or name.startswith(".") or name != name.strip() or wrong:
        raise BadInput(
            f"{place}: {quoted(name)} cannot name a silo, because its file has that name: it must be UTF-8 text "
            "without / \\ : or line breaks, must not start or end with a space, and must not start with a dot"
        )
    if name.lower() == "truth":
        raise BadInput(f"{place}: {quoted(name)} cannot name a silo: truth.csv is the file of the true graph")
    if len(name.encode("utf-8", "replace")) > 200:
        raise BadInput(f"{place}: {quoted(name)} is too long to name a silo")


def check_rows(place: str | Path, schema: Schema, table: NDArray[Any]) -> None:
    """Raise `BadInput` unless `table` [n_rows, n_variables] has two rows or more, with finite numbers and valid codes.

    Cells may be empty: NaN, or -1 in discrete data.
    """
    if len(table) < MIN_SILO_ROWS:
        raise BadInput(f"{place}: only one row; at least two are needed" if len(table) else f"{place}: no rows")
    for j, name in enumerate(schema.variables):
        column = table[:, j]
        count = len(schema.levels.get(name, ()))
        if name not in schema.levels:
            wrong = np.flatnonzero(np.isinf(column))
        elif schema.kind == "discrete":
            wrong = np.flatnonzero((column < -1) | (column >= count))
        else:
            wrong = np.flatnonzero(~np.isnan(column) & ~np.isin(column, np.arange(count)))
        if wrong.size:
            value = column[wrong[0]]
            fault = f"{value:g} is not a code of {count} levels" if count else f"{value} is not finite"
            raise BadInput(f"{place}: row {wrong[0] + 1}, column {quoted(name)}: {fault}")


def check_columns(place: str | Path, schema: Schema, tables: Mapping[str, NDArray[Any]]) -> None:
    """Raise `BadInput` for a column that is empty, or numeric and constant, which a reader would exclude."""
    for j, name in enumerate(schema.variables):
        columns = [tables[silo][:, j] for silo in schema.silos]
        cells = np.concatenate([one[~np.isnan(one)] if schema.kind != "discrete" else one[one >= 0] for one in columns])
        if not len(cells):
            raise BadInput(f"{place}: column {quoted(name)}: empty in every row")
        if name not in schema.levels and (cells == cells[0]).all():
            raise BadInput(f"{place}: column {quoted(name)}: constant, every row is {cells[0]}")


def check_labels(place: str, name: str, labels: Sequence[object]) -> tuple[str, ...]:
    """Declared labels as text; raises `BadInput` for no labels, a duplicate, or a label that no cell can contain."""
    text = []
    for label in labels:
        if not isinstance(label, str | int) or isinstance(label, bool):
            raise BadInput(f"{place}: levels of {quoted(name)}: {label!r} is neither text nor a whole number")
        fault = name_fault(str(label))
        if fault:
            raise BadInput(f"{place}: levels of {quoted(name)}: {quoted(str(label))} cannot be a label")
        text.append(str(label))
    duplicates = [label for label in text if text.count(label) > 1]
    if duplicates:
        raise BadInput(f"{place}: levels of {quoted(name)}: {quoted(duplicates[0])} is declared twice")
    if not text:
        raise BadInput(f"{place}: levels of {quoted(name)}: none")
    return tuple(text)


KINDS = {
    stat.S_IFDIR: "a folder, not a file",
    stat.S_IFIFO: "a named pipe, not a file",
    stat.S_IFSOCK: "a socket, not a file",
    stat.S_IFCHR: "a device, not a file",
    stat.S_IFBLK: "a device, not a file",
}

IGNORED_PREFIXES = (".", "_", "~$")
"""prefixes of the names of files and folders that other programs write"""
IGNORED_ENDINGS = (
    *(".md", ".rst", ".pdf", ".html", ".htm", ".doc", ".docx", ".odt", ".tex", ".bib", ".log", ".cff"),
    *(".png", ".jpg", ".jpeg", ".svg", ".gif"),
    *(".py", ".r", ".rmd", ".ipynb", ".sh", ".do", ".sps", ".yaml", ".yml", ".toml", ".ini", ".bif"),
)
"""endings of files that cannot be tables: documents, pictures, programs, settings, networks"""
IGNORED_STEMS = ("readme", "license", "licence", "copying", "notes", "changelog", "citation", "codebook", "makefile")
"""names of documents that are often plain text"""
TEXT_ENDINGS = ("", ".txt")
IGNORED_FOLDERS = ("runs", "mlruns", "mlartifacts")
"""folders of results, which a run writes to the working folder, so that they may be in the folder of the data"""
TRACKING = "mlflow.db"
"""prefix of the tracking database and of SQLite's files beside it; a run writes them to the working folder, which may
be the folder of the data"""
DATABASES = tuple(
    f".{kind}{beside}" for kind in ("db", "sqlite", "sqlite3", "duckdb") for beside in ("", "-wal", "-shm")
)
KNOWLEDGE = "knowledge.csv"
"""file of background knowledge (`truth.py`), if its header is the header of rules"""


def is_ignored(path: Path) -> bool:
    """Whether the entry at `path` is known not to be a silo."""
    name = path.name.lower()
    if name.startswith(IGNORED_PREFIXES):
        return True
    if path.is_dir():
        return name in IGNORED_FOLDERS
    stem, dot, ending = name.partition(".")
    document = stem in IGNORED_STEMS and dot + ending in TEXT_ENDINGS
    return document or name.endswith(IGNORED_ENDINGS) or name.startswith(TRACKING)


def is_database(path: Path) -> bool:
    """Whether `path` is a database, which a query in the folder may read."""
    return path.name.lower().endswith(DATABASES)


def is_about_graphs(path: Path) -> bool:
    """Whether `path` is a file of background knowledge, or a list of edges from a source to a target."""
    if path.suffix != ".csv":
        return False
    try:
        with path.open(encoding="utf-8-sig") as file:
            header = file.readline().replace(" ", "").strip()
    except (OSError, UnicodeDecodeError):
        return False
    return header == "source,target" or (path.name == KNOWLEDGE and header.startswith("rule,"))


def refuse_unread(folder: Path, unread: Sequence[Path]) -> None:
    """Raise `BadInput` that names the first of the entries `unread`, if there are any."""
    if not unread:
        return
    first, more = unread[0], f" (and {len(unread) - 1} more)" if len(unread) > 1 else ""
    what = "a folder without Parquet parts" if first.is_dir() else "not a table in a supported format"
    raise BadInput(
        f"{folder}: {quoted(first.name)}{more} is {what}: convert it to {LISTED}, move it out of the "
        "folder, or select the silos with --silos"
    )


def check_is_file(path: Path) -> None:
    """Raise `BadInput` unless `path` is a file or a link to one."""
    fault = _fault(path)
    if fault:
        raise BadInput(f"{path.parent}: {quoted(path.name)} is {fault}; remove it, or replace it by a file")


def _fault(path: Path) -> str | None:
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
    except FileNotFoundError:
        return f"a link to {quoted(os.readlink(path))}, which does not exist"
    except OSError as error:
        return f"a broken link ({error.strerror})" if path.is_symlink() else f"unreadable ({error.strerror})"
    return None if kind == stat.S_IFREG else KINDS.get(kind, "not a file")


def visible_entries(folder: Path) -> list[Path]:
    """The sorted entries of `folder` whose names do not start with a dot.

    Raises `BadInput` if it is not a readable folder.
    """
    if not folder.exists():
        raise BadInput(f"{folder}: no such folder")
    if not folder.is_dir():
        raise BadInput(f"{folder}: not a folder; a federated data set is a folder with one file per silo")
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise BadInput(f"{folder}: cannot be read: {error.strerror or error}") from None


def check_levels_public(place: str, undeclared: Iterable[str]) -> None:
    """Raise `BadInput` for undeclared levels, because a level of a single row would disclose this row despite ε."""
    for name in sorted(undeclared):
        raise BadInput(
            f"{place}: column '{name}': its levels come from the rows, which ε does not account for: "
            "declare them in about.json for a private run"
        )


def check_label_column(path: Path, header: Sequence[str], name: str) -> None:
    """Raise `BadInput` unless the file has the column `name` and at least one other column."""
    if name not in header:
        raise BadInput(f"{path}: column {quoted(name)} is missing; available: {', '.join(header[:8])}")
    if list(header) == [name]:
        raise BadInput(f"{path}: no column besides {quoted(name)}")
