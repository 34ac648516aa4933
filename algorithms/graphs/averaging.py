"""The averaged network of many structures: the edges that are strong enough, the way most structures have them.

Source: Scutari, Nagarajan 2013, "Identifying significant edges in graphical models of molecular networks";
`inclusion.threshold` and `averaged.network` of R's bnlearn.
"""

import numpy as np
from numpy.typing import NDArray

from .dag import reachable
from .strengths import Strengths
from .structure import GraphKind, Structure


def shares(strengths: Strengths) -> NDArray[np.float64]:
    """Return the strengths of all edges that there might be: of every pair of variables, and at every lag."""
    pairs = strengths.strength[np.triu_indices(len(strengths.variables), 1)]
    return np.concatenate([pairs, strengths.lagged.ravel()])


def inclusion_threshold(strengths: NDArray[np.float64]) -> float:
    """Return the strength that an edge must exceed to be significant, given those of all possible edges `[n]`.

    If it were certain of each edge whether it is there, all strengths were 0 or 1, and their empirical distribution
    function F a constant t between 0 and 1: the share of edges that are not there. The threshold is F⁻¹(t) for that t
    whose distance ∫|F(x) − t|dx over [0, 1] is least (Scutari & Nagarajan 2013, §3.2). As F does not fall, the median
    of its values is t = F(½), and the threshold the greatest strength that is not above ½. So the significant edges
    are those that more than half of the structures have. 0 if there is no such strength.
    """
    at_most_half = strengths[strengths <= 0.5]
    return float(at_most_half.max(initial=0.0))


def average(strengths: Strengths) -> Structure:
    """Return the averaged network: of the significant edges the strongest first, each unless it closes a cycle.

    An edge points the way it has in more than half of the structures that have it; without such a majority it is not
    directed. So what most CPDAGs leave open stays open, where bnlearn directs it by any chance majority among the
    others; of DAGs both give the same. If all structures are DAGs and no edge has both ways equally often, the network
    is a DAG, else a CPDAG in form: it need not be the class of a DAG. Its weights are 1.
    """
    threshold = inclusion_threshold(shares(strengths))
    found = np.zeros(strengths.arrows.shape, np.bool_)
    arrows = np.zeros_like(found)
    for i, j in _strongest_first(strengths, threshold):
        if not 2 * strengths.arrows[i, j] > strengths.joined[i, j]:
            found[i, j] = found[j, i] = True
        elif not reachable(arrows, (j,))[i]:
            found[i, j] = arrows[i, j] = True
    kind: GraphKind = "cpdag" if not strengths.dags or (found & found.T).any() else "dag"
    lagged = (strengths.lagged > threshold).astype(np.float64) if len(strengths.at_lags) else None
    return Structure(strengths.variables, found.astype(np.float64), kind, lagged=lagged)


def _strongest_first(strengths: Strengths, threshold: float) -> list[tuple[int, int]]:
    """Return the significant pairs, each the way most structures have it: by strength, then by direction."""
    strength, direction = strengths.strength, strengths.direction
    pairs = [(int(i), int(j)) for i, j in np.argwhere(np.triu(strength) > threshold)]
    turned = [(i, j) if direction[i, j] >= direction[j, i] else (j, i) for i, j in pairs]
    return sorted(turned, key=lambda pair: (-strength[pair], -direction[pair], pair))
