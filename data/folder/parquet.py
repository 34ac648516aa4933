"""Open a parquet file as a frame with a header that can be learned from."""

from pathlib import Path

import pandas as pd

from fedbnsl.algorithms.core.names import check_names
from fedbnsl.algorithms.errors import BadInput


def read_frame(path: Path) -> tuple[pd.DataFrame, list[str]]:
    """Return the frame in `path` and its column names without the spaces around them.

    Raises `BadInput` for a file that is empty or not parquet, and for columns without or with the same name.
    """
    if path.stat().st_size == 0:
        raise BadInput(f"{path}: the file is empty")
    try:
        frame = pd.read_parquet(path, engine="pyarrow")
    except (ValueError, OSError) as error:
        raise BadInput(f"{path}: not a readable parquet file: {str(error).splitlines()[0]}") from error
    header = [str(name).strip() for name in frame.columns]
    check_names(str(path), header)
    return frame, header


def read_parquet_names(path: Path) -> list[str]:
    """Return the column names in `path` without the spaces around them; raises `BadInput` as `read_frame` does."""
    import pyarrow.parquet  # type: ignore[import-untyped]

    try:
        return [str(name).strip() for name in pyarrow.parquet.read_schema(path).names]
    except (ValueError, OSError) as error:
        raise BadInput(f"{path}: not a readable parquet file: {str(error).splitlines()[0]}") from error
