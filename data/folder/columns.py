"""Read the columns of one file as text, quickly: each distinct cell once, and which row holds which."""

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedbnsl.algorithms.errors import BadInput, shown

from .parquet import read_frame
from .scan import find_fault, first_rows, read_bytes, read_header

HEADER = re.compile(rb"\s*[^\r\n]*(\r\n|\r|\n|\Z)")
BLOCK = 1 << 26
"""bytes parsed at once"""


@dataclass(frozen=True, eq=False)
class Column:
    """A column as read: row i holds the text `cells[codes[i]]`; distinct `cells` in the order of their first rows.

    The exception is the empty cell of a missing value in a parquet file, which comes last.
    """

    name: str
    codes: NDArray[np.integer[Any]]
    cells: list[str]


def read_columns(path: Path) -> list[Column]:
    """Read `path` (.csv, .csv.gz or .parquet): a header of names, then cells of any text; a missing one is "".

    Names lose the spaces around them, cells keep them. Raises `BadInput` naming file and line: no such file, empty, not
    UTF-8, columns without or with the same name, a row of another length.
    """
    if not path.exists():
        raise BadInput(f"{path}: no such file")
    try:
        return _parquet_columns(path) if path.suffix.lower() == ".parquet" else _csv_columns(path)
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error


def check_cells(path: Path, columns: Sequence[Column], faults: Mapping[str, Mapping[str, str]]) -> None:
    """Raise `BadInput` for the first cell, row by row, that is among the `faults` of its column."""
    if not any(faults.values()):
        return
    found: str | None = None
    if path.suffix.lower() != ".parquet":
        found = find_fault(path, [column.name for column in columns], lambda name, cell: faults[name].get(cell))
    if found is None:
        row, v = min((_first(column, faults[column.name]), v) for v, column in enumerate(columns))
        name, codes, cells = columns[v].name, columns[v].codes, columns[v].cells
        found = f"{path}: row {row + 1}, column {shown(name)}: {faults[name][cells[codes[row]]]}"
    raise BadInput(found)


def _csv_columns(path: Path) -> list[Column]:
    import pyarrow  # type: ignore[import-untyped]

    header = read_header(path)
    try:
        return _arrow_columns(read_bytes(path), header)
    except pyarrow.ArrowInvalid as error:
        fault = str(error).splitlines()[0]
    found = find_fault(path, header, lambda name, cell: None)
    if found is not None:
        raise BadInput(found)
    rows = first_rows(path, None)[1:]  # unusual but allowed, such as a line of spaces
    if not rows:
        raise BadInput(f"{path}: not a table: {fault}")
    return [
        _factorized(name, np.array(cells, dtype=object))
        for name, cells in zip(header, zip(*rows, strict=True), strict=True)
    ]


def _arrow_columns(content: bytes, header: Sequence[str]) -> list[Column]:
    """Parse what is below the header of a well-formed CSV file; raise ArrowInvalid on most others."""
    import pyarrow
    import pyarrow.csv  # type: ignore[import-untyped]

    below = HEADER.sub(b"", content, count=1)
    if not below.strip():
        return [Column(name, np.zeros(0, dtype=np.int64), []) for name in header]
    text = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    table = pyarrow.csv.read_csv(
        pyarrow.BufferReader(below),
        read_options=pyarrow.csv.ReadOptions(column_names=list(header), use_threads=False, block_size=BLOCK),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(header, text), strings_can_be_null=False, quoted_strings_can_be_null=False
        ),
    ).unify_dictionaries()
    columns = []
    for name in header:
        chunks = table[name].chunks
        codes = np.concatenate([chunk.indices.to_numpy() for chunk in chunks])
        columns.append(Column(name, codes, chunks[0].dictionary.to_pylist()))
    return columns


def _parquet_columns(path: Path) -> list[Column]:
    frame, header = read_frame(path)
    return [_factorized(name, frame.iloc[:, v]) for v, name in enumerate(header)]


def _factorized(name: str, values: Any) -> Column:
    """Return a column of values in memory; one that is missing counts as an empty cell."""
    codes, distinct = pd.factorize(values)
    cells = [_text(value) for value in distinct]
    return Column(name, np.where(codes < 0, len(cells), codes), [*cells, ""] if (codes < 0).any() else cells)


def _text(value: Any) -> str:
    return repr(float(value)) if isinstance(value, float | np.floating) else str(value)


def _first(column: Column, faults: Mapping[str, str]) -> int:
    """Return the first row with a fault; the number of rows if there is none."""
    wrong = np.array([cell in faults for cell in column.cells], dtype=np.bool_)[column.codes]
    return int(np.argmax(wrong)) if wrong.any() else len(wrong)
