"""How far a learned structure is from the truth: SHD in its variants, rates, v-structures, AUROC and AUPR.

Sources: SHD and its reversals, Tsamardinos, Brown & Aliferis 2006 (MMHC); TPR and FDR, Zheng et al. 2018 (NOTEARS), as
used in 000 §6, 001 §6 and 002 §7; the lenient SHD, 003 §7; SMHD, 004 §4.2.
"""

import numpy as np
from numpy.typing import NDArray

from ..errors import BadInput
from .compare_pag import Metrics, compare_pag
from .cpdag import cpdag
from .ranking import auroc, average_precision
from .skeleton import directed_part, moral_graph, skeleton, v_structures
from .structure import Structure

NO_EDGE, TAIL, ARROW = 0, 1, 2


def compare(learned: Structure, truth: Structure, *, allow_cyclic_truth: bool = False) -> Metrics:
    """Return how `learned` differs from `truth`: flat, None where a figure is not defined. Variables go by name.

    If one of the two is a CPDAG and the other an acyclic DAG, the DAG is first replaced by its CPDAG: `shd` and all
    counts are then between CPDAGs, strictly, and `shd` equals `shd_cpdag`. A cyclic graph has no CPDAG and stays as it
    is. A pair of variables joined in both directions is one undirected edge in a CPDAG, two edges (a cycle) in a "dag",
    though its v-structures and moral graph take it as undirected there, too.

    - `shd`: pairs of variables that are joined differently. A reversed edge counts once; so does, in a CPDAG, a
      directed edge that should be undirected. `shd_cpdag`: the same between the CPDAGs; None if a "dag" is cyclic.
      `shd_skeleton`: pairs joined in only one of the two. `shd_lenient`: as `shd`, but directed against undirected
      costs nothing. `smhd`: pairs joined in only one of the two moral graphs.
    - `edges`, `true_edges` (how many there are), of which `correct` (same place, same type), `reversed`, `extra`
      (learned, not joined in the truth), `missing` (true, not joined in what was learned), `half_directed` (directed in
      one, undirected in the other; 0 between DAGs); `correct_skeleton`: pairs joined in both, however directed.
    - `tpr` = correct / true_edges; `fdr` = (reversed + extra) / edges, 0 without edges; `precision` = correct / edges;
      `f1` of precision and tpr. `precision` = 1 − `fdr`, less half_directed / edges in CPDAGs.
    - `v_structures`, `v_structures_true`, `v_structures_correct`: how many are learned, true, both.
    - `auroc`, `aupr`: of |scores|, or |weights| where there are no scores, over the ordered pairs (i, j), i ≠ j,
      against the edges of `truth` as given (an undirected one is positive both ways); None if all pairs, or none, are
      edges (`aupr`: none).

    Raises BadInput if the variables differ, if the truth has a directed cycle and `allow_cyclic_truth` is not set, if a
    score is NaN. If one of the two is a PAG, the figures are those of `compare_pag`.
    """
    truth = _aligned(truth, learned.variables)
    cycle = truth.cycle
    if cycle and not allow_cyclic_truth:
        path = " -> ".join([*cycle, cycle[0]])
        raise BadInput(f"truth has the cycle {path}: SHD needs a DAG (ask for it with allow_cyclic_truth)")
    if "pag" in (learned.kind, truth.kind):
        return compare_pag(learned, truth)
    one, other = _same_kind(learned, truth)
    return {
        **_distances(one, other),
        **_edge_counts(one, other),
        **_v_structure_counts(one, other),
        **_ranking(learned, truth),
    }


def _aligned(truth: Structure, variables: tuple[str, ...]) -> Structure:
    """Return `truth` with its variables in the order of `variables`; raise BadInput if they are not the same."""
    if set(truth.variables) != set(variables):
        only_learned = ", ".join(sorted(set(variables) - set(truth.variables))) or "none"
        only_truth = ", ".join(sorted(set(truth.variables) - set(variables))) or "none"
        raise BadInput(f"variables differ: only in what was learned: {only_learned}; only in the truth: {only_truth}")
    return truth.reordered(variables)


def _same_kind(learned: Structure, truth: Structure) -> tuple[Structure, Structure]:
    """Return both, a DAG replaced by its CPDAG, if it has one, where the other is a CPDAG."""
    if learned.kind == truth.kind:
        return learned, truth
    return _as_cpdag(learned) or learned, _as_cpdag(truth) or truth


def _as_cpdag(structure: Structure) -> Structure | None:
    """Return a CPDAG as it is and a DAG as its CPDAG; None for a "dag" with a cycle."""
    if structure.kind == "cpdag":
        return structure
    if not structure.acyclic:
        return None
    return Structure(structure.variables, cpdag(structure.adjacency).astype(np.float64), "cpdag")


def _end_marks(structure: Structure) -> NDArray[np.int8]:
    """Return the mark which the edge between i and j has at j, `[n_variables, n_variables]`: none, tail or arrow.

    SHD sees a graph only through this, so that a PAG, with its circles, needs no more than its own branch here.
    """
    edges = structure.adjacency
    arrows = edges if structure.kind == "dag" else directed_part(edges)
    return np.where(arrows, ARROW, np.where(skeleton(edges), TAIL, NO_EDGE)).astype(np.int8)


def _differently_joined(one: Structure, other: Structure) -> NDArray[np.bool_]:
    """Return the pairs with another mark at either end: symmetric, `[n_variables, n_variables]`.

    How many there are is a metric on graphs of the same variables.
    """
    return skeleton(_end_marks(one) != _end_marks(other))


def _n_pairs(symmetric: NDArray[np.bool_]) -> int:
    """Count the unordered pairs in a symmetric matrix."""
    return int(np.triu(symmetric, 1).sum())


def _undirected(structure: Structure) -> NDArray[np.bool_]:
    """Return the undirected edges: symmetric, `[n_variables, n_variables]`; a "dag" has none."""
    edges = structure.adjacency
    return edges & edges.T if structure.kind == "cpdag" else np.zeros_like(edges)


def _distances(one: Structure, other: Structure) -> Metrics:
    """Return the Hamming distances between two structures of the same variables."""
    joined = skeleton(one.adjacency) & skeleton(other.adjacency)
    half_directed = joined & (_undirected(one) ^ _undirected(other))
    differ = _differently_joined(one, other)
    one_class, other_class = _as_cpdag(one), _as_cpdag(other)
    return {
        "shd": _n_pairs(differ),
        "shd_cpdag": _n_pairs(_differently_joined(one_class, other_class)) if one_class and other_class else None,
        "shd_lenient": _n_pairs(differ & ~half_directed),
        "shd_skeleton": _n_pairs(skeleton(one.adjacency) ^ skeleton(other.adjacency)),
        "smhd": _n_pairs(moral_graph(one.adjacency) ^ moral_graph(other.adjacency)),
    }


def _edge_counts(learned: Structure, truth: Structure) -> Metrics:
    """Return how many edges are correct, reversed, extra, missing or half directed, and the rates made of them."""
    line, true_line = _undirected(learned), _undirected(truth)
    arrow, true_arrow = learned.adjacency & ~line, truth.adjacency & ~true_line
    joined, truly_joined = skeleton(learned.adjacency), skeleton(truth.adjacency)
    edges, true_edges = int(arrow.sum()) + _n_pairs(line), int(true_arrow.sum()) + _n_pairs(true_line)
    correct = int((arrow & true_arrow).sum()) + _n_pairs(line & true_line)
    reversed_ = int((arrow & true_arrow.T & ~true_arrow).sum())
    extra = int((arrow & ~truly_joined).sum()) + _n_pairs(line & ~truly_joined)
    return {
        "edges": edges,
        "true_edges": true_edges,
        "correct": correct,
        "reversed": reversed_,
        "extra": extra,
        "missing": int((true_arrow & ~joined).sum()) + _n_pairs(true_line & ~joined),
        "half_directed": _n_pairs((line & skeleton(true_arrow)) | (true_line & skeleton(arrow))),
        "correct_skeleton": _n_pairs(joined & truly_joined),
        "tpr": correct / true_edges if true_edges else None,
        "fdr": (reversed_ + extra) / edges if edges else 0.0,
        "precision": correct / edges if edges else None,
        "f1": 2 * correct / (edges + true_edges) if edges + true_edges else None,
    }


def _v_structure_counts(learned: Structure, truth: Structure) -> Metrics:
    """Return how many v-structures are learned, true, and both."""
    found, true = v_structures(learned.adjacency), v_structures(truth.adjacency)
    return {
        "v_structures": len(found),
        "v_structures_true": len(true),
        "v_structures_correct": len(found & true),
    }


def _ranking(learned: Structure, truth: Structure) -> Metrics:
    """Return AUROC and AUPR of the learned strengths; raise BadInput where a strength is NaN."""
    strengths = np.abs(learned.weights if learned.scores is None else learned.scores)
    np.fill_diagonal(strengths, 0.0)
    if np.isnan(strengths).any():
        i, j = np.argwhere(np.isnan(strengths))[0]
        raise BadInput(f"the learned strength of {learned.variables[i]} -> {learned.variables[j]} is NaN")
    pairs = ~np.eye(len(learned.variables), dtype=np.bool_)
    return {
        "auroc": auroc(strengths[pairs], truth.adjacency[pairs]),
        "aupr": average_precision(strengths[pairs], truth.adjacency[pairs]),
    }
