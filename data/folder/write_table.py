"""Write one silo's table: numbers exactly, level codes as the labels they stand for."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def write_table(
    path: Path,
    variables: Sequence[str],
    values: NDArray[Any],
    levels: Mapping[str, Sequence[str]] | None = None,
    keys: Mapping[str, NDArray[np.int64]] | None = None,
) -> None:
    """Write `values` [n_rows, n_variables] to `path` (.csv or .parquet); codes of `levels` as labels.

    Empty cells, NaN or −1 among codes, are written empty. `keys` are columns [n_rows] that stand before the variables.
    pyarrow writes the shortest text that reads back as the same number.
    """
    import pyarrow  # type: ignore[import-untyped]
    import pyarrow.csv  # type: ignore[import-untyped]
    import pyarrow.parquet  # type: ignore[import-untyped]

    columns = [_array(column, (levels or {}).get(name)) for name, column in zip(variables, values.T, strict=True)]
    names = [*(keys or {}), *variables]
    columns = [*map(pyarrow.array, (keys or {}).values()), *columns]
    table = pyarrow.Table.from_arrays(columns, names=names)
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(table, path)
        return
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerow(names)
    plain = not any(mark in label for labels in (levels or {}).values() for label in labels for mark in ',"\r\n')
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none" if plain else "needed")
    with path.open("ab") as file:
        pyarrow.csv.write_csv(table, file, options)


def _array(column: NDArray[Any], labels: Sequence[str] | None) -> Any:
    """Return a column for pyarrow, null where a cell is empty: numbers, or the `labels` that codes stand for."""
    import pyarrow

    if labels is None:
        values = np.ascontiguousarray(column, dtype=np.float64)
        return pyarrow.array(values, mask=np.isnan(values))
    empty = np.isnan(column) if column.dtype.kind == "f" else column < 0
    codes = np.where(empty, 0, column).astype(np.int64)
    return pyarrow.array(labels).take(pyarrow.array(codes, mask=empty))
