"""Rows of one cluster, such as a patient, depend on each other: how many independent rows they are worth (ours).

The mean product of two errors over n rows has a variance that is 1 + (m − 1) ρ_i ρ_j times that of independent rows,
where ρ_i is the intraclass correlation of an error, and m the mean size of a row's cluster (Moulton 1986; Kish 1965,
"Survey Sampling", §5.4). For labels, the errors are those of indicators of the levels, and the mean of ρ over them
gives the first-order correction of Rao & Scott 1984. So scores, tests and intervals count n divided by this design
effect. One number for all pairs keeps scores of equivalent graphs equal. It is that of the two variables with the
largest ρ, which is cautious for all other pairs.

The ρ of a variable is the larger one of its own and that of its residual given all other variables. Both follow from
one masked sum: of the coded columns, the products about the silo's means, and the same products of the means of
clusters (one-way analysis of variance). No cluster, and no size of one, leaves a silo.

Cost: O(n_p·D²) at a silo of n_p rows; D(D + 1) + 4 numbers are sent, with D coded columns.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.protocol import FederatedAlgorithm, OnceBroadcast, Summand, SumServer, sum_once
from ..core.schema import FloatArray, Schema
from ..core.settings import Settings
from ..errors import BadInput
from .coding import Coding, coded_units, coding_of
from .moments import FLOOR, ROUNDING, product_units
from .packing import Block, Packing

MIN_ROWS_PER_COLUMN = 2
"""minimum number of rows for each coded column with which residuals given all other columns are used"""
MIN_RESIDUAL = 1e-5
"""share of a variance below which a residual is a rounding error, as with exact linear relations"""


@dataclass(frozen=True, eq=False)
class ClusteredRows:
    """A silo's rows `[n_rows, d]` in memory, and the number of the cluster of each row, `[n_rows]`."""

    table: NDArray[Any]
    clusters: NDArray[np.int64]


@dataclass(frozen=True)
class DesignEffect(Settings):
    """Settings of the exchange: there are none."""


def build(settings: DesignEffect) -> FederatedAlgorithm[SumServer, NDArray[Any], OnceBroadcast, Summand]:
    """The algorithm of one masked sum; `design_effect` computes the result from the server's last state."""
    summed = sum_once(part, needs_secure_sum=True, entry_units=entry_units)
    return replace(summed, takes_clusters=True)


def _packing(D: int) -> Packing:
    numbers = (Block(name, ()) for name in ("rows", "free", "spread", "size"))
    return Packing((*numbers, *(Block(name, (D, D), symmetric=True) for name in ("total", "between"))))


def entry_units(schema: Schema, request: OnceBroadcast) -> FloatArray:
    """The units of the reply."""
    products = product_units(coded_units(schema) if schema.units else np.ones(coding_of(schema).size))
    return np.concatenate([np.ones(4), products, products])


def part(rows: ClusteredRows, schema: Schema) -> FloatArray:
    """A silo's part, divided by the number of all rows; rows with an empty cell only count in the sizes of clusters.

    It has the number of complete rows n, that of their clusters minus 1, n − Σ m²/n over clusters of m rows, the sum of
    m² over the clusters of all rows, and the products of rows and of means of clusters about the silo's means. Raises
    `BadInput` for rows without clusters.
    """
    if not isinstance(rows, ClusteredRows):
        raise BadInput("the design effect needs rows whose clusters a column names (--cluster)")
    coded, sizes = np.asarray(coding_of(schema).rows(rows.table), np.float64), np.bincount(rows.clusters)
    complete = ~np.isnan(coded).any(axis=1)
    X, (_, cluster) = coded[complete], np.unique(rows.clusters[complete], return_inverse=True)
    n, own = len(X), np.bincount(cluster)
    X = X - X.mean(axis=0) if n else X
    order, begins = np.argsort(cluster, kind="stable"), np.concatenate([[0], np.cumsum(own)[:-1]])[: len(own)]
    sums = np.add.reduceat(X[order], begins) if n else X
    packed = _packing(X.shape[1]).pack(
        rows=float(n),
        free=float(max(len(own) - 1, 0)),
        spread=n - float((own**2).sum()) / n if n else 0.0,
        size=float((sizes**2).sum()),
        total=X.T @ X,
        between=(sums / own[:, None]).T @ sums,
    )
    return np.asarray(packed / sum(schema.rows.values()))


def design_effect(server: SumServer, all_rows: int) -> float:
    """The design effect, at least 1, from the final state of the exchange over silos of `all_rows` rows.

    Raises `BadInput` if no silo has two clusters with complete rows, because silos then differ as clusters do.
    """
    coding, schema = coding_of(server.schema), server.schema
    sums = _packing(coding.size).unpack(server.total * all_rows)
    rows, free = (round(float(sums[name])) for name in ("rows", "free"))
    answered = sum(schema.rows.values())
    within = rows - len(schema.rows) - free
    if free < 1:
        raise BadInput("--cluster: no silo has complete rows of two clusters or more, so clusters cannot be compared")
    if within < 1:
        return 1.0
    squares = np.diag(sums["total"])
    scales = np.sqrt(np.where(squares > 0, squares, 1.0))
    R, B = sums["total"] / np.outer(scales, scales), sums["between"] / np.outer(scales, scales)
    noise = (R - B) / within
    variance = (B / free - noise) * free / float(sums["spread"])
    found = _correlations(R, variance, noise, coding, rows)
    size, widths = float(sums["spread"]) / free, np.maximum(coding.widths, 1)
    largest = np.sort(np.max([shrunk(each, widths * free, size) for each in found], axis=0))[::-1]
    return 1 + (float(sums["size"]) / answered - 1) * float(largest[:2].prod() if len(largest) > 1 else 0.0)


def shrunk(correlations: FloatArray, clusters: NDArray[np.int64], size: float) -> FloatArray:
    """The `correlations` `[d]`, estimated from so many `clusters` `[d]` of this mean `size`, drawn to their mean.

    The largest of several estimates is too large by chance. Each is drawn to their mean as far as their variance is
    that of chance (Efron, Morris 1975); a standard error is that of Donner 1986, Eq. 2.4.
    """
    errors = (1 - correlations) * (1 + (size - 1) * correlations)
    variances = errors**2 * 2 / (size * max(size - 1, 1e-9) * clusters)
    spread = max(float(correlations.var(ddof=1)) - float(variances.mean()), 0.0) if len(correlations) > 1 else 0.0
    mean, both = correlations.mean(), spread + variances
    return np.asarray(mean + (correlations - mean) * np.divide(spread, both, out=np.ones_like(both), where=both > 0))


def _correlations(
    R: FloatArray, variance: FloatArray, noise: FloatArray, coding: Coding, rows: int
) -> list[FloatArray]:
    """The intraclass correlations of the variables and, if rows suffice, of their residuals, `[d]` each.

    `variance` and `noise` `[D, D]` are the components of the covariance between and within clusters, and R the scaled
    products of all rows.
    """
    D = len(R)
    own = np.array([_correlation(variance, noise, np.eye(D)[:, block].copy()) for block in coding.blocks])
    if rows <= MIN_ROWS_PER_COLUMN * D:
        return [own]
    P = np.asarray(np.linalg.inv(R + FLOOR * np.eye(D)), np.float64)
    has_residual = [bool((np.diag(P)[block] < 1 / MIN_RESIDUAL).all()) for block in coding.blocks]
    residual = [_correlation(variance, noise, P[:, block]) for block in coding.blocks]
    return [own, np.where(has_residual, residual, own)]


def _correlation(variance: FloatArray, noise: FloatArray, columns: FloatArray) -> float:
    """The mean intraclass correlation, from 0 to 1, of the combinations `columns` `[D, k]` of the coded columns."""
    own, total = (columns.T @ one @ columns for one in (variance, variance + noise))
    values, vectors = np.linalg.eigh(total)
    used = values > ROUNDING * max(float(values[-1]), 0.0) if len(values) else np.zeros(0, np.bool_)
    if not used.any():
        return 0.0
    each = np.einsum("ik,ij,jk->k", vectors[:, used], own, vectors[:, used]) / values[used]
    return float(np.clip(each.mean(), 0.0, 1.0))


def cluster_positions(
    clusters: NDArray[np.int64], count: int, replacement: bool, generator: np.random.Generator
) -> NDArray[np.int64]:
    """The positions of `count` rows of whole clusters in random order, of which the last one is cut off.

    With `replacement`, a cluster may be drawn several times.
    """
    drawn: list[NDArray[np.int64]] = []
    order = np.argsort(clusters, kind="stable")
    members = np.split(order, np.cumsum(np.bincount(clusters))[:-1])
    draw: Callable[[], NDArray[np.int64]] = (
        (lambda: generator.integers(len(members), size=len(members)))
        if replacement
        else (lambda: generator.permutation(len(members)))
    )
    while sum(map(len, drawn)) < count:
        drawn += [members[cluster] for cluster in draw()]
    return np.concatenate(drawn)[:count]
