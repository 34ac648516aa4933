"""Suggestions on the columns of a data set, for the owner of all its rows: `fedbnsl inspect` prints them.

Columns that other columns determine, causes that nothing in a table can have (age, sex), and an order in time.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.statistics.moments import chunks

from .missing_marks import listed

SAMPLE_ROWS = 200
"""rows of each silo that are examined"""
MIN_ROWS = 10
"""complete rows that are needed"""
MAX_COLUMNS = 60
"""columns of numbers beyond which pairs are not examined"""
TOLERANCE = 1e-3
"""difference of a derived column from its formula, as a fraction of its standard deviation: cells are rounded"""
NO_CAUSES = re.compile(r"(.*[ _.-])?(age|sex|gender|birth([ _.-]?(day|date|year|weight))?|dob|born)", re.IGNORECASE)
TIMES = re.compile(r"(.*[ _.-])?(year|yr|quarter|month|week|day|date|period|wave|visit)", re.IGNORECASE)


def suggestions(schema: Schema, tables: Mapping[str, Any]) -> tuple[str, ...]:
    """A line for each suggestion on the variables of `schema`, whose `tables` are `[n_rows, n_variables]`."""
    if schema.kind == "time-series":
        return ()
    samples = [next(iter(chunks(tables[silo])))[:SAMPLE_ROWS] for silo in schema.silos]
    return (*_without_causes(schema), *_times(schema, samples), *_derived(schema, samples))


def _without_causes(schema: Schema) -> Iterator[str]:
    names = [name for name in schema.variables if NO_CAUSES.fullmatch(name)]
    if names:
        yield f"{listed(names)}: no other column can be a cause: consider --no-parents {','.join(names)}"


def _times(schema: Schema, samples: list[NDArray[Any]]) -> Iterator[str]:
    """A suggestion for a column named like a time whose values never fall from one row to the next at any silo."""
    for name in schema.variables:
        v = schema.variables.index(name)
        if name not in schema.levels and TIMES.fullmatch(name) and all(_rises(table[:, v]) for table in samples):
            yield (
                f"{name}: it rises from row to row at every silo: if the rows follow each other in time, name the "
                "column time, and they are read as time series"
            )


def _rises(column: NDArray[Any]) -> bool:
    return len(column) > 1 and bool((np.diff(column) >= 0).all()) and column[-1] > column[0]


def _derived(schema: Schema, samples: list[NDArray[Any]]) -> Iterator[str]:
    """A suggestion for each column of numbers that one or two others determine by a simple formula."""
    names = [name for name in schema.variables if name not in schema.levels]
    if schema.kind == "discrete" or len(names) > MAX_COLUMNS:
        return
    rows = np.concatenate([sample[:, [schema.variables.index(name) for name in names]] for sample in samples])
    X = rows[~np.isnan(rows).any(axis=1)].astype(np.float64)
    if len(X) < MIN_ROWS:
        return
    scales = X.std(axis=0)
    explained: set[frozenset[str]] = set()
    for formula, sources, values in _formulas(names, X):
        fits = (np.abs(X - values[:, None]) <= TOLERANCE * scales).all(axis=0) & (scales > 0)
        for j in np.flatnonzero(fits):
            involved = frozenset({names[j], *sources})
            if names[j] not in sources and involved not in explained:
                explained.add(involved)
                yield f"{names[j]} is {formula}: leave one of them out with --ignore {names[j]}"


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
