"""Baselines that learn one structure per silo, in one exchange: local, voting, average, best.

What leaves a silo: the weights of its own structure, once. `notears-local` reports the structure of each silo. Voting
keeps the edges that more than half of the silos found. Averaging thresholds the mean of the weights. Results of voting
and averaging may have cycles. "Best" is the silo structure with the smallest structural Hamming distance to the true
graph, so it is only for benchmarks. The end of the module defines the baselines of each learner.

Sources: Ng & Zhang 2022, §6; Na and Yang 2010; Chen, Ma & Yue 2025, §4.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, Protocol, TypeVar

import numpy as np

from ..admm.notears import notears
from ..core.protocol import FederatedAlgorithm, OnceBroadcast, Replies, single_reply
from ..core.schema import FloatArray, Schema
from ..dynamic.fdbnl import dynotears
from ..graphs.compare import compare
from ..graphs.structure import Structure, stacked, unstacked
from ..mlp.pooled import notears_mlp


class Thresholded(Protocol):
    """Settings with a threshold."""

    @property
    def threshold(self) -> float:
        """τ: edges of at most this absolute weight are dropped."""
        ...


Settings = TypeVar("Settings", bound=Thresholded)
Learner = Callable[[FloatArray, Schema, Settings], Structure]
"""(table, schema of the silo alone, settings) -> the silo's own structure, whose scores are the weights before the
threshold"""
Choice = Literal["medoid", "vote", "average"]


@dataclass(frozen=True)
class OwnStructure:
    """A silo's own structure, its state and its reply: weights after the threshold, scores before it."""

    weights: FloatArray
    """`[d, d]`; for a dynamic structure `[(lags + 1)·d, d]`, as `unstacked` returns them"""
    scores: FloatArray


@dataclass(frozen=True)
class Server:
    """Every silo's structure, `[n_silos, m, d]`, in the order of `silos`."""

    variables: tuple[str, ...]
    silos: tuple[str, ...]
    weights: FloatArray
    scores: FloatArray


def build(
    settings: Settings, learner: Learner[Settings], choose: Choice
) -> FederatedAlgorithm[Server, OwnStructure, OnceBroadcast, OwnStructure]:
    """The baseline whose structure is the medoid, the vote or the average of the silos' structures."""

    def open_silo(table: FloatArray, schema: Schema, silo: str, rng: np.random.Generator) -> OwnStructure:
        return OwnStructure(*unstacked(learner(table, single_silo_schema(schema, silo), settings)))

    def open_server(schema: Schema) -> Server:
        return Server(schema.variables, (), np.empty(0), np.empty(0))

    def aggregate(server: Server, replies: Replies[OwnStructure]) -> Server:
        weights = np.stack([reply.weights for reply in replies.each])
        return Server(server.variables, replies.silos, weights, np.stack([reply.scores for reply in replies.each]))

    def structure(server: Server) -> Structure:
        if choose == "vote":
            return vote(server)
        if choose == "average":
            return average(server, settings.threshold)
        each = list(local_structures(server).values())
        return min(each, key=lambda one: sum(compare(one, other)["shd"] or 0 for other in each if other.acyclic))

    return replace(
        single_reply(open_silo, open_server, aggregate, structure, Server, OwnStructure),
        local_structures=local_structures,
    )


def single_silo_schema(schema: Schema, silo: str) -> Schema:
    """The public schema of `silo` alone."""
    stretches = {silo: schema.stretches[silo]} if silo in schema.stretches else {}
    return replace(schema, rows={silo: schema.rows[silo]}, stretches=stretches)


def vote(server: Server) -> Structure:
    """The edges found by more than half of the silos, with the mean weight over the silos that found them."""
    found = server.weights != 0
    votes = found.sum(axis=0)
    mean = server.weights.sum(axis=0) / np.maximum(votes, 1)
    elected = np.where(votes * 2 > len(server.silos), mean, 0.0)
    return stacked(server.variables, elected, votes / len(server.silos))


def average(server: Server, threshold: float) -> Structure:
    """The mean of the silos' weights; means of absolute value up to `threshold` become 0."""
    mean = server.weights.mean(axis=0)
    return stacked(server.variables, np.where(np.abs(mean) > threshold, mean, 0.0), np.abs(mean))


def local_structures(server: Server) -> dict[str, Structure]:
    """Each silo's own structure."""
    return {silo: stacked(server.variables, server.weights[k], server.scores[k]) for k, silo in enumerate(server.silos)}


notears_medoid = partial(build, learner=notears, choose="medoid")
notears_vote = partial(build, learner=notears, choose="vote")
notears_mlp_medoid = partial(build, learner=notears_mlp, choose="medoid")
notears_mlp_vote = partial(build, learner=notears_mlp, choose="vote")
dynotears_medoid = partial(build, learner=dynotears, choose="medoid")
dynotears_average = partial(build, learner=dynotears, choose="average")
