"""Families scored from count tables: the sets of variables to count for a batch, and the scores that follow."""

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..core.schema import FloatArray
from ..statistics.count_tables import PAD, offsets
from .discrete import TOO_WIDE, Criterion, score_available, score_cells, states_of
from .families import Batch
from .settings import SearchSettings


@dataclass(frozen=True)
class Sets:
    """The sets of variables whose tables hold a batch of families."""

    sets: NDArray[np.int16]
    """in lexicographic order, `[n_sets, size]`, each ascending and filled up with -1"""
    table_of: NDArray[np.int64]
    """the number of each family's set, `[n_families]`; -1 for a family that is too wide to be counted"""


def affordable(wanted: Batch, cardinalities: NDArray[np.int64], most_cells: float, cells: float) -> Batch:
    """Return the first of the families `wanted`, as many as have `cells` cells in all, leaving out what is too wide."""
    widths = _widths(wanted.first, wanted.members, cardinalities)
    widths[widths > most_cells] = 0
    n = max(1, int(np.searchsorted(np.cumsum(widths), cells, side="right")))
    return Batch(wanted.first[: n + 1], wanted.members[: wanted.first[min(n, len(wanted))]])


def too_wide(batch: Batch, cardinalities: NDArray[np.int64], most_cells: float) -> bool:
    """Say whether no family of `batch` has a table narrow enough to be counted."""
    return bool((_widths(batch.first, batch.members, cardinalities) > most_cells).all())


def sets_of(batch: Batch, cardinalities: NDArray[np.int64], most_cells: float) -> Sets:
    """Return the sets to count for `batch`: a set that is part of another one is left out."""
    widths = _widths(batch.first, batch.members, cardinalities)
    keys = [_variables(batch, m) if widths[m] <= most_cells else () for m in range(len(batch))]
    within: dict[tuple[int, ...], tuple[int, ...]] = {}
    for key in sorted(set(keys), key=len, reverse=True):
        within.setdefault(key, key)
        for left_out in range(len(key)):
            within.setdefault(key[:left_out] + key[left_out + 1 :], within[key])
    needed = sorted({within[key] for key in keys if key})
    place = {key: number for number, key in enumerate(needed)}
    sets = np.full((len(needed), max((len(key) for key in needed), default=1)), PAD, np.int16)
    for number, key in enumerate(needed):
        sets[number, : len(key)] = key
    return Sets(sets, np.array([place[within[key]] if key else PAD for key in keys], np.int64))


def score_tables(
    counts: NDArray[np.int64 | np.float64],
    batch: Batch,
    cardinalities: NDArray[np.int64],
    by: Criterion,
    settings: SearchSettings,
) -> FloatArray:
    """Return the scores of `batch` from `counts`, the tables of its sets one after another."""
    chosen = sets_of(batch, cardinalities, settings.most_cells)
    begins = offsets(chosen.sets, cardinalities)
    whole = np.rint(counts).astype(np.int64)
    return np.asarray(
        _score(whole, begins, chosen.sets, chosen.table_of, batch.first, batch.members, cardinalities, by)
    )


def _variables(batch: Batch, m: int) -> tuple[int, ...]:
    return tuple(np.sort(batch.members[batch.first[m] : batch.first[m + 1]]).tolist())


def _widths(first: NDArray[np.int64], members: NDArray[np.uint16], cardinalities: NDArray[np.int64]) -> FloatArray:
    """Return how many cells the table of each family has."""
    return np.multiply.reduceat(cardinalities[members].astype(np.float64), first[:-1])


@njit(cache=True)
def _score(counts, begins, sets, table_of, first, members, cardinalities, by):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    scores = np.full(len(table_of), TOO_WIDE)
    state, count = np.empty(0, np.int64), np.empty(0, np.int64)
    for m in range(len(table_of)):
        if table_of[m] >= 0:
            child, parents = members[first[m]], members[first[m] + 1 : first[m + 1]]
            table = counts[begins[table_of[m]] : begins[table_of[m] + 1]]
            cells = _family_cells(table, sets[table_of[m]], child, parents, cardinalities)
            q = states_of(cardinalities, parents)
            if len(cells) > len(state):
                state, count = np.empty_like(cells), np.empty_like(cells)
            if by.available > 0:
                scores[m] = score_available(cells, cardinalities[child], q, by)
            else:
                scores[m] = score_cells(cells, cardinalities[child], q, by, state, count) + by.prior[len(parents)]
    return scores


@njit(cache=True)
def _family_cells(table, variables, child, parents, cardinalities):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the counts of a family, the parents' state before the child's level, summed from a table that holds it."""
    size = 0
    while size < len(variables) and variables[size] >= 0:
        size += 1
    stride = np.zeros(size, np.int64)
    cells = np.int64(cardinalities[child])
    for at in range(len(parents) - 1, -1, -1):
        p = parents[at]
        for i in range(size):
            if variables[i] == p:
                stride[i] = cells
        cells *= cardinalities[p]
    for i in range(size):
        if variables[i] == child:
            stride[i] = 1
    result = np.zeros(cells, np.int64)
    level = np.zeros(size, np.int64)
    at = 0
    for cell in range(len(table)):
        result[at] += table[cell]
        i = size - 1
        while i >= 0:
            level[i] += 1
            at += stride[i]
            if level[i] < cardinalities[variables[i]]:
                break
            at -= stride[i] * level[i]
            level[i] = 0
            i -= 1
    return result
