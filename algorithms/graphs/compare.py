"""Metrics of a learned structure against the true one: `compare` and its parts.

- `distances`, `counts`, `rates`: SHD in its variants, numbers of edges by category, TPR, FDR, precision and F1.
- `auroc`, `average_precision`: how well edge strengths rank the true edges above other pairs, over all thresholds.
- `compare_lagged`: the same metrics for the lagged edges of a dynamic structure, A of Chen, Ma & Yue (2025, §7). Time
  gives lagged edges their direction, so none is reversed.
- `summary_graph`: the graph of a dynamic structure over all lags.

Sources: SHD and its reversals, Tsamardinos, Brown & Aliferis 2006 (MMHC); TPR and FDR, Zheng et al. 2018 (NOTEARS), as
used in Fassy El Fehri et al., §6, Ng & Zhang 2022, §6 and Chen, Ma & Yue, §7; the lenient SHD, Wang, Ma & Wang 2023,
§7; SMHD, Torrijos et al. 2024, §4.2.
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
    pad_lags,
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
    """The numbers of correct, reversed, extra, missing and half-directed edges, and the rates derived from them.

    Half-directed edges are counted by pairs of variables, because a learned cycle of two may match one undirected edge.
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
    """TPR, FDR, precision and F1 from numbers of edges; None where a rate is undefined."""
    return {
        "tpr": correct / true if true else None,
        "fdr": false / learned if learned else 0.0,
        "precision": correct / learned if learned else None,
        "f1": 2 * correct / (learned + true) if learned + true else None,
    }


def auroc(strengths: NDArray[np.float64], positive: NDArray[np.bool_]) -> float | None:
    """The area under the ROC curve, from the strength of each pair and whether it is `positive`, both `[n_pairs]`.

    It is the probability that a positive outranks a negative; ties count half. None if there is no positive or no
    negative.
    """
    true_positives, predicted = _by_threshold(strengths, positive)
    n_positive = int(positive.sum())
    n_negative = positive.size - n_positive
    if n_positive == 0 or n_negative == 0:
        return None
    tpr = np.concatenate([[0.0], true_positives / n_positive])
    fpr = np.concatenate([[0.0], (predicted - true_positives) / n_negative])
    return float(np.trapezoid(tpr, fpr))


def average_precision(strengths: NDArray[np.float64], positive: NDArray[np.bool_]) -> float | None:
    """AUPR without interpolation: Σ_n (R_n − R_{n−1}) P_n over the distinct strengths in descending order.

    Equal strengths form one step, as in scikit-learn's `average_precision_score`. None if there is no positive.
    """
    true_positives, predicted = _by_threshold(strengths, positive)
    n_positive = int(positive.sum())
    if n_positive == 0:
        return None
    return float(np.sum(np.diff(true_positives, prepend=0.0) / n_positive * true_positives / predicted))


def _by_threshold(
    strengths: NDArray[np.float64], positive: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The numbers of positives and of all pairs at or above each distinct strength, in descending order."""
    distinct, level = np.unique(strengths, return_inverse=True)
    true_positives = np.bincount(level, weights=positive, minlength=len(distinct))[::-1].cumsum()
    predicted = np.bincount(level, minlength=len(distinct))[::-1].cumsum().astype(np.float64)
    return true_positives, predicted


LAGGED_PREFIX = "lagged_"


def compare_lagged(learned: Structure, truth: Structure, *, own_lags: bool = False) -> Metrics:
    """Metrics of the lagged edges of `learned` against `truth`, over the same variables in the same order.

    A lag that only one of the two structures has counts as a lag without edges in the other.

    - `lagged_shd`: the number of entries of A `[lags, d, d]` that are an edge in only one of the two structures.
      `lagged_edges`, `lagged_true_edges`, `lagged_correct`, `lagged_extra` and `lagged_missing` are numbers of edges;
      `lagged_tpr`, `lagged_fdr`, `lagged_precision` and `lagged_f1` are derived from them. All of them count the edges
      from a variable's own past.
    - `lagged_auroc`, `lagged_aupr`: of |lagged_scores|, or of |lagged| without scores, over all entries except those
      from a variable's own past. With `own_lags`, these entries are ranked, too. They are excluded by default, because
      nearly every variable depends on its own past: on the fMRI data of Chen, Ma & Yue, the identity matrix, for which
      nothing was learned, has an AUROC of .73 with `own_lags`.

    Raises BadInput if a score is NaN.
    """
    lags = max(learned.lags, truth.lags)
    learned_edges, true_edges = padded_lagged_weights(learned, lags) != 0, padded_lagged_weights(truth, lags) != 0
    correct, n_learned, n_true = (
        int((learned_edges & true_edges).sum()),
        int(learned_edges.sum()),
        int(true_edges.sum()),
    )
    metrics: Metrics = {
        "shd": n_learned + n_true - 2 * correct,
        "edges": n_learned,
        "true_edges": n_true,
        "correct": correct,
        "extra": n_learned - correct,
        "missing": n_true - correct,
        **rates(correct, n_learned - correct, n_learned, n_true),
    }
    ranked = (
        np.full(true_edges.shape, True)
        if own_lags
        else np.broadcast_to(~np.eye(true_edges.shape[1], dtype=bool), true_edges.shape)
    )
    strengths = _strengths(learned, lags)
    metrics |= {
        "auroc": auroc(strengths[ranked], true_edges[ranked]),
        "aupr": average_precision(strengths[ranked], true_edges[ranked]),
    }
    return {LAGGED_PREFIX + name: value for name, value in metrics.items()}


def _strengths(learned: Structure, lags: int) -> NDArray[np.float64]:
    """The strength of each lagged edge, `[lags, d, d]`; raises BadInput for NaN."""
    scores = learned.lagged_scores
    strengths = np.abs(padded_lagged_weights(learned, lags) if scores is None else pad_lags(scores, lags))
    if np.isnan(strengths).any():
        k, i, j = np.argwhere(np.isnan(strengths))[0]
        names = learned.variables
        raise BadInput(f"the learned strength of {lagged_name(names[i], k + 1)} -> {names[j]} is NaN")
    return strengths


def summary_graph(structure: Structure) -> Structure:
    """The summary graph: i → j if there is such an edge within one time step or at any lag.

    The weight of i → j is the weight of greatest magnitude among W and all A_k; the score is chosen in the same way.
    Edges from a variable's own past are omitted. The summary of an acyclic dynamic structure may have cycles, also of
    two variables. Nevertheless its kind is always "dag", because all its edges are directed. A structure without lags
    is its own summary.
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


UNDEFINED_FOR_PAGS = ("shd_cpdag", "smhd", "v_structures", "v_structures_true", "v_structures_correct", "auroc", "aupr")
"""the metrics that are not defined for PAGs"""


def compare(
    learned: Structure, truth: Structure, *, allow_cyclic_truth: bool = False, own_lags: bool = False
) -> Metrics:
    """The metrics of `learned` against `truth` by name; None where one is undefined. Variables are matched by name.

    If one of the two is a CPDAG and the other an acyclic DAG, the DAG is first replaced by its CPDAG: `shd` and all
    counts are then strictly between CPDAGs, and `shd` equals `shd_cpdag`. A cyclic graph has no CPDAG and is not
    replaced. A pair of variables joined in both directions is one undirected edge in a CPDAG. In a "dag" it is two
    edges (a cycle), but `smhd` and v-structures treat it as undirected there, too.

    - `shd`: pairs of variables that are joined differently. A reversed edge counts once. In a CPDAG, a directed edge
      that should be undirected also counts once. `shd_cpdag`: the same between the CPDAGs; None if a "dag" is cyclic.
      `shd_skeleton`: pairs joined in only one of the two. `shd_lenient`: as `shd`, but directed against undirected
      costs nothing. `smhd`: pairs joined in only one of the two moral graphs.
    - `edges`, `true_edges`: the numbers of edges, of which `correct` (same pair, same type), `reversed`, `extra`
      (learned, pair not joined in the truth), `missing` (true, pair not joined in `learned`), `half_directed` (directed
      in one, undirected in the other; 0 between DAGs); `correct_skeleton`: pairs joined in both, in any direction.
    - `tpr` = correct / true_edges; `fdr` = (reversed + extra) / edges, 0 without edges; `precision` = correct / edges;
      `f1` of precision and tpr. `precision` = 1 − `fdr`, less half_directed / edges in CPDAGs.
    - `v_structures`, `v_structures_true`, `v_structures_correct`: the numbers learned, true, and in both.
    - `auroc`, `aupr`: of |scores|, or |weights| without scores, over the ordered pairs (i, j), i ≠ j, against the edges
      of `truth` as given (an undirected one is positive in both directions); None if all pairs, or none, are edges
      (`aupr`: none).

    If one of the two is a PAG, the other is first replaced by the PAG of its class. `correct` edges then have the same
    two marks, `reversed` edges have them exchanged, and `half_directed` edges differ in another way, such as o→ against
    →. `shd` counts all edges that are not correct. The metrics in `UNDEFINED_FOR_PAGS` are None.

    If the truth is dynamic, these metrics compare W, the edges within one time step, and `compare_lagged` adds the
    metrics of the lagged edges, named `lagged_...`. With `own_lags`, its AUROC and AUPR also rank a variable's own
    past. If only `learned` is dynamic, its `summary_graph` is compared with the truth, which may then have cycles.

    Raises BadInput if the variables differ, if the truth has a directed cycle that is not allowed, if a score is NaN,
    and for a DAG or CPDAG without a class of DAGs that is compared with a PAG.
    """
    truth = _aligned(truth, learned.variables)
    if truth.lagged is not None:
        within = _compare_within(learned, truth, allow_cyclic_truth)
        return {**within, **compare_lagged(learned, truth, own_lags=own_lags)}
    return _compare_within(summary_graph(learned), truth, allow_cyclic_truth or learned.lagged is not None)


def _compare_within(learned: Structure, truth: Structure, allow_cyclic_truth: bool) -> Metrics:
    """The metrics of the edges within one time step."""
    cycle = truth.cycle
    if cycle and not allow_cyclic_truth:
        path = " -> ".join([*cycle, cycle[0]])
        raise BadInput(f"truth has the cycle {path}: SHD needs a DAG (set allow_cyclic_truth to compare anyway)")
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
    """`truth` with its variables in the order of `variables`; raises BadInput if the variables differ."""
    if set(truth.variables) != set(variables):
        only_learned = ", ".join(sorted(set(variables) - set(truth.variables))) or "none"
        only_truth = ", ".join(sorted(set(truth.variables) - set(variables))) or "none"
        raise BadInput(f"variables differ: only in the learned graph: {only_learned}; only in the truth: {only_truth}")
    return truth.reordered(variables)


def _compare_pags(learned: Structure, truth: Structure) -> Metrics:
    """The metrics of two PAGs; raises BadInput for a DAG or a CPDAG that has no PAG."""
    for structure in (learned, truth):
        if structure.kind != "pag":
            raise BadInput(f"this {structure.kind} belongs to no class of DAGs, so it has no PAG to compare")
    edges, true_edges = edges_of(learned), edges_of(truth)
    return {**distances(edges, true_edges), **counts(edges, true_edges), **dict.fromkeys(UNDEFINED_FOR_PAGS)}


def _shd_cpdag(one: Structure, other: Structure) -> int | None:
    """The structural Hamming distance between the CPDAGs; None if either structure has no CPDAG."""
    one_class, other_class = as_cpdag(one), as_cpdag(other)
    if one_class is None or other_class is None:
        return None
    return differing_pairs(edges_of(one_class), edges_of(other_class))


def _v_structure_counts(learned: Structure, truth: Structure) -> Metrics:
    """The numbers of v-structures: learned, true, and in both."""
    found, true = v_structures(learned.adjacency), v_structures(truth.adjacency)
    return {
        "v_structures": len(found),
        "v_structures_true": len(true),
        "v_structures_correct": len(found & true),
    }


def _ranking(learned: Structure, truth: Structure) -> Metrics:
    """AUROC and AUPR of the learned strengths; raises BadInput for NaN."""
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
