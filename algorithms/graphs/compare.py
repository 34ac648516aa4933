"""How far a learned structure is from the truth: SHD in its variants, rates, v-structures, AUROC and AUPR.

Sources: SHD and its reversals, Tsamardinos, Brown & Aliferis 2006 (MMHC); TPR and FDR, Zheng et al. 2018 (NOTEARS), as
used in Fassy El Fehri et al., §6, Ng & Zhang 2022, §6 and Chen, Ma & Yue, §7; the lenient SHD, Wang, Ma & Wang 2023,
§7; SMHD, Torrijos et al. 2024, §4.2.

Distances, counts and rates of learned edges against true ones, from the classes of the edges.

How well edge strengths rank the true edges above the others, at all thresholds at once: AUROC and AUPR.

How far the lagged edges of a dynamic structure are from the true ones: A of Chen, Ma & Yue (2025, §7), apart from W.

An entry of A is an edge or none, and time gives its direction: there is nothing to reverse.

The summary graph of a dynamic structure: who drives whom, at whatever lag.
"""

import numpy as np
from numpy.typing import NDArray

from ..errors import BadInput
from .dag import moral_graph, v_structures
from .edges import (
    Edges,
    as_cpdag,
    differing_pairs,
    edge_classes,
    edges_of,
    padded,
    padded_lagged_weights,
    pairs,
    to_same_kind,
)
from .structure import Structure, lagged_name

Metrics = dict[str, float | None]


def distances(learned: Edges, truth: Edges) -> Metrics:
    """The structural Hamming distance: strict, lenient, and of the skeletons (see `compare`)."""
    half_directed = pairs(learned[edge_classes(learned, truth)["half-directed"]])
    differing = differing_pairs(learned, truth)
    return {
        "shd": differing,
        "shd_lenient": differing - len(np.unique(half_directed)),
        "shd_skeleton": len(np.setxor1d(pairs(learned), pairs(truth))),
    }


def counts(learned: Edges, truth: Edges) -> Metrics:
    """How many edges are correct, reversed, extra, missing or half directed, and the rates made of them.

    Half-directed edges are counted by pairs of variables, since a learned cycle of two may stand against one line.
    """
    classes = edge_classes(learned, truth)
    correct, reversed_, extra = (int(classes[category].sum()) for category in ("right", "reversed", "extra"))
    return {
        "edges": len(learned),
        "true_edges": len(truth),
        "correct": correct,
        "reversed": reversed_,
        "extra": extra,
        "missing": int(classes["missing"].sum()),
        "half_directed": len(np.unique(pairs(learned[classes["half-directed"]]))),
        "correct_skeleton": len(np.intersect1d(pairs(learned), pairs(truth))),
        **rates(correct, reversed_ + extra, len(learned), len(truth)),
    }


def rates(correct: int, false: int, learned: int, true: int) -> Metrics:
    """TPR, FDR, precision and F1 of these numbers of edges; None where one is not defined."""
    return {
        "tpr": correct / true if true else None,
        "fdr": false / learned if learned else 0.0,
        "precision": correct / learned if learned else None,
        "f1": 2 * correct / (learned + true) if learned + true else None,
    }


def auroc(strengths: NDArray[np.float64], positive: NDArray[np.bool_]) -> float | None:
    """The area under the ROC curve, both `[n_pairs]`: the chance that a positive outranks a negative, ties half.

    None if there is no positive or no negative.
    """
    found, taken = _by_threshold(strengths, positive)
    n_positive = int(positive.sum())
    n_negative = positive.size - n_positive
    if n_positive == 0 or n_negative == 0:
        return None
    tpr = np.concatenate([[0.0], found / n_positive])
    fpr = np.concatenate([[0.0], (taken - found) / n_negative])
    return float(np.trapezoid(tpr, fpr))


def average_precision(strengths: NDArray[np.float64], positive: NDArray[np.bool_]) -> float | None:
    """Σ_n (R_n − R_{n−1}) P_n over the distinct strengths, from the greatest down: AUPR without interpolation.

    Equal strengths form one step, as in scikit-learn's `average_precision_score`. None if there is no positive.
    """
    found, taken = _by_threshold(strengths, positive)
    n_positive = int(positive.sum())
    if n_positive == 0:
        return None
    return float(np.sum(np.diff(found, prepend=0.0) / n_positive * found / taken))


def _by_threshold(
    strengths: NDArray[np.float64], positive: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How many positives, and how many of all, have at least each distinct strength, the greatest first."""
    distinct, level = np.unique(strengths, return_inverse=True)
    found = np.bincount(level, weights=positive, minlength=len(distinct))[::-1].cumsum()
    taken = np.bincount(level, minlength=len(distinct))[::-1].cumsum().astype(np.float64)
    return found, taken


PREFIX = "lagged_"


def compare_lagged(learned: Structure, truth: Structure, *, own_lags: bool = False) -> Metrics:
    """How the lagged edges of `learned` differ from those of `truth`, over the same variables in one order.

    Lags that only one of the two has count as empty in the other.

    - `lagged_shd`: entries of A `[lags, d, d]` that are an edge in only one of the two. `lagged_edges`,
      `lagged_true_edges`, of which `lagged_correct`, `lagged_extra`, `lagged_missing`; `lagged_tpr`, `lagged_fdr`,
      `lagged_precision` and `lagged_f1` made of these. All of them count the edges from a variable's own past.
    - `lagged_auroc`, `lagged_aupr`: of |lagged_scores|, or |lagged| where there are no scores, over all entries but the
      own lags. With `own_lags` these are ranked, too. Nearly every variable depends on its own past: on the fMRI data
      of Chen, Ma & Yue the identity matrix alone, which has learned nothing, then has an AUROC of .73.

    Raises BadInput if a score is NaN.
    """
    lags = max(learned.lags, truth.lags)
    found, true = padded_lagged_weights(learned, lags) != 0, padded_lagged_weights(truth, lags) != 0
    correct, n_learned, n_true = int((found & true).sum()), int(found.sum()), int(true.sum())
    figures: Metrics = {
        "shd": n_learned + n_true - 2 * correct,
        "edges": n_learned,
        "true_edges": n_true,
        "correct": correct,
        "extra": n_learned - correct,
        "missing": n_true - correct,
        **rates(correct, n_learned - correct, n_learned, n_true),
    }
    ranked = np.full(true.shape, True) if own_lags else np.broadcast_to(~np.eye(true.shape[1], dtype=bool), true.shape)
    strengths = _strengths(learned, lags)
    figures |= {
        "auroc": auroc(strengths[ranked], true[ranked]),
        "aupr": average_precision(strengths[ranked], true[ranked]),
    }
    return {PREFIX + name: value for name, value in figures.items()}


def _strengths(learned: Structure, lags: int) -> NDArray[np.float64]:
    """How strong each lagged edge is, `[lags, d, d]`; raise BadInput where that is NaN."""
    scores = learned.lagged_scores
    strengths = np.abs(padded_lagged_weights(learned, lags) if scores is None else padded(scores, lags))
    if np.isnan(strengths).any():
        k, i, j = np.argwhere(np.isnan(strengths))[0]
        names = learned.variables
        raise BadInput(f"the learned strength of {lagged_name(names[i], k + 1)} -> {names[j]} is NaN")
    return strengths


def summary(structure: Structure) -> Structure:
    """The structure with i → j where i drives j within one time or at any lag, `[n_variables, n_variables]`.

    The weight of i → j is the one of greatest magnitude among W and all A_k, and so is its score; a variable's own past
    is left out. The summary of an acyclic dynamic structure may have cycles, also of two variables, so its kind is
    "dag" in any case, and its edges are all directed. A structure without lags is its own summary.
    """
    if structure.lagged is None:
        return structure
    scores = None
    if structure.scores is not None or structure.lagged_scores is not None:
        within = structure.weights if structure.scores is None else structure.scores
        across = structure.lagged if structure.lagged_scores is None else structure.lagged_scores
        scores = _greatest(within, across)
    return Structure(structure.variables, _greatest(structure.weights, structure.lagged), "dag", scores)


def _greatest(within: NDArray[np.float64], lagged: NDArray[np.float64]) -> NDArray[np.float64]:
    """The entry of greatest magnitude of `within` `[d, d]` and `lagged` `[lags, d, d]`, 0 on the diagonal."""
    slices = np.concatenate([within[None], lagged])
    strongest = np.abs(slices).argmax(axis=0)
    chosen: NDArray[np.float64] = np.take_along_axis(slices, strongest[None], axis=0)[0]
    return chosen * ~np.eye(len(within), dtype=np.bool_)


NOT_DEFINED = ("shd_cpdag", "smhd", "v_structures", "v_structures_true", "v_structures_correct", "auroc", "aupr")
"""the figures that PAGs do not have"""


def compare(
    learned: Structure, truth: Structure, *, allow_cyclic_truth: bool = False, own_lags: bool = False
) -> Metrics:
    """How `learned` differs from `truth`: flat, None where a figure is not defined. Variables go by name.

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
    """The figures of the edges within one time, the only ones that most structures have."""
    cycle = truth.cycle
    if cycle and not allow_cyclic_truth:
        path = " -> ".join([*cycle, cycle[0]])
        raise BadInput(f"truth has the cycle {path}: SHD needs a DAG (ask for it with allow_cyclic_truth)")
    one, other = to_same_kind(learned, truth)
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
    """`truth` with its variables in the order of `variables`; raise BadInput if they are not the same."""
    if set(truth.variables) != set(variables):
        only_learned = ", ".join(sorted(set(variables) - set(truth.variables))) or "none"
        only_truth = ", ".join(sorted(set(truth.variables) - set(variables))) or "none"
        raise BadInput(f"variables differ: only in what was learned: {only_learned}; only in the truth: {only_truth}")
    return truth.reordered(variables)


def _compare_pags(learned: Structure, truth: Structure) -> Metrics:
    """The figures of two PAGs; raise BadInput for a DAG or a CPDAG that could not be replaced by one."""
    for structure in (learned, truth):
        if structure.kind != "pag":
            raise BadInput(f"this {structure.kind} belongs to no class of DAGs, so it has no PAG to compare")
    edges, true_edges = edges_of(learned), edges_of(truth)
    return {**distances(edges, true_edges), **counts(edges, true_edges), **dict.fromkeys(NOT_DEFINED)}


def _shd_cpdag(one: Structure, other: Structure) -> int | None:
    """The structural Hamming distance between the CPDAGs; None if one has no CPDAG."""
    one_class, other_class = as_cpdag(one), as_cpdag(other)
    if one_class is None or other_class is None:
        return None
    return differing_pairs(edges_of(one_class), edges_of(other_class))


def _v_structure_counts(learned: Structure, truth: Structure) -> Metrics:
    """How many v-structures are learned, true, and both."""
    found, true = v_structures(learned.adjacency), v_structures(truth.adjacency)
    return {
        "v_structures": len(found),
        "v_structures_true": len(true),
        "v_structures_correct": len(found & true),
    }


def _ranking(learned: Structure, truth: Structure) -> Metrics:
    """AUROC and AUPR of the learned strengths; raise BadInput where a strength is NaN."""
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
