"""Whether data are continuous, discrete or time series, if `about.json` does not say."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fedbnsl.algorithms.core.schema import Kind

from .check import MISSING, cell_fault
from .levels import WHOLE, label_of
from .recording import TIME
from .scan import first_rows

DECIMAL_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+")
LOOKED_AT = 100
"""rows of each file that are looked at"""


def kind_of(files: Iterable[Path], about: Mapping[str, Any], apart: str | None = None) -> Kind:
    """Return the kind of the data in `files`: what `about` says of them, else what they look like.

    Levels in `about` mean discrete data. If it says nothing, a column `time` in any file makes them time series; else
    they are discrete if any file looks so, and continuous if none does: a file of whole numbers alone is continuous,
    however few values occur. The column `apart` is ignored.
    """
    if "kind" in about:
        kind: Kind = about["kind"]
        return kind
    if about.get("levels"):
        return "discrete"
    files = list(files)
    if any(has_time(path, apart) for path in files):
        return "time-series"
    return "discrete" if any(looks_discrete(path, apart) for path in files) else "continuous"


def has_time(path: Path, apart: str | None = None) -> bool:
    """Say whether a file has a column `time`, in capitals or not, besides `apart`."""
    return any(name.lower() == TIME and name != apart for name in _first_cells(path))


def looks_discrete(path: Path, apart: str | None = None) -> bool:
    """Say whether the first rows of a file hold labels alone: whole numbers, and at least one column of words.

    A column of words has no number in it: one word among numbers is a mistake, not a label, and so is 1,5 for 1.5. A
    file that cannot be read does not look discrete; reading it later raises the error.
    """
    columns = [column for name, column in _first_cells(path).items() if column and name != apart]
    words = [not any(cell_fault(cell) is None for cell in column) for column in columns]
    return any(words) and all(_is_label(cell) for column in columns for cell in column)


def _is_label(cell: str) -> bool:
    if DECIMAL_COMMA.fullmatch(cell.strip()):
        return False
    return cell_fault(cell) is not None or WHOLE.fullmatch(label_of(cell)) is not None


def _first_cells(path: Path) -> dict[str, list[str]]:
    """Return the first cells of each column that mark no missing value."""
    if path.suffix.lower() == ".parquet":
        names, rows = _first_of_parquet(path)
    else:
        names, *rows = first_rows(path, LOOKED_AT) or [[]]
    present = ([cell for cell in column if cell.strip().lower() not in MISSING] for column in zip(*rows, strict=True))
    return dict(zip((name.strip() for name in names), present, strict=False))


def _first_of_parquet(path: Path) -> tuple[list[str], list[list[str]]]:
    import pyarrow.parquet  # type: ignore[import-untyped]

    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            frame = next(file.iter_batches(batch_size=LOOKED_AT)).to_pandas()
    except (OSError, ValueError, StopIteration):
        return [], []
    return list(map(str, frame.columns)), [
        ["" if cell is None else str(cell) for cell in row] for row in frame.to_numpy()
    ]
