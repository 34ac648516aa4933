"""BDeu and BIC of discrete families, from rows and from summed count tables.

- `score_rows`, `score_cells`: the scores are decomposable: that of a family (a child and its parents) needs only the
  counts of this family. BDeu (Heckerman, Geiger & Chickering 1995) spreads the equivalent sample size evenly over the q
  joint states of the parents and the r levels of the child. A state that does not occur contributes nothing. BDeu is
  combined with the structure prior of the published FedGES program: each of the d − 1 other variables is a parent with
  probability p.
- `sets_of`, `score_tables`: the sets of variables to count for a batch of families, and the scores from their tables.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compiled import njit
from ..core.schema import FloatArray
from ..statistics.count_tables import MAX_DENSE_CELLS, PAD, Ints, count_cells, count_occurring, offsets
from .families import Batch
from .settings import ScoreSettings, SearchSettings

EXCLUDED_SCORE = -1e100
"""the score of an excluded family"""


class Criterion(NamedTuple):
    """The parameters with which compiled code scores a family from its counts."""

    bdeu: bool
    """whether the criterion is BDeu; otherwise it is BIC"""
    weight: float
    """BDeu's equivalent sample size, or BIC's ½ ln n"""
    prior: FloatArray
    """ln of the structure prior by the number of parents, `[d]`"""
    available: float = 0.0
    """number of all rows, if the counts of a family omit rows with empty cells; 0 if the counts are of all rows"""


def create_criterion(
    settings: ScoreSettings, d: int, n: int, effective_rows: int = 0, *, filled: bool = True
) -> Criterion:
    """The criterion for `n` rows of `d` variables.

    `effective_rows` is 0 if all rows are complete. If rows have empty cells, it is the number of complete rows that
    have as much information, because imputed values are not observed. Then the criterion is BIC with a penalty of
    n·ln(effective_rows)/(2 effective_rows) per parameter. If the empty cells are `filled`, the fit is computed from the
    counts of all n rows. If not, the fit is n times the mean mutual information of child and parents over the rows with
    no empty cell in the family (Bodewes, Scutari 2021: node-average likelihood).

    BDeu has a structure prior: k ln p + (d − 1 − k) ln(1 − p) for k parents, with p = expected_parents / (d − 1), at
    most ½. So each parent costs ln(1/p − 1). With expected_parents = 0, and for BIC, there is no such prior.
    """
    if effective_rows:
        price = 0.5 * n * math.log(effective_rows) / effective_rows
        return Criterion(False, price, np.zeros(d), 0.0 if filled else float(n))
    if settings.score == "bic":
        return Criterion(False, 0.5 * math.log(n), np.zeros(d))
    p = min(settings.expected_parents / max(d - 1, 1), 0.5)
    k = np.arange(d)
    return Criterion(True, settings.ess, k * math.log(p) + (d - 1 - k) * math.log1p(-p) if p > 0 else np.zeros(d))


def score_rows(
    columns: NDArray[np.int16],
    arities: Ints,
    batch: Batch,
    settings: ScoreSettings,
    most_cells: float = math.inf,
) -> FloatArray:
    """The score of every family of `batch` on the rows of `columns` `[n_variables, n_rows]`.

    A family whose table has more than `most_cells` cells gets `EXCLUDED_SCORE`.
    """
    criterion = create_criterion(settings, len(arities), columns.shape[1])
    scores = np.full(len(batch), EXCLUDED_SCORE)
    narrow, widths = _score_narrow(
        columns, arities, batch.first, batch.members, criterion, min(most_cells, MAX_DENSE_CELLS), scores
    )
    for m in np.flatnonzero(~narrow & (widths <= most_cells)).tolist():
        child, parents = batch.family(m)
        state, count = count_occurring(columns, arities, parents, child)
        r = arities[child]
        scores[m] = score_occurring(state, count, r, widths[m] / r, criterion) + criterion.prior[len(parents)]
    return scores


@njit(cache=True)
def _score_narrow(columns, arities, first, members, criterion, max_cells, scores):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write the scores of families of at most `max_cells` cells to `scores`.

    Returns the mask of these families, and the number of cells of each family.
    """
    narrow, widths = np.zeros(len(scores), np.bool_), np.empty(len(scores))
    codes = np.empty(columns.shape[1], np.int32)
    cells, state, count = (
        np.empty(MAX_DENSE_CELLS, np.int64),
        np.empty(MAX_DENSE_CELLS, np.int64),
        np.empty(MAX_DENSE_CELLS, np.int64),
    )
    for m in range(len(scores)):
        child, parents = members[first[m]], members[first[m] + 1 : first[m + 1]]
        r, q = arities[child], states_of(arities, parents)
        widths[m] = q * r
        if widths[m] <= max_cells:
            narrow[m] = True
            table = cells[: int(q * r)]
            count_cells(columns, arities, parents, child, table, codes)
            scores[m] = score_cells(table, r, q, criterion, state, count) + criterion.prior[len(parents)]
    return narrow, widths


@njit(cache=True)
def states_of(arities, variables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """The number of joint states of `variables`, as a float, because it may exceed 64-bit integers."""
    states = 1.0
    for v in variables:
        states *= arities[v]
    return states


@njit(cache=True)
def score_cells(cells, r, q, criterion, state, count):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """The score, without the structure prior, of a child with r levels whose parents have q joint states.

    `cells` has all q·r counts; the child's level runs fastest. `state` and `count` are scratch arrays, at least as long
    as `cells`.
    """
    n, cell = 0, 0
    for one in range(len(cells) // r):
        for _ in range(r):
            state[n], count[n] = one, cells[cell]
            n += cells[cell] > 0
            cell += 1
    return score_occurring(state[:n], count[:n], r, q, criterion)


@njit(cache=True)
def score_occurring(state, count, r, q, criterion):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """The score, without the structure prior, from the positive counts only.

    `state` is the joint state of the parents for each count, in ascending order.
    """
    total = 0.0
    a_state, a_cell = criterion.weight / q, criterion.weight / (q * r)
    below_state, below_cell = (math.lgamma(a_state), math.lgamma(a_cell)) if criterion.bdeu else (0.0, 0.0)
    at = 0
    while at < len(state):
        end, n = at, 0
        while end < len(state) and state[end] == state[at]:
            n += count[end]
            end += 1
        if criterion.bdeu:
            total -= _rising(a_state, below_state, n)
            for cell in range(at, end):
                total += _rising(a_cell, below_cell, count[cell])
        else:
            for cell in range(at, end):
                total += count[cell] * math.log(count[cell] / n)
        at = end
    return total if criterion.bdeu else total - criterion.weight * q * (r - 1)


@njit(cache=True)
def score_available(cells, r, q, criterion):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """The score from the q·r counts of the rows without empty cells in the family.

    It is the number of all rows, `criterion.available`, times the mean mutual information of child and parents, minus
    the penalty of BIC.
    """
    parents, child, n = np.zeros(len(cells) // r), np.zeros(r), 0.0
    for cell in range(len(cells)):
        parents[cell // r] += cells[cell]
        child[cell % r] += cells[cell]
        n += cells[cell]
    information = 0.0
    for cell in range(len(cells)):
        if cells[cell] > 0:
            information += cells[cell] * math.log(cells[cell] * n / (parents[cell // r] * child[cell % r]))
    mean = information / n if n > 0 else 0.0
    return criterion.available * mean - criterion.weight * (q - 1) * (r - 1)


@njit(cache=True)
def _rising(a, below, n):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The value of ln Γ(a + n) − `below` for n ≥ 1, with `below` = ln Γ(a); for small n from a(a + 1)…(a + n − 1)."""
    if n > 12:
        return math.lgamma(a + n) - below
    product = a
    for i in range(1, n):
        product *= a + i
    return math.log(product)


@dataclass(frozen=True)
class Sets:
    """The sets of variables whose tables contain a batch of families."""

    sets: NDArray[np.int16]
    """the sets in lexicographic order, `[n_sets, size]`; each set is ascending and padded with -1"""
    table_of: NDArray[np.int64]
    """the number of the set that contains each family, `[n_families]`; -1 if the family's table has too many cells"""


def families_within_budget(pending: Batch, cardinalities: NDArray[np.int64], most_cells: float, cells: float) -> Batch:
    """The first `pending` families, at least one, with at most `cells` cells in total.

    Families of more than `most_cells` cells add nothing to this total, because they are not counted.
    """
    widths = pending.cells(cardinalities)
    widths[widths > most_cells] = 0
    return pending.head(max(1, int(np.searchsorted(np.cumsum(widths), cells, side="right"))))


def all_too_wide(batch: Batch, cardinalities: NDArray[np.int64], most_cells: float) -> bool:
    """Whether all families of `batch` have more than `most_cells` cells."""
    return bool((batch.cells(cardinalities) > most_cells).all())


def sets_of(batch: Batch, cardinalities: NDArray[np.int64], most_cells: float) -> Sets:
    """The sets to count for the families of `batch` that have at most `most_cells` cells.

    A set is left out if another set of the batch has the same variables and one more, because the table of the larger
    set contains the smaller table.
    """
    widths = batch.cells(cardinalities)
    keys = [_variables(batch, m) if widths[m] <= most_cells else () for m in range(len(batch))]
    superset: dict[tuple[int, ...], tuple[int, ...]] = {}
    for key in sorted(set(keys), key=len, reverse=True):
        superset.setdefault(key, key)
        for left_out in range(len(key)):
            superset.setdefault(key[:left_out] + key[left_out + 1 :], superset[key])
    needed = sorted({superset[key] for key in keys if key})
    position = {key: number for number, key in enumerate(needed)}
    sets = np.full((len(needed), max((len(key) for key in needed), default=1)), PAD, np.int16)
    for number, key in enumerate(needed):
        sets[number, : len(key)] = key
    return Sets(sets, np.array([position[superset[key]] if key else PAD for key in keys], np.int64))


def score_tables(
    counts: NDArray[np.int64 | np.float64],
    batch: Batch,
    cardinalities: NDArray[np.int64],
    criterion: Criterion,
    settings: SearchSettings,
) -> FloatArray:
    """The scores of `batch` from `counts`, the concatenated tables of its sets."""
    chosen = sets_of(batch, cardinalities, settings.most_cells)
    begins = offsets(chosen.sets, cardinalities)
    whole = np.rint(counts).astype(np.int64)
    return np.asarray(
        _score(whole, begins, chosen.sets, chosen.table_of, batch.first, batch.members, cardinalities, criterion)
    )


def _variables(batch: Batch, m: int) -> tuple[int, ...]:
    return tuple(np.sort(batch.members[batch.first[m] : batch.first[m + 1]]).tolist())


@njit(cache=True)
def _score(counts, begins, sets, table_of, first, members, cardinalities, criterion):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    scores = np.full(len(table_of), EXCLUDED_SCORE)
    state, count = np.empty(0, np.int64), np.empty(0, np.int64)
    for m in range(len(table_of)):
        if table_of[m] >= 0:
            child, parents = members[first[m]], members[first[m] + 1 : first[m + 1]]
            table = counts[begins[table_of[m]] : begins[table_of[m] + 1]]
            cells = _family_cells(table, sets[table_of[m]], child, parents, cardinalities)
            q = states_of(cardinalities, parents)
            if len(cells) > len(state):
                state, count = np.empty_like(cells), np.empty_like(cells)
            if criterion.available > 0:
                scores[m] = score_available(cells, cardinalities[child], q, criterion)
            else:
                scores[m] = (
                    score_cells(cells, cardinalities[child], q, criterion, state, count) + criterion.prior[len(parents)]
                )
    return scores


@njit(cache=True)
def _family_cells(table, variables, child, parents, cardinalities):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The counts of a family, summed from the `table` of a set that contains the family.

    In the result, the child's level runs fastest. `variables` is the set in ascending order, padded with -1.
    """
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
