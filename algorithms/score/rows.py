"""One table as a search sees it: rows that score families, level codes by their counts, numbers by their moments."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..constraint.federated import Silo, open_silo
from ..core.schema import FloatArray, Schema
from ..errors import BadInput
from .discrete import score_rows
from .families import Batch
from .gaussian import score_moments
from .ges import Scores
from .settings import ScoreSettings


def open_rows(table: NDArray[Any], schema: Schema, silo: str) -> Silo:
    """Return the rows of `table` `[n_rows, n_variables]`: of discrete data the columns, of continuous the moments.

    Raises BadInput for a code outside the levels of its variable and for time series.
    """
    refuse_time_series(schema)
    return open_silo(table, schema, silo, np.random.default_rng(0))


def refuse_time_series(schema: Schema) -> None:
    """Raise BadInput for time series."""
    if schema.kind == "time-series":
        raise BadInput("score-based learning needs rows drawn independently, not a time series")


def refuse_wide(schema: Schema, most_cells: int) -> None:
    """Raise BadInput for a variable that alone has more than `most_cells` levels: it would have no score at all."""
    for variable, levels in schema.levels.items():
        if len(levels) > most_cells:
            raise BadInput(f"most_cells is {most_cells}: {variable} alone has {len(levels)} levels")


def scores_of(rows: Silo, settings: ScoreSettings, most_cells: float = math.inf) -> Scores:
    """Return what scores families on `rows`; discrete families with more than `most_cells` cells are not considered."""
    if rows.kind == "continuous":
        d = len(rows.cardinalities)
        return lambda batch: score_moments(rows.moments, d, batch)

    def score(batch: Batch) -> FloatArray:
        return score_rows(rows.columns, rows.cardinalities, batch, settings, most_cells)

    return score
