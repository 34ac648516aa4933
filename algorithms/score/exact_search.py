"""The best DAG over a few variables, by dynamic programming over their subsets (Silander & Myllymäki 2006).

The best DAG over a set of variables has a sink. The sink has the best of its parent sets among the other variables, and
the rest of the DAG is the best DAG over the other variables (as in Koivisto & Sood 2004). All families of up to
`most_parents` parents are requested like the families of any search. So the exact search makes silos count no set of
more than `most_parents` + 1 variables.
"""

import numpy as np
from numpy.typing import NDArray

from ..compiled import njit
from .families import Tables, find

_MIN_GAIN = 1e-9
"""minimum gain of other parents or another sink; smaller gains are rounding errors"""


@njit(cache=True)
def request_all_families(d, most_parents, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Whether all families of `d` variables with up to `most_parents` parents are scored; unscored ones become pending.

    The families are requested set by set, the largest sets first, because the table of a set also gives the scores of
    its subsets.
    """
    all_known = True
    family = np.empty(d, np.int64)
    for size in range(min(most_parents + 1, d), 0, -1):
        for members in range(1, 1 << d):
            if _size(members) == size:
                for child in range(d):
                    if members >> child & 1:
                        all_known = (_number(child, members ^ (1 << child), d, family, tables) >= 0) and all_known
    return all_known


def best_dag(d: int, most_parents: int, tables: Tables) -> tuple[NDArray[np.bool_], float]:
    """The DAG `[d, d]` of the greatest score among those with up to `most_parents` parents each, and its score.

    The scores of all these families must be known.
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
    """The sink of the best DAG over each set of variables, `[2^d]`; the best parents, `[d, 2^d]`; and the best score.

    The parents are those of each child within each set. A set is a number with a bit for each variable. The best score
    is that of the best DAG over all variables.
    """
    scores, parents = _best_parents(d, most_parents, tables)
    total, sinks = np.full(1 << d, -np.inf), np.full(1 << d, -1, np.int64)
    total[0] = 0.0
    for members in range(1, 1 << d):
        for sink in range(d):
            if members >> sink & 1:
                others = members ^ (1 << sink)
                score = total[others] + scores[sink, others]
                if score > total[members] + _MIN_GAIN:
                    total[members], sinks[members] = score, sink
    return sinks, parents, total[-1]


@njit(cache=True)
def _best_parents(d, most_parents, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The best score of each child with parents within each set, and the set of these parents, both `[d, 2^d]`."""
    scores, parents = np.full((d, 1 << d), -np.inf), np.zeros((d, 1 << d), np.int64)
    family = np.empty(d, np.int64)
    for child in range(d):
        for candidates in range(1 << d):
            if candidates >> child & 1:
                continue
            for left_out in range(d):
                if candidates >> left_out & 1:
                    fewer = candidates ^ (1 << left_out)
                    if scores[child, fewer] > scores[child, candidates] + _MIN_GAIN:
                        scores[child, candidates], parents[child, candidates] = (
                            scores[child, fewer],
                            parents[child, fewer],
                        )
            if _size(candidates) <= most_parents:
                score = tables[3][_number(child, candidates, d, family, tables)]
                if score > scores[child, candidates] + _MIN_GAIN:
                    scores[child, candidates], parents[child, candidates] = score, candidates
    return scores, parents


@njit(cache=True)
def _number(child, parents, d, family, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The number of the family of `child` and the set `parents`, as from `find`; `family` `[d]` is scratch."""
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
