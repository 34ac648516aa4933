"""One secure sum instead of many rounds: the silos' second moments, added up behind masks, then learned from (ours).

What leaves a silo: the upper triangle of its second moments, masked; nobody sees it but in the sum. With noise "none"
that is one exchange, and the result is what pooled rows would give. With noise "shares" the sum is private: the silos
first add up, masked and with noise, how large each variable is (`privacy/scales.py`); then integer second moments with
every row's part bounded (`privacy/gram.py`). Each silo adds a share of the noise, such that the shares of any
`threshold` silos, less the `colluders` who would know their own, are all that (ε, δ) takes: P silos hide one record
with the noise of one, where silos that each hide their own release add P times as much.

Everything after the sum is post-processing, free of privacy cost. Replace-one, for a record of any silo; n_p is public.
"""

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..admm.settings import require
from ..errors import BadInput
from ..graphs.structure import Structure
from ..privacy import gram, scales
from ..privacy.discrete_gaussian import discrete_gaussian
from ..privacy.ledger import Release
from ..privacy.noise import Bits, child
from ..privacy.private import NO_SEED, Private
from ..privacy.shares import Shares, noise_shares
from ..protocol import FederatedAlgorithm, FloatArray, Replies, Schema
from .pooled import PooledLearner, learn_from_moments, residual_variances

# Noisy second moments keep no eigenvalue below this, in units of the variables' scales.
LEAST_EIGENVALUE = 1e-3
# Exact ones that are singular (fewer rows than variables) get this share of their diagonal on top.
FLOOR = 1e-9


@dataclass(frozen=True)
class SecureSum(PooledLearner):
    """Settings of `secure-sum`."""

    noise: Literal["auto", "none", "shares"] = "auto"
    """shares: every silo adds a share of private noise; auto: shares if an ε is given"""
    epsilon: float = 0.0
    """ε of the whole run, for noise shares"""
    delta: float = 0.0
    """δ; 0 stands for 1/n², n the rows of the smallest silo"""
    clip: float = 0.6
    """rows are drawn in to the norm √(clip·Σ s_i), in units √s_i of the variables' scales s_i"""
    scale_share: float = 0.1
    """share of the budget that finds the scales"""
    colluders: int = 0
    """silos that may tell the coordinator their noise; the others' shares then still suffice"""
    insecure_seed: int = NO_SEED
    """draw the noise from this seed, which makes the run NOT PRIVATE; -1: from the operating system"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for a value outside its range."""
        super().__post_init__()
        require(self.epsilon >= 0, "epsilon", self.epsilon, "above 0")
        require(0 <= self.delta < 1, "delta", self.delta, "between 0 and 1")
        require(self.clip > 0, "clip", self.clip, "above 0")
        require(0 < self.scale_share < 1, "scale_share", self.scale_share, "between 0 and 1")
        require(self.colluders >= 0, "colluders", self.colluders, "0 or more")
        require(self.insecure_seed >= NO_SEED, "insecure_seed", self.insecure_seed, "0 or more, or -1")
        if self.noise == "shares" and self.epsilon == 0:
            raise BadInput("parameter noise is shares: give the epsilon that they are to keep")
        if self.noise == "none" and self.epsilon > 0:
            raise BadInput(f"parameter epsilon is {self.epsilon}, but noise is none: nothing would be private")

    @property
    def private(self) -> bool:
        """Whether noise is added."""
        return self.epsilon > 0


@dataclass(frozen=True)
class Silo:
    """A silo's rows; they never change."""

    table: FloatArray
    all_rows: int
    plan: Shares | None
    key: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class Ask:
    """What the silos are to add up: bucket counts (no scales yet), or second moments in units of these scales."""

    scales: FloatArray


@dataclass(frozen=True)
class Part:
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


def build(settings: SecureSum) -> FederatedAlgorithm[Server, Silo, Ask, Part]:
    """Return the algorithm; without noise it takes one exchange, with noise two."""

    def open_silo(table: FloatArray, schema: Schema, silo: str, rng: np.random.Generator) -> Silo:
        return Silo(table, sum(schema.rows.values()), plan(settings, schema))

    def open_server(schema: Schema) -> Server:
        return Server(schema.variables, schema.rows, np.empty(0), np.empty((0, 0)), 0)

    def local_solve(silo: Silo, ask: Ask) -> tuple[Silo, Part]:
        return silo, Part(exact_part(silo) if silo.plan is None else noisy_part(silo, silo.plan, ask, settings.clip))

    def aggregate(server: Server, replies: Replies[Part]) -> Server:
        assert replies.total is not None
        counted = sum(server.rows[silo] for silo in replies.silos)
        if not settings.private:
            S = from_triangle(replies.total) * (sum(server.rows.values()) / counted)
            return replace(server, S=S + FLOOR * np.diag(np.diag(S)), counted=counted)
        if not len(server.scales):
            counts = replies.total.reshape(len(server.variables), -1)
            return replace(server, scales=scales.scales(counts, counted, server.variables))
        R, bits = gram.radius(server.scales, settings.clip), gram.bits_for(max(server.rows.values()))
        S = gram.covariance(replies.total, gram.units(server.scales), R, bits, counted)
        return replace(server, S=gram.positive(S, server.scales, LEAST_EIGENVALUE), counted=counted)

    def structure(server: Server) -> Structure:
        if not len(server.S):
            d = len(server.variables)
            return Structure(server.variables, np.zeros((d, d)))
        return learn_from_moments(server.S, server.counted, server.variables, settings)

    return FederatedAlgorithm(
        open_silo=open_silo,
        open_server=open_server,
        broadcast=lambda server: Ask(server.scales),
        local_solve=local_solve,
        aggregate=aggregate,
        dual_update=lambda server: server,
        converged=lambda server: len(server.S) > 0,
        structure=structure,
        server_type=Server,
        silo_type=Silo,
        broadcast_type=Ask,
        reply_type=Part,
        max_rounds=2 if settings.private else 1,
        summand=lambda part: part.values,
        whole_numbers=settings.private,
        measures=lambda server: {"rows": float(server.counted)},
        needs_secure_sum=True,
        bears_loss=True,
        private=private(settings) if settings.private else None,
        residual_variances=lambda server: residual_variances(server.S, structure(server).weights),
    )


def private(settings: SecureSum) -> Private[Silo, Ask]:
    """Return the promise, and what each of the two sums costs."""

    def planned(schema: Schema) -> Shares:
        found = plan(settings, schema)
        assert found is not None
        return found

    def releases(silo: Silo, ask: Ask) -> tuple[Release, ...]:
        assert silo.plan is not None
        if len(ask.scales):
            return (Release("a noisy share of the second moments", silo.plan.gram_cost),)
        return (Release("a noisy share of the bucket counts", silo.plan.count_cost),)

    return Private(
        promise=lambda schema: planned(schema).promise,
        releases=releases,
        keyed=lambda silo, key: replace(silo, key=key),
        insecure_seed=settings.insecure_seed,
    )


def plan(settings: SecureSum, schema: Schema) -> Shares | None:
    """Return the noise that `settings` ask for, None without noise. Raises `BadInput` as `noise_shares` does."""
    if not settings.private:
        return None
    return noise_shares(
        schema, settings.epsilon, settings.delta, settings.scale_share, settings.colluders, settings.insecure_seed
    )


def exact_part(silo: Silo) -> FloatArray:
    """Return the silo's part of the second moments of all rows, `[d(d+1)/2]`: XᵀX over the number of all rows."""
    S = silo.table.T @ silo.table / silo.all_rows
    return np.asarray(S[np.triu_indices(len(S))])


def from_triangle(triangle: FloatArray) -> FloatArray:
    """Return the symmetric matrix with this upper triangle `[d(d+1)/2]`."""
    d = int(np.sqrt(2 * len(triangle)))
    S = np.zeros((d, d))
    S[np.triu_indices(d)] = triangle
    return S + np.triu(S, 1).T


def noisy_part(silo: Silo, plan: Shares, ask: Ask, clip: float) -> NDArray[np.int64]:
    """Return the silo's integer summand with its share of the noise: of bucket counts, or of second moments."""
    bits = Bits(child(silo.key, "noise share"))
    if not len(ask.scales):
        counts = scales.bucket_counts(silo.table).ravel()
        return np.asarray(counts + discrete_gaussian(bits, plan.count_variance, len(counts)))
    d = len(ask.scales)
    parts = gram.integer_gram(silo.table, gram.units(ask.scales), gram.radius(ask.scales, clip), plan.bits)
    for entries, variance in gram.noise_variances(d, plan.gram_variance):
        parts[entries] += discrete_gaussian(bits, variance, int(entries.sum()))
    return parts
