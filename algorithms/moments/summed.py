"""Learning from the summed second moments of all silos, exact or private (ours).

Without noise there is one exchange: a silo sends its part of the upper triangle of the second moments. With noise
there are two exchanges. The first measures the scale of each variable, and is skipped if the scale is known. The
second measures integer second moments with clipped contributions of rows (`privacy/gram.py`). Both replies contain
noise. The server adds up the replies and learns; this is post-processing and costs no privacy. Neighbouring tables
differ by the replacement of one record, so the number of rows of each silo is public.

A record is hidden either by the noise of its own silo, or by the noise of all silos together in a masked sum (both in
`secure_sum.py`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..core.promise import Private, Release
from ..core.protocol import FederatedAlgorithm, Replies, Summand, sum_each_round
from ..core.schema import AUTO, FloatArray, Schema, lags_to_sum
from ..core.settings import NonNegative, Share
from ..errors import BadInput
from ..graphs.structure import Structure, stacked, unstacked
from ..privacy import gram, private_scales
from ..privacy.discrete_gaussian import Bits, child_key, discrete_gaussian
from ..privacy.ledger import PrivateSettings
from ..privacy.zcdp import Accounting, Shares, noise_shares
from ..statistics.coding import coded_units
from ..statistics.lagged import silo_windows, window_schema
from ..statistics.moments import (
    Table,
    column_units,
    product_units,
    products,
    require_variance,
    residual_variances,
    sum_over_chunks,
)
from ..statistics.packing import from_triangle, triangle
from . import mixed
from .pooled import PooledLearner, exact_price, lagged_price, learn_from_moments, moments_of_least_bic, rows_with_noise


@dataclass(frozen=True)
class Silo:
    """A silo's rows, which never change; second moments are about the silo's own means if `centred`."""

    table: Table
    all_rows: int
    plan: Shares | None
    measured: NDArray[np.bool_]
    """the columns whose scales are estimated privately; the others have public scales"""
    clip: float
    """with noise: the clipping of rows, as in `SummedMoments.clip`"""
    mixed: bool = False
    """whether the table has the coded columns of mixed data (`mixed.py`)"""
    centred: bool = False
    key: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class Broadcast:
    """The request for bucket counts (no scales yet), or for second moments in units of these scales."""

    scales: FloatArray


def part(silo: Silo, message: Broadcast) -> NDArray[Any]:
    """The silo's part of the requested sum: of float second moments, or noisy integers."""
    return exact_part(silo) if silo.plan is None else noisy_part(silo, silo.plan, message)


def exact_part(silo: Silo) -> FloatArray:
    """The silo's part of the second moments of all rows, `[d(d+1)/2]`: XᵀX divided by the number of all rows."""
    return triangle(products(silo.table, center=silo.centred) / silo.all_rows)


def noisy_part(silo: Silo, plan: Shares, message: Broadcast) -> NDArray[np.int64]:
    """The silo's integer summand, bucket counts or second moments, with its share of the noise."""
    bits = Bits(child_key(silo.key, "second moments" if len(message.scales) else "bucket counts"))
    if not len(message.scales):
        measured = silo.measured
        counts = sum_over_chunks(silo.table, lambda rows: private_scales.bucket_counts(rows[:, measured])).ravel()
        return np.asarray(counts + discrete_gaussian(bits, plan.count_variance, len(counts)))
    d = len(message.scales)
    within = clipping_ball(message.scales, silo.clip, mixed=silo.mixed)
    precision = plan.bits
    parts = sum_over_chunks(silo.table, lambda rows: gram.integer_gram(rows, *within, precision))
    for entries, variance in gram.noise_variances(d, plan.gram_variance):
        parts[entries] += discrete_gaussian(bits, variance, int(entries.sum()))
    return parts


def clipping_ball(scales: FloatArray, clip: float, *, mixed: bool) -> tuple[FloatArray, float]:
    """The units of the columns, and the clipping norm of rows in these units. Raises `BadInput` if out of range."""
    gram.require_scales(scales)
    unit, R = gram.correlation_units(scales, clip) if mixed else (gram.units(scales), gram.radius(scales, clip))
    gram.require_scales(np.array([R]))
    return unit, R


# The default clipping of rows in general, and for learners of classes; tuned on graphs of 10 to 200 variables.
CLIP, CLIP_FOR_TESTS = 0.6, 3.0
# The loosest clipping of mixed data, and the noise, in units of the sampling error, up to which clipping is loosened.
# Tuned on 10 and 20 variables, ε from 0.5 to 50.
MAX_CLIP, NOISE_TO_SAMPLING = 4.0, 0.1

Unit = Literal["window", "row", "stretch"]
PROTECTED_UNITS: dict[Unit, str] = {
    "window": "one record is one window of lags + 1 rows of a series; a row is in as many windows, and protected less",
    "row": "one record is one row of a series, with all windows it is in; a series of many rows is protected less",
    "stretch": "one record is one whole unbroken stretch of a series",
}
"""the unit of protection of ε, for the report of a run"""


@dataclass(frozen=True)
class SummedMoments(PrivateSettings, PooledLearner):
    """Settings of the learners from summed second moments, exact or private."""

    clip: NonNegative = 0.0
    """rows are clipped to the norm √(clip·Σ s_i), in units √s_i for scales s_i; 0: the default of the learner"""
    scale_share: Share = 0.1
    """share of the privacy budget spent on the scales"""
    known_scale: NonNegative = 0.0
    """the root mean square of every variable, if it is public; 0: the scales are estimated privately"""
    accounting: Accounting = "zcdp"
    """conversion of ε and δ to a budget in ρ; papers: the papers' closed form, which is valid but gives a smaller ρ"""
    protect: Unit = "window"
    """time series: the unit that ε protects; window: one window of lags + 1 rows; row: one row, which is in lags + 1
    windows; stretch: a whole unbroken stretch, which multiplies the noise by its number of windows"""

    @property
    def clipping(self) -> float:
        """The clipping of rows: the setting, or the default of the learner.

        Learners of classes have looser clipping by default, because clipping distorts the tests of pc.
        """
        return self.clip or (CLIP_FOR_TESTS if self.class_only else CLIP)

    def clip_for(self, schema: Schema, shares: Shares | None) -> float:
        """The clipping of rows if the silos add these `shares` of noise.

        Mixed data are clipped less if the noise is still small compared with the sampling error.
        """
        if schema.kind != "mixed" or self.clip or shares is None:
            return self.clipping
        columns = self.columns(schema)
        rows = sum(columns.rows.values())
        noise = noise_level(shares, len(columns.variables), len(columns.rows), rows, 1.0) * math.sqrt(rows)
        return max(CLIP, min(NOISE_TO_SAMPLING / noise, MAX_CLIP))

    def shares(self, schema: Schema, certain_shares: int, protects: str) -> Shares:
        """The noise of these settings if the shares of `certain_shares` silos are certain to be in the sum."""
        counting, rows = 0.0 if self.known_scale else self.scale_share, self.columns(schema)
        protection = f"{PROTECTED_UNITS[self.protect]}; {protects}" if schema.kind == "time-series" else protects
        # δ depends on the number of rows, as in owners' budgets, and not on the smaller number of windows.
        promise = self.promise(schema, protection, self.accounting)
        numbers = int((~schema.discrete).sum()) if schema.kind == "mixed" else None
        return noise_shares(rows, promise, counting, certain_shares, self.group(schema), numbers)

    def reach(self, schema: Schema) -> int:
        """The number of lags of the summed windows, 0 unless the data are time series.

        Raises `BadInput`, naming the silo, if the series of a silo are too short.
        """
        return lags_to_sum(schema, self.lags, self.max_lags) if schema.kind == "time-series" else 0

    def columns(self, schema: Schema) -> Schema:
        """The public schema of what is summed: the rows, windows of time series, or coded mixed rows."""
        if schema.kind == "mixed":
            return mixed.summed_columns(schema, self.summed)
        reach = self.reach(schema)
        return window_schema(schema, reach) if reach else schema

    def freedom(self, schema: Schema, silos: tuple[str, ...]) -> int:
        """The degrees of freedom of the sum over `silos`: rows, minus one per silo if means are subtracted."""
        columns, centred = self.columns(schema), self.centred(schema)
        return sum(columns.rows[silo] - centred for silo in silos)

    @property
    def summed(self) -> mixed.SumKind:
        """The kind of sum over mixed data."""
        return "means" if not self.center else "pairs" if self.epsilon else "centred"

    def centred(self, schema: Schema) -> bool:
        """Whether each silo's own means are subtracted."""
        return self.center and not self.reach(schema) and not self.epsilon

    def group(self, schema: Schema) -> int:
        """The number of summed rows in one protected unit."""
        reach = self.reach(schema)
        if not reach or self.protect == "window":
            return 1
        most = max(length - reach for stretches in schema.stretches.values() for length in stretches)
        return min(reach + 1, most) if self.protect == "row" else most


def noise_level(shares: Shares, d: int, silos: int, rows: int, clip: float) -> float:
    """The standard deviation of the noise in an off-diagonal entry of a covariance, for variables of mean square 1.

    Each of `silos` silos adds a share of noise; together they have `rows` rows.
    """
    return math.sqrt(silos * shares.gram_variance / 2) * clip * d / 4.0**shares.bits / rows


# The least eigenvalue of noisy second moments, in units of the variables' scales.
MIN_EIGENVALUE = 1e-3
# The variance that a parent must explain, in units of the standard deviation of the noise in a covariance of variables
# of mean square 1, and the maximum of this variance. The maximum is needed because a true parent of weight 0.5 may
# explain little more. Tuned on graphs of 20 and 200 variables, ε from 0.5 to 10.
PRICE_OF_MOMENT_NOISE = 60.0
MAX_NOISE_PRICE = 0.12
# The share of the diagonal that is added to exact second moments, which are singular with fewer rows than variables.
FLOOR = 1e-9


@dataclass(frozen=True)
class Server:
    """The sums so far; `S` is empty until the last sum."""

    schema: Schema
    scales: FloatArray
    """scales of the m summed columns: the columns of windows for time series, else the variables"""
    S: FloatArray
    """second moments `[m, m]`; after the choice of the number of lags, only the columns of the chosen lags"""
    counted: int
    """number of rows of S"""
    weights: FloatArray
    """learned from S, `[m, d]`"""
    scores: FloatArray


SharesOf = Callable[[Schema], Shares]
"""schema -> each silo's share of the noise"""


def summed_moments(
    settings: SummedMoments, plan: SharesOf | None
) -> FederatedAlgorithm[Server, Silo, Broadcast, Summand]:
    """The algorithm; its silos add the noise of `plan`, or none without a plan."""
    algorithm = sum_each_round(
        open_silo=lambda table, schema, silo, rng: open_silo(table, schema, silo, settings, plan),
        open_server=lambda schema: open_server(schema, settings, plan),
        broadcast=lambda server: Broadcast(server.scales),
        part=part,
        aggregate=lambda server, replies: aggregate(server, replies, settings, plan),
        converged=lambda server: len(server.S) > 0,
        structure=lambda server: structure(server, settings),
        server_type=Server,
        broadcast_type=Broadcast,
        max_rounds=1 if plan is None or settings.known_scale else 2,
        entry_units=None if plan else lambda schema, request: product_units(units_of(schema, settings)),
        whole_numbers=plan is not None,
        measures=lambda server: {"rows": float(server.counted)},
        private=private(plan, settings.insecure_seed) if plan else None,
    )
    if settings.class_only:
        return algorithm
    return replace(algorithm, residual_variances=lambda server: residual_variances(server.S, server.weights))


def open_silo(table: Table, schema: Schema, silo: str, settings: SummedMoments, plan: SharesOf | None) -> Silo:
    """The silo with the rows to sum: its rows `[n_rows, d]`, its coded rows, or the windows of its time series."""
    reach, columns = settings.reach(schema), settings.columns(schema)
    measured = np.ones(len(columns.variables), np.bool_)
    if schema.kind == "mixed":
        if not isinstance(table, np.ndarray):
            raise BadInput(
                f"silo {silo}: too many mixed rows for secure-sum, which keeps them in memory: use secure-boss"
            )
        table = mixed.coded_rows(table, schema, silo, settings.summed)
        measured = mixed.private_columns(schema, settings.summed)
    elif reach:
        table = silo_windows(table, schema, silo, reach, center=settings.center_series and plan is None)
    shares = plan(schema) if plan else None
    clip, centred = settings.clip_for(schema, shares), settings.center and plan is None and not reach
    rows, is_mixed = sum(columns.rows.values()), schema.kind == "mixed"
    return Silo(table, rows, shares, measured, clip, is_mixed, centred=centred and not is_mixed)


def open_server(schema: Schema, settings: SummedMoments, plan: SharesOf | None) -> Server:
    """The state before the first sum. Raises `BadInput` if the noise of the budget would hide the scales."""
    columns = settings.columns(schema)
    if plan is not None:
        variance = len(schema.rows) * float(plan(schema).count_variance)
        private_scales.require_signal(sum(columns.rows.values()), 0.0 if settings.known_scale else math.sqrt(variance))
    if schema.kind == "mixed" and settings.learner != type(settings).learner:
        raise BadInput(f"parameter learner is {settings.learner}: mixed data have their own learner, omit it")
    d, m = len(schema.variables), len(columns.variables)
    known = all_scales(schema, settings, settings.known_scale) if settings.known_scale else np.empty(0)
    nothing = np.zeros((d if schema.kind == "mixed" else m, d))
    return Server(schema.in_order(), known, np.empty((0, 0)), 0, nothing, nothing)


def units_of(schema: Schema, settings: SummedMoments) -> FloatArray:
    """The units of the summed columns in masked sums."""
    if schema.kind != "mixed":
        return column_units(schema, settings.reach(schema))
    units = coded_units(schema)
    return np.append(units, 1.0) if len(units) and settings.summed == "means" else units


def all_scales(schema: Schema, settings: SummedMoments, found: FloatArray | float) -> FloatArray:
    """The scales of all summed columns from the estimates `found`; in mixed data, these are only of numbers."""
    if schema.kind == "mixed":
        return mixed.all_scales(schema, settings.summed, found)
    return np.array(np.broadcast_to(found, len(settings.columns(schema).variables)))


def aggregate(server: Server, replies: Replies[Summand], settings: SummedMoments, plan: SharesOf | None) -> Server:
    """The state after the sum, with the scales, or with the second moments and the structure learned from them."""
    schema, columns = server.schema, settings.columns(server.schema)
    is_mixed, m = schema.kind == "mixed", len(columns.variables)
    counted = sum(columns.rows[silo] for silo in replies.silos)
    if plan is None:
        free = settings.freedom(schema, replies.silos)
        S = from_triangle(replies.total) * (sum(columns.rows.values()) / free)
        if not is_mixed:
            require_variance(S, columns.variables)
            S = S + FLOOR * np.diag(np.diag(S))
        return learn(server, S, free, 0.0, settings)
    if not len(server.scales):
        names = columns.variables
        if is_mixed:
            names = tuple(name for name in schema.variables if name not in schema.levels)
        counts = replies.total.reshape(len(names), -1)
        return replace(server, scales=all_scales(schema, settings, private_scales.scales(counts, names)))
    shares, bits = plan(schema), gram.bits_for(max(columns.rows.values()))
    clip = settings.clip_for(schema, shares)
    unit, R = clipping_ball(server.scales, clip, mixed=is_mixed)
    S = gram.covariance(replies.total, unit, R, bits, counted)
    noise = noise_level(shares, m, len(columns.rows), counted, clip)
    return learn(server, gram.positive_definite(S, server.scales, MIN_EIGENVALUE), counted, noise, settings)


def learn(server: Server, S: FloatArray, counted: int, noise: float, settings: SummedMoments) -> Server:
    """The state with the structure learned from second moments `S` of `counted` rows with this `noise`."""
    schema, d = server.schema, len(server.schema.variables)
    if schema.kind == "mixed":
        edges = mixed.mixed_class(S, counted, schema, noise, server.scales).astype(np.float64)
        return replace(server, S=S, counted=counted, weights=edges, scores=edges)
    learner_settings = settings
    if noise and not settings.price:
        exact = exact_price(d, counted) if len(S) == d else lagged_price(len(S), counted)
        learner_settings = replace(settings, price=max(exact, min(MAX_NOISE_PRICE, PRICE_OF_MOMENT_NOISE * noise)))
    if len(S) > d and settings.lags == AUTO:
        S = moments_of_least_bic(S, rows_with_noise(counted, noise), d)
    found = learn_from_moments(
        S, counted, schema.variables, learner_settings, noise, schema.knowledge.prior(schema.variables)
    )
    weights, scores = unstacked(found)
    return replace(server, S=S, counted=counted, weights=weights, scores=scores)


def structure(server: Server, settings: SummedMoments) -> Structure:
    """The learned structure: a graph with weights; for learners of classes and for mixed data, a CPDAG."""
    names = server.schema.variables
    found = stacked(names, server.weights, server.scores if len(server.scores) else np.zeros_like(server.weights))
    only_class = settings.class_only or server.schema.kind == "mixed"
    return replace(found, kind="cpdag", scores=None) if only_class else found


def private(plan: SharesOf, insecure_seed: int) -> Private[Silo, Broadcast]:
    """The privacy promise, and the cost of the bucket counts and of the second moments."""

    def releases(silo: Silo, message: Broadcast) -> tuple[Release, ...]:
        assert silo.plan is not None
        if len(message.scales):
            return (Release("second moments", silo.plan.gram_cost),)
        return (Release("bucket counts", silo.plan.count_cost),)

    return Private(
        promise=lambda schema: plan(schema).promise,
        releases=releases,
        with_key=lambda silo, key: replace(silo, key=key),
        insecure_seed=insecure_seed,
    )
