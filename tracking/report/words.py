"""What the report calls scores, counts and marks."""

from fedbnsl.algorithms.graphs.edge_classes import Category

from ..comparison import COUNTED

SCORES = {
    "shd": "SHD: pairs of variables joined differently",
    "shd_cpdag": "SHD between the equivalence classes (CPDAGs)",
    "shd_skeleton": "SHD of the skeletons: directions do not count",
    "shd_lenient": "SHD where directed against undirected costs nothing",
    "mse_consensus": "Median normalised error of the consensus weights, by silo",
    "mse_personal": "The same for weights refitted by each silo",
    "smhd": "SMHD: SHD of the moral graphs",
    "tpr": "TPR: share of the true edges that were found",
    "fdr": "FDR: share of the learned edges that are extra or reversed",
    "precision": "Precision: share of the learned edges that are right",
    "f1": "F1 of precision and TPR",
    "auroc": "AUROC of the strengths",
    "aupr": "AUPR of the strengths",
    "lagged_shd": "SHD: lagged edges in only one of the two",
    "lagged_tpr": "TPR: share of the true lagged edges that were found",
    "lagged_fdr": "FDR: share of the learned lagged edges that are extra",
    "lagged_precision": "Precision: share of the learned lagged edges that are right",
    "lagged_f1": "F1 of precision and TPR, lagged edges",
    "lagged_auroc": "AUROC of the strengths, without each variable's own past",
    "lagged_aupr": "AUPR of the strengths, without each variable's own past",
}
COUNTS = {
    "edges": "Edges learned",
    "true_edges": "Edges in the truth",
    "correct": "Right edges",
    "reversed": "Reversed edges",
    "extra": "Extra edges",
    "missing": "Missing edges",
    "half_directed": "Half-directed edges: undirected in one of the two, or with other marks",
    "correct_skeleton": "Right edges, however directed",
    "v_structures": "V-structures learned",
    "v_structures_true": "V-structures in the truth",
    "v_structures_correct": "Right v-structures",
    "lagged_edges": "Lagged edges learned",
    "lagged_true_edges": "Lagged edges in the truth",
    "lagged_correct": "Right lagged edges",
    "lagged_extra": "Extra lagged edges",
    "lagged_missing": "Missing lagged edges",
}
MARKS: dict[Category, str] = {
    "right": "✓ right",
    "extra": "✗ extra",
    "missing": "✗ missing",
    "reversed": "↺ reversed",
    "half-directed": "◐ half-directed",
}
BY_STRENGTH = "The more resamples have an edge, the thicker its line."
NO_TRUTH = "There is no truth to compare with."
READING = {
    "cpdag": "A CPDAG: an arrow stands where all graphs that fit equally well agree; a line without heads may go "
    "either way.",
    "pag": "A PAG, for hidden variables: an arrow head at X says that X is no cause of the other, a plain end that it "
    "is one, a circle that either may be; heads at both ends say that the two have a hidden common cause.",
}
ELSEWHERE = {"rounds", "converged", "outcome", "acyclic", "seconds", "bytes_up", "bytes_down", "formula_megabytes"}
ELSEWHERE |= {"tests", "tests_left_out", "families", "parameter_bytes", "not_compared", "findings"}
ELSEWHERE |= {"diagnoses", "diagnosis_bytes", "filling_exchanges", "filling_bytes"}
ELSEWHERE |= {"bootstrap", "threshold", "averaged_edges", "averaged_shd", "bootstrap_rounds", "bootstrap_bytes"}
ELSEWHERE |= {"lags", "spectral_radius", "forecast_mse", "persistence_mse"}
ELSEWHERE |= {"epsilon", "epsilon_tight", "delta", "adjacency", "privacy", "epsilon_all_runs"}
ELSEWHERE |= {"compared_with", "edges_changed", "parameter_drift", *COUNTED}
"""metrics that other sections of the report show"""
