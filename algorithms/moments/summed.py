"""The second moments of all silos in one sum, exact or private, and what is learned from them (ours).

A silo answers at most two questions. Without noise there is one: the upper triangle of its second moments. With noise,
the first asks how large each variable is (`privacy/scales.py`; skipped if the scale is known), the second for integer
second moments in which every row's contribution is clipped (`privacy/gram.py`); both answers carry noise. The server
adds them up and learns; everything it does with a private sum is post-processing and costs no privacy. Neighbouring
tables differ by the replacement of one record; n_p is public.

The algorithm decides whose noise hides a record: each silo's own (`dp_covariance.py`), or that of all silos together,
behind masks (`secure_sum.py`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ..core.lags import AUTO, reach
from ..core.promise import Private, Release
from ..core.protocol import FederatedAlgorithm, Replies
from ..core.schema import FloatArray, Schema
from ..errors import require
from ..graphs.structure import Structure, below, stacked
from ..privacy import gram, scales
from ..privacy.settings import PrivateSettings
from ..privacy.shares import Shares, noise_shares
from ..privacy.zcdp import Accounting
from ..statistics.chunks import Table
from ..statistics.lagged import silo_windows, windowed
from ..statistics.moments import residual_variances
from ..statistics.symmetric import from_triangle
from ..statistics.units import of_columns, of_products
from .lag_order import lagged_price, of_least_bic
from .parts import Broadcast, Reply, Silo, part_of
from .pooled import PooledLearner, exact_price, learn_from_moments

# Noisy second moments keep no eigenvalue below this, in units of the variables' scales.
LEAST_EIGENVALUE = 1e-3
# The variance a parent must explain, per standard deviation of the noise in a covariance of variables of mean square 1,
# and its maximum: a true parent of weight 0.5 may explain little more. Found on graphs of 20 and 200 variables, ε from
# 0.5 to 10.
PRICE_OF_MOMENT_NOISE = 60.0
MOST_FOR_NOISE = 0.12
# How far rows are clipped, found on graphs of 10 to 200 variables.
CLIP, CLIP_OF_TESTS = 0.6, 3.0
# This share of their diagonal is added to exact second moments, which are singular if rows are fewer than variables.
FLOOR = 1e-9

Unit = Literal["window", "row", "stretch"]
SAID: dict[Unit, str] = {
    "window": "one record is one window of lags + 1 rows of a series; a row is in as many windows, and protected less",
    "row": "one record is one row of a series, with all windows it is in; a series of many rows is protected less",
    "stretch": "one record is one unbroken stretch of a series, whole",
}
"""what is protected, as it is said with ε"""


@dataclass(frozen=True)
class SummedMoments(PrivateSettings, PooledLearner):
    """Settings of the learners from summed, perhaps private, second moments."""

    clip: float = 0.0
    """rows are clipped to the norm √(clip·Σ s_i), in units √s_i of the scales s; 0: chosen for the learner"""
    scale_share: float = 0.1
    """share of the privacy budget spent on finding the scales"""
    known_scale: float = 0.0
    """the root mean square of every variable, if it is public; 0: found privately"""
    accounting: Accounting = "zcdp"
    """how ε and δ become a budget in ρ; papers: by the papers' closed form, which is valid and buys less"""
    protect: Unit = "window"
    """time series: what ε is promised to: one window of lags + 1 rows; one row, which is in lags + 1 windows; a whole
    unbroken stretch with all its windows, which takes as many times the noise as it has windows"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for a value outside its range."""
        PooledLearner.__post_init__(self)
        PrivateSettings.__post_init__(self)
        require(self.clip >= 0, "clip", self.clip, "0 or more")
        require(0 < self.scale_share < 1, "scale_share", self.scale_share, "between 0 and 1")
        require(self.known_scale >= 0, "known_scale", self.known_scale, "0 or more")

    @property
    def clipping(self) -> float:
        """How far rows are clipped: as stated, or as suits the learner (clipping distorts the tests of pc)."""
        return self.clip or (CLIP_OF_TESTS if self.class_only else CLIP)

    def shares(self, schema: Schema, sure: int, protects: str) -> Shares:
        """Return the noise that these settings ask for, if `sure` silos' shares are certain to be in what is seen."""
        counting, rows = 0.0 if self.known_scale else self.scale_share, self.columns(schema)
        said = f"{SAID[self.protect]}; {protects}" if schema.kind == "time-series" else protects
        promise = self.promise(rows, said, self.accounting)
        return noise_shares(rows, promise, counting, sure, self.group(schema))

    def reach(self, schema: Schema) -> int:
        """Return how many lags the summed windows have, 0 for data that are no time series.

        Raises `BadInput` naming a silo whose series are too short.
        """
        return reach(schema, self.lags, self.most_lags) if schema.kind == "time-series" else 0

    def columns(self, schema: Schema) -> Schema:
        """Return the public schema of what is summed: the rows themselves, or windows of time series."""
        reach = self.reach(schema)
        return windowed(schema, reach) if reach else schema

    def freedom(self, schema: Schema, silos: tuple[str, ...]) -> int:
        """Return the degrees of freedom of the sum over `silos`: rows, less one for each whose means are subtracted."""
        columns = self.columns(schema)
        centred = self.center and columns is schema
        return sum(columns.rows[silo] - centred for silo in silos)

    def group(self, schema: Schema) -> int:
        """Return how many of the summed rows belong to what is protected."""
        reach = self.reach(schema)
        if not reach or self.protect == "window":
            return 1
        most = max(length - reach for stretches in schema.stretches.values() for length in stretches)
        return min(reach + 1, most) if self.protect == "row" else most


@dataclass(frozen=True)
class Server:
    """The sums so far; `S` is empty until the last one."""

    schema: Schema
    scales: FloatArray
    """of the m summed columns: of time series those of windows, else the variables"""
    S: FloatArray
    """second moments `[m, m]`; those of the chosen lags alone, once they are chosen"""
    counted: int
    """rows behind S"""
    weights: FloatArray
    """what was learned from S, `[m, d]`"""
    scores: FloatArray


SharesOf = Callable[[Schema], Shares]
"""schema -> every silo's share of the noise"""


def noise_level(shares: Shares, d: int, silos: int, rows: int, clip: float) -> float:
    """Return the standard deviation that the noise of so many silos has in a covariance of `rows` in all.

    For variables of mean square 1, off the diagonal.
    """
    return math.sqrt(silos * shares.gram_variance / 2) * clip * d / 4.0**shares.bits / rows


def summed_moments(
    settings: SummedMoments, plan: SharesOf | None
) -> FederatedAlgorithm[Server, Silo, Broadcast, Reply]:
    """Return the algorithm whose silos add the noise that `plan` says, none if there is no plan."""
    return FederatedAlgorithm(
        open_silo=lambda table, schema, silo, rng: open_silo(table, schema, silo, settings, plan),
        open_server=lambda schema: open_server(schema, settings, plan),
        broadcast=lambda server: Broadcast(server.scales),
        local_solve=lambda silo, message: (silo, part_of(silo, message, settings.clipping)),
        aggregate=lambda server, replies: aggregate(server, replies, settings, plan),
        dual_update=lambda server: server,
        converged=lambda server: len(server.S) > 0,
        structure=lambda server: structure(server, settings),
        server_type=Server,
        silo_type=Silo,
        broadcast_type=Broadcast,
        reply_type=Reply,
        max_rounds=1 if plan is None or settings.known_scale else 2,
        summand=lambda part: part.values,
        entry_units=None if plan else lambda schema, asked: of_products(of_columns(schema, settings.reach(schema))),
        whole_numbers=plan is not None,
        measures=lambda server: {"rows": float(server.counted)},
        bears_loss=True,
        private=private(plan, settings.insecure_seed) if plan else None,
        residual_variances=None if settings.class_only else lambda server: residual_variances(server.S, server.weights),
    )


def open_silo(table: Table, schema: Schema, silo: str, settings: SummedMoments, plan: SharesOf | None) -> Silo:
    """Return the silo with what is to be summed: its rows `[n_rows, d]`, or of time series its windows."""
    reach = settings.reach(schema)
    rows, shares = sum(settings.columns(schema).rows.values()), plan(schema) if plan else None
    if reach and isinstance(table, np.ndarray):
        table = silo_windows(table, schema, silo, reach, center=settings.center_series and plan is None)
    return Silo(table, rows, shares, centred=settings.center and plan is None and not reach)


def open_server(schema: Schema, settings: SummedMoments, plan: SharesOf | None) -> Server:
    """Return the state before the first sum. Raises `BadInput` for a budget whose noise would hide the scales."""
    columns = settings.columns(schema)
    if plan is not None:
        variance = len(schema.rows) * float(plan(schema).count_variance)
        scales.require_signal(sum(columns.rows.values()), 0.0 if settings.known_scale else math.sqrt(variance))
    m = len(columns.variables)
    known = np.full(m, settings.known_scale) if settings.known_scale else np.empty(0)
    nothing = np.zeros((m, len(schema.variables)))
    return Server(schema.in_order(), known, np.empty((0, 0)), 0, nothing, nothing)


def aggregate(server: Server, replies: Replies[Reply], settings: SummedMoments, plan: SharesOf | None) -> Server:
    """Return the state with what the sum says: the scales, or the second moments and what is learned from them."""
    assert replies.total is not None
    columns = settings.columns(server.schema)
    counted = sum(columns.rows[silo] for silo in replies.silos)
    if plan is None:
        free = settings.freedom(server.schema, replies.silos)
        S = from_triangle(replies.total) * (sum(columns.rows.values()) / free)
        return learned(server, S + FLOOR * np.diag(np.diag(S)), free, 0.0, settings)
    if not len(server.scales):
        counts = replies.total.reshape(len(columns.variables), -1)
        return replace(server, scales=scales.scales(counts, columns.variables))
    R, bits = gram.radius(server.scales, settings.clipping), gram.bits_for(max(columns.rows.values()))
    S = gram.covariance(replies.total, gram.units(server.scales), R, bits, counted)
    noise = noise_level(plan(server.schema), len(columns.variables), len(columns.rows), counted, settings.clipping)
    return learned(server, gram.positive(S, server.scales, LEAST_EIGENVALUE), counted, noise, settings)


def learned(server: Server, S: FloatArray, counted: int, noise: float, settings: SummedMoments) -> Server:
    """Return the state with what the learner makes of second moments `S` of `counted` rows, with this `noise`."""
    d = len(server.schema.variables)
    how = settings
    if noise and not settings.price:
        exact = exact_price(d, counted) if len(S) == d else lagged_price(len(S), counted)
        how = replace(settings, price=max(exact, min(MOST_FOR_NOISE, PRICE_OF_MOMENT_NOISE * noise)))
    if len(S) > d and settings.lags == AUTO:
        S = of_least_bic(S, counted, d, settings.most_parents)
    prior = server.schema.knowledge.prior(server.schema.variables)
    found = learn_from_moments(S, counted, server.schema.variables, how, noise, prior)
    weights, scores = below(found)
    return replace(server, S=S, counted=counted, weights=weights, scores=scores)


def structure(server: Server, settings: SummedMoments) -> Structure:
    """Return what was learned: weights, or the CPDAG of a learner that finds no more."""
    names = server.schema.variables
    found = stacked(names, server.weights, server.scores if len(server.scores) else np.zeros_like(server.weights))
    return replace(found, kind="cpdag", scores=None) if settings.class_only else found


def private(plan: SharesOf, insecure_seed: int) -> Private[Silo, Broadcast]:
    """Return the promise, and what each of the two sums costs."""

    def releases(silo: Silo, message: Broadcast) -> tuple[Release, ...]:
        assert silo.plan is not None
        if len(message.scales):
            return (Release("second moments", silo.plan.gram_cost),)
        return (Release("bucket counts", silo.plan.count_cost),)

    return Private(
        promise=lambda schema: plan(schema).promise,
        releases=releases,
        keyed=lambda silo, key: replace(silo, key=key),
        insecure_seed=insecure_seed,
    )
