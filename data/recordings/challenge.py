"""Time series as the DREAM4 challenge shipped them: tabs between the columns, blank lines between the series."""

import csv
from pathlib import Path

import numpy as np

from fedbnsl.algorithms.core.names import check_names
from fedbnsl.algorithms.errors import BadInput, shown

from ..folder.check import cell_fault
from ..folder.columns import Column
from ..folder.recording import SERIES, TIME, Keys, Recording, named, recording_of


def read_challenge(path: Path) -> Recording:
    """Read a header with a column `Time`, then rows of numbers; a blank line, or a time that goes back, ends a series.

    Raises `BadInput` naming file, line, column and value.
    """
    header, rows, series = _rows(path)
    time = named(path, header, TIME)
    if time is None:
        raise BadInput(f"{path}: line 1: column 'Time' is missing; there are {', '.join(header[:8])}")
    if not rows:
        raise BadInput(f"{path}: no rows")
    each = zip(header, zip(*rows, strict=True), strict=True)
    columns = [Column(name, np.arange(len(rows)), list(cells)) for name, cells in each]
    clock = np.array(columns[header.index(time)].cells, dtype=np.float64)
    blocks = np.array(series)
    back = np.concatenate([[False], (np.diff(clock) <= 0) & (np.diff(blocks) == 0)])
    return recording_of(path, [_labels(blocks + np.cumsum(back)), *columns], Keys(SERIES, time))


def _labels(numbers: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> Column:
    distinct, codes = np.unique(numbers, return_inverse=True)
    return Column(SERIES, codes, [str(number) for number in range(1, len(distinct) + 1)])


def _rows(path: Path) -> tuple[list[str], list[list[str]], list[int]]:
    """Return the header, the rows of cells, and after how many blank lines each stands."""
    if not path.exists():
        raise BadInput(f"{path}: no such file")
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (UnicodeDecodeError, OSError) as error:
        raise BadInput(f"{path}: cannot be read as UTF-8 text: {error}") from None
    header: list[str] = []
    rows: list[list[str]] = []
    series: list[int] = []
    blank = 0
    for number, line in enumerate(lines, start=1):
        cells = [cell.strip() for cell in next(csv.reader([line], delimiter="\t"), [])]
        if not any(cells):
            blank += 1
        elif not header:
            header = cells
            check_names(f"{path}: line {number}", header)
        else:
            _check(f"{path}: line {number}", cells, header)
            rows.append(cells)
            series.append(blank)
    if not header:
        raise BadInput(f"{path}: the file is empty")
    return header, rows, series


def _check(place: str, cells: list[str], header: list[str]) -> None:
    if len(cells) != len(header):
        raise BadInput(f"{place}: {len(cells)} cells, but the header names {len(header)} columns")
    for name, cell in zip(header, cells, strict=True):
        fault = cell_fault(cell)
        if fault:
            raise BadInput(f"{place}, column {shown(name)}: {fault}")
