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

import numpy as np

from ..core.lags import AUTO
from ..core.promise import Private, Release
from ..core.protocol import FederatedAlgorithm, Replies
from ..core.schema import FloatArray, Schema
from ..errors import BadInput
from ..graphs.structure import Structure, below, stacked
from ..privacy import gram, scales
from ..privacy.shares import Shares
from ..statistics.chunks import Table
from ..statistics.coding import coded_units
from ..statistics.lagged import silo_windows
from ..statistics.moments import residual_variances
from ..statistics.symmetric import from_triangle
from ..statistics.units import of_columns, of_products
from . import mixed
from .lag_order import lagged_price, of_least_bic
from .parts import Broadcast, Reply, Silo, ball, part_of
from .pooled import exact_price, learn_from_moments
from .summed_settings import SummedMoments, noise_level

# Noisy second moments keep no eigenvalue below this, in units of the variables' scales.
LEAST_EIGENVALUE = 1e-3
# The variance a parent must explain, per standard deviation of the noise in a covariance of variables of mean square 1,
# and its maximum: a true parent of weight 0.5 may explain little more. Found on graphs of 20 and 200 variables, ε from
# 0.5 to 10.
PRICE_OF_MOMENT_NOISE = 60.0
MOST_FOR_NOISE = 0.12
# This share of their diagonal is added to exact second moments, which are singular if rows are fewer than variables.
FLOOR = 1e-9


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


def summed_moments(
    settings: SummedMoments, plan: SharesOf | None
) -> FederatedAlgorithm[Server, Silo, Broadcast, Reply]:
    """Return the algorithm whose silos add the noise that `plan` says, none if there is no plan."""
    return FederatedAlgorithm(
        open_silo=lambda table, schema, silo, rng: open_silo(table, schema, silo, settings, plan),
        open_server=lambda schema: open_server(schema, settings, plan),
        broadcast=lambda server: Broadcast(server.scales),
        local_solve=lambda silo, message: (silo, part_of(silo, message)),
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
        entry_units=None if plan else lambda schema, asked: of_products(units_of(schema, settings)),
        whole_numbers=plan is not None,
        measures=lambda server: {"rows": float(server.counted)},
        bears_loss=True,
        private=private(plan, settings.insecure_seed) if plan else None,
        residual_variances=None if settings.class_only else lambda server: residual_variances(server.S, server.weights),
    )


def open_silo(table: Table, schema: Schema, silo: str, settings: SummedMoments, plan: SharesOf | None) -> Silo:
    """Return the silo with what is to be summed: its rows `[n_rows, d]`, its coded ones, or of time series windows."""
    reach, columns = settings.reach(schema), settings.columns(schema)
    measured = np.ones(len(columns.variables), np.bool_)
    if schema.kind == "mixed":
        if not isinstance(table, np.ndarray):
            raise BadInput(f"silo {silo}: secure-sum holds mixed rows in memory, these are too many: try secure-boss")
        table = mixed.coded_rows(table, schema, silo, settings.summed)
        measured = mixed.measured(schema, settings.summed)
    elif reach and isinstance(table, np.ndarray):
        table = silo_windows(table, schema, silo, reach, center=settings.center_series and plan is None)
    shares = plan(schema) if plan else None
    clip, centred = settings.clip_for(schema, shares), settings.center and plan is None and not reach
    rows, is_mixed = sum(columns.rows.values()), schema.kind == "mixed"
    return Silo(table, rows, shares, measured, clip, is_mixed, centred=centred and not is_mixed)


def open_server(schema: Schema, settings: SummedMoments, plan: SharesOf | None) -> Server:
    """Return the state before the first sum. Raises `BadInput` for a budget whose noise would hide the scales."""
    columns = settings.columns(schema)
    if plan is not None:
        variance = len(schema.rows) * float(plan(schema).count_variance)
        scales.require_signal(sum(columns.rows.values()), 0.0 if settings.known_scale else math.sqrt(variance))
    if schema.kind == "mixed" and settings.learner != type(settings).learner:
        raise BadInput(f"parameter learner is {settings.learner}: mixed data have one learner, leave it out")
    d, m = len(schema.variables), len(columns.variables)
    known = all_scales(schema, settings, settings.known_scale) if settings.known_scale else np.empty(0)
    nothing = np.zeros((d if schema.kind == "mixed" else m, d))
    return Server(schema.in_order(), known, np.empty((0, 0)), 0, nothing, nothing)


def units_of(schema: Schema, settings: SummedMoments) -> FloatArray:
    """Return the units in which the summed columns travel behind masks."""
    if schema.kind != "mixed":
        return of_columns(schema, settings.reach(schema))
    units = coded_units(schema)
    return np.append(units, 1.0) if len(units) and settings.summed == "means" else units


def all_scales(schema: Schema, settings: SummedMoments, found: FloatArray | float) -> FloatArray:
    """Return the scales of all summed columns from those `found`; of mixed data the others are public."""
    if schema.kind == "mixed":
        return mixed.all_scales(schema, settings.summed, found)
    return np.array(np.broadcast_to(found, len(settings.columns(schema).variables)))


def aggregate(server: Server, replies: Replies[Reply], settings: SummedMoments, plan: SharesOf | None) -> Server:
    """Return the state with what the sum says: the scales, or the second moments and what is learned from them."""
    assert replies.total is not None
    schema, columns = server.schema, settings.columns(server.schema)
    is_mixed, m = schema.kind == "mixed", len(columns.variables)
    counted = sum(columns.rows[silo] for silo in replies.silos)
    if plan is None:
        free = settings.freedom(schema, replies.silos)
        S = from_triangle(replies.total) * (sum(columns.rows.values()) / free)
        return learned(server, S if is_mixed else S + FLOOR * np.diag(np.diag(S)), free, 0.0, settings)
    if not len(server.scales):
        names = columns.variables
        if is_mixed:
            names = tuple(name for name in schema.variables if name not in schema.levels)
        counts = replies.total.reshape(len(names), -1)
        return replace(server, scales=all_scales(schema, settings, scales.scales(counts, names)))
    shares, bits = plan(schema), gram.bits_for(max(columns.rows.values()))
    clip = settings.clip_for(schema, shares)
    unit, R = ball(server.scales, clip, mixed=is_mixed)
    S = gram.covariance(replies.total, unit, R, bits, counted)
    noise = noise_level(shares, m, len(columns.rows), counted, clip)
    return learned(server, gram.positive(S, server.scales, LEAST_EIGENVALUE), counted, noise, settings)


def learned(server: Server, S: FloatArray, counted: int, noise: float, settings: SummedMoments) -> Server:
    """Return the state with what the learner makes of second moments `S` of `counted` rows, with this `noise`."""
    schema, d = server.schema, len(server.schema.variables)
    if schema.kind == "mixed":
        edges = mixed.mixed_class(S, counted, schema, noise, server.scales).astype(np.float64)
        return replace(server, S=S, counted=counted, weights=edges, scores=edges)
    how = settings
    if noise and not settings.price:
        exact = exact_price(d, counted) if len(S) == d else lagged_price(len(S), counted)
        how = replace(settings, price=max(exact, min(MOST_FOR_NOISE, PRICE_OF_MOMENT_NOISE * noise)))
    if len(S) > d and settings.lags == AUTO:
        S = of_least_bic(S, counted, d, settings.most_parents)
    found = learn_from_moments(S, counted, schema.variables, how, noise, schema.knowledge.prior(schema.variables))
    weights, scores = below(found)
    return replace(server, S=S, counted=counted, weights=weights, scores=scores)


def structure(server: Server, settings: SummedMoments) -> Structure:
    """Return what was learned: weights, or the CPDAG of a learner that finds no more."""
    names = server.schema.variables
    found = stacked(names, server.weights, server.scores if len(server.scores) else np.zeros_like(server.weights))
    only_class = settings.class_only or server.schema.kind == "mixed"
    return replace(found, kind="cpdag", scores=None) if only_class else found


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
