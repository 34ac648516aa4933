"""The highest score of any DAG over a few variables, by dynamic programming over subsets.

Silander & Myllymäki 2006: the best network over a set of variables has a sink. Without the sink, it is the best network
over the other variables, and the sink has its best parent set among them.
"""

from itertools import combinations

import numpy as np

from fedbnsl.algorithms.score.families import Batch
from fedbnsl.algorithms.score.ges import Scores


def optimum(d: int, scores: Scores) -> float:
    """The greatest total of `scores` over all DAGs on `d` variables: all d·2^(d − 1) families are scored."""
    best_parents = [_best_parents(v, d, scores) for v in range(d)]
    best = np.full(1 << d, -np.inf)
    best[0] = 0.0
    for members in range(1, 1 << d):
        for sink in range(d):
            others = members & ~(1 << sink)
            if others != members:
                best[members] = max(best[members], best[others] + best_parents[sink][others])
    return float(best[-1])


def total(dag: np.ndarray, scores: Scores) -> float:
    """The score of `dag` `[d, d]`."""
    return float(scores(_batch([(v, *np.flatnonzero(dag[:, v]).tolist()) for v in range(len(dag))])).sum())


def _best_parents(v: int, d: int, scores: Scores) -> np.ndarray:
    """Return, for each set of variables as the bits of an index, the best score of v with parents among them."""
    others = [w for w in range(d) if w != v]
    sets = [parents for size in range(d) for parents in combinations(others, size)]
    best = np.full(1 << d, -np.inf)
    best[[sum(1 << p for p in parents) for parents in sets]] = scores(_batch([(v, *parents) for parents in sets]))
    for w in range(d):
        without = np.array([members for members in range(1 << d) if not members >> w & 1])
        best[without | 1 << w] = np.maximum(best[without | 1 << w], best[without])
    return best


def _batch(families: list[tuple[int, ...]]) -> Batch:
    members = np.array([v for family in families for v in family], np.uint16)
    return Batch(np.cumsum([0, *map(len, families)]), members)
