"""Background knowledge in searches by scores (Meek 1995; as in Tetrad, Ramsey et al. 2017).

A search over orders scores the families of one DAG. So a family with an impossible parent is excluded and never
counted, and a missing required parent costs more than any fit can gain. A search over equivalence classes scores DAGs
that need not agree with the knowledge if another DAG of their class does. So such a search restricts its operators, not
the families.
"""

import numpy as np
from numpy.typing import NDArray

from ..core.knowledge import Prior
from ..core.schema import FloatArray
from ..graphs.cpdag import cpdag, member_of, pdag_with_knowledge
from ..graphs.kernels import extension
from .discrete import EXCLUDED_SCORE
from .families import Batch

MISSING_PARENT_COST = 1e12
"""the cost of a missing required parent, which exceeds any gain in fit"""


def drop_impossible(batch: Batch, prior: Prior) -> Batch:
    """`batch` with each family that has an impossible parent replaced by its child without parents."""
    if not prior.is_informative:
        return batch
    excluded = _excluded(batch, prior)
    sizes = np.where(excluded, 1, np.diff(batch.first))
    first = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    selected = np.arange(len(batch.members)) == np.repeat(batch.first[:-1], np.diff(batch.first))
    return Batch(first, batch.members[selected | np.repeat(~excluded, np.diff(batch.first))])


def apply_knowledge(scores: FloatArray, batch: Batch, prior: Prior) -> FloatArray:
    """The `scores` of the first `len(scores)` families of `batch`, adjusted for background knowledge."""
    if not prior.is_informative:
        return scores
    n_missing = prior.required.sum(axis=0)[batch.children] - _per_family(batch, prior.required)
    excluded = _excluded(batch, prior)[: len(scores)]
    return np.where(excluded, EXCLUDED_SCORE, scores - MISSING_PARENT_COST * n_missing[: len(scores)])


def consistent_member(graph: NDArray[np.bool_], prior: Prior) -> NDArray[np.bool_] | None:
    """A DAG of the class `graph` that agrees with the background knowledge, or None if there is none."""
    if not prior.is_informative:
        return member_of(graph)
    dag, complete = extension(pdag_with_knowledge(graph, prior.required, prior.possible), True)
    if not complete or (dag & ~prior.possible).any() or not np.array_equal(cpdag(dag, prior.separated), graph):
        return None
    return np.asarray(dag)


def _per_family(batch: Batch, arcs: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The number of `arcs` `[d, d]` in each family of `batch`, `[n_families]`."""
    if not len(batch):
        return np.zeros(0, np.int64)
    children = np.repeat(batch.children, np.diff(batch.first))
    return np.add.reduceat(arcs[batch.members.astype(np.int64), children].astype(np.int64), batch.first[:-1])


def _excluded(batch: Batch, prior: Prior) -> NDArray[np.bool_]:
    """Whether each family of `batch` has an impossible parent."""
    return _per_family(batch, ~(prior.possible | np.eye(len(prior.possible), dtype=np.bool_))) > 0
