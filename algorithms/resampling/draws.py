"""Rows drawn anew: each silo draws half of its own without replacement, or as many as it has with replacement.

Around what all n rows give, a statistic of a random half spreads as one of n rows drawn with replacement does: a mean
with the variance σ²/n in both cases. But rows that are drawn twice count as evidence twice: a score such as BIC, told
that there are n, then takes chance for an edge far too often (Steck, Jaakkola 2003, "Bias-corrected bootstrap and model
uncertainty"). In a half every row is there once, so halves are the default (Bühlmann, Yu 2002, "Analyzing bagging";
Meinshausen, Bühlmann 2010, "Stability selection").

Rows of a time series depend on each other, and a learner sees them in windows of `lags` + 1 rows. So blocks of
consecutive windows are drawn, which do not overlap (Carlstein 1986), and each is an unbroken stretch of its own: no
window reaches from one to the next. How many there are and how long follows from the public lengths of the stretches. A
block has about n^(1/3) windows, if a silo has n (Hall, Horowitz, Jing 1995, "On blocking rules for the bootstrap with
dependent data").
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.schema import Schema
from ..errors import BadInput

LEAST = 2
"""windows of a block, at least: learners of time series need a stretch with two"""


@dataclass(frozen=True)
class HowDrawn:
    """How rows are drawn: with or without replacement, and, if they are time series, how far windows reach back."""

    replacement: bool = False
    lags: int = 0

    def count(self, n: int) -> int:
        """Return how many of n rows or blocks are drawn."""
        return n if self.replacement else n - n // 2

    def of(self, n: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """Return the numbers of those that are drawn of n rows or blocks."""
        if self.replacement:
            return generator.integers(n, size=n)
        return generator.permutation(n)[: self.count(n)]


def resampled_schema(schema: Schema, draw: HowDrawn) -> Schema:
    """Return the public schema of rows that were drawn; of their empty cells about as many as their share.

    Raises `BadInput` for a silo whose stretches of time series are too short for a block.
    """
    if schema.kind != "time-series":
        rows = {silo: draw.count(n) for silo, n in schema.rows.items()}
        kept = {silo: rows[silo] / n for silo, n in schema.rows.items()}
        empty = {silo: tuple(round(kept[silo] * one) for one in counts) for silo, counts in schema.empty.items()}
        worth = round(schema.filling.rows * sum(rows.values()) / sum(schema.rows.values()))
        return replace(schema, rows=rows, stretches={}, empty=empty, filling=replace(schema.filling, rows=worth))
    stretches = {}
    for silo in schema.rows:
        windows, size = _windows(schema, silo, draw), block_size(schema, silo, draw)
        stretches[silo] = (draw.lags + size,) * draw.count(int((windows // size).sum()))
    return replace(schema, rows={silo: sum(own) for silo, own in stretches.items()}, stretches=stretches)


def resample(
    table: NDArray[Any], schema: Schema, silo: str, draw: HowDrawn, generator: np.random.Generator
) -> NDArray[Any]:
    """Return rows drawn from `table` `[n_rows, n_variables]`, as `resampled_schema` describes them."""
    if schema.kind != "time-series":
        return np.asarray(table[draw.of(len(table), generator)])
    size = block_size(schema, silo, draw)
    starts = _starts(schema, silo, draw, size, generator)
    begins = starts[draw.of(len(starts), generator)]
    return np.asarray(table[(begins[:, None] + np.arange(draw.lags + size)).ravel()])


def block_size(schema: Schema, silo: str, draw: HowDrawn) -> int:
    """Return how many windows a block of `silo` has: no more than the shortest stretch that has two at least."""
    windows = _windows(schema, silo, draw)
    enough = windows[windows >= LEAST]
    if not len(enough):
        raise BadInput(
            f"--bootstrap: silo {silo}: its unbroken series are too short to draw blocks from: "
            f"one of {draw.lags + LEAST} rows at least is needed"
        )
    return max(LEAST, min(round(float(np.cbrt(enough.sum()))), int(enough.min())))


def _windows(schema: Schema, silo: str, draw: HowDrawn) -> NDArray[np.int64]:
    """Return how many windows each stretch of `silo` has, `[n_stretches]`."""
    return np.maximum(np.array(schema.stretches[silo], np.int64) - draw.lags, 0)


def _starts(schema: Schema, silo: str, draw: HowDrawn, size: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Return the row at which each block begins; which windows of a stretch make no whole block is left to chance."""
    first = np.concatenate([[0], np.cumsum(schema.stretches[silo])[:-1]])
    own = _windows(schema, silo, draw)
    left = generator.integers(own % size + 1)
    blocks = zip(first + left, own // size, strict=True)
    return np.concatenate([begin + size * np.arange(count) for begin, count in blocks])
