"""Families scored on the rows at hand: level codes by their counts, numbers by their moments."""

import math
from typing import Any

from numpy.typing import NDArray

from ..core.schema import FloatArray, Schema
from ..errors import BadInput
from ..statistics.configuration_moments import MixedRows, by_configuration, open_mixed_rows
from ..statistics.rows import Rows, open_rows
from .conditional_gaussian import score_configurations
from .discrete import score_rows
from .families import Batch
from .gaussian import score_moments
from .ges import Scores
from .settings import ScoreSettings, SearchSettings
from .tables import sets_of


def refuse_wide(schema: Schema, most_cells: int) -> None:
    """Raise `BadInput` for a variable with more than `most_cells` levels: no family of it could be scored."""
    for variable, levels in schema.levels.items():
        if len(levels) > most_cells:
            raise BadInput(f"most_cells is {most_cells}: {variable} alone has {len(levels)} levels")


def opened(table: NDArray[Any], schema: Schema, silo: str, settings: SearchSettings) -> Rows:
    """Return the rows as a search with these `settings` needs them.

    Raises `BadInput` for a code outside the levels of its variable, and for time series.
    """
    if schema.kind == "mixed" and settings.in_tables(schema.kind):
        return open_mixed_rows(table, schema, silo)
    return open_rows(table, schema, silo)


def scores_of(rows: Rows, settings: ScoreSettings, most_cells: float = math.inf) -> Scores:
    """Return what scores families on `rows`; discrete families of more than `most_cells` cells are excluded."""
    if rows.kind == "continuous":
        d = len(rows.cardinalities)
        return lambda batch: score_moments(rows.moments, d, batch)

    def score(batch: Batch) -> FloatArray:
        return score_rows(rows.columns, rows.cardinalities, batch, settings, most_cells)

    return score


def configuration_scores(rows: MixedRows, most_cells: float) -> Scores:
    """Return what scores families of mixed `rows` by their moments by configuration."""

    def score(batch: Batch) -> FloatArray:
        numbers = by_configuration(rows, sets_of(batch, rows.cardinalities, most_cells).sets)
        return score_configurations(numbers, batch, rows.cardinalities, rows.discrete, rows.all_rows, most_cells)

    return score
