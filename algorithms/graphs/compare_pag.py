"""How far a learned PAG is from the truth: SHD over end marks, strict and lenient, and rates made of it (003 §7)."""

import numpy as np
from numpy.typing import NDArray

from ..errors import BadInput
from .cpdag import extend
from .pag import pag_of
from .pag_rules import NO_EDGE, Marks
from .structure import Structure

Metrics = dict[str, float | None]

NOT_DEFINED = ("shd_cpdag", "smhd", "v_structures", "v_structures_true", "v_structures_correct", "auroc", "aupr")


def compare_pag(learned: Structure, truth: Structure) -> Metrics:
    """Return how `learned` differs from `truth`, two PAGs of the same variables in the same order, by the usual names.

    A DAG or a CPDAG stands for the PAG of its class. Of the pairs joined in either, `correct` are those with the same
    two end marks, `extra` and `missing` those joined in one only, `reversed` those whose two marks are exchanged, and
    `half_directed` those that differ in another way, such as o→ against →. `shd` counts all that are not correct;
    `shd_lenient` lets the half directed pass; `shd_skeleton` counts extra and missing. Rates as for DAGs. What is not
    defined for PAGs is None. Raises BadInput for a DAG or CPDAG that stands for no class of DAGs.
    """
    one, other = _as_pag(learned), _as_pag(truth)
    joined, truly_joined = one != NO_EDGE, other != NO_EDGE
    same = (one == other) & (one.T == other.T)
    both = joined & truly_joined
    turned = both & ~same & (one == other.T) & (other == one.T)
    edges, true_edges = _n_pairs(joined), _n_pairs(truly_joined)
    correct, reversed_ = _n_pairs(both & same), _n_pairs(turned)
    extra, missing = _n_pairs(joined & ~truly_joined), _n_pairs(truly_joined & ~joined)
    half_directed = _n_pairs(both & ~same & ~turned)
    return {
        "shd": extra + missing + reversed_ + half_directed,
        "shd_lenient": extra + missing + reversed_,
        "shd_skeleton": extra + missing,
        "edges": edges,
        "true_edges": true_edges,
        "correct": correct,
        "reversed": reversed_,
        "extra": extra,
        "missing": missing,
        "half_directed": half_directed,
        "correct_skeleton": _n_pairs(both),
        "tpr": correct / true_edges if true_edges else None,
        "fdr": (reversed_ + extra) / edges if edges else 0.0,
        "precision": correct / edges if edges else None,
        "f1": 2 * correct / (edges + true_edges) if edges + true_edges else None,
        **dict.fromkeys(NOT_DEFINED),
    }


def _as_pag(structure: Structure) -> Marks:
    if structure.kind == "pag":
        return structure.marks
    dag = structure.adjacency if structure.kind == "dag" else extend(structure.adjacency)
    if dag is None or not structure.acyclic:
        raise BadInput(f"this {structure.kind} belongs to no class of DAGs, so it has no PAG to compare")
    return pag_of(dag)


def _n_pairs(symmetric: NDArray[np.bool_]) -> int:
    return int(np.triu(symmetric, 1).sum())
