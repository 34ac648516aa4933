"""The second moments of all silos in one sum, exact or private, and what is learned from them (ours).

A silo answers at most two questions. Without noise only one: the upper triangle of its second moments. With noise,
first how large each variable is (`privacy/scales.py`, skipped where the scale is known), then integer second moments
in which every row's part is bounded (`privacy/gram.py`), both with noise on top. The server adds up and learns;
whatever it does with a private sum is post-processing and costs no privacy. Replace-one; n_p is public.

Whose noise hides a record is the algorithm's choice: a silo's own (`dp_covariance.py`), or that of all silos together,
behind masks (`secure_sum.py`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ..core.promise import Private, Release
from ..core.protocol import FederatedAlgorithm, Replies
from ..core.schema import FloatArray, Schema
from ..errors import require
from ..graphs.structure import Structure
from ..privacy import gram, scales
from ..privacy.discrete_gaussian import discrete_gaussian
from ..privacy.noise import Bits, child
from ..privacy.settings import PrivateSettings
from ..privacy.shares import Shares, noise_shares
from ..privacy.zcdp import Accounting
from ..statistics.moments import products, residual_variances
from ..statistics.symmetric import from_triangle, triangle
from .pooled import PooledLearner, exact_price, learn_from_moments

# Noisy second moments keep no eigenvalue below this, in units of the variables' scales.
LEAST_EIGENVALUE = 1e-3
# What a parent must explain per standard deviation of the noise in a covariance of variables of mean square 1, and at
# most: a true parent of weight 0.5 may explain little more. Found on graphs of 20 and 200 variables, ε from 0.5 to 10.
PRICE_OF_MOMENT_NOISE = 60.0
MOST_FOR_NOISE = 0.12
# How far rows are drawn in, found on graphs of 10 to 200 variables.
CLIP, CLIP_OF_TESTS = 0.6, 3.0
# Exact ones that are singular (fewer rows than variables) get this share of their diagonal on top.
FLOOR = 1e-9


@dataclass(frozen=True)
class SummedMoments(PrivateSettings, PooledLearner):
    """Settings of the learners from summed, perhaps private, second moments."""

    clip: float = 0.0
    """rows are drawn in to the norm √(clip·Σ s_i), in units √s_i of the scales s; 0: as the learner bears"""
    scale_share: float = 0.1
    """share of the budget that finds the scales"""
    known_scale: float = 0.0
    """the root mean square to expect of every variable, if that is public; 0: found privately"""
    accounting: Accounting = "zcdp"
    """how ε and δ become a budget in ρ; papers: by the papers' closed form, which is valid and buys less"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for a value outside its range."""
        PooledLearner.__post_init__(self)
        PrivateSettings.__post_init__(self)
        require(self.clip >= 0, "clip", self.clip, "0 or more")
        require(0 < self.scale_share < 1, "scale_share", self.scale_share, "between 0 and 1")
        require(self.known_scale >= 0, "known_scale", self.known_scale, "0 or more")

    @property
    def drawn_in(self) -> float:
        """How far rows are clipped: as stated, or as the learner bears (clipping distorts what pc tests)."""
        return self.clip or (CLIP_OF_TESTS if self.class_only else CLIP)

    def shares(self, schema: Schema, sure: int, protects: str) -> Shares:
        """Return the noise these settings message for, if so many silos' shares are sure to be in what is seen."""
        counting = 0.0 if self.known_scale else self.scale_share
        return noise_shares(schema, self.promise(schema, protects, self.accounting), counting, sure)


@dataclass(frozen=True)
class Silo:
    """A silo's rows; they never change."""

    table: FloatArray
    all_rows: int
    plan: Shares | None
    key: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class Broadcast:
    """What the silos are to add up: bucket counts (no scales yet), or second moments in units of these scales."""

    scales: FloatArray


@dataclass(frozen=True)
class Reply:
    """A silo's summand: float second moments, or noisy integers."""

    values: NDArray[np.float64] | NDArray[np.int64]


@dataclass(frozen=True)
class Server:
    """What the sums have come to; `S` is empty until the last one."""

    variables: tuple[str, ...]
    rows: dict[str, int]
    scales: FloatArray
    S: FloatArray
    counted: int
    """rows behind S"""
    weights: FloatArray
    """what was learned from S, `[d, d]`"""
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

    def open_silo(table: FloatArray, schema: Schema, silo: str, rng: np.random.Generator) -> Silo:
        return Silo(table, sum(schema.rows.values()), plan(schema) if plan else None)

    def open_server(schema: Schema) -> Server:
        if plan is not None:
            variance = len(schema.rows) * float(plan(schema).count_variance)
            scales.require_heard(sum(schema.rows.values()), 0.0 if settings.known_scale else math.sqrt(variance))
        known = np.full(len(schema.variables), settings.known_scale) if settings.known_scale else np.empty(0)
        nothing = np.zeros((len(schema.variables), len(schema.variables)))
        return Server(schema.variables, dict(sorted(schema.rows.items())), known, np.empty((0, 0)), 0, nothing, nothing)

    def local_solve(silo: Silo, message: Broadcast) -> tuple[Silo, Reply]:
        return silo, Reply(
            exact_part(silo) if silo.plan is None else noisy_part(silo, silo.plan, message, settings.drawn_in)
        )

    def noise_of(server: Server, counted: int) -> float:
        if plan is None:
            return 0.0
        d, silos = len(server.variables), len(server.rows)
        return noise_level(plan(Schema(server.variables, server.rows)), d, silos, counted, settings.drawn_in)

    def aggregate(server: Server, replies: Replies[Reply]) -> Server:
        assert replies.total is not None
        counted = sum(server.rows[silo] for silo in replies.silos)
        if plan is None:
            S = from_triangle(replies.total) * (sum(server.rows.values()) / counted)
            return learned(server, S + FLOOR * np.diag(np.diag(S)), counted)
        if not len(server.scales):
            counts = replies.total.reshape(len(server.variables), -1)
            return replace(server, scales=scales.scales(counts, server.variables))
        R, bits = gram.radius(server.scales, settings.drawn_in), gram.bits_for(max(server.rows.values()))
        S = gram.covariance(replies.total, gram.units(server.scales), R, bits, counted)
        return learned(server, gram.positive(S, server.scales, LEAST_EIGENVALUE), counted)

    def learned(server: Server, S: FloatArray, counted: int) -> Server:
        noise = noise_of(server, counted)
        price = settings.price or max(exact_price(len(S), counted), min(MOST_FOR_NOISE, PRICE_OF_MOMENT_NOISE * noise))
        found = learn_from_moments(S, counted, server.variables, replace(settings, price=price), noise)
        scores = np.empty((0, 0)) if found.scores is None else found.scores
        return replace(server, S=S, counted=counted, weights=found.weights, scores=scores)

    def structure(server: Server) -> Structure:
        if settings.class_only:
            return Structure(server.variables, server.weights, "cpdag")
        return Structure(server.variables, server.weights, scores=server.scores)

    return FederatedAlgorithm(
        open_silo=open_silo,
        open_server=open_server,
        broadcast=lambda server: Broadcast(server.scales),
        local_solve=local_solve,
        aggregate=aggregate,
        dual_update=lambda server: server,
        converged=lambda server: len(server.S) > 0,
        structure=structure,
        server_type=Server,
        silo_type=Silo,
        broadcast_type=Broadcast,
        reply_type=Reply,
        max_rounds=1 if plan is None or settings.known_scale else 2,
        summand=lambda part: part.values,
        whole_numbers=plan is not None,
        measures=lambda server: {"rows": float(server.counted)},
        bears_loss=True,
        private=private(plan, settings.insecure_seed) if plan else None,
        residual_variances=None if settings.class_only else lambda server: residual_variances(server.S, server.weights),
    )


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


def exact_part(silo: Silo) -> FloatArray:
    """Return the silo's part of the second moments of all rows, `[d(d+1)/2]`: XᵀX over the number of all rows."""
    return triangle(products(silo.table) / silo.all_rows)


def noisy_part(silo: Silo, plan: Shares, message: Broadcast, clip: float) -> NDArray[np.int64]:
    """Return the silo's integer summand with its share of the noise: of bucket counts, or of second moments."""
    bits = Bits(child(silo.key, "second moments" if len(message.scales) else "bucket counts"))
    if not len(message.scales):
        counts = scales.bucket_counts(silo.table).ravel()
        return np.asarray(counts + discrete_gaussian(bits, plan.count_variance, len(counts)))
    d = len(message.scales)
    parts = gram.integer_gram(silo.table, gram.units(message.scales), gram.radius(message.scales, clip), plan.bits)
    for entries, variance in gram.noise_variances(d, plan.gram_variance):
        parts[entries] += discrete_gaussian(bits, variance, int(entries.sum()))
    return parts
