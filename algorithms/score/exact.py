"""The best DAG over a few variables, by dynamic programming over their subsets (Silander & Myllymäki 2006).

The best DAG over a set of variables has a sink: without it, it is the best DAG over the others, and the sink has the
best of its parent sets among them (so, too, Koivisto & Sood 2004). All families of up to `most_parents` parents are
asked for like those of any search, so a silo counts no set of more than `most_parents` + 1 variables for it.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .families import Tables, find

_LEAST = 1e-9
"""a gain of no more is rounding: the parents, or the sink, that came first are then kept"""


@njit(cache=True)
def ask_all(d, most_parents, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Say whether all families of `d` variables with up to `most_parents` parents are scored; else they are now wanted.

    They are asked for set by set, the largest sets first: the table of a set serves its families and its subsets.
    """
    known = True
    family = np.empty(d, np.int64)
    for size in range(min(most_parents + 1, d), 0, -1):
        for members in range(1, 1 << d):
            if _size(members) == size:
                for child in range(d):
                    if members >> child & 1:
                        known = (_number(child, members ^ (1 << child), d, family, tables) >= 0) and known
    return known


def best_dag(d: int, most_parents: int, tables: Tables) -> tuple[NDArray[np.bool_], float]:
    """Return the DAG `[d, d]` of the greatest score among those with up to `most_parents` parents each, and its score.

    The scores of all their families must be known.
    """
    sinks, parents, total = _best_sinks(d, most_parents, tables)
    dag, members = np.zeros((d, d), np.bool_), (1 << d) - 1
    while members:
        sink = int(sinks[members])
        members ^= 1 << sink
        dag[:, sink] = parents[sink, members] >> np.arange(d) & 1
    return dag, float(total)


@njit(cache=True)
def _best_sinks(d, most_parents, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the sink of the best DAG over each set of variables, the best parents by child and set, the best score.

    A set is a number whose bits are its members.
    """
    scores, parents = _best_parents(d, most_parents, tables)
    total, sinks = np.full(1 << d, -np.inf), np.full(1 << d, -1, np.int64)
    total[0] = 0.0
    for members in range(1, 1 << d):
        for sink in range(d):
            if members >> sink & 1:
                others = members ^ (1 << sink)
                score = total[others] + scores[sink, others]
                if score > total[members] + _LEAST:
                    total[members], sinks[members] = score, sink
    return sinks, parents, total[-1]


@njit(cache=True)
def _best_parents(d, most_parents, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the best score of each child with parents within each set, and these parents, both `[d, 2^d]`."""
    scores, parents = np.full((d, 1 << d), -np.inf), np.zeros((d, 1 << d), np.int64)
    family = np.empty(d, np.int64)
    for child in range(d):
        for among in range(1 << d):
            if among >> child & 1:
                continue
            for left_out in range(d):
                if among >> left_out & 1:
                    fewer = among ^ (1 << left_out)
                    if scores[child, fewer] > scores[child, among] + _LEAST:
                        scores[child, among], parents[child, among] = scores[child, fewer], parents[child, fewer]
            if _size(among) <= most_parents:
                score = tables[3][_number(child, among, d, family, tables)]
                if score > scores[child, among] + _LEAST:
                    scores[child, among], parents[child, among] = score, among
    return scores, parents


@njit(cache=True)
def _number(child, parents, d, family, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the number of a family as `find` does; `family` `[d]` is scratch."""
    family[0] = child
    size = np.int64(1)
    for v in range(d):
        if parents >> v & 1:
            family[size] = v
            size += 1
    return find(family, size, tables)


@njit(cache=True)
def _size(members):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    size = 0
    while members:
        members &= members - 1
        size += 1
    return size
