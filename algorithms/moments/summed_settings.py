"""The settings of the learners from summed second moments, and what follows from them and from what is public."""

import math
from dataclasses import dataclass
from typing import Literal

from ..core.lags import reach
from ..core.schema import Schema
from ..errors import require
from ..privacy.settings import PrivateSettings
from ..privacy.shares import Shares, noise_shares
from ..privacy.zcdp import Accounting
from ..statistics.lagged import windowed
from . import mixed
from .pooled import PooledLearner

# How far rows are clipped, found on graphs of 10 to 200 variables.
CLIP, CLIP_OF_TESTS = 0.6, 3.0
# The most for mixed data, and the noise, in sampling errors, up to which they are clipped less: found on 10 and 20
# variables, ε from 0.5 to 50.
MOST_CLIP, NOISE_TO_SAMPLING = 4.0, 0.1

Unit = Literal["window", "row", "stretch"]
SAID: dict[Unit, str] = {
    "window": "one record is one window of lags + 1 rows of a series; a row is in as many windows, and protected less",
    "row": "one record is one row of a series, with all windows it is in; a series of many rows is protected less",
    "stretch": "one record is one unbroken stretch of a series, whole",
}
"""what is protected, as it is said with ε"""


@dataclass(frozen=True)
class SummedMoments(PrivateSettings, PooledLearner):
    """Settings of the learners from summed, perhaps private, second moments."""

    clip: float = 0.0
    """rows are clipped to the norm √(clip·Σ s_i), in units √s_i of the scales s; 0: chosen for the learner"""
    scale_share: float = 0.1
    """share of the privacy budget spent on finding the scales"""
    known_scale: float = 0.0
    """the root mean square of every variable, if it is public; 0: found privately"""
    accounting: Accounting = "zcdp"
    """how ε and δ become a budget in ρ; papers: by the papers' closed form, which is valid and buys less"""
    protect: Unit = "window"
    """time series: what ε is promised to: one window of lags + 1 rows; one row, which is in lags + 1 windows; a whole
    unbroken stretch with all its windows, which takes as many times the noise as it has windows"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for a value outside its range."""
        PooledLearner.__post_init__(self)
        PrivateSettings.__post_init__(self)
        require(self.clip >= 0, "clip", self.clip, "0 or more")
        require(0 < self.scale_share < 1, "scale_share", self.scale_share, "between 0 and 1")
        require(self.known_scale >= 0, "known_scale", self.known_scale, "0 or more")

    @property
    def clipping(self) -> float:
        """How far rows are clipped: as stated, or as suits the learner (clipping distorts the tests of pc)."""
        return self.clip or (CLIP_OF_TESTS if self.class_only else CLIP)

    def clip_for(self, schema: Schema, shares: Shares | None) -> float:
        """Return how far rows are clipped if the silos add these `shares` of noise.

        Mixed data are clipped less where there is little noise: as far as keeps it a small part of the sampling error.
        """
        if schema.kind != "mixed" or self.clip or shares is None:
            return self.clipping
        columns = self.columns(schema)
        rows = sum(columns.rows.values())
        noise = noise_level(shares, len(columns.variables), len(columns.rows), rows, 1.0) * math.sqrt(rows)
        return max(CLIP, min(NOISE_TO_SAMPLING / noise, MOST_CLIP))

    def shares(self, schema: Schema, sure: int, protects: str) -> Shares:
        """Return the noise that these settings ask for, if `sure` silos' shares are certain to be in what is seen."""
        counting, rows = 0.0 if self.known_scale else self.scale_share, self.columns(schema)
        said = f"{SAID[self.protect]}; {protects}" if schema.kind == "time-series" else protects
        promise = self.promise(schema if schema.kind == "mixed" else rows, said, self.accounting)
        numbers = int((~schema.discrete).sum()) if schema.kind == "mixed" else None
        return noise_shares(rows, promise, counting, sure, self.group(schema), numbers)

    def reach(self, schema: Schema) -> int:
        """Return how many lags the summed windows have, 0 for data that are no time series.

        Raises `BadInput` naming a silo whose series are too short.
        """
        return reach(schema, self.lags, self.most_lags) if schema.kind == "time-series" else 0

    def columns(self, schema: Schema) -> Schema:
        """Return the public schema of what is summed: the rows, windows of time series, or coded mixed rows."""
        if schema.kind == "mixed":
            return mixed.summed_columns(schema, self.summed)
        reach = self.reach(schema)
        return windowed(schema, reach) if reach else schema

    def freedom(self, schema: Schema, silos: tuple[str, ...]) -> int:
        """Return the degrees of freedom of the sum over `silos`: rows, less one for each whose means are subtracted."""
        columns, centred = self.columns(schema), self.centred(schema)
        return sum(columns.rows[silo] - centred for silo in silos)

    @property
    def summed(self) -> mixed.Summed:
        """What is summed of mixed data."""
        return "means" if not self.center else "pairs" if self.epsilon else "centred"

    def centred(self, schema: Schema) -> bool:
        """Return whether each silo's own means are subtracted."""
        return self.center and not self.reach(schema) and not self.epsilon

    def group(self, schema: Schema) -> int:
        """Return how many of the summed rows belong to what is protected."""
        reach = self.reach(schema)
        if not reach or self.protect == "window":
            return 1
        most = max(length - reach for stretches in schema.stretches.values() for length in stretches)
        return min(reach + 1, most) if self.protect == "row" else most


def noise_level(shares: Shares, d: int, silos: int, rows: int, clip: float) -> float:
    """Return the standard deviation that the noise of so many silos has in a covariance of `rows` in all.

    For variables of mean square 1, off the diagonal.
    """
    return math.sqrt(silos * shares.gram_variance / 2) * clip * d / 4.0**shares.bits / rows
