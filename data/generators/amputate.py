"""Gaps made in complete data, to see what a learner makes of them: at random, or told by other cells, or by their own.

The three mechanisms are Rubin's (1976); how cells tell their gaps is a logistic function, as in Muzellec, Josse, Boyer,
Cuturi 2020: Missing Data Imputation using Optimal Transport, §4, whose shares, too, are of the columns with gaps.
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
"""by how much the log odds of a gap grow with every standard deviation of the cell that tells it"""


def amputate(data: FederatedData, mechanism: Mechanism, share: float, rng: np.random.Generator) -> FederatedData:
    """`data` with cells emptied: of each column that gets gaps, about this `share` of the cells of all silos.

    `mcar`: each cell by itself, whatever it holds. `mar`: half of the columns stay complete, and each other column has
    one of them, drawn at random, whose greater values make its cells more likely to be empty. `mnar`: the greater a
    cell, the more likely it is to be empty. Of discrete columns the codes count as values; cells that were empty stay
    so. The truth stays. Raises `BadInput` for a mechanism or share that is none, for time series, and for `mar` without
    a complete column to tell the gaps of another.
    """
    if mechanism not in MECHANISMS:
        raise BadInput(f"mechanism: {mechanism!r} is not one of {', '.join(MECHANISMS)}")
    require_number(0 < share < 1, "share", share, "between 0 and 1")
    if data.schema.kind == "time-series":
        raise BadInput("amputate: time series break off at an empty cell; gaps are made in rows that stand alone")
    tells = _tells(data, mechanism, rng)
    chances = {j: _chances(data, tells[j], share) for j in tells}
    tables = {}
    for silo in data.schema.silos:
        table = data.tables[silo].copy()
        nothing = -1 if data.schema.kind == "discrete" else np.nan
        for j in tells:
            table[rng.random(len(table)) < chances[j][silo], j] = nothing
        tables[silo] = table
    about = {**data.about, "amputated": {"mechanism": mechanism, "share": share}}
    return replace(data, schema=with_gaps(data.schema, tables), tables=tables, about=about)


def _tells(data: FederatedData, mechanism: Mechanism, rng: np.random.Generator) -> Mapping[int, int | None]:
    """Return, for each column that gets gaps, which column tells where: none, another one, or itself."""
    d = len(data.schema.variables)
    if mechanism != "mar":
        return {j: j if mechanism == "mnar" else None for j in range(d)}
    empty = np.array([*data.schema.empty.values(), (0,) * d])
    complete = np.flatnonzero(~empty.any(axis=0))
    if d < 2 or not len(complete):
        raise BadInput("mechanism: mar needs a column without empty cells beside another one; there is none")
    telling = rng.permutation(complete)[: (d + 1) // 2]
    return {j: int(rng.choice(telling)) for j in range(d) if j not in telling}


def _chances(data: FederatedData, by: int | None, share: float) -> Mapping[str, float | NDArray[np.float64]]:
    """Return, by silo, how likely each row's cell is to be empty, `[n_rows]`: on average over all silos, `share`."""
    if by is None:
        return dict.fromkeys(data.tables, share)
    values = {silo: _known(table[:, by]) for silo, table in sorted(data.tables.items())}
    together = np.concatenate(list(values.values()))
    mean, spread = np.nanmean(together), np.nanstd(together) or 1.0
    slopes = {silo: STEEPNESS * np.nan_to_num((column - mean) / spread) for silo, column in values.items()}
    all_slopes = np.concatenate(list(slopes.values()))
    most = float(np.abs(all_slopes).max()) + 40.0
    start = brentq(lambda level: float(expit(level + all_slopes).mean()) - share, -most, most)
    return {silo: expit(start + slope) for silo, slope in slopes.items()}


def _known(column: NDArray[Any]) -> NDArray[np.float64]:
    """A column of numbers or codes with NaN where it is empty."""
    numbers = column.astype(np.float64)
    return np.where(numbers < 0, np.nan, numbers) if np.issubdtype(column.dtype, np.integer) else numbers
