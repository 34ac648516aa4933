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

    `keys` are columns [n_rows] that stand before the variables. pyarrow writes the shortest text that reads back as the
    same number.
    """
    import pyarrow  # type: ignore[import-untyped]
    import pyarrow.csv  # type: ignore[import-untyped]
    import pyarrow.parquet  # type: ignore[import-untyped]

    columns = [pyarrow.array(np.ascontiguousarray(column)) for column in values.T]
    if levels:
        named = zip(columns, variables, strict=True)
        columns = [pyarrow.array(levels[name]).take(codes) for codes, name in named]
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
