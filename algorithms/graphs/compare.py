"""How far a learned structure is from the truth: SHD in its variants, rates, v-structures, AUROC and AUPR.

Sources: SHD and its reversals, Tsamardinos, Brown & Aliferis 2006 (MMHC); TPR and FDR, Zheng et al. 2018 (NOTEARS), as
used in Fassy El Fehri et al., §6, Ng & Zhang 2022, §6 and Chen, Ma & Yue, §7; the lenient SHD, Wang, Ma & Wang 2023,
§7; SMHD, Torrijos et al. 2024, §4.2.
"""

import numpy as np

from ..errors import BadInput
from .compare_lagged import compare_lagged
from .edge_classes import differing_pairs
from .edge_counts import Metrics, counts, distances
from .edges import edges_of
from .ranking import auroc, average_precision
from .same_kind import as_cpdag, of_same_kind
from .skeleton import moral_graph, v_structures
from .structure import Structure
from .summary import summary

NOT_DEFINED = ("shd_cpdag", "smhd", "v_structures", "v_structures_true", "v_structures_correct", "auroc", "aupr")
"""the figures that PAGs do not have"""


def compare(
    learned: Structure, truth: Structure, *, allow_cyclic_truth: bool = False, own_lags: bool = False
) -> Metrics:
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

    If one of the two is a PAG, the other is first replaced by the PAG of its class. `correct` edges then have the same
    two marks, those of `reversed` ones are exchanged, and `half_directed` are those that differ in another way, such as
    o→ against →. `shd` counts all that are not correct. What is not defined for PAGs (`NOT_DEFINED`) is None.

    Of two dynamic structures all of this compares W, the edges within one time, and `compare_lagged` adds the figures
    of the lagged edges, named `lagged_...`; with `own_lags` its AUROC and AUPR rank a variable's own past, too. If the
    truth has no lagged edges, it says only who drives whom: then the `summary` of a dynamic `learned` is compared with
    it, and it may have cycles.

    Raises BadInput if the variables differ, if the truth has a directed cycle and `allow_cyclic_truth` is not set, if a
    score is NaN, and for a DAG or CPDAG compared with a PAG that stands for no class of DAGs.
    """
    truth = _aligned(truth, learned.variables)
    if truth.lagged is not None:
        within = _compare_within(learned, truth, allow_cyclic_truth)
        return {**within, **compare_lagged(learned, truth, own_lags=own_lags)}
    return _compare_within(summary(learned), truth, allow_cyclic_truth or learned.lagged is not None)


def _compare_within(learned: Structure, truth: Structure, allow_cyclic_truth: bool) -> Metrics:
    """Return the figures of the edges within one time, the only ones that most structures have."""
    cycle = truth.cycle
    if cycle and not allow_cyclic_truth:
        path = " -> ".join([*cycle, cycle[0]])
        raise BadInput(f"truth has the cycle {path}: SHD needs a DAG (ask for it with allow_cyclic_truth)")
    one, other = of_same_kind(learned, truth)
    if "pag" in (learned.kind, truth.kind):
        return _compare_pags(one, other)
    edges, true_edges = edges_of(one), edges_of(other)
    distance = distances(edges, true_edges)
    return {
        "shd": distance["shd"],
        "shd_cpdag": _shd_cpdag(one, other),
        **distance,
        "smhd": int(np.triu(moral_graph(one.adjacency) ^ moral_graph(other.adjacency)).sum()),
        **counts(edges, true_edges),
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


def _compare_pags(learned: Structure, truth: Structure) -> Metrics:
    """Return the figures of two PAGs; raise BadInput for a DAG or a CPDAG that could not be replaced by one."""
    for structure in (learned, truth):
        if structure.kind != "pag":
            raise BadInput(f"this {structure.kind} belongs to no class of DAGs, so it has no PAG to compare")
    edges, true_edges = edges_of(learned), edges_of(truth)
    return {**distances(edges, true_edges), **counts(edges, true_edges), **dict.fromkeys(NOT_DEFINED)}


def _shd_cpdag(one: Structure, other: Structure) -> int | None:
    """Return the structural Hamming distance between the CPDAGs; None if one has no CPDAG."""
    one_class, other_class = as_cpdag(one), as_cpdag(other)
    if one_class is None or other_class is None:
        return None
    return differing_pairs(edges_of(one_class), edges_of(other_class))


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
