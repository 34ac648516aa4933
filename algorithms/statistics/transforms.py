"""Transforms of columns inside a silo, before anything is summed: logarithms, roots, scores, log-ratios, bounds.

Linear and Gaussian learners lose edges if a column is a monotone distortion of a variable whose relations to the others
are linear. Each silo removes the distortion locally by ln x, the square root of a count (Anscombe 1948), or normal
scores, Φ⁻¹(rank/(n + 1)) (the nonparanormal of Liu, Lafferty & Wasserman 2009). Normal scores use the silo's own ranks,
so differences between silos in units, offsets and monotone scales disappear. No further exchange is needed. The server
knows the transform of each column (`Schema.transforms`), and parameters are on the transformed scale.

Shares of a whole add up to a constant, so each depends on all others. Their ratios do not depend on the whole
(Aitchison 1982). Each share is divided by the median share of its row, which most parts leave as it is, whereas the
usual geometric mean of the row changes with every part.

One wrong number can ruin every sum (ours; `benchmarks/regimes.py --table cells`). A number is far if its distance from
the median is more than `FAR` times that within which 99 % of the numbers lie. A far number with no other far number in
its row is moved to this distance, and so is any number beyond `BEYOND` times it, which fixed-point sums could not hold.
A far number that is no mistake is usually not alone: it moves the effects of its variable as well, and stays.

- `apply` transforms one column of numbers. An empty cell stays empty, equal cells stay equal, and the order of cells is
  kept.
- `transformed` transforms a table, in memory or read in passes. Logarithms and roots are computed for each cell
  separately. Ranks need the whole column; for a table that is read in passes, ranks are relative to about
  `REFERENCE_ROWS` evenly spaced rows.
- `transform_gain` measures whether transforms help.

Costs: a sort for each column with normal scores, otherwise one pass.
"""

from collections.abc import Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray, Schema, Transform
from ..errors import BadInput, quoted
from .moments import MappedPasses, Table, thin_rows

NORMAL_SCORES: Transform = "normal-scores"
LOG_RATIO: Transform = "log-ratio"
BOUNDED: Transform = "bounded"
MIN_PARTS = 6
"""minimum number of columns whose shares can be compared with the median share of the row"""
SCORES = {NORMAL_SCORES: "normal score", LOG_RATIO: "log-ratio"}
"""the transforms that have no inverse, each with the name of a transformed number"""
BY_OTHER_CELLS = SCORES | {BOUNDED: "bounded number"}
"""the transforms that also depend on other cells, each with the name of a transformed number"""
FORMULAS: Mapping[Transform, str] = {
    "log": "ln x",
    "log1p": "ln(1 + x)",
    "sqrt": "√x",
    "anscombe": "√(x + 3/8)",
    "normal-scores": "normal scores of each silo",
    "log-ratio": "ln(x / median of the row)",
    "bounded": "x, with a bound for numbers far from all others",
}
"""the transforms, as results state them"""
REFERENCE_ROWS = 1 << 17
"""approximate maximum number of rows that rank the cells of a table that is read in passes"""
SMALLEST = 1e-70
"""replacement of numbers ≤ 0 in a logarithm in runs with an ε, in which no cell may cause an error"""


def apply(values: FloatArray, transform: Transform, reference: FloatArray | None = None) -> FloatArray:
    """`values` `[n_rows]` transformed, NaN where a cell is empty; defined for all numbers.

    For ln(1 + x) and roots, numbers below 0 are replaced by 0. For ln x, numbers below `SMALLEST` are replaced by
    `SMALLEST`. Normal scores rank cells among the cells of `reference`, by default of `values`. For log-ratios, the
    result is ln x, and numbers below half the smallest positive number of `reference` are replaced by it. A bound
    depends on the rest of the row, so the result is x.
    """
    if transform == BOUNDED:
        return values
    if transform == LOG_RATIO:
        known = values if reference is None else reference
        positive = known[known > 0]
        return np.asarray(np.log(np.maximum(values, positive.min() / 2 if len(positive) else SMALLEST)))
    if transform == "log":
        return np.asarray(np.log(np.maximum(values, SMALLEST)))
    if transform == "log1p":
        return np.asarray(np.log1p(np.maximum(values, 0.0)))
    if transform == "sqrt":
        return np.asarray(np.sqrt(np.maximum(values, 0.0)))
    if transform == "anscombe":
        return np.asarray(np.sqrt(np.maximum(values, 0.0) + 3 / 8))
    return _normal_scores(values, values if reference is None else reference)


def _normal_scores(values: FloatArray, reference: FloatArray) -> FloatArray:
    """Φ⁻¹(rank/(n + 1)) of `values` among the n cells of `reference`; equal cells have the mean of their ranks."""
    from scipy.special import ndtri  # imported late: most runs need no ranks

    known = np.sort(reference[~np.isnan(reference)])
    below, up_to = np.searchsorted(known, values, "left"), np.searchsorted(known, values, "right")
    scores = ndtri((below + up_to + 1) / 2 / (len(known) + 1))
    return np.asarray(np.where(np.isnan(values), np.nan, scores))


def inverse(values: FloatArray, transform: Transform) -> FloatArray:
    """The numbers `[n_rows]` whose transforms are `values`; raises `ValueError` for a transform without an inverse.

    A number within its bound is its own transform. For roots and ln(1 + x), values below the transform of 0 give 0, so
    a count is at least 0.
    """
    if transform == BOUNDED:
        return values
    if transform == "log":
        return np.asarray(np.exp(values))
    if transform == "log1p":
        return np.asarray(np.maximum(np.expm1(values), 0.0))
    if transform == "sqrt":
        return np.asarray(np.maximum(values, 0.0) ** 2)
    if transform == "anscombe":
        return np.asarray(np.maximum(np.maximum(values, 0.0) ** 2 - 3 / 8, 0.0))
    raise ValueError("scores have no inverse")


def transformed(table: Table, schema: Schema, silo: str) -> Table:
    """The `table` `[n_rows, d]` of `silo`, transformed as `schema` says; read in passes if `table` is.

    Rows that were pooled from several silos are ranked within the rows of each of these silos.
    """
    if not schema.transforms:
        return table
    chosen = {schema.variables.index(name): one for name, one in schema.transforms.items() if name in schema.variables}
    if isinstance(table, np.ndarray):
        return np.concatenate([_rows(part, chosen, part) for part in _silos_in(table, schema, silo)])
    by_cells = BY_OTHER_CELLS.keys() & chosen.values()
    reference = thin_rows(table, REFERENCE_ROWS) if by_cells else np.empty((0, 0))
    return MappedPasses(table, partial(_rows, chosen=chosen, reference=reference), table.shape[1])


def require_row_wise(schema: Schema) -> None:
    """Raise `BadInput` for transforms by other cells in a run with an ε."""
    for name, one in schema.transforms.items():
        if one in BY_OTHER_CELLS:
            raise BadInput(
                f"--transform: {BY_OTHER_CELLS[one]}s of {quoted(name)} cannot be used with an ε, because they depend "
                "on other rows: use log or sqrt"
            )


def _silos_in(table: FloatArray, schema: Schema, silo: str) -> list[FloatArray]:
    """The rows of each silo in `table`, which has several silos if they were pooled."""
    lengths = schema.stretches.get(silo, ()) if schema.kind != "time-series" else ()
    return np.split(table, np.cumsum(lengths)[:-1]) if lengths else [table]


def _rows(rows: FloatArray, chosen: Mapping[int, Transform], reference: FloatArray) -> FloatArray:
    out = np.array(rows, np.float64)
    for v, one in chosen.items():
        out[:, v] = apply(rows[:, v], one, reference[:, v] if one in BY_OTHER_CELLS else None)
    parts = [v for v, one in chosen.items() if one == LOG_RATIO]
    if parts:
        logarithms = out[:, parts]
        known = ~np.isnan(logarithms).all(axis=1)
        logarithms[known] -= np.nanmedian(logarithms[known], axis=1, keepdims=True)
        out[:, parts] = logarithms
    bounded = [v for v, one in chosen.items() if one == BOUNDED]
    if bounded:
        out[:, bounded] = _bounded(rows, reference)[:, bounded]
    return out


TYPICAL = 0.99
"""share of the numbers of a column that are its typical numbers"""
MIN_TYPICAL = 20
"""minimum number of numbers of a column that show what is typical"""
FAR, BEYOND = 10.0, 1000.0
"""multiples of the greatest distance of typical numbers from the median; beyond the second, a number is never kept"""
NEAR = 3.0
"""multiple of this distance within which all other numbers of a row must be for a far number to be alone"""


def _typical(sample: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The median of each column of `sample` `[n_rows, d]`, and the greatest distance of its typical numbers from it.

    The distance is infinite in a column in which it would be zero, so that no number of such a column is far.
    """
    known = np.where(np.isnan(sample).all(axis=0), 0.0, sample)
    centre = np.nanmedian(known, axis=0)
    distance = np.nanquantile(np.abs(known - centre), TYPICAL, axis=0, method="lower")
    return centre, np.where(distance > 0, distance, np.inf)


def has_far_numbers(sample: FloatArray, low: FloatArray, high: FloatArray) -> NDArray[np.bool_]:
    """Whether each column with this `sample` `[n_rows, d]`, minimum `low` and maximum `high` `[d]` has far numbers.

    Columns with fewer numbers than `MIN_TYPICAL` have none.
    """
    if len(sample) < MIN_TYPICAL:
        return np.zeros(sample.shape[1], np.bool_)
    centre, distance = _typical(sample)
    enough = (~np.isnan(sample)).sum(axis=0) >= MIN_TYPICAL
    return np.asarray(enough & (np.fmax(high - centre, centre - low) > FAR * distance))


def _bounded(rows: FloatArray, reference: FloatArray) -> FloatArray:
    """`rows` `[n_rows, d]` with bounds for numbers that are far from the other numbers of their column and row."""
    centre, distance = _typical(reference)
    multiples = np.nan_to_num(np.abs(rows - centre) / distance)
    others = np.partition(multiples, -2, axis=1)[:, -2:-1] if rows.shape[1] > 1 else np.zeros((len(rows), 1))
    wrong = ((multiples > FAR) & (others < NEAR)) | (multiples > BEYOND)
    return np.where(wrong, centre + np.sign(rows - centre) * np.where(wrong, distance, 0.0), rows)


def below_domain(values: FloatArray, transform: str) -> int | None:
    """The first row of `values` `[n_rows]` with a number below 0 for a logarithm or root; None if there is none.

    The caller handles 0: ln(1 + x) replaces the logarithm of a column with zeros, and time series with 0 are refused.
    """
    low = np.empty(0) if transform in ("none", NORMAL_SCORES, BOUNDED) else np.flatnonzero(values < 0)
    return int(low[0]) if len(low) else None


def domain_fault(place: str, value: float, transform: str) -> str:
    """The message on a number at `place` that has no logarithm or root."""
    return (
        f"{place}: {value:g} is below 0 and has no {transform}: use --transform normal-scores, or none for this column"
    )


def transform_lines(schema: Schema) -> str:
    """The transforms of `schema` as a phrase, such as "income: ln x; visits, calls: √(x + 3/8)"."""
    by_formula: dict[str, list[str]] = {}
    for name, one in schema.transforms.items():
        by_formula.setdefault(FORMULAS[one], []).append(name)
    return "; ".join(f"{', '.join(names)}: {formula}" for formula, names in by_formula.items())


SHRINKAGE = 0.01
"""shrinkage of correlations towards 0 in `transform_gain`, so that columns that determine each other do not dominate"""


def transform_gain(table: Table, transforms: Mapping[int, Transform]) -> float:
    """By how much `transforms`, by column of `table` `[n_rows, d]`, strengthen the linear relations, in nats per row.

    It is the total correlation −½ ln |R| of the transformed columns minus that of the untransformed columns. Transforms
    of jointly Gaussian columns never correlate more than the columns themselves (Lancaster 1957). So removing a
    distortion of Gaussian columns increases this number. Transforming columns with linear effects usually decreases it,
    also if errors are skewed, to which the theorem does not apply. An empty cell counts as the mean.
    """
    if not transforms:
        return 0.0
    rows = thin_rows(table, REFERENCE_ROWS)
    return _total_correlation(_rows(rows, transforms, rows)) - _total_correlation(rows)


def _total_correlation(rows: FloatArray) -> float:
    means = np.nanmean(np.where(np.isnan(rows).all(axis=0), 0.0, rows), axis=0)
    centred = np.where(np.isnan(rows), 0.0, rows - means)
    largest = np.abs(centred).max(axis=0)
    centred = centred / np.where(largest > 0, largest, 1.0)  # squares of large numbers would overflow
    deviations = np.sqrt((centred**2).sum(axis=0))
    scaled = centred / np.where(deviations > 0, deviations, 1.0)
    R = scaled.T @ scaled
    return -0.5 * float(np.linalg.slogdet((1 - SHRINKAGE) * R + SHRINKAGE * np.eye(len(R)))[1])
