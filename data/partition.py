"""Splitting one table among silos: equal parts, given sizes, Dirichlet-skewed sizes, or by the values of a column."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.structure import Structure

from .check import check_silo_name, check_table, shown
from .federated import FederatedData, continuous
from .generate import silo_names
from .table import read_table

LEAST = 2
"""rows a silo must have"""

Parts = list[NDArray[np.intp]]


def equal(rows: int, silos: int, rng: np.random.Generator) -> Parts:
    """Shuffle `rows` rows and deal them in parts that differ by one row at most, larger parts first.

    Returns the row numbers of each part. Raises `BadInput` if a silo would get fewer than two.
    """
    _check_silos(rows, silos)
    sizes = [rows // silos + (number < rows % silos) for number in range(silos)]
    return by_sizes(rows, sizes, rng)


def by_sizes(rows: int, sizes: Sequence[int], rng: np.random.Generator) -> Parts:
    """Shuffle `rows` rows and deal them in parts of the given sizes. Raises `BadInput` unless they add up to `rows`."""
    for size in sizes:
        if size < LEAST:
            raise BadInput(f"sizes: {size} is less than {LEAST} rows")
    if sum(sizes) != rows:
        raise BadInput(f"sizes: {'+'.join(map(str, sizes)) or 0} = {sum(sizes)}, but the table has {rows} rows")
    return [np.sort(part) for part in np.split(rng.permutation(rows), np.cumsum(sizes)[:-1])]


def dirichlet(rows: int, silos: int, concentration: float, rng: np.random.Generator) -> Parts:
    """Shuffle `rows` rows and deal them in parts whose shares are drawn from Dirichlet(concentration, ...).

    A small concentration gives one silo nearly all, a large one nearly equal parts; every silo gets two rows before the
    rest is shared out. Raises `BadInput` for a concentration that is not positive, or too few rows.
    """
    if not 0 < concentration < np.inf:
        raise BadInput(f"concentration: {concentration} is not a positive number")
    _check_silos(rows, silos)
    shares = rng.dirichlet(np.full(silos, concentration)) * (rows - LEAST * silos)
    sizes = np.floor(shares).astype(int)
    largest_rests = np.argsort(sizes - shares, kind="stable")[: rows - LEAST * silos - sizes.sum()]
    sizes[largest_rests] += 1
    return by_sizes(rows, [int(size) + LEAST for size in sizes], rng)


def by_column(labels: Sequence[str]) -> dict[str, NDArray[np.intp]]:
    """Return, for every value of a column, sorted, the numbers of its rows in their order; nothing is shuffled."""
    codes, owner = np.unique(np.asarray(labels, dtype=object).astype(str), return_inverse=True)
    return {str(code): np.flatnonzero(owner == number) for number, code in enumerate(codes)}


def split_table(
    path: Path,
    silos: int | None = None,
    sizes: Sequence[int] | None = None,
    concentration: float | None = None,
    by: str | None = None,
    seed: int = 0,
) -> FederatedData:
    """Split the table in `path` (.csv, .csv.gz or .parquet) among silos; there is no truth.

    Give one of: `silos` (equal parts), `silos` and `concentration` (Dirichlet-skewed), `sizes`, or `by` (a silo per
    value of that column, which is dropped). Raises `BadInput` as `read_table` does, for a choice that is none of these,
    and for a silo that would have fewer than two rows or a constant column.
    """
    given = [silos is not None, sizes is not None, by is not None]
    if sum(given) != 1 or (concentration is not None and silos is None):
        raise BadInput("split: give one of silos (with or without concentration), sizes, or by")
    if seed < 0:
        raise BadInput(f"seed: {seed} is less than 0")
    table = read_table(path, labels=by)
    how = {
        "silos": silos,
        "sizes": list(sizes) if sizes is not None else None,
        "concentration": concentration,
        "by": by,
    }
    about: dict[str, Any] = {
        "kind": "continuous",
        "generator": "split",
        "parameters": {"table": path.name} | {name: value for name, value in how.items() if value is not None},
    }
    if by is not None:
        return deal(table.values, table.variables, _silos_of(path, by, table.labels), None, about, str(path))
    rng = np.random.default_rng(seed)
    rows = len(table.values)
    if sizes is not None:
        parts = by_sizes(rows, sizes, rng)
    elif concentration is not None:
        parts = dirichlet(rows, silos or 0, concentration, rng)
    else:
        parts = equal(rows, silos or 0, rng)
    named = dict(zip(silo_names(len(parts)), parts, strict=True))
    return deal(table.values, table.variables, named, None, about | {"seed": seed}, str(path))


def deal(
    values: NDArray[np.float64],
    variables: tuple[str, ...],
    parts: dict[str, NDArray[np.intp]],
    truth: Structure | None,
    about: dict[str, Any],
    origin: str,
) -> FederatedData:
    """Give every silo its rows of `values` [n_rows, n_variables]. Raises `BadInput` if one cannot be learned from."""
    tables = {silo: values[rows] for silo, rows in parts.items()}
    for silo, table in tables.items():
        check_table(f"{origin}: silo {shown(silo)}", variables, table)
    return FederatedData(continuous(tables, variables), tables, truth, {}, about)


def _silos_of(path: Path, by: str, labels: Sequence[str]) -> dict[str, NDArray[np.intp]]:
    parts = by_column(labels)
    for silo, rows in parts.items():
        check_silo_name(f"{path}: column {shown(by)}", silo)
        if len(rows) < LEAST:
            raise BadInput(f"{path}: column {shown(by)}: only one row has the value {shown(silo)}; a silo needs two")
    return parts


def _check_silos(rows: int, silos: int) -> None:
    if silos < 1:
        raise BadInput(f"silos: {silos} is less than 1")
    if rows < LEAST * silos:
        raise BadInput(f"silos: {silos} silos of at least {LEAST} rows need {LEAST * silos} rows, the table has {rows}")
