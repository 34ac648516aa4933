"""Adjusted regressions of one outcome from masked sums over the rows, and the average effects that they give.

If the outcome is a number, its mean is linear in treatment and covariates. If it has two labels, the probability of the
second label is logistic. Regressors with labels are coded by indicators of their levels except the first. Every silo p
has its own intercept α_p, so differences between silos do not confound the effect. The silo does not send α_p: it
maximises the likelihood over α_p for the current slopes β. The profile log-likelihood L(β) = Σ_p max_α L_p(α, β) is a
sum over silos. Let z be the regressors of a row, π its fitted mean or probability, and z̄ the silo's mean of z weighted
by w = π(1 − π) (by 1 for numbers). Then the gradient of L and minus the Hessian of L are sums over silos, too:

    Σ (z − z̄)(y − π)   and   Σ w (z − z̄)(z − z̄)ᵀ.

Newton's method with gradient and Hessian ends at the regression of the pooled rows with an indicator for each silo.

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
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.protocol import FederatedAlgorithm, Replies, Summand, sum_each_round
from ..core.schema import FloatArray, Schema
from ..core.settings import Settings
from ..statistics.coding import Coding, coded_units, coding_of
from ..statistics.packing import Block, Packing, from_triangle, triangle
from .g_formula import risk_difference
from .linear import MIN_OWN_SHARE, Estimate, quantile

MAX_NEWTON_STEPS = 30
"""maximum number of Newton steps"""
MAX_FINAL_STEP = 1e-7
"""maximum Newton step, in standard errors of one row, of a regression that has converged"""
MAX_INTERCEPT_STEPS = 100
"""maximum number of steps for a silo's intercept"""
FLAT = 1e-6
"""minimum curvature of a slope as a share of its initial curvature; below, labels count as predicted without error"""
INTERCEPT_ACCURACY = 1e-13
"""maximum relative change of a silo's intercept in its last step"""
ROUNDING = 1e-8
"""maximum difference that the fixed-point rounding of masked sums may cause between two equal sums"""


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
class Silo:
    """A silo's rows `[n_rows, d]`, the schema, and the key of its permutations."""

    table: FloatArray
    schema: Schema
    key: int


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


@dataclass(frozen=True)
class Server:
    """The request, and the state of Newton's method."""

    schema: Schema
    request: Broadcast
    direction: FloatArray
    """the last step of the slopes"""
    likelihood: FloatArray
    """the greatest log-likelihood of each regression so far, `[m]`"""
    finished: NDArray[np.bool_]
    """whether each regression has converged, `[m]`"""
    sums: FloatArray
    """the last sums, divided by all rows; the sums of a finished regression are taken at its final slopes"""
    first_curvature: FloatArray
    """the diagonal of minus the Hessian at slopes of zero, of each regression, concatenated"""


def start(schema: Schema, outcome: int, questions: Sequence[Question]) -> Server:
    """The server's state before the exchange for `questions` about the variable `outcome`, by number in `schema`.

    Questions with the same regression share its sums.
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
    )
    m = len(keys)
    return Server(schema, request, 0 * slopes, np.full(m, -np.inf), np.zeros(m, np.bool_), np.empty(0), 0 * slopes)


def build(settings: AdjustedRegressions) -> FederatedAlgorithm[Server, Silo, Broadcast, Summand]:
    """The exchange, which begins in the state `start(...)`."""
    return sum_each_round(
        open_silo=lambda table, schema, silo, rng: Silo(table, schema, int(rng.integers(2**62))),
        open_server=lambda schema: start(schema, 0, ()),
        broadcast=lambda server: server.request,
        part=part,
        aggregate=aggregate,
        converged=lambda server: bool(server.finished.all()),
        server_type=Server,
        broadcast_type=Broadcast,
        max_rounds=MAX_NEWTON_STEPS,
        entry_units=_units,
        needs_secure_sum=settings.masked,
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
            Block("rows", ()),
            Block("silos", ()),
            Block("likelihood", ()),
            Block("gradient", (q,)),
            Block("curvature", (q, q), symmetric=True),
            Block("risks", (k, 2)),
            Block("spread", (k, 3)),
            Block("slopes", (k, 2, q)),
        )
    )


def _units(schema: Schema, request: Broadcast) -> FloatArray:
    """The units of a reply, from the units of the columns."""
    coding, columns = coding_of(schema), coded_units(schema)
    outcome = 1.0 if coding.discrete[request.outcome] else columns[coding.blocks[request.outcome][0]]
    parts = []
    for r, regressors in enumerate(request.regressors):
        own, packed = columns[regressors[coding.owners]], _packing(coding, request, r)
        k = packed.blocks[-1].shape[0]
        parts.append(
            packed.pack(
                rows=1.0,
                silos=1.0,
                likelihood=outcome**2,
                gradient=outcome * own,
                curvature=np.outer(own, own),
                risks=np.ones((k, 2)),
                spread=np.ones((k, 3)),
                slopes=np.broadcast_to(own, (k, 2, len(own))),
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
    family = silo.table[:, [*used, outcome]]
    empty = np.isnan(family) | ((family < 0) & silo.schema.discrete[[*used, outcome]])
    rows = family[~empty.any(axis=1)]
    n = len(rows)
    if not n:
        return {}
    treatment, permutation = map(int, request.placebos[r])
    if permutation:
        order = np.random.default_rng([silo.key, treatment, permutation]).permutation(n)
        rows[:, used.index(treatment)] = rows[order, used.index(treatment)]
    subset = coding.subset(used)
    coded, y = subset.rows(rows[:, :-1]), rows[:, -1]
    means = coded.mean(axis=0)
    columns, found = coded - means, {"rows": n, "silos": 1}
    linear = columns @ slopes
    if not coding.discrete[outcome]:
        residuals = y - y.mean() - linear
        curvature = columns.T @ columns
        return found | {
            "likelihood": -0.5 * residuals @ residuals,
            "gradient": columns.T @ residuals,
            "curvature": curvature,
        }
    own = np.flatnonzero(request.comparisons[:, 0] == r)
    if y.min() == y.max():
        return found | {"risks": np.full((len(own), 2), n * y[0])}
    predictor = linear + _intercept(linear, y)
    risk = expit(predictor)
    weight = risk * (1 - risk)
    centre = weight @ columns / weight.sum()
    about = columns - centre
    sums: dict[str, Any] = {
        "likelihood": -np.logaddexp(0, (1 - 2 * y) * predictor).sum(),
        "gradient": about.T @ (y - risk),
        "curvature": (about * weight[:, None]).T @ about,
    }
    compared = []
    for treated, values in zip(request.comparisons[own, 1].tolist(), request.values[own], strict=True):
        block = subset.blocks[used.index(treated)]
        codes = [value == np.arange(1, len(block) + 1) if coding.discrete[treated] else value for value in values]
        settings = [code - means[block] - centre[block] for code in codes]
        compared.append(_compared(about, predictor, slopes, block, settings, float(weight.sum())))
    for name in ("risks", "spread", "slopes") if compared else ():
        sums[name] = np.array([one[name] for one in compared])
    return found | sums


def _compared(
    about: FloatArray,
    predictor: FloatArray,
    slopes: FloatArray,
    block: NDArray[np.int64],
    settings: Sequence[FloatArray],
    precision: float,
) -> dict[str, FloatArray]:
    """The sums of a comparison of two `settings` of the columns `block` in the rows `about` `[n, q]`.

    `precision` is the sum of w, the precision of the silo's intercept.
    """
    risks, steep, gradients = [], [], []
    for setting in settings:
        changed = about.copy()
        changed[:, block] = setting
        risk = expit(predictor + (changed[:, block] - about[:, block]) @ slopes[block])
        risks.append(risk)
        steep.append(float((risk * (1 - risk)).sum()))
        gradients.append((risk * (1 - risk)) @ changed)
    spread = np.outer(steep, steep) / precision + len(about) * np.cov(np.array(risks), bias=True)
    return {
        "risks": np.array([one.sum() for one in risks]),
        "spread": triangle(np.asarray(spread)),
        "slopes": np.array(gradients),
    }


def expit(x: FloatArray) -> FloatArray:
    """The logistic function, without overflow."""
    return np.asarray(0.5 * (1 + np.tanh(0.5 * x)))


def _intercept(linear: FloatArray, y: FloatArray) -> float:
    """The intercept of greatest likelihood, given the linear predictors `[n]` of rows `y` with both labels.

    The gradient decreases with the intercept, so its sign shows on which side the solution is. This brackets the
    solution. Steps of Newton's method that leave the bracket are replaced by its middle.
    """
    odds = log(y.mean() / (1 - y.mean()))
    low, high = odds - float(linear.max()), odds - float(linear.min())
    middle = 0.5 * (low + high)
    for _ in range(MAX_INTERCEPT_STEPS):
        risk = expit(middle + linear)
        gradient, curvature = float((y - risk).sum()), float((risk * (1 - risk)).sum())
        low, high = (middle, high) if gradient > 0 else (low, middle)
        step = gradient / curvature if curvature > 0 else np.inf
        further = middle + step if low <= middle + step <= high else 0.5 * (low + high)
        if abs(further - middle) <= INTERCEPT_ACCURACY * (1 + abs(middle)):
            return further
        middle = further
    return middle


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
    """The state after a Newton step in each regression; if the likelihood fell, the last step is halved instead.

    If the number of rows has changed, because a silo was lost, the comparison of likelihoods starts again.
    """
    slopes, direction = server.request.slopes.copy(), server.direction.copy()
    likelihood, finished, first = server.likelihood.copy(), server.finished.copy(), server.first_curvature.copy()
    before = _parts(server, server.sums) if len(server.sums) else []
    for r, (place, sums) in enumerate(_parts(server, replies.total)):
        same_rows = bool(before) and abs(float(before[r][1]["rows"] - sums["rows"])) < ROUNDING
        if not same_rows:
            likelihood[r], finished[r] = -np.inf, False
        if finished[r]:
            continue
        rise = float(sums["likelihood"]) - likelihood[r]
        if rise < -ROUNDING * (1 + abs(likelihood[r])):
            direction[place] *= 0.5
            slopes[place] -= direction[place]
            continue
        likelihood[r] = float(sums["likelihood"])
        inverse, scale = _inverse(sums["curvature"])
        direction[place] = inverse @ sums["gradient"]
        if not before:
            first[place] = scale**2
        small = np.abs(direction[place]) * scale <= MAX_FINAL_STEP * sqrt(_noise(server, sums))
        finished[r] = bool(small.all()) or _separated(server, place, sums)
        if not finished[r]:
            slopes[place] += direction[place]
    return replace(
        server,
        request=replace(server.request, slopes=slopes),
        direction=direction,
        likelihood=likelihood,
        finished=finished,
        sums=replies.total,
        first_curvature=first,
    )


def _inverse(curvature: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The inverse of a `curvature` `[q, q]`, zero in combinations of columns that do not vary, and its scale `[q]`."""
    scale = np.sqrt(np.diag(curvature))
    usable = np.where(scale > 0, scale, 1.0)
    values, vectors = np.linalg.eigh(curvature / np.outer(usable, usable))
    inverse = (vectors * np.where(values > MIN_OWN_SHARE, 1 / np.maximum(values, MIN_OWN_SHARE), 0.0)) @ vectors.T
    return inverse / np.outer(usable, usable), scale


def _separated(server: Server, place: slice, sums: dict[str, FloatArray]) -> bool:
    """Whether the likelihood is flat in a slope at `place`, because risks are near 0 and 1."""
    return bool((np.diag(sums["curvature"]) < FLAT * server.first_curvature[place]).any())


def _noise(server: Server, sums: dict[str, FloatArray]) -> float:
    """The scale of a squared step: 1 for labels, the residual variance for numbers."""
    discrete = server.schema.discrete[server.request.outcome]
    return 1.0 if discrete else max(-2 * float(sums["likelihood"] / sums["rows"]), np.finfo(float).tiny)


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
    if not server.finished[r] or _separated(server, place, sums):
        return "treatment and covariates predict some labels without error, so that no finite slopes fit best"
    if not scale.all() or np.linalg.eigvalsh(sums["curvature"] / np.outer(scale, scale))[0] < MIN_OWN_SHARE:
        return "within the silos a regressor is constant, or a linear combination of the others"
    rows = round(float(sums["rows"]) * sum(schema.rows.values()))
    covariance = np.linalg.inv(sums["curvature"] / np.outer(scale, scale)) / np.outer(scale, scale)
    if schema.discrete[server.request.outcome]:
        gradients, n = sums["slopes"][number] / sums["rows"], float(sums["rows"])
        own = gradients @ (covariance * n) @ gradients.T + from_triangle(sums["spread"][number]) / n
        return risk_difference(sums["risks"][number] / n, own / rows)
    silos = round(float(sums["silos"]) * sum(schema.rows.values()))
    degrees = rows - len(slopes) - silos
    if degrees < 1:
        return f"{rows} rows in {silos} silos are too few for {len(slopes)} regressors"
    used = np.flatnonzero(server.request.regressors[r]).tolist()
    block = coding.subset(used).blocks[used.index(question.treatment)]
    change = np.zeros(len(slopes))
    before, after = (
        value == np.arange(1, len(block) + 1) if schema.discrete[question.treatment] else value
        for value in question.values
    )
    change[block] = np.subtract(after, before, dtype=np.float64)
    variance = -2 * float(sums["likelihood"]) / float(sums["rows"]) * rows / degrees
    error = sqrt(variance * float(change @ covariance @ change) * float(sums["rows"]) / rows)
    value, half = float(change @ slopes), quantile(degrees) * error
    return Estimate(value, (value - half, value + half), error, degrees)
