"""Data as Python programs hold them, as silos: tables by name, in a row, or all in one with a column that tells whose.

A table is a DataFrame of pandas, of anything else that has `to_pandas`, or a two-dimensional array of numbers.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fedbnsl.algorithms.errors import BadInput, shown

FORMS = (
    "give a folder, a FederatedData, a dict or a list of DataFrames or arrays, or one DataFrame with by='COLUMN', the "
    "column that names the silo of each row"
)


def tables_of(data: Any, by: str | None = None, *, private: bool = False) -> dict[Any, pd.DataFrame]:
    """Return the table of each silo, by its name as it was given.

    Those of a list are called silo-1, silo-2, ..., and columns of an array x1, x2, ..., with as many digits as the last
    needs. Raises `BadInput` for `data` of another form, a table that is none, and for `by` that names no column, has
    empty cells (of a `private` run it does not say where), or is not needed.
    """
    data = _frame(data)
    if isinstance(data, pd.DataFrame):
        return _divided(data, by, private=private)
    if by is not None:
        raise BadInput(f"by is {shown(by)}, a column of one DataFrame, and this is a {type(data).__name__} of silos")
    if isinstance(data, Mapping):
        silos = dict(data)
    elif isinstance(data, Sequence) and not isinstance(data, str | bytes):
        silos = dict(zip(numbered("silo-", len(data)), data, strict=True))
    elif isinstance(data, np.ndarray):
        raise BadInput("data is one array, whose rows do not say whose they are: give a list of arrays, one a silo")
    else:
        raise BadInput(f"data is a {type(data).__name__}: {FORMS}")
    if not silos:
        raise BadInput(f"data is an empty {type(data).__name__}: {FORMS}")
    return {silo: _table(silo, one) for silo, one in silos.items()}


def _frame(given: Any) -> Any:
    """Return what other libraries than pandas make a DataFrame of; anything else as it is."""
    return given.to_pandas() if hasattr(given, "to_pandas") else given


def _divided(frame: pd.DataFrame, by: str | None, *, private: bool) -> dict[Any, pd.DataFrame]:
    """Return the rows of each silo, without the column `by`, in the order in which the silos come."""
    if by is None:
        raise BadInput("data is one DataFrame: say which column names the silo of each row, as by='hospital'")
    if list(frame.columns).count(by) != 1:
        raise BadInput(f"by is {shown(str(by))}: there is no such column among {', '.join(map(str, frame.columns))}")
    empty = np.flatnonzero(frame[by].isna())
    if len(empty):
        where = "" if private else f"row {empty[0] + 1}, "
        raise BadInput(f"data: {where}column {shown(by)}: a cell is empty, and no silo has its row")
    groups = frame.groupby(frame[by].astype(str), sort=False)
    return {silo: rows.drop(columns=by) for silo, rows in groups}


def _table(silo: Any, given: Any) -> pd.DataFrame:
    given = _frame(given)
    if isinstance(given, pd.DataFrame):
        return given
    who = f"data: silo {shown(str(silo))}"
    if not isinstance(given, np.ndarray):
        raise BadInput(f"{who} is a {type(given).__name__}: give a DataFrame, or an array of rows and columns")
    if given.ndim != 2:
        raise BadInput(f"{who} is an array of shape {given.shape}: give one of rows and columns")
    return pd.DataFrame(given, columns=numbered("x", given.shape[1]))


def numbered(word: str, count: int) -> list[str]:
    """Return `word` with the numbers from 1 to `count`, with as many digits as the last needs, so that they sort."""
    return [f"{word}{number:0{len(str(count))}d}" for number in range(1, count + 1)]
