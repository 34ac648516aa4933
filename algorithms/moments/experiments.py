"""Experiments on numbers: the second moments of each sum, and the class of linear models learned from them (ours).

A condition is a part of a silo's rows, and can target variables, which an experiment has set there. A variable is
scored on the conditions that do not target it. A silo sends its part of the second moments over all conditions, and
over all but each set of conditions that some variable excludes. Each condition is centred on its own means. These are
(1 + number of distinct excluded sets)·d(d + 1)/2 numbers, sent once. The server searches with the scores of
`score/experiment_scores.py`, and needs no further exchange.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray, Schema
from ..errors import BadInput
from ..score.experiment_scores import best_class, number_scores
from ..score.procedures import BOSS
from ..score.settings import OrderSettings, SearchSettings, TargetRows
from ..statistics.expected_moments import about_own_means
from ..statistics.moments import Table, conditions_of, pooled_packing, regression_weights
from ..statistics.packing import from_triangle


@dataclass(frozen=True)
class ExperimentFit:
    """The interventional class, and the covariances from which it was learned."""

    graph: NDArray[np.bool_]
    """the class, `[d, d]`"""
    S: FloatArray
    """the covariance of each sum, `[n_sums, d, d]`"""
    rows: NDArray[np.int64]
    """degrees of freedom of each sum, `[n_sums]`"""
    group: NDArray[np.int64]
    """the index of the sum that is used for each variable, `[d]`"""


def experiment_products(table: Table, schema: Schema, silo: str) -> FloatArray:
    """The silo's part of the second moments of each sum, every condition about its own means, `[n_sums, d, d]`.

    Raises `BadInput` if the silo has several conditions and its rows are read in passes.
    """
    sizes, used = schema.conditions(silo), schema.experiments.used[silo]
    parts = [
        about_own_means(part, replace(schema, stretches={})).products for part in conditions_of(table, sizes, silo)
    ]
    return np.asarray(np.einsum("kc,cij->kij", used.astype(np.float64), np.stack(parts)))


def learn_from_experiments(
    total: FloatArray, schema: Schema, left: Schema, settings: OrderSettings, target_rows: TargetRows
) -> ExperimentFit:
    """The class from the `total` of the second moments of each sum; `left` is the schema of the silos that answered.

    Raises `BadInput` if a sum has no degrees of freedom: all its conditions have one row each, or every condition
    targets the same variable. Raises `BadInput` if a variable does not vary in the conditions that do not target it.
    """
    d, sent, prior = len(schema.variables), schema.experiments, left.prior
    rows = sent.rows({silo: schema.conditions(silo) for silo in left.silos})
    products = np.stack([from_triangle(one) for one in np.split(total, sent.n_sums)])
    if rows.min() < 1:
        raise BadInput("conditions have one row each, so subtracting their means leaves nothing to learn from")
    for v, k in enumerate(sent.group):
        if products[k, v, v] <= 0:
            where = "any silo that does not target it" if k else "any silo"
            raise BadInput(f"column '{schema.variables[v]}' has no variance within {where}, so it must be excluded")
    pack = pooled_packing(d).pack
    moments = [pack(rows=float(n), sums=np.zeros(d), products=S) for n, S in zip(rows, products, strict=True)]
    scores = number_scores(np.stack(moments), sent.group, target_rows, math.log(d))
    graph = best_class(BOSS, d, SearchSettings(starts=settings.starts, seed=settings.seed), scores, prior)
    return ExperimentFit(graph, products / rows[:, None, None], rows, sent.group)


def weights_of_groups(S: FloatArray, group: NDArray[np.int64], graph: NDArray[np.bool_]) -> FloatArray:
    """The weights `[d, d]` of the DAG `graph`: each variable is regressed on its parents with its sum's covariance."""
    each = np.stack([regression_weights(one, graph) for one in S])
    return np.asarray(each[group, :, np.arange(len(group))].T)
