"""Distances, counts and rates of learned edges against true ones, from the classes of the edges."""

import numpy as np

from .edge_classes import differing_pairs, edge_classes, pairs
from .edges import Edges

Metrics = dict[str, float | None]


def distances(learned: Edges, truth: Edges) -> Metrics:
    """Return the structural Hamming distance: strict, lenient, and of the skeletons (see `compare`)."""
    half_directed = pairs(learned[edge_classes(learned, truth)["half-directed"]])
    differing = differing_pairs(learned, truth)
    return {
        "shd": differing,
        "shd_lenient": differing - len(np.unique(half_directed)),
        "shd_skeleton": len(np.setxor1d(pairs(learned), pairs(truth))),
    }


def counts(learned: Edges, truth: Edges) -> Metrics:
    """Return how many edges are correct, reversed, extra, missing or half directed, and the rates made of them.

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
    """Return TPR, FDR, precision and F1 of these numbers of edges; None where one is not defined."""
    return {
        "tpr": correct / true if true else None,
        "fdr": false / learned if learned else 0.0,
        "precision": correct / learned if learned else None,
        "f1": 2 * correct / (learned + true) if learned + true else None,
    }
