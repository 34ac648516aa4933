"""What is summed of mixed data, and what is learned from it: BOSS by the degenerate Gaussian score, exact or private.

The columns are those of the coded table (`statistics/coding.py`), and what is summed of them is one of three:

- "centred": their products about the silo's own means;
- "pairs": with an ε, which covers no means, those of (x − x')/√2 of the first and second row, the third and fourth, ...
  What a whole silo has in common is not in them. A record is in one pair, so a pair takes the place of a row: there are
  half as many, and the noise counts twice;
- "means": where the silos' own means are to be kept, those of the rows with a constant column, whose products are the
  sums of the others: the server takes the means of all rows away. Indicators are taken less one over the number of
  levels, which makes rows short.

An indicator has a public scale, so only those of numbers are found privately. Correlations have no units; all columns
are therefore measured in their scales, which spreads the noise alike over all correlations (`gram.alike`).
"""

import math
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray, Schema
from ..score.families import SearchSettings
from ..score.procedures import BOSS, search_blocks
from ..statistics.coding import FEW, blocks_of_covariance, coded_names, coding_of
from ..statistics.moments import ROUNDING
from ..statistics.rows import require_codes

CONSTANT = "1"
INDICATOR = 0.5
"""the scale of an indicator: the most that its standard deviation can be"""
# The factor by which noise counts for more than sampling error, and the deviations of noise below which a level counts
# as rare: found on mixed data of 10 and 20 variables, ε from 0.5 to 10.
GROWN, RARE = 3.0, 4.0


Summed = Literal["centred", "pairs", "means"]


def summed_columns(schema: Schema, how: Summed) -> Schema:
    """The public schema of what is summed: coded columns, and of each silo the number of rows or pairs."""
    names = coded_names(schema)
    rows = {silo: count // 2 for silo, count in schema.rows.items()} if how == "pairs" else schema.rows
    return Schema((*names, CONSTANT) if how == "means" else names, rows)


def unknown_scales(schema: Schema, how: Summed) -> NDArray[np.bool_]:
    """Which of the summed columns have a scale that is to be found privately: those of numbers."""
    coding = coding_of(schema)
    numbers = ~np.array(coding.discrete)[coding.owners]
    return np.append(numbers, np.False_) if how == "means" else numbers


def all_scales(schema: Schema, how: Summed, found: FloatArray | float) -> FloatArray:
    """The scales of all summed columns from those `found` for numbers."""
    numbers = unknown_scales(schema, how)
    scales = np.full(len(numbers), INDICATOR)
    scales[numbers] = found
    if how == "means":
        scales[-1] = 1.0
    return scales


def coded_rows(table: FloatArray, schema: Schema, silo: str, how: Summed) -> FloatArray:
    """Return what is summed of the rows of `table` `[n_rows, d]`. Raises `BadInput` for a code that is no level's."""
    require_codes(table, schema, silo)
    coding = coding_of(schema)
    coded = coding.rows(table)
    if how == "pairs":
        even = len(coded) - len(coded) % 2
        with np.errstate(over="ignore"):  # an infinite difference is clipped like any long row
            return np.asarray((coded[:even:2] - coded[1:even:2]) / math.sqrt(2))
    if how == "means":
        widths, discrete = np.array(coding.widths), np.array(coding.discrete)
        shift = np.where(discrete, 1.0 / (widths + 1), 0.0)[coding.owners]
        return np.column_stack([coded - shift, np.ones(len(table))])
    centred = coded - coded.mean(axis=0)
    constant = (centred**2).sum(axis=0) <= ROUNDING**2 * (coded**2).sum(axis=0)
    return np.where(constant, 0.0, centred)


def mixed_class(S: FloatArray, rows: int, schema: Schema, noise: float, scales: FloatArray) -> NDArray[np.bool_]:
    """The CPDAG `[d, d]` that BOSS finds in second moments `S` `[m, m]` of so many rows or pairs.

    `noise` is the standard deviation of the noise in a product of columns, in units of their `scales`. A parent's price
    reckons with it: S counts as if it came from 1/(1/n + (GROWN·noise)²) rows, with the noise that it has in
    correlations. Levels that cannot be told from the noise count as rare.
    """
    coding = coding_of(schema)
    if len(S) > coding.size:
        S = S[:-1, :-1] - np.outer(S[:-1, -1], S[-1, :-1]) / S[-1, -1]
    few = max(FEW, RARE * noise * INDICATOR**2 * math.sqrt(2) * rows)
    blocks = blocks_of_covariance(S, rows, coding, few=few)
    if noise:
        in_correlations = noise * float(np.mean(scales[: coding.size] ** 2 / np.diag(S)))
        blocks = replace(blocks, rows=max(int(1 / (1 / rows + (GROWN * in_correlations) ** 2)), 2))
    return search_blocks(BOSS, blocks, SearchSettings(), schema.knowledge.prior(schema.variables))
