"""Transforms of columns of numbers inside a silo, before anything is summed: logarithms, roots, normal scores.

Linear and Gaussian learners lose edges where a column is a monotone distortion of a linear variable. Each silo undoes
the distortion with what it has: ln x, the square root of a count (Anscombe 1948), or normal scores, Φ⁻¹(rank/(n + 1)),
the nonparanormal of Liu, Lafferty & Wasserman 2009. Normal scores are those of the silo's own ranks, so units, offsets
and monotone scales that differ between silos drop out. Nothing travels and nothing is added to an exchange; the server
knows which transform each column has (`Schema.transforms`), and parameters are on the transformed scale.

- `apply`: one column of numbers. An empty cell stays empty, equal cells stay equal, and the order of cells is kept.
- `transformed`: a table, in memory or read in passes. Logarithms and roots need a cell alone; ranks need a column, of
  which a table that is read in passes holds `REFERENCE_ROWS` rows, evenly spaced.
- `suggested_transform`, `count_transform`: what the shape of a column suggests.

Costs: a sort for each column with normal scores, otherwise one pass.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray, Schema, Transform
from ..errors import BadInput, shown
from .moments import Chunked, Table, thin_rows

NORMAL_SCORES: Transform = "normal-scores"
FORMULAS: Mapping[Transform, str] = {
    "log": "ln x",
    "log1p": "ln(1 + x)",
    "sqrt": "√x",
    "anscombe": "√(x + 3/8)",
    "normal-scores": "normal scores of each silo",
}
"""the transforms, as results state them"""
REFERENCE_ROWS = 1 << 17
"""rows that rank the cells of a table that is read in passes"""
SMALLEST, LARGEST = 1e-70, 1e70
"""what a number that is not positive counts as in a logarithm, where no cell may refuse a run"""


def apply(values: FloatArray, transform: Transform, reference: FloatArray | None = None) -> FloatArray:
    """`values` `[n_rows]` transformed, NaN where a cell is empty; defined for all numbers.

    Numbers below the domain of a logarithm or a root count as its least one. Normal scores are those among the cells
    of `reference`, by default of `values`.
    """
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


def undone(values: FloatArray, transform: Transform) -> FloatArray | None:
    """The numbers of which `values` are the transform; None for normal scores, which have no formula."""
    if transform == "log":
        return np.asarray(np.exp(values))
    if transform == "log1p":
        return np.asarray(np.expm1(values))
    if transform in ("sqrt", "anscombe"):
        return np.asarray(values**2 - (3 / 8 if transform == "anscombe" else 0.0))
    return None


def transformed(table: Table, schema: Schema, silo: str) -> Table:
    """The `table` `[n_rows, d]` of `silo` with the transforms of `schema`, read in passes if it was.

    Rows that were pooled from several silos are ranked within the rows of each of these.
    """
    if not schema.transforms:
        return table
    chosen = {schema.variables.index(name): one for name, one in schema.transforms.items() if name in schema.variables}
    if isinstance(table, np.ndarray):
        return np.concatenate([_rows(part, chosen, part) for part in _silos_in(table, schema, silo)])
    ranks = NORMAL_SCORES in chosen.values()
    return TransformedPasses(table, chosen, thin_rows(table, REFERENCE_ROWS) if ranks else np.empty((0, 0)))


def require_row_wise(schema: Schema) -> None:
    """Raise `BadInput` for normal scores in a run with an ε."""
    for name, one in schema.transforms.items():
        if one == NORMAL_SCORES:
            raise BadInput(
                f"--transform: normal scores of {shown(name)} cannot be used with an ε, as a rank depends on all rows: "
                "use log or sqrt"
            )


def _silos_in(table: FloatArray, schema: Schema, silo: str) -> list[FloatArray]:
    """The rows of each silo in `table`: of several if they were pooled."""
    lengths = schema.stretches.get(silo, ()) if schema.kind != "time-series" else ()
    return np.split(table, np.cumsum(lengths)[:-1]) if lengths else [table]


def _rows(rows: FloatArray, chosen: Mapping[int, Transform], reference: FloatArray) -> FloatArray:
    out = np.array(rows, np.float64)
    for v, one in chosen.items():
        out[:, v] = apply(rows[:, v], one, reference[:, v] if one == NORMAL_SCORES else None)
    return out


@dataclass(frozen=True)
class TransformedPasses:
    """A table that is read in passes, transformed chunk by chunk."""

    table: Chunked
    chosen: Mapping[int, Transform]
    reference: FloatArray
    """rows that rank the cells, `[n_reference, d]`"""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.table.shape

    def __iter__(self) -> Iterator[FloatArray]:
        """Read and transform the rows again."""
        for rows in self.table:
            yield _rows(rows, self.chosen, self.reference)


def below_domain(values: FloatArray, transform: str) -> int | None:
    """The first row of `values` `[n_rows]` with a number that has no logarithm or root; None if there is none.

    The logarithm of a column with zeros is ln(1 + x).
    """
    low = np.flatnonzero(values < 0) if transform in ("log", "log1p", "sqrt", "anscombe") else np.empty(0)
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


QUANTILES = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
SAMPLED_ROWS = 4096
"""rows, evenly spaced, from which the shape of a column is estimated"""
MIN_SHAPE_ROWS, MIN_SHAPE_VALUES = 50, 12
"""rows and distinct values below which a column has no shape"""
# Of an exponential column .46 and 4.2, of t with 3 degrees of freedom 0 and 5.9, of a lognormal one with σ = 1 .57 and
# 7.0, of a Gaussian cubed 0 and 41: below these bounds, transforms cost more than they gain.
MAX_SKEWNESS, MAX_TAIL_RATIO = 0.5, 8.0
"""greatest absolute skewness by Kelly, (q₉₀ + q₁₀ − 2 q₅₀)/(q₉₀ − q₁₀), and greatest ratio of (q₉₉ − q₁) to (q₇₅ − q₂₅)
of a column that needs no transform"""
MAX_LOG_SKEWNESS, MAX_LOG_TAIL_RATIO = 0.2, 5.0
"""the same for logarithms that are nearly symmetric"""


def suggested_transforms(sample: FloatArray) -> list[Literal["", "log", "normal-scores"]]:
    """For each column of `sample` `[n_rows, d]`, the transform that makes it nearly symmetric; empty if it needs none.

    It is the logarithm if all cells are positive and their logarithms are nearly symmetric, otherwise normal scores.
    """
    if len(sample) < MIN_SHAPE_ROWS:
        return [""] * sample.shape[1]
    gaps = np.isnan(sample).any(axis=0)
    largest = np.abs(np.where(gaps, 0.0, sample)).max(axis=0)
    sample = sample / np.where((largest > LARGEST) | (largest == 0), max(float(largest.max()), 1.0), 1.0)
    q = np.quantile(np.where(gaps, 0.0, sample), QUANTILES, axis=0)
    for v in np.flatnonzero(gaps):
        known = sample[~np.isnan(sample[:, v]), v]
        q[:, v] = np.quantile(known, QUANTILES) if len(known) >= MIN_SHAPE_ROWS else np.arange(len(QUANTILES))
    found: list[Literal["", "log", "normal-scores"]] = [""] * sample.shape[1]
    for v in np.flatnonzero(~_even(q, MAX_SKEWNESS, MAX_TAIL_RATIO)):
        known = sample[~np.isnan(sample[:, v]), v]
        if len(np.unique(known)) >= MIN_SHAPE_VALUES:
            logarithms = bool((known > 0).all()) and _even(np.log(q[:, v]), MAX_LOG_SKEWNESS, MAX_LOG_TAIL_RATIO)
            found[v] = "log" if logarithms else "normal-scores"
    return found


def _even(q: FloatArray, most_skewness: float, most_tails: float) -> NDArray[np.bool_]:
    """Whether columns with the quantiles `q` `[7, d]` are nearly symmetric, without heavy tails, `[d]`."""
    skewed = np.abs(q[5] + q[1] - 2 * q[3]) > most_skewness * (q[5] - q[1])
    return np.asarray(~(skewed | (q[6] - q[0] > most_tails * (q[4] - q[2]))))


MIN_COUNT_SKEWNESS = 0.2
"""least skewness of counts, that of a Poisson variable of mean 25: a more symmetric column needs no root"""
MAX_ROOT_SKEWNESS = 1.0
"""skewness of the roots of counts above which logarithms are taken"""


def count_transform(distinct: FloatArray, counts: NDArray[np.integer[Any]]) -> Literal["", "anscombe", "log1p"]:
    """The coding of whole numbers that are counts, from their `distinct` values in order; empty if they are none.

    Counts start at 0 or 1 and are skewed to the right, as those of a Poisson variable are.
    """
    if len(distinct) < 2 or not 0 <= distinct[0] <= 1 or _skewness(distinct, counts) < MIN_COUNT_SKEWNESS:
        return ""
    return "log1p" if _skewness(np.sqrt(distinct + 3 / 8), counts) > MAX_ROOT_SKEWNESS else "anscombe"


def _skewness(values: FloatArray, counts: NDArray[np.integer[Any]]) -> float:
    """The third standardised moment of `values` that occur `counts` times."""
    n = counts.sum()
    values = values / max(float(np.abs(values).max()), 1.0)  # counts: their cubes would overflow
    centred = values - (counts * values).sum() / n
    variance = float((counts * centred**2).sum() / n)
    return float((counts * centred**3).sum() / n) / variance**1.5 if variance > 0 else 0.0
