"""Baselines that learn one structure a silo, in one exchange: local, voting, best.

Source: Ng & Zhang 2022, §6; Na and Yang 2010.

What leaves a silo: the weights of its own structure, once. `notears-local` reports each silo's by itself;
`notears-voting` keeps the edges that more than half of the silos found, cycles and all; `notears-best` is the silo
structure with the least SHD, which takes the truth to know: a mark for benchmarks, nothing a user can run.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import numpy as np

from ..core.one_exchange import Broadcast, once
from ..core.protocol import FederatedAlgorithm, Replies
from ..core.schema import FloatArray, Schema
from ..graphs.compare import compare
from ..graphs.structure import Structure

Settings = TypeVar("Settings")
Learner = Callable[[FloatArray, tuple[str, ...], Settings], Structure]
"""(table, variables, settings) -> what one silo learns alone, with its weights before the threshold as scores"""


@dataclass(frozen=True)
class OwnStructure:
    """A silo's own structure, all it keeps and all it sends: weights after the threshold, and before as scores."""

    weights: FloatArray
    scores: FloatArray


@dataclass(frozen=True)
class Server:
    """Every silo's structure, `[n_silos, d, d]`, in the order of `silos`."""

    variables: tuple[str, ...]
    silos: tuple[str, ...]
    weights: FloatArray
    scores: FloatArray


def build(
    settings: Settings, learner: Learner[Settings], choose: Literal["medoid", "vote"]
) -> FederatedAlgorithm[Server, OwnStructure, Broadcast, OwnStructure]:
    """Return the baseline whose structure is the silos' medoid or their vote; `local_structures` has all of them."""

    def open_silo(table: FloatArray, schema: Schema, silo: str, rng: np.random.Generator) -> OwnStructure:
        own = learner(table, schema.variables, settings)
        assert own.scores is not None
        return OwnStructure(own.weights, own.scores)

    def open_server(schema: Schema) -> Server:
        return Server(schema.variables, (), np.empty(0), np.empty(0))

    def aggregate(server: Server, replies: Replies[OwnStructure]) -> Server:
        weights = np.stack([reply.weights for reply in replies.each])
        return Server(server.variables, replies.silos, weights, np.stack([reply.scores for reply in replies.each]))

    def structure(server: Server) -> Structure:
        if choose == "vote":
            return vote(server)
        each = list(local_structures(server).values())
        return min(each, key=lambda one: sum(compare(one, other)["shd"] or 0 for other in each if other.acyclic))

    return replace(
        once(open_silo, open_server, aggregate, structure, Server, OwnStructure), local_structures=local_structures
    )


def vote(server: Server) -> Structure:
    """Return the edges found by more than half of the silos, with the mean weight of those that found them."""
    found = server.weights != 0
    votes = found.sum(axis=0)
    mean = server.weights.sum(axis=0) / np.maximum(votes, 1)
    elected = np.where(votes * 2 > len(server.silos), mean, 0.0)
    return Structure(server.variables, elected, scores=votes / len(server.silos))


def local_structures(server: Server) -> dict[str, Structure]:
    """Return each silo's own structure."""
    return {
        silo: Structure(server.variables, server.weights[k], scores=server.scores[k])
        for k, silo in enumerate(server.silos)
    }
