"""Held-out log-likelihood by silo: learn without a silo, score its rows (ours).

This wrapper takes a learner whose structure follows from one sum over the silos. Exchange 1 is the learner's sum,
together with the sum of the second moments about the silos' own means. Exchange 2 sends the sums to the silos. Each
silo subtracts its own part and learns from the sums of the other silos exactly as the coordinator would. It fits linear
Gaussian parameters to a DAG of the learned structure, and answers with the mean log-likelihood of its own rows:

    ℓ_p = −½ Σ_j (ln 2πv_j + s_j / v_j).

Here v_j is the residual variance of variable j in the regression on the other silos' rows, and s_j is the mean squared
residual of the silo's own rows, about their own means. All DAGs of an equivalence class have the same ℓ_p.

What leaves a silo: its part of the sums, which is masked if the learner's sum is; then its score, with a 1 if it has a
score, in entries of a sum that only this silo fills, so the coordinator sees them. The coordinator never sees a sum
over all silos but one, because its difference from the sum over all silos would be the moments of that one. Each silo
can compute the sum of the others, so there must be at least three silos. Cost: one run of the learner's server at each
silo.
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.graphs.cpdag import dag_extension

from ..core import wire
from ..core.protocol import FederatedAlgorithm, OnceBroadcast, Replies, Summand, SumServer, sum_each_round, sum_once
from ..core.release import Statistic, statistic_of
from ..core.schema import FloatArray, Schema
from ..core.settings import Settings
from ..statistics.expected_moments import about_own_means
from ..statistics.moments import Table, column_units, product_units, regression_weights, residual_variances
from ..statistics.packing import from_triangle, triangle

MIN_SILOS = 3
"""minimum number of silos for a held-out likelihood; with two, each could compute the summand of the other"""
FIGURES = 2
"""number of entries in the slot that each silo fills in the second sum: 1 if it has a score (otherwise 0), and the
score"""
Learner = FederatedAlgorithm[Any, Any, Any, Any]


@dataclass(frozen=True)
class HeldOut(Settings):
    """Settings of the wrapper (none)."""


@dataclass(frozen=True)
class Server:
    """The sums after the first exchange, and the silos' scores after the second."""

    schema: Schema
    request: bytes
    """the learner's first broadcast"""
    total: FloatArray
    """the learner's sum, then the share of the rows and the second moments `[d(d+1)/2]`, divided by all rows"""
    counted: NDArray[np.bool_]
    """whether each silo, in sorted order, is in the sums"""
    scores: FloatArray
    """the mean log-likelihood of a row by silo, in sorted order; NaN for a silo without a score; at first empty"""


@dataclass(frozen=True)
class Silo:
    """The learner's state, the result of `own_moments`, the silo's index, and the public schema."""

    state: Any
    moments: FloatArray
    place: int
    schema: Schema


@dataclass(frozen=True)
class Broadcast:
    """The learner's first broadcast; in the second exchange also the sums, and which silos are in them."""

    request: bytes
    total: FloatArray
    counted: NDArray[np.bool_]


def wrap(learner: Learner, settings: HeldOut) -> FederatedAlgorithm[Server, Silo, Broadcast, Summand]:
    """The two exchanges for `learner`; raises `ValueError` if its server needs more than an exact sum of floats."""
    if learner.summand is None or learner.whole_numbers or learner.private is not None:
        raise ValueError("held-out likelihoods take a learner from one exact sum of numbers")
    algorithm = sum_each_round(
        open_silo=partial(open_silo, learner),
        open_server=partial(open_server, learner),
        broadcast=lambda server: Broadcast(server.request, server.total, server.counted),
        part=partial(own_part, learner),
        aggregate=aggregate,
        converged=lambda server: len(server.scores) > 0,
        server_type=Server,
        broadcast_type=Broadcast,
        max_rounds=2,
        entry_units=partial(entry_units, learner),
        needs_secure_sum=learner.needs_secure_sum,
        tolerates_dropout=learner.tolerates_dropout,
    )
    return replace(algorithm, releases=partial(releases, learner))


def releases(learner: Learner, request: Broadcast) -> Statistic:
    """The statistic in the learner's reply; in the second exchange, scores of single silos."""
    if len(request.total):
        return "own figures"
    return statistic_of(learner.releases, wire.decode(learner.broadcast_type, request.request))


def open_silo(learner: Learner, table: Table, schema: Schema, silo: str, rng: np.random.Generator) -> Silo:
    """The silo with the learner's state and its own moments."""
    place = schema.silos.index(silo)
    return Silo(learner.open_silo(table, schema, silo, rng), own_moments(table, schema), place, schema)


def open_server(learner: Learner, schema: Schema) -> Server:
    """The state before the first exchange."""
    request = wire.encode(learner.broadcast(learner.open_server(schema)))
    nothing = np.empty(0)
    return Server(schema.in_order(), request, nothing, np.zeros(len(schema.silos), np.bool_), nothing)


def entry_units(learner: Learner, schema: Schema, request: Broadcast) -> FloatArray:
    """The units of the entries of a masked sum: the learner's units, then those of the moments; 1 for scores."""
    if len(request.total):
        return np.ones(1)
    moments = moment_sum_units(schema)
    if learner.entry_units is None:
        return moments
    inner = wire.decode(learner.broadcast_type, request.request)
    return np.concatenate([learner.entry_units(schema, inner), moments])


def own_part(learner: Learner, silo: Silo, request: Broadcast) -> FloatArray:
    """The silo's part of the sums, or its score under the model learned from the other silos."""
    assert learner.summand is not None
    _, reply = learner.local_solve(silo.state, wire.decode(learner.broadcast_type, request.request))
    own = np.concatenate([learner.summand(reply), silo.moments])
    if not len(request.total):
        return own
    slots = np.zeros((len(silo.schema.silos), FIGURES))
    if request.counted[silo.place]:
        score = score_without(learner, silo, request.total - own, request.counted)
        slots[silo.place] = (0.0, 0.0) if score is None else (1.0, score)
    return slots.ravel()


def score_without(learner: Learner, silo: Silo, rest: FloatArray, counted: NDArray[np.bool_]) -> float | None:
    """The mean log-likelihood of the silo's rows under the model of `learner` from `rest`, the sums of the others.

    None if there is no DAG for the learned structure.
    """
    split = len(rest) - len(silo.moments)
    others = tuple(name for at, name in enumerate(silo.schema.silos) if counted[at] and at != silo.place)
    first = learner.aggregate(learner.open_server(silo.schema), Replies(others, total=rest[:split]))
    dag = dag_extension(learner.structure(learner.dual_update(first))).dag
    if dag is None:
        return None
    S = from_triangle(rest[split + 1 :]) / rest[split]
    own = from_triangle(silo.moments[1:]) / silo.moments[0]
    return float(mean_log_likelihood(S, own, dag))


@dataclass(frozen=True)
class MomentSum(Settings):
    """Settings of the sum of second moments."""

    masked: bool = False
    """always mask the replies, even if the run does not"""


def build_moment_sum(settings: MomentSum) -> FederatedAlgorithm[SumServer, FloatArray, OnceBroadcast, Summand]:
    """One sum: the share of the rows, and second moments about the silos' own means divided by all rows."""
    return sum_once(
        own_moments,
        needs_secure_sum=settings.masked,
        entry_units=lambda schema, request: moment_sum_units(schema),
    )


def own_moments(table: Table, schema: Schema) -> FloatArray:
    """A silo's share of all rows, then its second moments about its own means over all rows, `[1 + d(d+1)/2]`."""
    rows = sum(schema.rows.values())
    return np.append(table.shape[0] / rows, triangle(about_own_means(table, schema).products / rows))


def moment_sum_units(schema: Schema) -> FloatArray:
    """The units of the entries of `own_moments` in masked sums."""
    return np.append(1.0, product_units(column_units(schema)))


def mean_log_likelihood(S: FloatArray, own: FloatArray, dag: NDArray[np.bool_]) -> float:
    """The mean log-likelihood of rows with second moments `own` under the regressions along `dag` fitted to `S`.

    All arguments are `[d, d]`; `S` and `own` are about the silos' own means.
    """
    weights = regression_weights(S, dag)
    variances = residual_variances(S, weights)
    residual = np.eye(len(S)) - weights
    spread = np.einsum("ij,ik,kj->j", residual, own, residual)
    return float(-0.5 * (np.log(2 * math.pi * variances) + spread / variances).sum())


def aggregate(server: Server, replies: Replies[Summand]) -> Server:
    """The state with the sums, or with the silos' scores."""
    if not len(server.total):
        counted = np.array([silo in replies.silos for silo in server.schema.silos])
        return replace(server, total=np.asarray(replies.total, np.float64), counted=counted)
    slots = replies.total.reshape(-1, FIGURES)
    answered = server.counted & np.array([silo in replies.silos for silo in server.schema.silos])
    return replace(server, scores=np.where(answered & (slots[:, 0] > 0.5), slots[:, 1], np.nan))


def scores_by_silo(server: Server) -> dict[str, float]:
    """The mean log-likelihood of a row of each silo that has one."""
    return {
        silo: float(score)
        for silo, score in zip(server.schema.silos, server.scores, strict=True)
        if not math.isnan(score)
    }
