"""Columns of numbers that one or two others determine: a square, a logarithm, a sum, a difference, a product, a ratio.

Silos describe such columns by their formulas, which hold in some of their rows and say nothing about any of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .profile import Profile

SAMPLE_ROWS = 200
"""rows of each silo that are examined"""
MIN_ROWS = 10
"""complete rows that are needed"""
MAX_COLUMNS = 60
"""columns of numbers beyond which pairs are not examined"""
TOLERANCE = 1e-3
"""difference of a derived column from its formula, as a fraction of its standard deviation: cells are rounded"""
MAX_PROFILED_COLUMNS = 30
"""the same for what a silo describes before every run"""


def derived_columns(names: list[str], rows: NDArray[Any], most_columns: int = MAX_COLUMNS) -> Iterator[tuple[str, ...]]:
    """Yield each column of numbers that others determine in the complete `rows` `[n_rows, d]`, formula, and sources.

    Nothing of tables with more than `most_columns` columns: the pairs would be too many.
    """
    X = rows[~np.isnan(rows).any(axis=1)].astype(np.float64)
    if len(X) < MIN_ROWS or len(names) > most_columns:
        return
    scales = X.std(axis=0)
    explained: set[frozenset[str]] = set()
    for formula, sources, values in _formulas(names, X):
        fits = (np.abs(X - values[:, None]) <= TOLERANCE * scales).all(axis=0) & (scales > 0)
        for j in np.flatnonzero(fits):
            involved = frozenset({names[j], *sources})
            if names[j] not in sources and involved not in explained:
                explained.add(involved)
                yield names[j], formula, *sources


def _formulas(names: list[str], X: NDArray[np.float64]) -> Iterator[tuple[str, tuple[str, ...], NDArray[np.float64]]]:
    """Yield formulas of one or two columns, these columns, and the values `[n_rows]`; only finite ones."""
    for j, name in enumerate(names):
        x = X[:, j]
        yield f"the square of {name}", (name,), x**2
        if (x > 0).all():
            yield f"the natural logarithm of {name}", (name,), np.log(x)
            yield f"the decimal logarithm of {name}", (name,), np.log10(x)
    for i, j in combinations(range(len(names)), 2):
        (one, other), (x, y) = (names[i], names[j]), (X[:, i], X[:, j])
        yield f"the sum of {one} and {other}", (one, other), x + y
        yield f"the product of {one} and {other}", (one, other), x * y
        yield f"the difference of {one} and {other}", (one, other), x - y
        yield f"the mean of {one} and {other}", (one, other), (x + y) / 2
        for (top, a), (bottom, b) in (((one, x), (other, y)), ((other, y), (one, x))):
            if (b != 0).all():
                yield f"the ratio of {top} to {bottom}", (top, bottom), a / b


def common_derived(profiles: Mapping[str, Profile], numbers: Sequence[str]) -> dict[str, str]:
    """The columns among `numbers` that others among them determine at every silo, with the formula."""
    found = set.intersection(*(set(profile.derived) for profile in profiles.values()))
    return {name: formula for name, formula, *sources in sorted(found) if {name, *sources} <= set(numbers)}
