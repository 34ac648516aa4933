"""The bootstrap of any learner, as a wrapper that learns from many resamples of the rows at once (ours).

Each silo resamples its own rows with its own randomness. The resamples run in lockstep: one exchange carries the
messages of all unfinished resamples, so the number of exchanges is that of the slowest resample. If the learner's
server needs only a sum, the wrapper's server needs only a sum, too. The summands of all resamples are concatenated to
one vector, whose sum can be masked. A summand has the same length at all silos, but the server may not know this
length. So the lengths are sent before the summands and added up with them: each sum of lengths is the number of silos
times the length. The confidence in an edge is the share of resamples that have it (Friedman, Goldszmidt, Wyner 1999,
"Data analysis with Bayesian networks: a bootstrap approach").

What leaves a silo, and what the server needs: for each resample, the same as for the learner itself. A round costs as
much as one round of the learner for each unfinished resample.

A silo draws half of its rows without replacement, or n of its n rows with replacement. A statistic of a random half
varies about the statistic of all rows as much as a statistic of n rows drawn with replacement; for a mean, this
variance is σ²/n in both cases. But rows drawn twice count as evidence twice, so a score for n rows such as BIC finds
far too many spurious edges (Steck, Jaakkola 2003, "Bias-corrected bootstrap and model uncertainty"). A half has every
row at most once, so halves are the default (Bühlmann, Yu 2002, "Analyzing bagging"; Meinshausen, Bühlmann 2010,
"Stability selection").

Rows of a table may depend on rows before them. Then blocks of consecutive rows are drawn (Carlstein 1986). If a column
names clusters of rows, whole clusters are drawn (Field, Welsh 2007, "Bootstrapping clustered data").

Rows of a time series are dependent, and a learner uses them in windows of `lags` + 1 rows. So the wrapper draws
non-overlapping blocks of consecutive windows (Carlstein 1986). Each block is a stretch of its own, so no window spans
two blocks. The public lengths of the stretches determine the number of blocks and their length. A block has about
n^(1/3) windows for n windows of a silo (Hall, Horowitz, Jing 1995, "On blocking rules for the bootstrap with dependent
data").
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from ..core import wire
from ..core.protocol import FederatedAlgorithm, Replies, Sparse, pack_state, unpack_state
from ..core.release import FIXED_SUMS, Statistic, statistic_of
from ..core.schema import FloatArray, Schema
from ..core.settings import CountOrNone, Settings
from ..errors import BadInput
from ..graphs.strengths import averaged_network, edge_strengths
from ..graphs.structure import Structure
from ..statistics.design_effect import ClusteredRows, cluster_positions

MIN_WINDOWS = 2
"""smallest number of windows in a block, because learners of time series need a stretch with two windows"""


@dataclass(frozen=True)
class SamplingScheme:
    """Sampling with or without replacement; for time series, `lags` is that of the windows."""

    replacement: bool = False
    lags: int = 0
    block: int = 1
    """for tables, the number of consecutive rows that are drawn together"""

    def count(self, n: int) -> int:
        """The number of rows or blocks drawn from n."""
        return n if self.replacement else n - n // 2

    def positions(self, n: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """The positions of the rows or blocks drawn from n; blocks of rows begin at a random row and wrap around."""
        if self.block == 1:
            return generator.integers(n, size=n) if self.replacement else generator.permutation(n)[: self.count(n)]
        blocks = -(-n // self.block)
        drawn = generator.integers(blocks, size=blocks) if self.replacement else generator.permutation(blocks)
        rows = (drawn[:, None] * self.block + np.arange(self.block)).ravel()
        return np.asarray((rows[rows < n][: self.count(n)] + generator.integers(n)) % n)


def resampled_schema(schema: Schema, sampling: SamplingScheme) -> Schema:
    """The public schema of a resample; numbers of empty cells are in proportion to the rows, and at least 1 of any.

    Raises `BadInput` for a silo whose stretches of time series are too short for a block.
    """
    if schema.kind != "time-series":
        parts = {silo: tuple(map(sampling.count, _conditions(schema, silo))) for silo in schema.rows}
        rows = {silo: sum(own) for silo, own in parts.items()}
        share = {silo: rows[silo] / n for silo, n in schema.rows.items()}
        empty = {
            silo: tuple(max(round(share[silo] * one), min(one, 1)) for one in counts)
            for silo, counts in schema.empty.items()
        }
        effective_rows = round(schema.imputation_model.rows * sum(rows.values()) / sum(schema.rows.values()))
        return replace(
            schema,
            rows=rows,
            stretches={silo: parts[silo] for silo in schema.condition_names},
            empty=empty,
            imputation_model=replace(schema.imputation_model, rows=effective_rows),
        )
    stretches = {}
    for silo in schema.rows:
        windows, size = _windows(schema, silo, sampling), block_size(schema, silo, sampling)
        stretches[silo] = (sampling.lags + size,) * sampling.count(int((windows // size).sum()))
    rows = {silo: sum(own) for silo, own in stretches.items()}
    empty = {
        silo: tuple(math.ceil(count * rows[silo] / schema.rows[silo]) for count in counts)
        for silo, counts in schema.empty.items()
    }
    return replace(schema, rows=rows, stretches=stretches, empty=empty)


def resample(
    table: NDArray[Any] | ClusteredRows,
    schema: Schema,
    silo: str,
    sampling: SamplingScheme,
    generator: np.random.Generator,
) -> NDArray[Any]:
    """Rows drawn from `table` `[n_rows, n_variables]`, as `resampled_schema` describes them."""
    if isinstance(table, ClusteredRows):
        count = sampling.count(schema.rows[silo])
        return np.asarray(table.table[cluster_positions(table.clusters, count, sampling.replacement, generator)])
    if schema.kind != "time-series":
        sizes = _conditions(schema, silo)
        begins = np.cumsum([0, *sizes[:-1]])
        drawn = [
            begin + sampling.positions(size, generator) for begin, size in zip(begins.tolist(), sizes, strict=True)
        ]
        return np.asarray(table[np.concatenate(drawn)])
    size = block_size(schema, silo, sampling)
    starts = _starts(schema, silo, sampling, size, generator)
    begins = starts[sampling.positions(len(starts), generator)]
    return np.asarray(table[(begins[:, None] + np.arange(sampling.lags + size)).ravel()])


def _conditions(schema: Schema, silo: str) -> tuple[int, ...]:
    """The numbers of rows from which rows are drawn separately: of each condition of `silo`, or of the whole silo."""
    return schema.conditions(silo) if silo in schema.condition_names else (schema.rows[silo],)


def block_size(schema: Schema, silo: str, sampling: SamplingScheme) -> int:
    """The number of windows in a block of `silo`.

    It is at most that of the shortest stretch with `MIN_WINDOWS` windows or more. Raises `BadInput` if there is no such
    stretch.
    """
    windows = _windows(schema, silo, sampling)
    enough = windows[windows >= MIN_WINDOWS]
    if not len(enough):
        raise BadInput(
            f"--bootstrap: silo {silo}: its unbroken series are too short to draw blocks from: "
            f"one must have at least {sampling.lags + MIN_WINDOWS} rows"
        )
    return max(MIN_WINDOWS, min(round(float(np.cbrt(enough.sum()))), int(enough.min())))


def _windows(schema: Schema, silo: str, sampling: SamplingScheme) -> NDArray[np.int64]:
    """The number of windows in each stretch of `silo`, `[n_stretches]`."""
    return np.maximum(np.array(schema.stretches[silo], np.int64) - sampling.lags, 0)


def _starts(
    schema: Schema, silo: str, sampling: SamplingScheme, size: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """The first row of each block.

    A stretch can have more windows than its blocks. A random number of these surplus windows is left out at the start
    of the stretch, and the others at the end.
    """
    first = np.concatenate([[0], np.cumsum(schema.stretches[silo])[:-1]])
    own = _windows(schema, silo, sampling)
    offsets = generator.integers(own % size + 1)
    blocks = zip(first + offsets, own // size, strict=True)
    return np.concatenate([begin + size * np.arange(count) for begin, count in blocks])


def concatenate_summands(summands: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """The lengths of the `summands`, then the summands, as one vector."""
    lengths = np.array([len(one) for one in summands], summands[0].dtype)
    return np.concatenate([lengths, *summands])


def split_sum(total: NDArray[Any], count: int, silos: int) -> list[NDArray[Any]]:
    """The sums of the `count` summands in `total`, the sum of concatenated vectors over this number of `silos`."""
    lengths = np.rint(total[:count] / silos).astype(np.int64)
    return np.split(total[count:], np.cumsum(lengths)[:-1])


def concatenate_sparse(each: Sequence[Sparse | None]) -> Sparse | None:
    """The positions at which the concatenated summands may differ from zero; None if any summand is dense."""
    patterns = [one for one in each if one is not None]
    if len(patterns) < len(each):
        return None
    begins = len(patterns) + np.cumsum([0, *(one.length for one in patterns)])
    parts = [begin + one.positions for begin, one in zip(begins[:-1], patterns, strict=True)]
    return Sparse(np.concatenate([np.arange(len(patterns)), *parts]), int(begins[-1]))


MAX_STATE_BYTES = 64_000_000
"""limit on the bytes of the resample states that a silo keeps, because each state may contain a copy of the rows"""


@dataclass(frozen=True)
class ResampleStates:
    """The function that opens a resample's silo from its seed, and the states of the first resamples."""

    open_one: Callable[[int], Any]
    seeds: tuple[int, ...]
    states: tuple[Any, ...] = ()


def open_resamples(open_one: Callable[[int], Any], seeds: Sequence[int], *, repeated: bool) -> ResampleStates:
    """The resamples of these `seeds`; if states are used `repeated`ly, the first ones are opened and stored.

    States are stored until they fill `MAX_STATE_BYTES`.
    """
    states: list[Any] = []
    free_bytes = MAX_STATE_BYTES if repeated else 0
    for seed in seeds:
        if free_bytes <= 0:
            break
        states.append(open_one(seed))
        free_bytes -= array_bytes(states[-1])
    return ResampleStates(open_one, tuple(seeds), tuple(states))


def resample_state(resamples: ResampleStates, which: int) -> Any:
    """The initial state of resample `which`."""
    if which < len(resamples.states):
        return resamples.states[which]
    return resamples.open_one(resamples.seeds[which])


def array_bytes(state: Any) -> int:
    """The total number of bytes of the arrays in `state`."""
    if isinstance(state, np.ndarray):
        return state.nbytes
    if is_dataclass(state):
        return sum(array_bytes(getattr(state, field.name)) for field in fields(state))
    values = state.values() if isinstance(state, dict) else state if isinstance(state, tuple) else ()
    return sum(map(array_bytes, values))


Learner = FederatedAlgorithm[Any, Any, Any, Any]
PRIVATE_LEARNER_ERROR = (
    "every resample would be another private release of the same rows: learn without --bootstrap, or without an ε"
)


@dataclass(frozen=True)
class Bootstrap(Settings):
    """Settings of the wrapper `bootstrap`."""

    resamples: Annotated[int, Ge(2)] = 100
    """how many resamples to learn from"""
    lags: CountOrNone = 0
    """the learner's lags, if the rows are time series"""
    replacement: bool = False
    """draw n of the n rows with replacement, as R's bnlearn does, instead of half of the rows without replacement"""
    block: Annotated[int, Ge(1)] = 1
    """for tables whose rows depend on rows before them, how many consecutive rows to draw together"""

    @property
    def sampling(self) -> SamplingScheme:
        """The sampling scheme of these settings."""
        return SamplingScheme(self.replacement, self.lags, self.block)


@dataclass(frozen=True)
class Server:
    """The server states of all resamples."""

    states: tuple[bytes, ...]
    """the encoded state of each resample; empty for a resample of which nothing can be learned"""
    running: tuple[int, ...]
    """the numbers of the resamples that have not converged"""


@dataclass(frozen=True)
class Silo:
    """The states of all resamples at one silo."""

    resamples: ResampleStates
    kept: tuple[bytes, ...]
    """for each resample, the encoded fields of the learner's silo state that change; empty before its first round"""


@dataclass(frozen=True)
class Broadcast:
    """The broadcasts of the resamples that are still running."""

    running: tuple[int, ...]
    messages: tuple[bytes, ...]


@dataclass(frozen=True)
class Reply:
    """The silo's replies to the messages of the broadcast, in the same order."""

    messages: tuple[bytes, ...]


def wrap(learner: Learner, settings: Bootstrap) -> FederatedAlgorithm[Server, Silo, Broadcast, Reply]:
    """The bootstrap of `learner`; its structure is the averaged network (`graphs/strengths.py`).

    Raises `BadInput` for a private learner.
    """
    if learner.private is not None:
        raise BadInput(PRIVATE_LEARNER_ERROR)
    return FederatedAlgorithm(
        open_silo=partial(open_silo, learner, settings),
        open_server=partial(open_server, learner, settings),
        broadcast=partial(broadcast, learner),
        local_solve=partial(local_solve, learner),
        aggregate=partial(aggregate, learner),
        converged=lambda server: not server.running,
        structure=lambda server: averaged_network(edge_strengths(structures(learner, server))),
        server_type=Server,
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
        releases=partial(releases, learner),
        takes_clusters=True,
        persisted_state=("kept",),
    )


def releases(learner: Learner, request: Broadcast) -> Statistic:
    """The statistic in the learner's reply; of several kinds, one that a level allows last."""
    messages = (wire.decode(learner.broadcast_type, message) for message in request.messages)
    kinds = {statistic_of(learner.releases, message) for message in messages}
    return min(kinds, key=lambda kind: (kind in FIXED_SUMS, kind), default="undeclared")


def open_silo(
    learner: Learner,
    settings: Bootstrap,
    table: NDArray[Any] | ClusteredRows,
    schema: Schema,
    silo: str,
    rng: np.random.Generator,
) -> Silo:
    """The silo with the seeds of its resamples; a seed determines a resample's rows and the learner's randomness."""
    seeds = rng.integers(2**63, size=settings.resamples)
    resample_schema = resampled_schema(schema, settings.sampling)

    def open_one(seed: int) -> Any:
        own = np.random.default_rng(seed)
        return learner.open_silo(resample(table, schema, silo, settings.sampling, own), resample_schema, silo, own)

    return Silo(open_resamples(open_one, seeds.tolist(), repeated=learner.max_rounds > 1), (b"",) * settings.resamples)


def open_server(learner: Learner, settings: Bootstrap, schema: Schema) -> Server:
    """The initial server states of all resamples, which are equal because the public schema is the same."""
    state = wire.encode(learner.open_server(resampled_schema(schema, settings.sampling)))
    return Server((state,) * settings.resamples, tuple(range(settings.resamples)))


def broadcast(learner: Learner, server: Server) -> Broadcast:
    """The broadcasts of the resamples that are still running."""
    messages = (wire.encode(learner.broadcast(state)) for state in _states(learner, server, server.running))
    return Broadcast(server.running, tuple(messages))


def sparse(learner: Learner, server: Server) -> Sparse | None:
    """The positions at which the concatenated summands may differ from zero; None if a server does not know them."""
    return concatenate_sparse([learner.sparse(state) for state in _states(learner, server, server.running)])


def local_solve(learner: Learner, silo: Silo, request: Broadcast) -> tuple[Silo, Reply]:
    """The silo after the local solves of the unfinished resamples, and their replies."""
    saved, replies = list(silo.kept), []
    for which, message in zip(request.running, request.messages, strict=True):
        state = resample_state(silo.resamples, which)
        if saved[which]:
            state = unpack_state(learner, state, saved[which])
        state, reply = learner.local_solve(state, wire.decode(learner.broadcast_type, message))
        saved[which] = pack_state(learner, state)
        replies.append(wire.encode(reply))
    return replace(silo, kept=tuple(saved)), Reply(tuple(replies))


def summand(learner: Learner, reply: Reply) -> NDArray[Any]:
    """The summands of all replies as one vector."""
    assert learner.summand is not None
    return concatenate_summands(
        [learner.summand(wire.decode(learner.reply_type, message)) for message in reply.messages]
    )


def entry_units(learner: Learner, schema: Schema, request: Broadcast) -> FloatArray:
    """The units of the concatenated summands; lengths have unit 1."""
    assert learner.entry_units is not None
    messages = (wire.decode(learner.broadcast_type, message) for message in request.messages)
    each = [learner.entry_units(schema, message) for message in messages]
    if all(len(units) == 1 for units in each):
        return each[0]
    return np.concatenate([np.ones(len(each)), *each])


def aggregate(learner: Learner, server: Server, replies: Replies[Reply]) -> Server:
    """The server states after a round; the states of converged resamples do not change.

    A column with few values may be constant in some resamples, which are then left out. Raises the learner's `BadInput`
    if fewer than half of the resamples remain.
    """
    states, running = list(server.states), []
    shares = _by_resample(learner, replies, len(server.running))
    for which, state, share in zip(server.running, _states(learner, server, server.running), shares, strict=True):
        try:
            after = learner.dual_update(learner.aggregate(state, share))
        except BadInput as error:
            states[which] = b""
            if 2 * states.count(b"") > len(states):
                raise BadInput(f"--bootstrap: nothing can be learned of most resamples: {error}") from None
            continue
        states[which] = wire.encode(after)
        if not learner.converged(after):
            running.append(which)
    return Server(tuple(states), tuple(running))


def _by_resample(learner: Learner, replies: Replies[Reply], count: int) -> list[Replies[Any]]:
    """The replies for each of `count` resamples: the resample's part of the sum, or the replies of each silo."""
    if learner.summand is not None:
        parts = split_sum(replies.total, count, len(replies.silos))
        return [Replies(replies.silos, total=part) for part in parts]
    each = zip(*(reply.messages for reply in replies.each), strict=True)
    return [
        Replies(replies.silos, tuple(wire.decode(learner.reply_type, message) for message in messages))
        for messages in each
    ]


def structures(learner: Learner, server: Server) -> list[Structure]:
    """The structure that `learner` learned from each resample that is not left out."""
    kept = [which for which, state in enumerate(server.states) if state]
    return [learner.structure(state) for state in _states(learner, server, kept)]


def cost(learner: Learner, message: Broadcast | Reply) -> int:
    """The cost of the messages of all resamples by the learner's formula."""
    kind = learner.broadcast_type if isinstance(message, Broadcast) else learner.reply_type
    return sum(learner.cost(wire.decode(kind, one)) for one in message.messages)


def _states(learner: Learner, server: Server, which: Sequence[int]) -> list[Any]:
    return [wire.decode(learner.server_type, server.states[number]) for number in which]
