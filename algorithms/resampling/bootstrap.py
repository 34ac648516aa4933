"""The bootstrap of any learner, as a wrapper: it learns from rows drawn anew, many times at once (ours).

Every silo draws from its own rows, once for each resample, with randomness of its own (`draws.py`). The resamples run
in lockstep: one exchange carries the messages of all that are still running, so that they take as many exchanges as the
slowest of them. Where the learner's server needs only a sum, so does this one: the sums of all resamples are one sum,
which can be masked. The share of resamples that have an edge says how sure it is (Friedman, Goldszmidt, Wyner 1999,
"Data analysis with Bayesian networks: a bootstrap approach").

What leaves a silo: for each resample, what leaves it for the learner itself. What the server needs: for each resample,
what it needs for the learner. A round costs as many rounds of the learner as there are resamples still running.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import wire
from ..core.kept import pack_state, unpack_state
from ..core.protocol import FederatedAlgorithm, Replies, Sparse
from ..core.schema import FloatArray, Schema
from ..errors import BadInput, require
from ..graphs.averaging import average
from ..graphs.strengths import strengths_of
from ..graphs.structure import Structure
from .draws import HowDrawn, resample, resampled_schema
from .joined import joined, joined_sparse, taken_apart
from .opened import Opened, begun, state_of

Learner = FederatedAlgorithm[Any, Any, Any, Any]
REFUSED = (
    "--bootstrap: every resample would be one more private release of the same rows: learn without --bootstrap, or "
    "without an ε"
)


@dataclass(frozen=True)
class Bootstrap:
    """Settings of the wrapper `bootstrap`."""

    resamples: int = 100
    """how many times to learn from rows drawn anew"""
    lags: int = 0
    """how many earlier rows the learner looks at, if the rows are time series"""
    replacement: bool = False
    """draw as many rows as there are, with replacement, as R's bnlearn does, instead of half of them without"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for a value outside its range."""
        require(self.resamples >= 2, "resamples", self.resamples, "2 or more")
        require(self.lags >= 0, "lags", self.lags, "0 or more")

    @property
    def draw(self) -> HowDrawn:
        """How rows are drawn."""
        return HowDrawn(self.replacement, self.lags)


@dataclass(frozen=True)
class Server:
    """The servers of all resamples."""

    states: tuple[bytes, ...]
    """the state of each, encoded"""
    running: tuple[int, ...]
    """the numbers of those that have not converged"""


@dataclass(frozen=True)
class Silo:
    """The silos of all resamples at one silo."""

    opened: Opened
    kept: tuple[bytes, ...]
    """for each resample the fields of its state that change, encoded; empty before its first round"""


@dataclass(frozen=True)
class Broadcast:
    """What each resample that is still running sends out."""

    running: tuple[int, ...]
    messages: tuple[bytes, ...]


@dataclass(frozen=True)
class Reply:
    """The silo's replies to them, in the same order."""

    messages: tuple[bytes, ...]


def wrap(learner: Learner, settings: Bootstrap) -> FederatedAlgorithm[Server, Silo, Broadcast, Reply]:
    """Return the bootstrap of `learner`; its structure is the averaged network (`graphs/averaging.py`).

    Raises `BadInput` for a private learner.
    """
    if learner.private is not None:
        raise BadInput(REFUSED)
    return FederatedAlgorithm(
        open_silo=partial(open_silo, learner, settings),
        open_server=partial(open_server, learner, settings),
        broadcast=partial(broadcast, learner),
        local_solve=partial(local_solve, learner),
        aggregate=partial(aggregate, learner),
        dual_update=lambda server: server,
        converged=lambda server: not server.running,
        structure=lambda server: average(strengths_of(structures(learner, server))),
        server_type=Server,
        silo_type=Silo,
        broadcast_type=Broadcast,
        reply_type=Reply,
        max_rounds=learner.max_rounds,
        summand=None if learner.summand is None else partial(summand, learner),
        entry_units=None if learner.entry_units is None else partial(entry_units, learner),
        whole_numbers=learner.whole_numbers,
        sparse=partial(sparse, learner),
        needs_secure_sum=learner.needs_secure_sum,
        bears_loss=learner.bears_loss,
        measures=lambda server: {"resamples_running": float(len(server.running))},
        cost=partial(cost, learner),
        kept=("kept",),
    )


def open_silo(
    learner: Learner, settings: Bootstrap, table: NDArray[Any], schema: Schema, silo: str, rng: np.random.Generator
) -> Silo:
    """Return the silo with the seeds of its resamples: from each follow its rows, and the learner's randomness."""
    seeds = rng.integers(2**63, size=settings.resamples)
    drawn = resampled_schema(schema, settings.draw)

    def open_one(seed: int) -> Any:
        own = np.random.default_rng(seed)
        return learner.open_silo(resample(table, schema, silo, settings.draw, own), drawn, silo, own)

    return Silo(begun(open_one, seeds.tolist(), again=learner.max_rounds > 1), (b"",) * settings.resamples)


def open_server(learner: Learner, settings: Bootstrap, schema: Schema) -> Server:
    """Return the servers of all resamples as they begin: all alike, as what is public is the same."""
    state = wire.encode(learner.open_server(resampled_schema(schema, settings.draw)))
    return Server((state,) * settings.resamples, tuple(range(settings.resamples)))


def broadcast(learner: Learner, server: Server) -> Broadcast:
    """Return the broadcasts of the resamples that are still running."""
    messages = (wire.encode(learner.broadcast(state)) for state in _states(learner, server, server.running))
    return Broadcast(server.running, tuple(messages))


def sparse(learner: Learner, server: Server) -> Sparse | None:
    """Return where the joined summands may differ from zero, if every resample knows that of its own."""
    return joined_sparse([learner.sparse(state) for state in _states(learner, server, server.running)])


def local_solve(learner: Learner, silo: Silo, asked: Broadcast) -> tuple[Silo, Reply]:
    """Return the silo after the local solves of the resamples that are still running, and their replies."""
    kept, replies = list(silo.kept), []
    for which, message in zip(asked.running, asked.messages, strict=True):
        state = state_of(silo.opened, which)
        if kept[which]:
            state = unpack_state(learner, state, kept[which])
        state, reply = learner.local_solve(state, wire.decode(learner.broadcast_type, message))
        kept[which] = pack_state(learner, state)
        replies.append(wire.encode(reply))
    return replace(silo, kept=tuple(kept)), Reply(tuple(replies))


def summand(learner: Learner, reply: Reply) -> NDArray[Any]:
    """Return the summands of all replies as one."""
    assert learner.summand is not None
    return joined([learner.summand(wire.decode(learner.reply_type, message)) for message in reply.messages])


def entry_units(learner: Learner, schema: Schema, asked: Broadcast) -> FloatArray:
    """Return about how large the entries of the joined summands are; lengths, and what has no units, are themselves."""
    assert learner.entry_units is not None
    messages = (wire.decode(learner.broadcast_type, message) for message in asked.messages)
    each = [learner.entry_units(schema, message) for message in messages]
    if all(len(units) == 1 for units in each):
        return each[0]
    return np.concatenate([np.ones(len(each)), *each])


def aggregate(learner: Learner, server: Server, replies: Replies[Reply]) -> Server:
    """Return the servers after a round: those that have converged stay as they are from now on."""
    states, running = list(server.states), []
    shares = _by_resample(learner, replies, len(server.running))
    for which, state, share in zip(server.running, _states(learner, server, server.running), shares, strict=True):
        after = learner.dual_update(learner.aggregate(state, share))
        states[which] = wire.encode(after)
        if not learner.converged(after):
            running.append(which)
    return Server(tuple(states), tuple(running))


def _by_resample(learner: Learner, replies: Replies[Reply], count: int) -> list[Replies[Any]]:
    """Return what each of `count` resamples was sent: its part of the sum, or its silos' replies."""
    if replies.total is not None:
        parts = taken_apart(replies.total, count, len(replies.silos))
        return [Replies(replies.silos, total=part) for part in parts]
    each = zip(*(reply.messages for reply in replies.each), strict=True)
    return [
        Replies(replies.silos, tuple(wire.decode(learner.reply_type, message) for message in messages))
        for messages in each
    ]


def structures(learner: Learner, server: Server) -> list[Structure]:
    """Return what `learner` has learned from each resample."""
    return [learner.structure(state) for state in _states(learner, server, range(len(server.states)))]


def cost(learner: Learner, message: Broadcast | Reply) -> int:
    """Return what the messages of all resamples cost by the papers' formula."""
    kind = learner.broadcast_type if isinstance(message, Broadcast) else learner.reply_type
    return sum(learner.cost(wire.decode(kind, one)) for one in message.messages)


def _states(learner: Learner, server: Server, which: Sequence[int]) -> list[Any]:
    return [wire.decode(learner.server_type, server.states[number]) for number in which]
