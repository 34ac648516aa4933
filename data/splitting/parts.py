"""Which rows go to which silo: equal parts, given sizes, Dirichlet-skewed sizes, by a column, by skewed labels."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.errors import BadInput

from ..federated import LEAST_ROWS

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
        if size < LEAST_ROWS:
            raise BadInput(f"sizes: {size} is less than {LEAST_ROWS} rows")
    if sum(sizes) != rows:
        raise BadInput(f"sizes: {'+'.join(map(str, sizes)) or 0} = {sum(sizes)}, but the table has {rows} rows")
    return [np.sort(part) for part in np.split(rng.permutation(rows), np.cumsum(sizes)[:-1])]


def dirichlet(rows: int, silos: int, concentration: float, rng: np.random.Generator) -> Parts:
    """Shuffle `rows` rows and deal them in parts whose shares are drawn from Dirichlet(concentration, ...).

    A small concentration gives one silo nearly all, a large one nearly equal parts; every silo gets two rows before the
    rest is shared out. Raises `BadInput` for a concentration that is not positive, or too few rows.
    """
    _check_concentration(concentration)
    _check_silos(rows, silos)
    shares = rng.dirichlet(np.full(silos, concentration)) * (rows - LEAST_ROWS * silos)
    sizes = np.floor(shares).astype(int)
    largest_rests = np.argsort(sizes - shares, kind="stable")[: rows - LEAST_ROWS * silos - sizes.sum()]
    sizes[largest_rests] += 1
    return by_sizes(rows, [int(size) + LEAST_ROWS for size in sizes], rng)


def by_column(labels: Sequence[str]) -> dict[str, NDArray[np.intp]]:
    """Return, for every value of a column, sorted, the numbers of its rows in their order; nothing is shuffled."""
    codes, owner = np.unique(np.asarray(labels, dtype=object).astype(str), return_inverse=True)
    return {str(code): np.flatnonzero(owner == number) for number, code in enumerate(codes)}


def label_skew(codes: NDArray[np.int64], silos: int, concentration: float, rng: np.random.Generator) -> Parts:
    """Deal the rows so that every level of one column, `codes` [n_rows], is spread over the silos in a way of its own.

    The shares of each level are drawn from Dirichlet(concentration, ...) (Hsu, Qi, Brown 2019); every silo gets two
    rows, whatever their levels, before the rest is dealt. A small concentration gives each level to a few silos.
    Raises `BadInput` for a concentration that is not positive, or too few rows.
    """
    _check_concentration(concentration)
    _check_silos(len(codes), silos)
    shuffled = rng.permutation(len(codes))
    owner = np.empty(len(codes), dtype=np.intp)
    owner[shuffled[: LEAST_ROWS * silos]] = np.tile(np.arange(silos), LEAST_ROWS)
    rest = shuffled[LEAST_ROWS * silos :]
    for level in np.unique(codes):
        rows = rest[codes[rest] == level]
        ends = np.cumsum(rng.dirichlet(np.full(silos, concentration)))[:-1] * len(rows)
        owner[rows] = np.searchsorted(np.rint(ends), np.arange(len(rows)), side="right")
    return [np.flatnonzero(owner == silo) for silo in range(silos)]


def by_hidden_child(codes: NDArray[np.int64], silos: int, concentration: float, rng: np.random.Generator) -> Parts:
    """Deal the rows by a hidden child of some columns, whose `codes` are [n_rows, n_columns].

    P(silo | configuration of the columns) is drawn from Dirichlet(concentration, ...) for every configuration that
    occurs: the surrogate variable of Wang, Ma & Wang 2023, Def. 1. Raises `BadInput` for a concentration that is not
    positive, or a silo that gets fewer than two rows.
    """
    _check_concentration(concentration)
    _check_silos(len(codes), silos)
    configurations, of_row = np.unique(codes, axis=0, return_inverse=True)
    ends = np.cumsum(rng.dirichlet(np.full(silos, concentration), len(configurations)), axis=1)[:, :-1]
    owner = (rng.random(len(codes))[:, None] >= ends[of_row.reshape(-1)]).sum(axis=1)
    parts = [np.flatnonzero(owner == silo) for silo in range(silos)]
    least = min(map(len, parts))
    if least < LEAST_ROWS:
        raise BadInput(
            f"silos: one of {silos} would get {least} of {len(codes)} rows, a silo needs {LEAST_ROWS}: give fewer "
            "silos or a larger concentration"
        )
    return parts


def _check_silos(rows: int, silos: int) -> None:
    if silos < 1:
        raise BadInput(f"silos: {silos} is less than 1")
    if rows < LEAST_ROWS * silos:
        needed = LEAST_ROWS * silos
        raise BadInput(f"silos: {silos} silos of at least {LEAST_ROWS} rows need {needed} rows, the table has {rows}")


def _check_concentration(concentration: float) -> None:
    if not 0 < concentration < np.inf:
        raise BadInput(f"concentration: {concentration} is not a positive number")
