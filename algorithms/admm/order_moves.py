"""Moves in a settled order: a local search over orders that needs only sums of variances from the silos.

A settled order may have an edge the wrong way round, which no small step undoes. NOTEARS' own loss detects it: with
each variable regressed on all before it, the loss of an order is ½Σ_j var(x_j | those before), which for equal error
variances is least at an order of the truth. For every learned edge the server proposes the two moves that would turn
it, one variable to the other's place; each silo answers with the change of its sum of conditional variances. Moves that
do not overlap add up, and the best are taken.

A move changes only the variables between its two places. With L the Cholesky factor of S in the current order, their
covariance given all before is the block of L times its transpose: a move of length k costs O(k³), not O(d³).
"""

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray
from .messages import Moves


def proposals(place: NDArray[np.int64], edges: NDArray[np.bool_]) -> Moves:
    """Return the moves that would turn each of `edges` `[d, d]`: (from, to) places in the order, `[n_moves, 2]`.

    For i → j, i goes behind j, or j before i.
    """
    sources, targets = (place[nodes] for nodes in np.nonzero(edges))
    moves = np.concatenate([np.stack([sources, targets], axis=1), np.stack([targets, sources], axis=1)])
    return np.asarray(np.unique(moves, axis=0), dtype=np.int32)


def agreeing(moves: Moves, place: NDArray[np.int64], precedes: NDArray[np.bool_]) -> Moves:
    """Return those of `moves` that take no variable past one that must stay before it, or behind it."""
    order = np.argsort(place)
    in_order = precedes[np.ix_(order, order)]
    kept = [
        not (in_order[start, start : end + 1].any() if start < end else in_order[end : start + 1, start].any())
        for start, end in moves.tolist()
    ]
    return np.asarray(moves[np.array(kept, bool)])


def variance_changes(S: FloatArray, place: NDArray[np.int64], moves: Moves) -> FloatArray:
    """Return, per move, the change of Σ_j var(x_j | those before), `[n_moves]`, for second moments `S` `[d, d]`."""
    order = np.argsort(place)
    L = np.linalg.cholesky(S[np.ix_(order, order)])
    changes = np.empty(len(moves))
    for k, (start, end) in enumerate(moves):
        first, last = min(start, end), max(start, end)
        block = L[first : last + 1, first : last + 1]
        within = _moved(last - first + 1, start - first, end - first)
        mixed = block[within]
        after = np.linalg.cholesky(mixed @ mixed.T)
        changes[k] = (np.diag(after) ** 2).sum() - (np.diag(block) ** 2).sum()
    return changes


def turned(place: NDArray[np.int64], moves: Moves, changes: FloatArray, least: float) -> NDArray[np.int64]:
    """Return the places after the moves whose change is below −`least`, best first, skipping overlapping ones."""
    order = np.argsort(place)
    free = np.ones(len(order), dtype=bool)
    for k in np.argsort(changes, kind="stable"):
        start, end = (int(at) for at in moves[k])
        span = slice(min(start, end), max(start, end) + 1)
        if changes[k] < -least and free[span].all():
            free[span] = False
            order[span] = order[span][_moved(span.stop - span.start, start - span.start, end - span.start)]
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return places


def _moved(length: int, start: int, end: int) -> NDArray[np.intp]:
    """Return 0..length-1 with the element at `start` taken out and put in at `end`."""
    others = np.delete(np.arange(length), start)
    return np.insert(others, end, start)
