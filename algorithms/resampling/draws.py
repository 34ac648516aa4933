"""Rows drawn with replacement: each silo draws from its own, as many as it has, so that its number of rows stays.

Rows of a time series depend on each other, and a learner sees them in windows of `lags` + 1 rows. So whole blocks of
consecutive windows are drawn (the moving block bootstrap: Künsch 1989, "The jackknife and the bootstrap for general
stationary observations"), and each block is an unbroken stretch of its own: no window reaches from one to the next.
How long the blocks are follows from the public lengths of the stretches, and so is public, too. A block has about
n^(1/3) windows, if a silo has n (Hall, Horowitz, Jing 1995, "On blocking rules for the bootstrap with dependent data").
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.schema import Schema
from ..errors import BadInput

LEAST = 2
"""windows of a block, at least: learners of time series need a stretch with two"""


def resampled_schema(schema: Schema, lags: int) -> Schema:
    """Return the public schema of rows drawn anew: that of time series has other stretches, as many windows.

    Raises `BadInput` for a silo whose stretches are too short for a block.
    """
    if schema.kind != "time-series":
        return schema
    stretches = {silo: tuple(lags + block for block in blocks(schema, silo, lags)) for silo in schema.rows}
    return replace(schema, rows={silo: sum(own) for silo, own in stretches.items()}, stretches=stretches)


def blocks(schema: Schema, silo: str, lags: int) -> tuple[int, ...]:
    """Return how many windows each block of `silo` has: all the same number, but the last that makes up the total."""
    own = _windows(schema, silo, lags)
    enough = own[own >= LEAST]
    if not len(enough):
        raise BadInput(
            f"--bootstrap: silo {silo}: its unbroken series are too short to draw blocks from: "
            f"one of {lags + LEAST} rows at least is needed"
        )
    total = int(own.sum())
    size = max(LEAST, min(round(float(np.cbrt(total))), int(enough.min())))
    whole, rest = divmod(total, size)
    return (size,) * whole + (rest,) * (rest > 0)


def resample(table: NDArray[Any], schema: Schema, silo: str, lags: int, generator: np.random.Generator) -> NDArray[Any]:
    """Return rows of `table` `[n_rows, n_variables]` drawn with replacement, as `resampled_schema` describes them."""
    if schema.kind != "time-series":
        return np.asarray(table[generator.integers(len(table), size=len(table))])
    lengths = blocks(schema, silo, lags)
    starts = _starts(schema, silo, lags, max(lengths))
    drawn = starts[generator.integers(len(starts), size=len(lengths))]
    rows = [np.arange(start, start + lags + length) for start, length in zip(drawn, lengths, strict=True)]
    return np.asarray(table[np.concatenate(rows)])


def _windows(schema: Schema, silo: str, lags: int) -> NDArray[np.int64]:
    """Return how many windows each stretch of `silo` has, `[n_stretches]`."""
    return np.maximum(np.array(schema.stretches[silo], np.int64) - lags, 0)


def _starts(schema: Schema, silo: str, lags: int, size: int) -> NDArray[np.int64]:
    """Return the rows at which a block of `size` windows may begin: those where it ends within the same stretch."""
    first = np.concatenate([[0], np.cumsum(schema.stretches[silo])[:-1]])
    own = _windows(schema, silo, lags)
    return np.concatenate([start + np.arange(max(n - size + 1, 0)) for start, n in zip(first, own, strict=True)])
