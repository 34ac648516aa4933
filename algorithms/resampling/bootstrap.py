"""The bootstrap of any learner, as a wrapper: it learns from many resamples of the rows at once (ours).

Every silo resamples its own rows with its own randomness. The resamples run in lockstep: one exchange carries the
messages of all that are still running, so they take as many exchanges as the slowest of them. If the learner's server
needs only a sum, so does this one: the summands of all resamples are joined to one vector, whose sum can be masked. The
length of a summand is the same at all silos, but may be unknown to the server. So the lengths precede the summands and
are added up with them: their sum is a multiple of each. The share of resamples with an edge is its confidence
(Friedman, Goldszmidt, Wyner 1999, "Data analysis with Bayesian networks: a bootstrap approach").

What leaves a silo, and what the server needs: for each resample, the same as for the learner itself. A round costs as
many rounds of the learner as there are resamples still running.

A silo draws half of its rows without replacement, or all n with replacement. A statistic of a random half varies around
that of all rows as one of n rows drawn with replacement does: a mean with the variance σ²/n in both cases. But rows
drawn twice count as evidence twice: a score such as BIC, for n rows, then takes chance for an edge far too often
(Steck, Jaakkola 2003, "Bias-corrected bootstrap and model uncertainty"). A half has every row once, so halves are the
default (Bühlmann, Yu 2002, "Analyzing bagging"; Meinshausen, Bühlmann 2010, "Stability selection").

Rows of a time series depend on each other, and a learner uses them in windows of `lags` + 1 rows. So the wrapper draws
blocks of consecutive windows that do not overlap (Carlstein 1986), each an unbroken stretch of its own: no window
reaches from one to the next. The public lengths of the stretches determine the number of blocks and their length. A
block has about n^(1/3) windows for n windows of a silo (Hall, Horowitz, Jing 1995, "On blocking rules for the bootstrap
with dependent data").
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import wire
from ..core.protocol import FederatedAlgorithm, Replies, Sparse, pack_state, unpack_state
from ..core.schema import FloatArray, Schema
from ..errors import BadInput, require
from ..graphs.strengths import averaged_network, edge_strengths
from ..graphs.structure import Structure

LEAST = 2
"""least number of windows in a block: learners of time series need a stretch with two"""


@dataclass(frozen=True)
class HowDrawn:
    """How rows are drawn: with or without replacement, and the lags of the windows of time series."""

    replacement: bool = False
    lags: int = 0

    def count(self, n: int) -> int:
        """The number of rows or blocks drawn from n."""
        return n if self.replacement else n - n // 2

    def of(self, n: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """The positions of the rows or blocks drawn from n."""
        if self.replacement:
            return generator.integers(n, size=n)
        return generator.permutation(n)[: self.count(n)]


def resampled_schema(schema: Schema, draw: HowDrawn) -> Schema:
    """The public schema of drawn rows, with empty cells in proportion.

    Raises `BadInput` for a silo whose stretches of time series are too short for a block.
    """
    if schema.kind != "time-series":
        rows = {silo: draw.count(n) for silo, n in schema.rows.items()}
        kept = {silo: rows[silo] / n for silo, n in schema.rows.items()}
        empty = {silo: tuple(round(kept[silo] * one) for one in counts) for silo, counts in schema.empty.items()}
        worth = round(schema.imputation_model.rows * sum(rows.values()) / sum(schema.rows.values()))
        return replace(
            schema, rows=rows, stretches={}, empty=empty, imputation_model=replace(schema.imputation_model, rows=worth)
        )
    stretches = {}
    for silo in schema.rows:
        windows, size = _windows(schema, silo, draw), block_size(schema, silo, draw)
        stretches[silo] = (draw.lags + size,) * draw.count(int((windows // size).sum()))
    return replace(schema, rows={silo: sum(own) for silo, own in stretches.items()}, stretches=stretches)


def resample(
    table: NDArray[Any], schema: Schema, silo: str, draw: HowDrawn, generator: np.random.Generator
) -> NDArray[Any]:
    """Rows drawn from `table` `[n_rows, n_variables]`, as `resampled_schema` describes them."""
    if schema.kind != "time-series":
        return np.asarray(table[draw.of(len(table), generator)])
    size = block_size(schema, silo, draw)
    starts = _starts(schema, silo, draw, size, generator)
    begins = starts[draw.of(len(starts), generator)]
    return np.asarray(table[(begins[:, None] + np.arange(draw.lags + size)).ravel()])


def block_size(schema: Schema, silo: str, draw: HowDrawn) -> int:
    """The number of windows in a block of `silo`, at most that of the shortest stretch with two or more."""
    windows = _windows(schema, silo, draw)
    enough = windows[windows >= LEAST]
    if not len(enough):
        raise BadInput(
            f"--bootstrap: silo {silo}: its unbroken series are too short to draw blocks from: "
            f"one must have at least {draw.lags + LEAST} rows"
        )
    return max(LEAST, min(round(float(np.cbrt(enough.sum()))), int(enough.min())))


def _windows(schema: Schema, silo: str, draw: HowDrawn) -> NDArray[np.int64]:
    """The number of windows in each stretch of `silo`, `[n_stretches]`."""
    return np.maximum(np.array(schema.stretches[silo], np.int64) - draw.lags, 0)


def _starts(schema: Schema, silo: str, draw: HowDrawn, size: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """The first row of each block; the windows left over in a stretch are random."""
    first = np.concatenate([[0], np.cumsum(schema.stretches[silo])[:-1]])
    own = _windows(schema, silo, draw)
    left = generator.integers(own % size + 1)
    blocks = zip(first + left, own // size, strict=True)
    return np.concatenate([begin + size * np.arange(count) for begin, count in blocks])


def joined(summands: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """The lengths of the `summands`, then all of them, one after another."""
    lengths = np.array([len(one) for one in summands], summands[0].dtype)
    return np.concatenate([lengths, *summands])


def taken_apart(total: NDArray[Any], count: int, silos: int) -> list[NDArray[Any]]:
    """The sums of `count` summands of which `total` is the sum over so many `silos`."""
    lengths = np.rint(total[:count] / silos).astype(np.int64)
    return np.split(total[count:], np.cumsum(lengths)[:-1])


def joined_sparse(each: Sequence[Sparse | None]) -> Sparse | None:
    """Where joined summands may differ from zero, None if one of them is dense."""
    known = [one for one in each if one is not None]
    if len(known) < len(each):
        return None
    begins = len(known) + np.cumsum([0, *(one.length for one in known)])
    parts = [begin + one.positions for begin, one in zip(begins[:-1], known, strict=True)]
    return Sparse(np.concatenate([np.arange(len(known)), *parts]), int(begins[-1]))


ROOM = 64_000_000
"""bytes of the opened states of all resamples that a silo keeps: a learner that keeps its rows has them N times"""


@dataclass(frozen=True)
class Opened:
    """How to open the silo of a resample from its seed, and the opened silos of the first resamples."""

    open_one: Callable[[int], Any]
    seeds: tuple[int, ...]
    states: tuple[Any, ...] = ()


def begun(open_one: Callable[[int], Any], seeds: Sequence[int], *, again: bool) -> Opened:
    """The resamples of these `seeds`; if they are needed `again`, as many of them opened as fit in `ROOM`."""
    states: list[Any] = []
    room = ROOM if again else 0
    for seed in seeds:
        if room <= 0:
            break
        states.append(open_one(seed))
        room -= size_of(states[-1])
    return Opened(open_one, tuple(seeds), tuple(states))


def state_of(opened: Opened, which: int) -> Any:
    """The state of resample `which` as it was opened."""
    if which < len(opened.states):
        return opened.states[which]
    return opened.open_one(opened.seeds[which])


def size_of(state: Any) -> int:
    """The number of bytes of the arrays in `state`."""
    if isinstance(state, np.ndarray):
        return state.nbytes
    if is_dataclass(state):
        return sum(size_of(getattr(state, field.name)) for field in fields(state))
    values = state.values() if isinstance(state, dict) else state if isinstance(state, tuple) else ()
    return sum(map(size_of, values))


Learner = FederatedAlgorithm[Any, Any, Any, Any]
REFUSED = (
    "--bootstrap: every resample would be one more private release of the same rows: learn without --bootstrap, or "
    "without an ε"
)


@dataclass(frozen=True)
class Bootstrap:
    """Settings of the wrapper `bootstrap`."""

    resamples: int = 100
    """how many resamples to learn from"""
    lags: int = 0
    """the learner's lags, if the rows are time series"""
    replacement: bool = False
    """draw all n rows with replacement, as R's bnlearn does, instead of half of them without"""

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
    """the resamples that have not converged, by number"""


@dataclass(frozen=True)
class Silo:
    """The silos of all resamples at one silo."""

    opened: Opened
    kept: tuple[bytes, ...]
    """for each resample the fields of its state that change, encoded; empty before its first round"""


@dataclass(frozen=True)
class Broadcast:
    """The broadcasts of the resamples that are still running."""

    running: tuple[int, ...]
    messages: tuple[bytes, ...]


@dataclass(frozen=True)
class Reply:
    """The silo's replies to these broadcasts, in the same order."""

    messages: tuple[bytes, ...]


def wrap(learner: Learner, settings: Bootstrap) -> FederatedAlgorithm[Server, Silo, Broadcast, Reply]:
    """The bootstrap of `learner`; its structure is the averaged network (`graphs/strengths.py`).

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
        converged=lambda server: not server.running,
        structure=lambda server: averaged_network(edge_strengths(structures(learner, server))),
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
        tolerates_dropout=learner.tolerates_dropout,
        measures=lambda server: {"resamples_running": float(len(server.running))},
        cost=partial(cost, learner),
        persisted_state=("kept",),
    )


def open_silo(
    learner: Learner, settings: Bootstrap, table: NDArray[Any], schema: Schema, silo: str, rng: np.random.Generator
) -> Silo:
    """The silo with the seeds of its resamples: each determines its rows and the learner's randomness."""
    seeds = rng.integers(2**63, size=settings.resamples)
    drawn = resampled_schema(schema, settings.draw)

    def open_one(seed: int) -> Any:
        own = np.random.default_rng(seed)
        return learner.open_silo(resample(table, schema, silo, settings.draw, own), drawn, silo, own)

    return Silo(begun(open_one, seeds.tolist(), again=learner.max_rounds > 1), (b"",) * settings.resamples)


def open_server(learner: Learner, settings: Bootstrap, schema: Schema) -> Server:
    """The initial servers of all resamples: all equal, as the public schema is the same."""
    state = wire.encode(learner.open_server(resampled_schema(schema, settings.draw)))
    return Server((state,) * settings.resamples, tuple(range(settings.resamples)))


def broadcast(learner: Learner, server: Server) -> Broadcast:
    """The broadcasts of the resamples that are still running."""
    messages = (wire.encode(learner.broadcast(state)) for state in _states(learner, server, server.running))
    return Broadcast(server.running, tuple(messages))


def sparse(learner: Learner, server: Server) -> Sparse | None:
    """Where the joined summands may differ from zero, if every resample's server knows that."""
    return joined_sparse([learner.sparse(state) for state in _states(learner, server, server.running)])


def local_solve(learner: Learner, silo: Silo, asked: Broadcast) -> tuple[Silo, Reply]:
    """The silo after the local solves of the resamples that are still running, and their replies."""
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
    """The summands of all replies as one."""
    assert learner.summand is not None
    return joined([learner.summand(wire.decode(learner.reply_type, message)) for message in reply.messages])


def entry_units(learner: Learner, schema: Schema, asked: Broadcast) -> FloatArray:
    """The units of the joined summands; lengths, and entries without units, have unit 1."""
    assert learner.entry_units is not None
    messages = (wire.decode(learner.broadcast_type, message) for message in asked.messages)
    each = [learner.entry_units(schema, message) for message in messages]
    if all(len(units) == 1 for units in each):
        return each[0]
    return np.concatenate([np.ones(len(each)), *each])


def aggregate(learner: Learner, server: Server, replies: Replies[Reply]) -> Server:
    """The servers after a round; those that have converged no longer change."""
    states, running = list(server.states), []
    shares = _by_resample(learner, replies, len(server.running))
    for which, state, share in zip(server.running, _states(learner, server, server.running), shares, strict=True):
        after = learner.dual_update(learner.aggregate(state, share))
        states[which] = wire.encode(after)
        if not learner.converged(after):
            running.append(which)
    return Server(tuple(states), tuple(running))


def _by_resample(learner: Learner, replies: Replies[Reply], count: int) -> list[Replies[Any]]:
    """The replies to each of `count` resamples: its part of the sum, or its silos' replies."""
    if replies.total is not None:
        parts = taken_apart(replies.total, count, len(replies.silos))
        return [Replies(replies.silos, total=part) for part in parts]
    each = zip(*(reply.messages for reply in replies.each), strict=True)
    return [
        Replies(replies.silos, tuple(wire.decode(learner.reply_type, message) for message in messages))
        for messages in each
    ]


def structures(learner: Learner, server: Server) -> list[Structure]:
    """The structure that `learner` learned from each resample."""
    return [learner.structure(state) for state in _states(learner, server, range(len(server.states)))]


def cost(learner: Learner, message: Broadcast | Reply) -> int:
    """The cost of the messages of all resamples by the papers' formula."""
    kind = learner.broadcast_type if isinstance(message, Broadcast) else learner.reply_type
    return sum(learner.cost(wire.decode(kind, one)) for one in message.messages)


def _states(learner: Learner, server: Server, which: Sequence[int]) -> list[Any]:
    return [wire.decode(learner.server_type, server.states[number]) for number in which]
