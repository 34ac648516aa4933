"""Edges into labels that logistic regressions do not support (ours).

The degenerate Gaussian score fits a straight line to the probability of a label. If a number has a steep effect, this
probability is a curve. Variables that correlate with the number then become spurious parents, because they improve
the fit of the line to the curve. A logistic regression of the label on its parents does not have this problem. The
parameters of a mixed network contain these regressions (`parameters/mixed_families.py`), so the check needs no
exchange of its own if every edge passes.

An edge u → v into a label v is tested if v has a number among its other parents. The test uses Wald's statistic wᵀ
Cov(w)⁻¹ w of the weights w of u. The edge is dropped if this statistic is below the price of the edge in the search
and the edge adds little to the degenerate Gaussian score. The second condition is needed because, with nearly
separated levels, weights and their variances grow without limit, and Wald's statistic vanishes for the strongest
effects (Hauck & Donner 1977). For each label, only the weakest such edge is dropped. The rest of the graph is kept,
because a new search would find another spurious parent. The tested DAG is a member of the class in which labels come
as late as possible.

If cells are empty, the regressions use the complete rows of a family, while the search uses expected products, which
a logistic regression cannot use. The regressions are valid if cells are missing at random given the parents. Their
slopes are valid even if missingness depends on the label (Prentice & Pyke 1979).

What leaves a silo: the sums of `parameters/mixed_families.py`. Cost: the Newton steps of one more fit whenever an edge
is dropped.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.graphs.cpdag import dag_extension

from ..core.knowledge import Prior
from ..core.schema import FloatArray
from ..graphs.cpdag import cpdag, meek_closure, pdag_with_knowledge
from ..graphs.structure import Structure
from ..parameters import mixed_families
from ..score.gaussian import price_of
from ..statistics.coding import Blocks, Coding, blocks_of_covariance, coding_of, log_residual_det
from ..statistics.packing import from_triangle

MAX_LINEAR_GAIN = 0.05
"""an edge that adds at least this log-likelihood per row to the degenerate Gaussian model is always kept"""


def labels_late_dag(structure: Structure, coding: Coding) -> NDArray[np.bool_] | None:
    """A DAG in the class of `structure` in which numbers come before labels where the class allows it."""
    if structure.kind != "cpdag":
        return dag_extension(structure).dag
    graph, labels = structure.adjacency, np.array(coding.discrete)
    for u, v in np.argwhere(graph & graph.T & ~labels[:, None] & labels):
        if graph[u, v] and graph[v, u]:
            graph = graph.copy()
            graph[v, u] = False
            graph = meek_closure(graph)
    return dag_extension(replace(structure, weights=graph.astype(np.float64))).dag


def edges_to_test(dag: NDArray[np.bool_], coding: Coding) -> NDArray[np.bool_]:
    """The edges of `dag` `[d, d]` to test: edges into a label that has a number among its other parents."""
    numbers, edges = ~np.array(coding.discrete), np.zeros_like(dag)
    for v in np.flatnonzero(coding.discrete):
        for u in np.flatnonzero(dag[:, v]):
            edges[u, v] = (dag[:, v] & numbers).sum() > numbers[u]
    return edges


def unsupported_edges(fitted: mixed_families.Server, tested: NDArray[np.bool_], prior: Prior) -> list[tuple[int, int]]:
    """For each label, the weakest of the `tested` edges `[d, d]` that the label's logistic regression does not support.

    `fitted` is the final state of the regressions. Edges that `prior` requires are not dropped.
    """
    coding, blocks, share = coding_of(fitted.schema), _blocks(fitted), fitted.schema.independent_share
    dropped, begin, position = [], 0, 0
    for v, shape in mixed_families.weight_shapes(coding, fitted.dag).items():
        q = prod(shape)
        own = fitted.sums[begin : begin + mixed_families.packed_size(q)]
        weights = fitted.weights[position : position + q].reshape(shape)
        begin, position = begin + mixed_families.packed_size(q), position + q
        information = fitted.rows * from_triangle(own[1 + q :])
        covariance = np.linalg.pinv(information, hermitian=True).reshape(*shape, *shape)
        parents, column, margins = np.flatnonzero(fitted.dag[:, v]), 1, {}
        for u in parents:
            block = slice(column, column + coding.widths[u])
            column += coding.widths[u]
            if not tested[u, v] or prior.required[u, v]:
                continue
            w = weights[:, block].ravel()
            wald = float(w @ np.linalg.lstsq(covariance[:, block, :, block].reshape(len(w), -1), w)[0])
            margin = share * wald - price_of(round(share * fitted.rows)) * len(w)
            if margin < 0 and linear_gain(blocks, int(u), v, parents) < MAX_LINEAR_GAIN:
                margins[int(u)] = margin
        if margins:
            dropped.append((min(margins, key=margins.__getitem__), v))
    return dropped


def linear_gain(blocks: Blocks, u: int, v: int, parents: NDArray[np.intp]) -> float:
    """The log-likelihood per row that parent u adds to the degenerate Gaussian model of v given its other `parents`."""
    others = parents[parents != u].astype(np.int64)
    without = log_residual_det(blocks.R, blocks.first, v, others)
    return 0.5 * float(without - log_residual_det(blocks.R, blocks.first, v, np.append(others, u)))


def without_edges(dag: NDArray[np.bool_], edges: Sequence[tuple[int, int]], prior: Prior) -> NDArray[np.bool_]:
    """The class `[d, d]` of `dag` after the removal of these `edges` in either direction."""
    rest = dag.copy()
    for u, v in edges:
        rest[u, v] = rest[v, u] = False
    return np.asarray(pdag_with_knowledge(cpdag(rest), prior.required, prior.possible))


def resample_without_edges(
    structure: Structure, edges: Sequence[tuple[int, int]], coding: Coding, prior: Prior
) -> Structure:
    """The `structure` of a resample without the `edges` that were dropped from the graph of all rows.

    The search finds such an edge in most resamples, so without this step the edge strengths would contradict the graph.
    Resamples have no tests of their own, because a regression on half of the rows has less power.
    """
    dag = labels_late_dag(structure, coding)
    if dag is None or not any(dag[u, v] or dag[v, u] for u, v in edges):
        return structure
    return replace(structure, weights=without_edges(dag, edges, prior).astype(np.float64))


def _blocks(fitted: mixed_families.Server) -> Blocks:
    """The correlations of the coded columns within the silos, as `Blocks`."""
    S: FloatArray = np.asarray(mixed_families.moments_of(fitted)["products"])
    return blocks_of_covariance(S, fitted.rows, coding_of(fitted.schema))
