"""The formats of tables: which files and folders may be silos, how a file is opened, and what is declared of it.

`FORMATS` is the list of all endings. Each kind of format has its own module: `text.py`, `parquet.py`, `query.py`, and
`sheets.py` for spreadsheets, files of SPSS and Stata, and JSON Lines.
"""

import bz2
import gzip
import lzma
import os
import time
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from fedbnsl.algorithms.errors import BadInput, quoted

Kind = Literal["text", "parquet", "query", "spreadsheet", "labelled", "lines"]
TEXT_ENDINGS, COMPRESSED = (".csv", ".tsv"), (".gz", ".bz2", ".xz", ".zst", ".zip")
FORMATS: dict[str, Kind] = {
    **{text + packed: "text" for text in TEXT_ENDINGS for packed in (*COMPRESSED, "")},
    ".zip": "text",
    ".parquet": "parquet",
    ".sql": "query",
    **dict.fromkeys((".xlsx", ".xlsm"), "spreadsheet"),
    **dict.fromkeys((".sav", ".zsav", ".dta"), "labelled"),
    **dict.fromkeys((".jsonl", ".ndjson"), "lines"),
}
"""the endings of the files that may be silos; the first ending that fits is used"""
LISTED = "CSV (also compressed), Parquet, Excel (.xlsx), SPSS (.sav), Stata (.dta) or JSON Lines (.jsonl)"
"""the formats, for messages"""
SECOND = 10**9
"""nanoseconds per second"""
COARSE_CLOCK_SECONDS, FINE_CLOCK_SECONDS = 2.0, 0.1
"""assumed resolution of file times in whole seconds, and with fractions; within this time, a file can change again
without a change of its stamp"""
BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)
"""errors of reading and decompressing a file, besides `BadInput`"""


@dataclass(frozen=True)
class Form:
    """The declared form of a file: its dialect (None if not declared), and the reading of its cells."""

    separator: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    sheet: str | None = None
    """the sheet to read if a spreadsheet has several sheets"""
    rename: tuple[tuple[str, str], ...] = ()
    """columns that have another name in this file, each with this name and the name in the data set"""
    recode: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    """by column, pairs of a cell and its replacement"""
    join: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """variables that the file has as columns of indicators, each with these columns"""
    scale: tuple[tuple[str, float, tuple[str, ...]], ...] = ()
    """columns whose numbers are multiplied, each with the factor and the cells that mark a missing value in it"""
    unit: tuple[tuple[str, str], ...] = ()
    """columns whose numbers may have other marks beside them (see `cells.quantity_of`), each with its unit"""
    rows: tuple[str, str | None] | None = None
    """a column and the label that it has in this silo's rows, None for all labels that no other silo has; without such
    a column, all rows of the file belong to the silo"""

    def name_in_data(self, name: str) -> str:
        """The name in the data set of a column that is called `name` in the file."""
        return dict(self.rename).get(name, name)

    def joined_name(self, name: str) -> str:
        """The variable of which the column `name` is an indicator; `name` if it is none."""
        return next((variable for variable, columns in self.join if name in columns), name)

    def name_in_file(self, name: str) -> str:
        """The name in the file of a column that is called `name` in the data set."""
        return next((own for own, common in self.rename if common == name), name)


NO_FORM = Form()


def ending_of(path: Path) -> str | None:
    """The ending of a file that may be a silo; None for any other file."""
    name = path.name.lower()
    return next((one for one in FORMATS if name.endswith(one)), None)


def silo_of(path: Path) -> str:
    """The name of the silo whose rows are at `path`, a file or a folder of parts."""
    ending = ending_of(path)
    return path.name[: -len(ending)] if ending and not path.is_dir() else path.name


def kind_of(path: Path) -> Kind:
    """The kind of the format of `path`; a file with an unknown ending is read as text."""
    return FORMATS[ending_of(path) or ".csv"]


def is_text(path: Path) -> bool:
    """Whether `path` is read as text, whose rows have lines."""
    return kind_of(path) == "text"


def is_sheet(path: Path) -> bool:
    """Whether `path` is read as a whole by `read_sheet`."""
    return kind_of(path) in ("spreadsheet", "labelled", "lines")


def open_bytes(path: Path) -> BinaryIO:
    """The open file at `path`, decompressed. Raises `BadInput` for an archive unless it has exactly one text table."""
    ending = path.suffix.lower()
    if ending == ".zip":
        return _member(path)
    if ending == ".zst":
        import pyarrow

        return cast("BinaryIO", pyarrow.CompressedInputStream(str(path), "zstd"))
    openers: dict[str, Callable[[Path], Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    return cast("BinaryIO", openers[ending](path)) if ending in openers else path.open("rb")


def _member(path: Path) -> BinaryIO:
    """The only text table in the archive at `path`; folders and hidden files, which programs add, are ignored.

    Raises `BadInput` unless there is exactly one, and if the archive is encrypted.
    """
    archive = zipfile.ZipFile(path)
    names = [name for name in archive.namelist() if not _is_hidden(name)]
    tables = [name for name in names if name.lower().endswith(TEXT_ENDINGS)]
    if len(tables) != 1:
        found = f"it has {', '.join(map(quoted, names[:3]))}" if names else "it is empty"
        raise BadInput(f"{path}: the archive must have exactly one .csv or .tsv file, but {found}")
    if archive.getinfo(tables[0]).flag_bits & 1:
        raise BadInput(f"{path}: the archive is encrypted")
    return cast("BinaryIO", archive.open(tables[0]))


def _is_hidden(name: str) -> bool:
    return name.endswith("/") or name.startswith("__MACOSX/") or Path(name).name.startswith(".")


def file_stamp(name: str, status: os.stat_result) -> tuple[str | int, ...]:
    """The stamp of a file, which changes with its content: name, size, times of change, inode and device."""
    return (name, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev)


def visible(folder: Path) -> list[Path]:
    """What is in `folder`, sorted by name, but for hidden names and names that begin with an underscore."""
    return sorted(one for one in folder.iterdir() if not one.name.startswith((".", "_")))


def part_files(folder: Path) -> list[Path]:
    """The files in `folder` that may have rows, sorted by name."""
    return [one for one in visible(folder) if one.is_file()]


def has_query(path: Path) -> bool:
    """Whether a database reads rows at `path`, a file or a folder."""
    return any(kind_of(one) == "query" for one in (part_files(path) if path.is_dir() else [path]))


def parquet_parts(folder: Path) -> list[Path]:
    """The Parquet files of a silo's `folder`, sorted by name, whose rows follow each other."""
    return [one for one in part_files(folder) if one.suffix == ".parquet"]


def has_settled(status: os.stat_result) -> bool:
    """Whether the last change of a file is so long ago that another change would have another time."""
    changed = max(status.st_ctime_ns, status.st_mtime_ns)
    clock = FINE_CLOCK_SECONDS if status.st_ctime_ns % SECOND else COARSE_CLOCK_SECONDS
    return time.time() - changed / SECOND > clock
