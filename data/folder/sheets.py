"""Rows in files that are read as a whole: spreadsheets, files of SPSS and Stata, and JSON Lines.

Each file becomes a `Sheet` of columns: a spreadsheet by openpyxl, a file of SPSS or Stata by pyreadstat. The value
labels of SPSS and Stata become the cells of a column if all its values have a label. The missing values that such a
file declares are empty cells.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.errors import BadInput, quoted

from .batches import cell_text, keep_all, readable_names
from .check import Keep, distinct_names, tidy_names
from .formats import NO_FORM, Form, file_stamp, has_settled, kind_of
from .text import EXAMINED_ROWS, Superfluous, empty_column_notes, footer_of, header_fault, repeats_names

PACKAGES = {"spreadsheet": "openpyxl", "labelled": "pyreadstat"}
"""the packages of the extra `tables`"""
MAX_WHOLE_BYTES = 1 << 28
"""size of a file above which a format that is read as a whole is refused"""


@dataclass(frozen=True, eq=False)
class Sheet:
    """The rows of a file that is read as a whole: `columns[v]` `[n_rows]` has numbers or objects, None where empty."""

    header: tuple[str, ...]
    columns: tuple[NDArray[Any], ...]
    notes: tuple[str, ...] = ()
    numbers: NDArray[np.int64] | None = None
    """the number of each row in the program that wrote the file, `[n_rows]`; if None, rows are counted from 1"""
    word: str = "row"
    """the word for this number in messages"""

    def place(self, row: int) -> str:
        """The place of row `row` (from 0), such as "row 3"."""
        return f"{self.word} {row + 1 if self.numbers is None else self.numbers[row]}"


def read_sheet(path: Path, name: str | None = None) -> Sheet:
    """The table in `path`; `name` selects a sheet if a spreadsheet has several.

    Raises `BadInput` for a file that cannot be read, with file and row, and for a missing package, with the command
    that installs it.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror or error}") from error
    if status.st_size > MAX_WHOLE_BYTES:
        raise BadInput(f"{path}: a file of this size is read in passes only as CSV or Parquet: convert it")
    stamp = file_stamp("", status)
    return _read_sheet(path, name, stamp) if has_settled(status) else _read_sheet.__wrapped__(path, name, stamp)


@lru_cache(maxsize=1)
def _read_sheet(path: Path, name: str | None, stamp: tuple[str | int, ...]) -> Sheet:
    """The table in `path`; `stamp` distinguishes versions of the file in the cache."""
    kind = kind_of(path)
    if kind == "lines":
        return _json_lines(path)
    return _spreadsheet(path, name) if kind == "spreadsheet" else _labelled(path)


def _package(path: Path) -> Any:
    """The package that reads `path`; raises `BadInput` with the command that installs it."""
    package = PACKAGES[kind_of(path)]
    try:
        return import_module(package)
    except ImportError:
        raise BadInput(
            f"{path}: {path.suffix.lower()} files need the package {package}: pip install 'fedbnsl[tables]'"
        ) from None


def _spreadsheet(path: Path, name: str | None) -> Sheet:
    """The table in a sheet: its header is the first row that is not empty; empty columns without a name are dropped.

    Raises `BadInput` for a file that openpyxl cannot read, without rows, or whose first row does not name the columns.
    """
    openpyxl = _package(path)
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        try:
            rows = _rows_of_sheet(path, book, name)
        finally:
            book.close()
    except BadInput:
        raise
    except Exception as error:  # openpyxl passes on the errors of the parsers of ZIP and XML
        raise BadInput(f"{path}: not a readable Excel file: {str(error).splitlines()[0]}") from error
    if not rows:
        raise BadInput(f"{path}: the file is empty")
    (_, first), below = rows[0], rows[1:]
    width = max(len(row) for _, row in rows)
    names = [_name_text(cell).strip() for cell in (*first, *[None] * (width - len(first)))]
    numbered = [isinstance(cell, int | float) for cell in first if cell is not None]
    if all(numbered) and not all(name.isdigit() for name in names if name):
        raise BadInput(f"{path}: row {rows[0][0]}: must name the columns, but has numbers, {quoted(','.join(names))}")
    below, superfluous = _without_superfluous(names, below)
    cells = [[_name_text(cell).strip() for cell in row] for _, row in below[:EXAMINED_ROWS]]
    fault = header_fault(names, [[*row, *[""] * (width - len(row))] for row in cells])
    if fault is not None:
        raise BadInput(f"{path}: row {rows[0][0]}: {fault}")
    padded = [(*row, *[None] * (width - len(row))) for _, row in below]
    columns = list(zip(*padded, strict=True)) if padded else [()] * width
    filled = [bool(names[v]) or any(cell is not None for cell in columns[v]) for v in range(width)]
    return Sheet(
        tuple(name for name, is_filled in zip(names, filled, strict=True) if is_filled),
        tuple(_array(column) for column, is_filled in zip(columns, filled, strict=True) if is_filled),
        empty_column_notes(width - sum(filled)) + superfluous.notes,
        np.array([number for number, _ in below], dtype=np.int64),
    )


Numbered = list[tuple[int, tuple[Any, ...]]]
"""rows of a sheet, each with its number"""


def _without_superfluous(names: Sequence[str], rows: Numbered) -> tuple[Numbered, Superfluous]:
    """The `rows` that neither repeat the header nor, as the last row, summarise the others, and what is left out."""
    texts = [[_name_text(cell).strip() for cell in row] for _, row in rows]
    kept = list(range(len(rows)))
    if repeats_names(names, texts[:EXAMINED_ROWS]):
        kept = [k for k in kept if texts[k] != [*names]]
    headers = len(rows) - len(kept)
    footer = footer_of(texts[kept[-1]], [texts[k] for k in kept[:-1]]) if kept else ""
    return [rows[k] for k in (kept[:-1] if footer else kept)], Superfluous(headers, footer)


def _rows_of_sheet(path: Path, book: Any, name: str | None) -> list[tuple[int, tuple[Any, ...]]]:
    """The rows that are not blank, each with its number, of the sheet `name` or of the only sheet with cells.

    Raises `BadInput` if there is no such sheet or, without a `name`, if several sheets have cells.
    """
    names = [sheet.title for sheet in book.worksheets]
    if name is not None and name not in names:
        raise BadInput(f"{path}: there is no sheet {quoted(name)}; available: {', '.join(map(quoted, names))}")
    found = {}
    for sheet in book.worksheets:
        if name is None or sheet.title == name:
            sheet.reset_dimensions()  # some programs write wrong dimensions
            rows = [
                (number, row)
                for number, row in enumerate(sheet.iter_rows(values_only=True), start=1)
                if any(cell is not None and cell != "" for cell in row)
            ]
            if rows:
                found[sheet.title] = [
                    (number, tuple(None if cell == "" else cell for cell in row)) for number, row in rows
                ]
    if len(found) > 1:
        largest = max(found, key=lambda title: sum(len(row) for _, row in found[title]))  # not one with only a title
        declare = json.dumps({"sheet": {path.stem: largest}}, ensure_ascii=False)
        raise BadInput(
            f"{path}: it has {len(found)} sheets, {', '.join(map(quoted, found))}: "
            f"declare one in about.json, such as {declare}"
        )
    return next(iter(found.values()), [])


def _labelled(path: Path) -> Sheet:
    """The table in a file of SPSS or Stata, with its value labels; raises `BadInput` for an unreadable file."""
    pyreadstat = _package(path)
    read = pyreadstat.read_dta if path.suffix.lower() == ".dta" else pyreadstat.read_sav
    try:
        frame, about = read(str(path))
    except Exception as error:  # versions of pyreadstat have different names for its error classes
        raise BadInput(f"{path}: not a readable {path.suffix.lower()} file: {str(error).splitlines()[0]}") from error
    columns, notes = [], []
    for v, name in enumerate(frame.columns):
        values = frame.iloc[:, v]
        cells = _array([None if empty else cell for cell, empty in zip(values, values.isna(), strict=True)])
        labels = about.variable_value_labels.get(name, {})
        fitting = labels_of_values(cells, labels)
        if labels and fitting is None:
            notes.append(f"{name}: not every value has a distinct label in the file: the column is read without labels")
        columns.append(cells if fitting is None else fitting)
    return Sheet(tuple(str(name).strip() for name in frame.columns), tuple(columns), tuple(notes))


def labels_of_values(cells: NDArray[Any], labels: Mapping[Any, str]) -> NDArray[Any] | None:
    """`cells` with the label of each value; None unless all values have distinct labels."""
    texts = [str(text).strip() for text in labels.values()]
    if not labels or "" in texts or len(set(texts)) < len(texts):
        return None
    of_value = dict(zip(labels, texts, strict=True))
    known = [None if _is_nothing(cell) else of_value.get(cell, "") for cell in cells]
    return None if "" in known or not any(known) else np.array(known, dtype=object)


def _is_nothing(cell: Any) -> bool:
    return cell is None or (isinstance(cell, float) and np.isnan(cell))


def _json_lines(path: Path) -> Sheet:
    """The objects in the lines of `path`, a column for each key; a key that a line lacks is an empty cell.

    Raises `BadInput` for a file that is empty or not UTF-8 text, and for a line that is not an object.
    """
    records: list[dict[str, Any]] = []
    numbers: list[int] = []
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError:
        raise BadInput(f"{path}: not UTF-8 text") from None
    for number, line in enumerate(lines, start=1):
        if line.strip():
            records.append(_record(f"{path}: line {number}", line))
            numbers.append(number)
    if not records:
        raise BadInput(f"{path}: the file is empty")
    names = list(dict.fromkeys(name for record in records for name in record))
    columns = tuple(_array([record.get(name) for record in records]) for name in names)
    return Sheet(tuple(name.strip() for name in names), columns, (), np.array(numbers, dtype=np.int64), "line")


def _record(place: str, line: str) -> dict[str, Any]:
    """The object in a line; raises `BadInput` for anything else, for a key that occurs twice, and for nested values."""
    try:
        pairs = json.loads(line, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{place}: not JSON: {error}") from None
    if not isinstance(pairs, _Pairs):
        raise BadInput(f"{place}: not an object with a cell for each column, {quoted(line.strip()[:60])}")
    record = dict(pairs)
    for name, cell in pairs:
        if isinstance(cell, list):
            raise BadInput(f"{place}, column {quoted(name)}: a list or an object is not a cell")
    if len(record) < len(pairs):
        twice = next(name for name, _ in pairs if [one for one, _ in pairs].count(name) > 1)
        raise BadInput(f"{place}: the column {quoted(twice)} occurs twice")
    return record


class _Pairs(list[tuple[str, Any]]):
    """The pairs of a JSON object; unlike a dict, they show a key that occurs twice."""


def _array(cells: Sequence[Any]) -> NDArray[Any]:
    """Cells as numbers, with NaN for empty cells, if all are numbers; else as objects, with None for empty cells."""
    if all(
        cell is None or (isinstance(cell, int | float | np.number) and not isinstance(cell, bool)) for cell in cells
    ):
        try:
            return np.array([np.nan if cell is None else float(cell) for cell in cells], dtype=np.float64)
        except OverflowError:  # an integer beyond the range of a float
            pass
    found = np.empty(len(cells), dtype=object)
    found[:] = [_dated(cell) for cell in cells]
    return found


def _dated(cell: Any) -> Any:
    """The date if `cell` is a time at midnight, because spreadsheets store dates as such times; if not, `cell`."""
    midnight = isinstance(cell, datetime) and (cell.hour, cell.minute, cell.second, cell.microsecond) == (0, 0, 0, 0)
    return cell.date() if midnight else cell


def _name_text(cell: Any) -> str:
    """The text of a cell of the header; an integer has no decimal point."""
    if cell is None:
        return ""
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(_dated(cell))


@dataclass(frozen=True)
class SheetSource:
    """The rows of a file that is read as a whole (`read_sheet`), in one batch."""

    path: Path
    form: Form = NO_FORM
    keep: Keep = keep_all
    """whether to read the column of a name; columns that are not read may have the same name"""
    words: frozenset[str] = frozenset()
    labelled: frozenset[str] = frozenset()

    @property
    def _sheet(self) -> Sheet:
        return read_sheet(self.path, self.form.sheet)

    @cached_property
    def header(self) -> tuple[str, ...]:
        """The columns of the sheet, including columns with the same name, which are marked (see `is_repeated`)."""
        return tuple(distinct_names(str(self.path), tidy_names(self._sheet.header)[0], self.keep))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that can be read."""
        return readable_names(self.header)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on doubtful choices in reading the file."""
        return (*self._sheet.notes, *tidy_names(self._sheet.header)[1])

    def batches(self, names: Sequence[str], words: Collection[str] = ()) -> Iterator[Any]:
        """Yield the rows (see `Source.batches`); a column whose cells have several types has text."""
        import pandas as pd
        import pyarrow

        columns = dict(zip(self.header, self._sheet.columns, strict=True))
        arrays = []
        for name in names:
            values = columns[name]
            if values.dtype.kind == "f":
                arrays.append(pyarrow.array(values, mask=np.isnan(values)))
            else:
                codes, distinct = pd.factorize(values)
                cells = pyarrow.array([cell_text(value) for value in distinct], pyarrow.string())
                arrays.append(pyarrow.DictionaryArray.from_arrays(pyarrow.array(codes, mask=codes < 0), cells))
        if arrays:
            yield pyarrow.RecordBatch.from_arrays(arrays, names=list(names))

    def place(self, row: int) -> str:
        """The place of row `row` (from 0), as the program that wrote the file numbers it."""
        return f"{self.path}: {self._sheet.place(row)}"
