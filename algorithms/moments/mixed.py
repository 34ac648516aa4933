"""Sums of mixed data, and learning from them: BOSS by the degenerate Gaussian score, exact or private.

The columns are those of the coded table (`statistics/coding.py`). The sum has one of three kinds (`SumKind`):

- "centred": products about the silo's own means;
- "pairs": with an ε. The silo's means have no noise, so they must not be used. The products are those of the
  differences (x − x')/√2 between the first and second row, between the third and fourth, and so on. Offsets of a whole
  silo cancel in the differences. A record is in only one pair. There are half as many pairs as rows, so the noise in a
  mean product is twice as large;
- "means": silos do not subtract their own means (`center` is off). The rows get a constant column. The products of this
  column are the sums of the other columns, from which the server computes and subtracts the means of all rows. To make
  the norms of rows small, 1/(number of levels) is subtracted from indicators.

An indicator has a public scale, so only the scales of numbers are estimated privately. The learner uses only
correlations. So each column is measured in units of its scale, and all correlations have the same noise
(`gram.correlation_units`).
"""

import math
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray, Schema
from ..score.procedures import BOSS, search_blocks
from ..score.settings import SearchSettings
from ..statistics.coding import RARE_LEVEL_ROWS, blocks_of_covariance, coded_names, coding_of
from ..statistics.moments import ROUNDING
from ..statistics.rows import require_codes

CONSTANT = "1"
INDICATOR = 0.5
"""the scale of an indicator: its largest possible standard deviation"""
# The weight of noise relative to sampling error, and the number of noise standard deviations below which a level counts
# as rare: tuned on mixed data of 10 and 20 variables, ε from 0.5 to 10.
NOISE_GROWTH, RARE_LEVEL_DEVIATIONS = 3.0, 4.0


SumKind = Literal["centred", "pairs", "means"]


def summed_columns(schema: Schema, sum_kind: SumKind) -> Schema:
    """The public schema of the sum: coded columns, and each silo's number of rows or pairs."""
    names = coded_names(schema)
    rows = {silo: count // 2 for silo, count in schema.rows.items()} if sum_kind == "pairs" else schema.rows
    return Schema((*names, CONSTANT) if sum_kind == "means" else names, rows)


def private_columns(schema: Schema, sum_kind: SumKind) -> NDArray[np.bool_]:
    """Whether each summed column is a number, so that its scale must be estimated privately."""
    coding = coding_of(schema)
    numbers = ~np.array(coding.discrete)[coding.owners]
    return np.append(numbers, np.False_) if sum_kind == "means" else numbers


def all_scales(schema: Schema, sum_kind: SumKind, number_scales: FloatArray | float) -> FloatArray:
    """The scales of all summed columns from the `number_scales`."""
    numbers = private_columns(schema, sum_kind)
    scales = np.full(len(numbers), INDICATOR)
    scales[numbers] = number_scales
    if sum_kind == "means":
        scales[-1] = 1.0
    return scales


def coded_rows(table: FloatArray, schema: Schema, silo: str, sum_kind: SumKind) -> FloatArray:
    """The rows whose products are summed, from `table` `[n_rows, d]`; raises `BadInput` for a code that is no level."""
    require_codes(table, schema, silo)
    coding = coding_of(schema)
    coded = coding.rows(table)
    if sum_kind == "pairs":
        even = len(coded) - len(coded) % 2
        with np.errstate(over="ignore"):  # a row with an infinite difference is clipped, like any large row
            return np.asarray((coded[:even:2] - coded[1:even:2]) / math.sqrt(2))
    if sum_kind == "means":
        widths, discrete = np.array(coding.widths), np.array(coding.discrete)
        shift = np.where(discrete, 1.0 / (widths + 1), 0.0)[coding.owners]
        return np.column_stack([coded - shift, np.ones(len(table))])
    centred = coded - coded.mean(axis=0)
    constant = (centred**2).sum(axis=0) <= ROUNDING**2 * (coded**2).sum(axis=0)
    return np.where(constant, 0.0, centred)


def mixed_class(S: FloatArray, rows: int, schema: Schema, noise: float, scales: FloatArray) -> NDArray[np.bool_]:
    """The CPDAG `[d, d]` that BOSS finds in second moments `S` `[m, m]` of `rows` rows or pairs.

    `noise` is the standard deviation of the noise in a product of columns, in units of their `scales`. The penalty
    for a parent depends on the noise: the search takes S as the moments of 1/(1/rows + (NOISE_GROWTH·noise)²) rows,
    with the noise in units of correlations. Levels that are indistinguishable from the noise count as rare.
    """
    coding = coding_of(schema)
    if len(S) > coding.size:
        S = S[:-1, :-1] - np.outer(S[:-1, -1], S[-1, :-1]) / S[-1, -1]
    rare_rows = max(RARE_LEVEL_ROWS, RARE_LEVEL_DEVIATIONS * noise * INDICATOR**2 * math.sqrt(2) * rows)
    blocks = blocks_of_covariance(S, rows, coding, rare_rows=rare_rows)
    if noise:
        correlation_noise = noise * float(np.mean(scales[: coding.size] ** 2 / np.diag(S)))
        blocks = replace(blocks, rows=max(int(1 / (1 / rows + (NOISE_GROWTH * correlation_noise) ** 2)), 2))
    return search_blocks(BOSS, blocks, SearchSettings(), schema.knowledge.prior(schema.variables))[0]
