"""Background knowledge in score-based searches (Meek 1995; as Tetrad's, Ramsey et al. 2017).

A search over orders scores families, whose parents are those of one DAG: a family with an impossible parent is never
considered, and nobody is asked about it; one that lacks required parents costs more than any fit can gain. A search
over classes scores members of a class, which need not agree with what is known as long as some member does: so there
the operators are restricted, and no family is.
"""

import numpy as np
from numpy.typing import NDArray

from ..core.knowledge import Prior
from ..core.schema import FloatArray
from ..graphs.imposed import within_knowledge
from .discrete import TOO_WIDE
from .equivalence import class_of, extension, member_of
from .families import Batch

MISSING = 1e12
"""what a required parent costs that a family lacks: more than any fit can gain"""


def considered(batch: Batch, prior: Prior) -> Batch:
    """Return `batch` with the child alone in place of each family that has an impossible parent."""
    if not prior.anything:
        return batch
    excluded = _excluded(batch, prior)
    sizes = np.where(excluded, 1, np.diff(batch.first))
    first = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    kept = np.arange(len(batch.members)) == np.repeat(batch.first[:-1], np.diff(batch.first))
    return Batch(first, batch.members[kept | np.repeat(~excluded, np.diff(batch.first))])


def priced(scores: FloatArray, batch: Batch, prior: Prior) -> FloatArray:
    """Return the `scores` of `batch`, or of the first of it, as what is known beforehand changes them."""
    if not prior.anything:
        return scores
    lacking = prior.required.sum(axis=0)[_children(batch)] - _per_family(batch, prior.required)
    excluded = _excluded(batch, prior)[: len(scores)]
    return np.where(excluded, TOO_WIDE, scores - MISSING * lacking[: len(scores)])


def agreeing_member(cpdag: NDArray[np.bool_], prior: Prior) -> NDArray[np.bool_] | None:
    """Return a DAG of the class `cpdag` that agrees with what is known, or None if there is none."""
    if not prior.anything:
        return member_of(cpdag)
    dag, complete = extension(within_knowledge(cpdag, prior.required, prior.possible))
    if not complete or (dag & ~prior.possible).any() or not np.array_equal(class_of(dag), cpdag):
        return None
    return np.asarray(dag)


def _children(batch: Batch) -> NDArray[np.int64]:
    return batch.members[batch.first[:-1]].astype(np.int64)


def _per_family(batch: Batch, arcs: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return how many of `arcs` `[d, d]` each family of `batch` has, `[n_families]`."""
    if not len(batch):
        return np.zeros(0, np.int64)
    children = np.repeat(_children(batch), np.diff(batch.first))
    return np.add.reduceat(arcs[batch.members.astype(np.int64), children].astype(np.int64), batch.first[:-1])


def _excluded(batch: Batch, prior: Prior) -> NDArray[np.bool_]:
    """Return which families of `batch` have an impossible parent; a child is none of its own."""
    return _per_family(batch, ~(prior.possible | np.eye(len(prior.possible), dtype=np.bool_))) > 0
