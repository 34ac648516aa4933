"""BOSS from several random orders, of which the best end is kept: a single start can stay in a local optimum.

The starts follow one another and share all family scores and grow-shrink trees, so a later start costs less than the
first one. Those not yet begun are left out once `AGREEING` of them have ended in the best score found.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .boss import Boss, advance_boss, boss_from, graph_of
from .families import Families

AGREEING = 3
"""starts that end in the same greatest score before the others are left out"""
_SAME = 1e-10
"""scores that differ by less than this share are equal: sums over silos are rounded differently"""


@dataclass(frozen=True)
class Starts:
    """The state of a search from several orders."""

    orders: NDArray[np.int64]
    """the orders to start from, `[n_starts, d]`"""
    begun: int
    """how many of them have been begun; `now` is the search from the last of these"""
    now: Boss
    best: NDArray[np.int64]
    """the order of the greatest score found so far"""
    total: float
    """its score"""
    agreeing: int
    """how many starts have ended in that score"""
    done: bool = False


def starts_from(d: int, starts: int, rng: np.random.Generator) -> Starts:
    """Return the beginning of a search from `starts` random orders of `d` variables."""
    orders = np.array([rng.permutation(d) for _ in range(starts)])
    return Starts(orders, 1, boss_from(orders[0]), orders[0], -np.inf, 0)


def advance_starts(starts: Starts, families: Families, ahead: int = 0) -> Starts:
    """Advance the searches as far as the known scores allow, as `advance_boss` does."""
    while not starts.done:
        now = advance_boss(starts.now, families, ahead)
        starts = replace(starts, now=now)
        if not now.done:
            return starts
        starts = _ended(starts)
    return starts


def copied(starts: Starts) -> Starts:
    """Return the same state with grow-shrink trees in arrays of their own, for `advance_starts` to write to."""
    return replace(starts, now=replace(starts.now, trees=starts.now.trees.copy()))


def best_graph(starts: Starts, families: Families) -> NDArray[np.bool_]:
    """Return the CPDAG of the best order found; the search must be done."""
    return graph_of(replace(starts.now, order=starts.best), families)


def _ended(starts: Starts) -> Starts:
    """Return the search with the end of the present start compared with the best one, and the next start begun."""
    now, same = starts.now, _SAME * abs(starts.now.total)
    if now.total > starts.total + same:
        starts = replace(starts, best=now.order, total=now.total, agreeing=1)
    elif now.total >= starts.total - same:
        starts = replace(starts, agreeing=starts.agreeing + 1)
    if starts.agreeing == AGREEING or starts.begun == len(starts.orders):
        return replace(starts, done=True)
    return replace(starts, begun=starts.begun + 1, now=boss_from(starts.orders[starts.begun], now.trees))
