"""Amputation: artificial missing values in complete data, by one of three mechanisms.

The mechanisms are Rubin's (1976). The probability of a missing value is a logistic function of a cell, as in Muzellec,
Josse, Boyer, Cuturi 2020: Missing Data Imputation using Optimal Transport, §4. As in this paper, a share is a share of
the cells of the columns with missing values.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit

from fedbnsl.algorithms.errors import BadInput, require_number

from ..defaults import MECHANISMS, Mechanism
from ..federated import FederatedData, with_gaps

STEEPNESS = 2.0
"""increase of the log odds of a missing value per standard deviation of the determining cell"""


def amputate(data: FederatedData, mechanism: Mechanism, share: float, rng: np.random.Generator) -> FederatedData:
    """`data` with missing values: in each affected column, about this `share` of the cells of all silos.

    The mechanisms are:

    - `mcar`: each cell is missing independently of all values.
    - `mar`: at most half of the columns, drawn from the complete ones, stay complete (half is rounded up). One of them,
      drawn at random for each other column, determines the missing cells of this column: rows with greater values in
      the complete column are more likely to lack a cell.
    - `mnar`: greater values of a column are more likely to be missing.

    Discrete columns use their codes as values. Empty cells of `data` stay empty, and the truth is unchanged. Raises
    `BadInput` for an invalid mechanism or share, for time series, and for `mar` unless there are at least two columns
    and one of them is complete.
    """
    if mechanism not in MECHANISMS:
        raise BadInput(f"mechanism: {mechanism!r} is not one of {', '.join(MECHANISMS)}")
    require_number(0 < share < 1, "share", share, "between 0 and 1")
    if data.schema.kind == "time-series":
        raise BadInput("amputate: time series break off at an empty cell, so they cannot be amputated")
    determining = _determining_columns(data, mechanism, rng)
    probabilities = {j: _probabilities(data, determining[j], share) for j in determining}
    tables = {}
    for silo in data.schema.silos:
        table = data.tables[silo].copy()
        missing = -1 if data.schema.kind == "discrete" else np.nan
        for j in determining:
            table[rng.random(len(table)) < probabilities[j][silo], j] = missing
        tables[silo] = table
    about = {**data.about, "amputated": {"mechanism": mechanism, "share": share}}
    return replace(data, schema=with_gaps(data.schema, tables), tables=tables, about=about)


def _determining_columns(
    data: FederatedData, mechanism: Mechanism, rng: np.random.Generator
) -> Mapping[int, int | None]:
    """For each column that gets missing values, the column that determines them: None, another column, or itself.

    Raises `BadInput` for `mar` without a complete column beside another one.
    """
    d = len(data.schema.variables)
    if mechanism != "mar":
        return {j: j if mechanism == "mnar" else None for j in range(d)}
    empty = np.array([*data.schema.empty.values(), (0,) * d])
    complete = np.flatnonzero(~empty.any(axis=0))
    if d < 2 or not len(complete):
        raise BadInput("mechanism: mar needs a column without empty cells beside another one; there is none")
    kept_complete = rng.permutation(complete)[: (d + 1) // 2]
    return {j: int(rng.choice(kept_complete)) for j in range(d) if j not in kept_complete}


def _probabilities(data: FederatedData, by: int | None, share: float) -> Mapping[str, float | NDArray[np.float64]]:
    """By silo, the probability that each row's cell is missing, `[n_rows]`; its mean over all silos is `share`."""
    if by is None:
        return dict.fromkeys(data.tables, share)
    values = {silo: _as_numbers(table[:, by]) for silo, table in sorted(data.tables.items())}
    all_values = np.concatenate(list(values.values()))
    mean, spread = np.nanmean(all_values), np.nanstd(all_values) or 1.0
    slopes = {silo: STEEPNESS * np.nan_to_num((column - mean) / spread) for silo, column in values.items()}
    all_slopes = np.concatenate(list(slopes.values()))
    most = float(np.abs(all_slopes).max()) + 40.0
    intercept = brentq(lambda level: float(expit(level + all_slopes).mean()) - share, -most, most)
    return {silo: expit(intercept + slope) for silo, slope in slopes.items()}


def _as_numbers(column: NDArray[Any]) -> NDArray[np.float64]:
    """A column of numbers or codes, with NaN for empty cells."""
    numbers = column.astype(np.float64)
    return np.where(numbers < 0, np.nan, numbers) if np.issubdtype(column.dtype, np.integer) else numbers
