"""Families scored on the rows at hand: level codes by their counts, numbers by their moments."""

import math

import numpy as np

from ..core.schema import FloatArray, Schema
from ..errors import BadInput
from ..statistics.chunks import Table
from ..statistics.configuration_moments import MixedRows, by_configuration, open_mixed_rows
from ..statistics.count_tables import CodePasses
from ..statistics.rows import Rows, open_rows
from .conditional_gaussian import score_configurations
from .discrete import score_rows
from .families import Batch
from .gaussian import score_moments
from .ges import Scores
from .settings import ScoreSettings, SearchSettings
from .tables import sets_of

DEGENERATE = "-p mixed_score=degenerate-gaussian"


def refuse_wide(schema: Schema, most_cells: int) -> None:
    """Raise `BadInput` for a variable with more than `most_cells` levels: no family of it could be scored."""
    for variable, levels in schema.levels.items():
        if len(levels) > most_cells:
            raise BadInput(f"most_cells is {most_cells}: {variable} alone has {len(levels)} levels")


def opened(table: Table, schema: Schema, silo: str, settings: SearchSettings, rng: np.random.Generator) -> Rows:
    """Return the rows as a search with these `settings` needs them.

    Raises `BadInput` for a code outside the levels of its variable, for time series, and as `refuse_gaps` does.
    """
    if schema.kind == "mixed" and settings.in_tables(schema.kind):
        refuse_gaps(schema, settings)
        if not isinstance(table, np.ndarray):
            raise BadInput(f"silo {silo}: it has too many rows to be counted by configuration: take {DEGENERATE}")
        return open_mixed_rows(table, schema, silo, rng)
    return open_rows(table, schema, silo, rng)


def refuse_gaps(schema: Schema, settings: SearchSettings) -> None:
    """Raise `BadInput` for mixed data with empty cells that are to be counted by configuration."""
    if schema.gaps and schema.kind == "mixed" and settings.in_tables(schema.kind):
        raise BadInput(
            f"the conditional Gaussian score needs complete tables, and cells are empty: take {DEGENERATE}, or leave "
            "out their rows by --missing complete-rows"
        )


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


def configuration_scores(rows: MixedRows, most_cells: float) -> Scores:
    """Return what scores families of mixed `rows` by their moments by configuration."""

    def score(batch: Batch) -> FloatArray:
        numbers = by_configuration(rows, sets_of(batch, rows.cardinalities, most_cells).sets)
        return score_configurations(numbers, batch, rows.cardinalities, rows.discrete, rows.all_rows, most_cells)

    return score
