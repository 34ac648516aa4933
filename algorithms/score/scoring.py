"""Families scored on the rows at hand: level codes by their counts, numbers by their moments."""

import math

from ..core.schema import FloatArray, Schema
from ..errors import BadInput
from ..statistics.count_tables import CodePasses
from ..statistics.rows import Rows
from .discrete import score_rows
from .families import Batch
from .gaussian import score_moments
from .ges import Scores
from .settings import ScoreSettings


def refuse_wide(schema: Schema, most_cells: int) -> None:
    """Raise `BadInput` for a variable with more than `most_cells` levels: no family of it could be scored."""
    for variable, levels in schema.levels.items():
        if len(levels) > most_cells:
            raise BadInput(f"most_cells is {most_cells}: {variable} alone has {len(levels)} levels")


def scores_of(rows: Rows, settings: ScoreSettings, most_cells: float = math.inf) -> Scores:
    """Return what scores families on `rows`; discrete families of more than `most_cells` cells are excluded."""
    if rows.kind == "continuous":
        d = len(rows.cardinalities)
        return lambda batch: score_moments(rows.moments, d, batch)

    def score(batch: Batch) -> FloatArray:
        if isinstance(rows.columns, CodePasses):
            raise TypeError("families are scored on rows in memory alone")
        return score_rows(rows.columns, rows.cardinalities, batch, settings, most_cells)

    return score
