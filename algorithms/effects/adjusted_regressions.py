"""Adjusted regressions of one outcome from masked sums over the rows, and the average effects that they give.

The regressions have an intercept per silo, which the silos do not send (`own_intercepts.py`). Regressors with labels
are coded by indicators of their levels except the first.

In each round, for each regression with q slopes, a silo sends the likelihood, and q + q(q + 1)/2 numbers for gradient
and Hessian. If the outcome has labels, it sends 5 + 2q further numbers for each comparison of values a = 0, 1 of the
treatment X. These are the sums of the risks r_a with X set to a (standardisation, the g-formula), of their squares and
products about the silo's means, and of their gradients. The cost is O(n q²) at a silo. There are 2 rounds for numbers,
and 4 to 8 for labels.

The average risks R_a = n⁻¹ Σ r_a have the covariance (delta method, for silos of fixed sizes)

    G I⁻¹ Gᵀ + n⁻² Σ_p (c_p c_pᵀ / h_p + Σ (r − r̄_p)(r − r̄_p)ᵀ).

Here G are the gradients of the average risks along the profile, I is minus the Hessian, c_p = Σ r(1 − r), and h_p =
Σ w. The three terms come from the slopes, the silo's intercept, and the silo's sample of covariates. This gives the
risk difference R_1 − R_0 and the marginal odds ratio, whose interval is computed for its logarithm. If a silo's rows
have only one label, its intercept is infinite: the silo has no information about slopes, and both risks are 0 or 1.

A placebo is the same regression with the treatment's values permuted among the silo's rows, by the silo's own random
numbers. The permuted treatment has no effect, so an estimate other than zero is chance or a fault of the method (Sharma
& Kiciman 2020, "DoWhy").

Each regression leaves out rows in which one of its cells is empty.

If a column names clusters of rows, a silo also sends their number and, of each regression, the sum over clusters of
u_c u_cᵀ, where u_c is the cluster's part of the gradient. I⁻¹ is then replaced by the sandwich I⁻¹ (Σ u_c u_cᵀ) I⁻¹
(Liang & Zeger 1986), and the sums over rows in the last two terms by sums over clusters of squared totals.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.protocol import FederatedAlgorithm, Replies, Summand, sum_each_round
from ..core.schema import FloatArray, Schema
from ..core.settings import Settings
from ..errors import BadInput
from ..statistics.coding import Coding, coded_units, coding_of
from ..statistics.design_effect import ClusteredRows
from ..statistics.packing import Block, Packing, from_triangle, triangle
from .g_formula import risk_difference
from .linear import MIN_OWN_SHARE, Estimate, quantile
from .own_intercepts import MAX_NEWTON_STEPS, Newton, OwnFit, Silo, expit, newton_blocks, newton_units


@dataclass(frozen=True)
class AdjustedRegressions(Settings):
    """Settings of the exchange."""

    masked: bool = False
    """always mask the replies, even if the run does not"""


@dataclass(frozen=True)
class Question:
    """The effect on the outcome of changing `treatment` from the first to the second of `values`.

    Variables are given by number, and labels by code. If `permutation` is 1 or more, the question is about a placebo,
    which is the treatment permuted within each silo.
    """

    treatment: int
    covariates: tuple[int, ...]
    values: tuple[float, float]
    permutation: int = 0


@dataclass(frozen=True)
class Broadcast:
    """The outcome, m regressions, k comparisons of values of a treatment, and the concatenated current slopes."""

    outcome: int
    regressors: NDArray[np.bool_]
    """the regressors of each regression, `[m, d]`"""
    placebos: NDArray[np.int64]
    """for each regression, the permuted variable and the number of the permutation, 0 for no permutation, `[m, 2]`"""
    comparisons: NDArray[np.int64]
    """the regression and the treatment of each comparison, `[k, 2]`"""
    values: FloatArray
    """the codes of the treatment that are compared, `[k, 2]`"""
    slopes: FloatArray
    clustered: bool = False
    """whether rows of one cluster may depend on each other"""


@dataclass(frozen=True)
class Server:
    """The request, and the state of Newton's method."""

    schema: Schema
    request: Broadcast
    newton: Newton
    sums: FloatArray
    """the last sums, divided by all rows; the sums of a finished regression are taken at its final slopes"""


def start(schema: Schema, outcome: int, questions: Sequence[Question], *, clustered: bool = False) -> Server:
    """The server's state before the exchange for `questions` about the variable `outcome`, by number in `schema`.

    Questions with the same regression share its sums. If rows are `clustered`, intervals are those of clusters.
    """
    d = len(schema.variables)
    keys: dict[tuple[tuple[int, ...], tuple[int, int]], int] = {}
    comparisons = []
    for one in questions:
        placebo = (one.treatment, one.permutation) if one.permutation else (0, 0)
        key = (tuple(sorted((one.treatment, *one.covariates))), placebo)
        comparisons.append((keys.setdefault(key, len(keys)), one.treatment))
    regressors = np.zeros((len(keys), d), np.bool_)
    for row, (members, _) in zip(regressors, keys, strict=True):
        row[list(members)] = True
    coding = coding_of(schema)
    slopes = np.zeros(sum(_width(coding, row) for row in regressors))
    request = Broadcast(
        outcome,
        regressors,
        np.array([placebo for _, placebo in keys], np.int64).reshape(-1, 2),
        np.array(comparisons, np.int64).reshape(-1, 2),
        np.array([one.values for one in questions], np.float64).reshape(-1, 2),
        slopes,
        clustered,
    )
    return Server(schema, request, Newton.begin(len(slopes), len(keys)), np.empty(0))


def build(settings: AdjustedRegressions) -> FederatedAlgorithm[Server, Silo, Broadcast, Summand]:
    """The exchange, which begins in the state `start(...)`."""
    summed = sum_each_round(
        open_silo=open_silo,
        open_server=lambda schema: start(schema, 0, ()),
        broadcast=lambda server: server.request,
        part=part,
        aggregate=aggregate,
        converged=lambda server: bool(server.newton.finished.all()),
        server_type=Server,
        broadcast_type=Broadcast,
        max_rounds=MAX_NEWTON_STEPS,
        entry_units=_units,
        needs_secure_sum=settings.masked,
    )
    return replace(summed, takes_clusters=True)


def open_silo(table: FloatArray | ClusteredRows, schema: Schema, silo: str, rng: np.random.Generator) -> Silo:
    """The silo with its rows `[n_rows, d]` and, if a column names them, their clusters."""
    key = int(rng.integers(2**62))
    return (
        Silo(table.table, schema, key, table.clusters) if isinstance(table, ClusteredRows) else Silo(table, schema, key)
    )


def _width(coding: Coding, regressors: NDArray[np.bool_]) -> int:
    """The number of slopes of a regression."""
    return int(np.array(coding.widths)[regressors].sum())


def _packing(coding: Coding, request: Broadcast, r: int) -> Packing:
    """The layout of the sums of regression `r`."""
    q = _width(coding, request.regressors[r])
    k = int((request.comparisons[:, 0] == r).sum()) if coding.discrete[request.outcome] else 0
    return Packing(
        (
            *newton_blocks(q),
            Block("risks", (k, 2)),
            Block("spread", (k, 3)),
            Block("slopes", (k, 2, q)),
            *((Block("clusters", ()), Block("scores", (q, q), symmetric=True)) if request.clustered else ()),
        )
    )


def _units(schema: Schema, request: Broadcast) -> FloatArray:
    """The units of a reply, from the units of the columns."""
    coding, columns = coding_of(schema), coded_units(schema)
    outcome = 1.0 if coding.discrete[request.outcome] else columns[coding.blocks[request.outcome][0]]
    parts = []
    for r, regressors in enumerate(request.regressors):
        own, packed = columns[regressors[coding.owners]], _packing(coding, request, r)
        k = next(block.shape[0] for block in packed.blocks if block.name == "risks")
        of_clusters = {"clusters": 1.0, "scores": outcome**2 * np.outer(own, own)} if request.clustered else {}
        parts.append(
            packed.pack(
                **newton_units(outcome, own),
                risks=np.ones((k, 2)),
                spread=np.ones((k, 3)),
                slopes=np.broadcast_to(own, (k, 2, len(own))),
                **of_clusters,
            )
        )
    return np.concatenate(parts)


def part(silo: Silo, request: Broadcast) -> FloatArray:
    """The silo's part of the sums."""
    coding, begin, parts = coding_of(silo.schema), 0, []
    for r, regressors in enumerate(request.regressors):
        q = _width(coding, regressors)
        sums = _sums_of(silo, request, r, request.slopes[begin : begin + q])
        parts.append(_packing(coding, request, r).pack(**sums) / sum(silo.schema.rows.values()))
        begin += q
    return np.concatenate(parts)


def _sums_of(silo: Silo, request: Broadcast, r: int, slopes: FloatArray) -> dict[str, Any]:
    """The sums of regression `r` over the silo's complete rows at these `slopes`; {} if there are no such rows."""
    coding, outcome, used = coding_of(silo.schema), request.outcome, np.flatnonzero(request.regressors[r]).tolist()
    rows = silo.complete_rows([*used, outcome])
    n = len(rows)
    if not n:
        return {}
    treatment, permutation = map(int, request.placebos[r])
    if permutation:
        order = np.random.default_rng([silo.key, treatment, permutation]).permutation(n)
        rows[:, used.index(treatment)] = rows[order, used.index(treatment)]
    subset = coding.subset(used)
    y = rows[:, -1]
    fit = OwnFit.of(subset.rows(rows[:, :-1]), y, slopes, labels=bool(coding.discrete[outcome]))
    clusters, scores = _scores(silo, request, [*used, outcome], fit)
    sums: dict[str, Any] = {**fit.sums, **scores}
    own = np.flatnonzero(request.comparisons[:, 0] == r) if fit.labels else np.empty(0, np.int64)
    if np.isinf(fit.intercept):
        return sums | {"risks": np.full((len(own), 2), n * y[0])}
    compared = []
    for treated, values in zip(request.comparisons[own, 1].tolist(), request.values[own], strict=True):
        block = subset.blocks[used.index(treated)]
        codes = [value == np.arange(1, len(block) + 1) if coding.discrete[treated] else value for value in values]
        settings = [code - fit.means[block] - fit.centre[block] for code in codes]
        compared.append(_compared(fit, block, settings, clusters))
    for name in ("risks", "spread", "slopes") if compared else ():
        sums[name] = np.array([one[name] for one in compared])
    return sums


def _scores(
    silo: Silo, request: Broadcast, columns: Sequence[int], fit: OwnFit
) -> tuple[NDArray[np.int64] | None, dict[str, Any]]:
    """The cluster, from 0, of each row without an empty cell in `columns`, and the sums over the clusters of `fit`.

    They are None and {} if clusters are not requested. Raises `BadInput` if they are, but no column names them.
    """
    if not request.clustered:
        return None, {}
    if silo.clusters is None:
        raise BadInput("intervals of clusters need rows whose clusters a column names (--cluster)")
    clusters = np.unique(silo.clusters[silo.complete(columns)], return_inverse=True)[1]
    scores = by_cluster(fit.about * fit.errors[:, None], clusters)
    return clusters, {"clusters": float(len(scores)), "scores": scores.T @ scores}


def by_cluster(rows: FloatArray, clusters: NDArray[np.int64] | None) -> FloatArray:
    """The totals `[n_clusters, k]` of `rows` `[n, k]` over `clusters` `[n]`, numbered from 0; if None, the rows."""
    if clusters is None:
        return rows
    totals = np.zeros((int(clusters.max()) + 1, rows.shape[1]))
    np.add.at(totals, clusters, rows)
    return totals


def _compared(
    fit: OwnFit, block: NDArray[np.int64], settings: Sequence[FloatArray], clusters: NDArray[np.int64] | None
) -> dict[str, FloatArray]:
    """The sums of a comparison of two `settings` of the columns `block` in the rows of `fit`.

    The precision of the silo's intercept is the sum of w, for the variance of the gradient of independent rows.
    """
    about, precision = fit.about, float((fit.risk * (1 - fit.risk)).sum())
    if clusters is not None:
        precision **= 2
        precision /= float((by_cluster(fit.errors[:, None], clusters) ** 2).sum())
    risks, steep, gradients = [], [], []
    for setting in settings:
        changed = about.copy()
        changed[:, block] = setting
        risk = expit(fit.predictor + (changed[:, block] - about[:, block]) @ fit.slopes[block])
        risks.append(risk)
        steep.append(float((risk * (1 - risk)).sum()))
        gradients.append((risk * (1 - risk)) @ changed)
    deviations = by_cluster(np.transpose([one - one.mean() for one in risks]), clusters)
    spread = np.outer(steep, steep) / precision + deviations.T @ deviations
    return {
        "risks": np.array([one.sum() for one in risks]),
        "spread": triangle(np.asarray(spread)),
        "slopes": np.array(gradients),
    }


def _parts(server: Server, sums: FloatArray) -> list[tuple[slice, dict[str, FloatArray]]]:
    """For each regression, the position of its slopes, and its sums."""
    coding, begin, at = coding_of(server.schema), 0, 0
    found = []
    for r, regressors in enumerate(server.request.regressors):
        q, packed = _width(coding, regressors), _packing(coding, server.request, r)
        found.append((slice(at, at + q), packed.unpack(sums[begin : begin + packed.length])))
        begin, at = begin + packed.length, at + q
    return found


def aggregate(server: Server, replies: Replies[Summand]) -> Server:
    """The state after a Newton step in each regression."""
    parts = _parts(server, replies.total)
    labels = [bool(server.schema.discrete[server.request.outcome])] * len(parts)
    newton, slopes = server.newton.after(server.request.slopes, parts, labels)
    return replace(server, request=replace(server.request, slopes=slopes), newton=newton, sums=replies.total)


def answers(server: Server, questions: Sequence[Question]) -> list[Estimate | str]:
    """The estimate for each of the `questions` of `start`, or the reason why there is none.

    An estimate is the change of a mean with its t interval, or the change of the probability of the second label with
    its odds ratio.
    """
    found: list[Estimate | str] = []
    seen: dict[int, int] = {}
    parts = _parts(server, server.sums)
    for question, r in zip(questions, server.request.comparisons[:, 0].tolist(), strict=True):
        number = seen.setdefault(r, 0)
        seen[r] += 1
        place, sums = parts[r]
        found.append(_answer(server, question, r, place, sums, number))
    return found


def _answer(
    server: Server, question: Question, r: int, place: slice, sums: dict[str, FloatArray], number: int
) -> Estimate | str:
    """The estimate for the comparison `number` of regression `r` with these `sums`, or the reason why there is none."""
    schema, coding, slopes = server.schema, coding_of(server.schema), server.request.slopes[place]
    scale = np.sqrt(np.diag(sums["curvature"]))
    if server.newton.unsolved(r, place, sums):
        return "treatment and covariates predict some labels without error, so that no finite slopes fit best"
    if not scale.all() or np.linalg.eigvalsh(sums["curvature"] / np.outer(scale, scale))[0] < MIN_OWN_SHARE:
        return "within the silos a regressor is constant, or a linear combination of the others"
    rows = round(float(sums["rows"]) * sum(schema.rows.values()))
    covariance = np.linalg.inv(sums["curvature"] / np.outer(scale, scale)) / np.outer(scale, scale)
    sandwich = covariance @ sums["scores"] @ covariance if "scores" in sums else covariance
    if schema.discrete[server.request.outcome]:
        gradients, n = sums["slopes"][number] / sums["rows"], float(sums["rows"])
        own = gradients @ (sandwich * n) @ gradients.T + from_triangle(sums["spread"][number]) / n
        return risk_difference(sums["risks"][number] / n, own / rows)
    silos = round(float(sums["silos"]) * sum(schema.rows.values()))
    units, what = rows, "rows"
    if "clusters" in sums:
        units, what = round(float(sums["clusters"]) * sum(schema.rows.values())), "clusters"
    degrees = units - len(slopes) - silos
    if degrees < 1:
        return f"{units} {what} in {silos} silos are too few for {len(slopes)} regressors"
    used = np.flatnonzero(server.request.regressors[r]).tolist()
    block = coding.subset(used).blocks[used.index(question.treatment)]
    change = np.zeros(len(slopes))
    before, after = (
        value == np.arange(1, len(block) + 1) if schema.discrete[question.treatment] else value
        for value in question.values
    )
    change[block] = np.subtract(after, before, dtype=np.float64)
    variance = 1.0 if "scores" in sums else -2 * float(sums["likelihood"]) / float(sums["rows"])
    error = sqrt(variance * units / degrees * float(change @ sandwich @ change) * float(sums["rows"]) / rows)
    value, half = float(change @ slopes), quantile(degrees) * error
    # The partial R² of a sensitivity analysis does not follow from a sandwich.
    return Estimate(value, (value - half, value + half), error, None if "scores" in sums else degrees)
