"""The interface of federated algorithms, split at the privacy boundary, and the loop that runs their rounds.

An algorithm is a frozen dataclass of pure functions. Only `open_silo` and `local_solve` use the rows, and they run at
the silo. The coordinator receives only replies or their sum. A `Federation` carries messages between the coordinator
and the silos, either in this process or over Dask under Prefect (`tasks/transport/`). All federations use the same
loop, `rounds`.

Between rounds a silo stores only the fields of its state that change (`pack_state`). `sum_each_round` builds an
algorithm whose silos reply with nothing else than their parts of a sum. `sum_once` and `single_reply` build algorithms
of one exchange.

`learn_alone` learns from one table in memory: the rows of one silo, or all rows in a pooled baseline. It runs `rounds`
without privacy, journal, transport and masks, which are features of a silo's service (`tasks/silo/service.py`).
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, Protocol, TypeVar
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from ..core import wire
from ..errors import BadInput, RunCancelled, SilosUnavailable
from ..graphs.structure import Structure, empty_structure
from .promise import Charge, Private
from .release import Disclosed, Releases
from .schema import FloatArray, Schema

Server = TypeVar("Server")
Silo = TypeVar("Silo")
Broadcast = TypeVar("Broadcast")
Reply = TypeVar("Reply")


@dataclass(frozen=True)
class Replies(Generic[Reply]):
    """What the coordinator receives in one round: the reply of each silo, or only the sum of the replies.

    `silos` are the sorted silos that replied. An algorithm with summands receives `total`, and `each` is empty; an
    algorithm without summands receives `each`, and `total` is empty.
    """

    silos: tuple[str, ...]
    each: tuple[Reply, ...] = ()
    total: NDArray[Any] = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True)
class Traffic:
    """The bytes of one round, summed over all silos."""

    up: int = 0
    """serialised bytes from the silos"""
    down: int = 0
    """serialised bytes to the silos"""
    formula: int = 0
    """bytes in both directions by the formula of Fassy El Fehri et al., B.2.1"""

    @property
    def total(self) -> int:
        """The serialised bytes in both directions."""
        return self.up + self.down

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(self.up + other.up, self.down + other.down, self.formula + other.formula)


def dense_cost(message: Any) -> int:
    """The bytes of the arrays in `message` by the formula for dense messages, which has 8 bytes for each number.

    Source: Fassy El Fehri et al., B.2.1.
    """
    arrays = (getattr(message, name) for name in message.__dataclass_fields__)
    return sum(8 * array.size for array in arrays if isinstance(array, np.ndarray))


@dataclass(frozen=True)
class Sparse:
    """Public positions at which the summands `[length]` of a round may be nonzero, as increasing indices."""

    positions: NDArray[np.int64]
    length: int


# Defaults of `FederatedAlgorithm`, for functions that an algorithm does not need.


def no_basis(server: Any) -> tuple[str, ...]:
    """No sentences, for algorithms whose assumptions do not depend on the data."""
    return ()


def no_measures(server: Any) -> dict[str, float]:
    """No measures, for algorithms that do not measure their progress."""
    return {}


def dense_summand(server: Any) -> Sparse | None:
    """None, because any entry of a summand may be nonzero."""
    return None


def no_dual_update(server: Server) -> Server:
    """The same state, for algorithms without a dual update."""
    return server


def always_converged(server: Any) -> bool:
    """True, for algorithms of one round."""
    return True


def without_edges(server: Any) -> Structure:
    """No edges, for steps of a run that learn something else than a structure; the server has the `schema`."""
    return empty_structure(server.schema.variables)


def no_bound(schema: Schema, broadcast: Any) -> int | None:
    """None: no bound on the entries of the sum is known."""
    return None


@dataclass(frozen=True, kw_only=True)
class FederatedAlgorithm(Generic[Server, Silo, Broadcast, Reply]):
    """A federated algorithm as pure functions.

    A silo runs `open_silo`, `local_solve`, `summand` and the functions of `private`. The silos and the coordinator both
    run `entry_units` and `greatest_total`. The coordinator runs all others.

    Server, Silo, Broadcast and Reply are frozen dataclasses that `wire` can encode. A checkpoint is the encoded Server,
    and a silo's journal has encoded fields of Silo (`persisted_state`) and the encoded Reply.
    """

    open_silo: Callable[[Any, Schema, str, np.random.Generator], Silo]
    """(table `[n_rows, n_variables]`, public schema, this silo's name, its random generator) -> its private state;
    the table may be read in passes (`statistics/moments.py`) if its entry takes rows in passes"""
    open_server: Callable[[Schema], Server]
    broadcast: Callable[[Server], Broadcast]
    """the only message to the silos"""
    local_solve: Callable[[Silo, Broadcast], tuple[Silo, Reply]]
    """(state, broadcast) -> (state, reply); only the reply is sent back"""
    aggregate: Callable[[Server, Replies[Reply]], Server]
    dual_update: Callable[[Server], Server] = no_dual_update
    converged: Callable[[Server], bool] = always_converged
    structure: Callable[[Server], Structure]
    server_type: type[Server]
    broadcast_type: type[Broadcast]
    reply_type: type[Reply]
    max_rounds: int = 1
    summand: Callable[[Reply], NDArray[Any]] | None = None
    """reply -> summand, a vector of float64 or, with `whole_numbers`, of int64; set if the server needs only the
    sum of the summands over the silos; the server then receives only this sum"""
    whole_numbers: bool = False
    """whether summands are int64, whose sum is exact; masked float summands are rounded to fixed-point numbers"""
    sparse: Callable[[Server], Sparse | None] = dense_summand
    """the positions at which the summands of this round may be nonzero; if summands are masked, only the entries at
    these positions are sent"""
    entry_units: Callable[[Schema, Broadcast], FloatArray] | None = None
    """(public schema with `units`, broadcast) -> the unit of each entry of a float summand, computed from public facts;
    masked summands are sent in these units"""
    greatest_total: Callable[[Schema, Broadcast], int | None] = no_bound
    """(public schema, broadcast) -> a bound on the entries of the sum, or None; only for summands of whole numbers of 0
    or more, such as counts of rows; the smaller the bound, the fewer bytes masked summands need"""
    needs_secure_sum: bool = False
    """whether the server may receive only the sum, because a single reply reveals more than the algorithm promises"""
    tolerates_dropout: bool = False
    """whether the server can continue with the replies of the remaining silos"""
    private: Private[Silo, Broadcast] | None = None
    """set if every reply has noise for an ε and is charged to a privacy ledger (`privacy/ledger.py`)"""
    residual_variances: Callable[[Server], FloatArray] | None = None
    """server -> each variable's mean squared residual `[d]`; set if the server has it without another exchange"""
    measures: Callable[[Server], dict[str, float]] = no_measures
    """server -> measures of the round, such as residuals and the number of edges"""
    basis: Callable[[Server], tuple[str, ...]] = no_basis
    """server -> sentences on choices made from the data, and on the assumptions behind the directions"""
    cost: Callable[[Any], int] = dense_cost
    """(broadcast or reply) -> its bytes by the formula of Fassy El Fehri et al., B.2.1"""
    interrupted: Callable[[Server], Server] = lambda server: server
    """the state between two rounds -> the state with the best result so far, for rounds that end early"""
    local_structures: Callable[[Server], dict[str, Structure]] | None = None
    """server -> structures by silo, for baselines that learn one structure per silo"""
    releases: Releases = "undeclared"
    """the kind of statistic in the reply to a broadcast; the registry sets it to that of the algorithm's entry"""
    takes_clusters: bool = False
    """whether `open_silo` takes the rows as `ClusteredRows` (`statistics/design_effect.py`) if a column of the silo's
    table names clusters"""
    persisted_state: tuple[str, ...] = ()
    """the fields of Silo that change from round to round; a silo stores them in its journal, and recomputes the other
    fields from its rows"""

    def is_masked(self, schema: Schema, *, requested: bool) -> bool:
        """Whether replies are masked: if `requested`, or if the algorithm needs masks and there are several silos.

        Raises `BadInput` if masks are requested but impossible, because there is one silo or the algorithm needs every
        reply.
        """
        if requested and self.summand is None:
            raise BadInput("--secure: this algorithm needs each silo's reply, not only their sum")
        if requested and len(schema.rows) < 2:
            raise BadInput("--secure: there is one silo, so its reply would be the sum")
        return requested or (self.needs_secure_sum and len(schema.rows) > 1)


Algorithm = FederatedAlgorithm[Any, Any, Any, Any]


class SiloLost(Exception):  # noqa: N818 - an event, not a programming error
    """Raised by a federation if silos did not reply in a round, and the run cannot continue without them."""

    def __init__(self, silos: tuple[str, ...], reason: str) -> None:
        super().__init__(f"{', '.join(silos)}: {reason}")
        self.silos = silos
        self.reason = reason


class Federation(Protocol):
    """The coordinator's interface to the silos: a public schema, and exchanges with all of them."""

    @property
    def schema(self) -> Schema:
        """The public schema."""
        ...

    def exchange(
        self, algorithm: Algorithm, number: int, broadcast: Any, sparse: Sparse | None = None
    ) -> tuple[Replies[Any], Traffic]:
        """Run `local_solve` with `broadcast` at every silo in round `number` (from 1); returns replies and traffic.

        If replies are masked, only the entries at the positions in `sparse` are sent (None: all entries). Raises
        `SiloLost` if a silo does not respond and the algorithm does not tolerate dropout.
        """
        ...

    def charges(self, run: str | None = None) -> dict[str, tuple[Charge, ...]]:
        """The charges of `run` in each silo's privacy ledger; all charges if `run` is None."""
        ...

    def releases(self, run: str) -> dict[str, tuple[Disclosed, ...]]:
        """What each silo has sent in `run` and its further exchanges, by the record of the silo's own gate."""
        ...


@dataclass(frozen=True, kw_only=True)
class TimedState:
    """The part of a server's state with the limits of its searches."""

    ends: float = math.inf
    """the value of `time.monotonic()` at which a search stops, with the best graph so far"""
    cut: bool = False
    """whether a search has stopped at this time"""
    most_bytes: float = math.inf
    """the maximum number of bytes of all exchanges together"""


ENDED_EARLY = ("out of time", "out of bytes")
"""outcomes of rounds that stopped at a limit set by the user, with the best result so far"""
Outcome = Literal["converged", "out of rounds", "out of time", "out of bytes", "silo lost", "cancelled"]
BROKEN_OFF: dict[Outcome, str] = {
    "silo lost": "a silo was lost before the run ended",
    "cancelled": "the run was cancelled",
}
"""outcomes of rounds after which silos are asked nothing more, and why; such a run can be resumed"""


@dataclass(frozen=True)
class Limits:
    """Limits of time and traffic, at which the rounds stop with the best result so far."""

    ends: float = math.inf
    """the value of `time.monotonic()` at which the rounds stop"""
    bytes: float = math.inf
    """maximum number of bytes in both directions; the first exchange always takes place"""

    def outcome(self, sent: int, last: int) -> Outcome | None:
        """The reason to stop after `sent` bytes, or None; the next exchange is assumed to take `last` bytes."""
        if time.monotonic() >= self.ends:
            return "out of time"
        return "out of bytes" if sent + last > self.bytes else None


NO_LIMITS = Limits()


@dataclass(frozen=True)
class Round(Generic[Server]):
    """The state after one round. `outcome` is None while the run continues; `lost` names the silos without a reply."""

    number: int
    server: Server
    traffic: Traffic
    outcome: Outcome | None
    lost: tuple[str, ...] = ()
    reason: str = ""
    """why the run cannot continue without the lost silos"""

    @property
    def broken_off(self) -> str:
        """Why silos can be asked nothing more, as part of a sentence; empty if they can."""
        return BROKEN_OFF.get(self.outcome, "") if self.outcome else ""

    def require_silos(self, when: str) -> None:
        """Raise `SilosUnavailable` if too few silos replied; `when` ends the sentence "a, b did not respond ...".

        Raises `RunCancelled` if the run was cancelled.
        """
        if self.outcome == "cancelled":
            raise RunCancelled
        if self.outcome == "silo lost":
            raise SilosUnavailable(f"{', '.join(self.lost)} did not respond {when}: {self.reason}")


def rounds(
    algorithm: FederatedAlgorithm[Server, Silo, Broadcast, Reply],
    federation: Federation,
    resume: tuple[int, Server] | None = None,
    limits: Limits = NO_LIMITS,
) -> Iterator[Round[Server]]:
    """Run `algorithm` over `federation`, and yield a `Round` after each round.

    The run ends when the algorithm converges, after `max_rounds`, or at one of the `limits` with the best result so
    far. `resume` is (number of the last finished round, its server state) from a checkpoint. If `federation` raises
    `SiloLost`, no error is raised: the last `Round` reports the loss, with the state of the last finished round. The
    same applies to `RunCancelled`, with the best result so far.
    """
    number, server = resume or (0, algorithm.open_server(federation.schema))
    if isinstance(server, TimedState) and limits != NO_LIMITS:
        server = replace(server, ends=limits.ends, most_bytes=limits.bytes)
    outcome: Outcome | None = None
    sent = 0
    while outcome is None:
        number += 1
        try:
            replies, traffic = federation.exchange(
                algorithm, number, algorithm.broadcast(server), algorithm.sparse(server)
            )
            after = algorithm.dual_update(algorithm.aggregate(server, replies))
            converged = algorithm.converged(after)
        except SiloLost as loss:
            yield Round(number - 1, server, Traffic(), "silo lost", loss.silos, loss.reason)
            return
        except RunCancelled:
            yield Round(number - 1, algorithm.interrupted(server), Traffic(), "cancelled")
            return
        lost = tuple(silo for silo in federation.schema.silos if silo not in replies.silos)
        server = after
        sent += traffic.total
        if converged:
            outcome = _converged_outcome(server)
        elif number >= algorithm.max_rounds:
            outcome = "out of rounds"
        else:
            outcome = limits.outcome(sent, traffic.total)
            server = algorithm.interrupted(server) if outcome else server
        yield Round(number, server, traffic, outcome, lost)


def _converged_outcome(server: Any) -> Outcome:
    """The outcome of a run that has converged: "out of time" if a search has stopped at its limit."""
    return "out of time" if isinstance(server, TimedState) and server.cut else "converged"


class UnusableReply(BadInput):
    """What a silo sent is no reply of the round; the message has the silo's name."""


@contextmanager
def usable_reply(silo: str) -> Iterator[None]:
    """Raise `UnusableReply`, with the name of the `silo`, if reading its reply fails in the block."""
    try:
        yield
    except (ValueError, TypeError, ArithmeticError, LookupError, RecursionError) as fault:
        raise UnusableReply(f"silo {silo}: its reply cannot be read ({type(fault).__name__})") from None


def gather(
    algorithm: FederatedAlgorithm[Server, Silo, Broadcast, Reply], replies: Mapping[str, Reply]
) -> Replies[Reply]:
    """What the coordinator receives of `replies`: the sum of the summands if there are summands, otherwise each reply.

    Summands are added in the sorted order of the silos, so that rounding does not depend on the order of the replies.
    Raises `UnusableReply` for a reply that has no summand, or a summand of another shape than most silos send.
    """
    silos = tuple(sorted(replies))
    if algorithm.summand is None:
        return Replies(silos, each=tuple(replies[silo] for silo in silos))
    summands = []
    for silo in silos:
        with usable_reply(silo):
            summands.append(algorithm.summand(replies[silo]))
    shapes = [one.shape for one in summands]
    usual = max(shapes, key=shapes.count)
    for silo, shape in zip(silos, shapes, strict=True):
        if shape != usual:
            sizes = f"{math.prod(shape):,} numbers, those of others have {math.prod(usual):,}"
            raise UnusableReply(f"silo {silo}: its reply has {sizes}")
    total = summands[0].copy()
    for one in summands[1:]:
        total += one
    return Replies(silos, total=total)


def traffic_of(
    algorithm: FederatedAlgorithm[Server, Silo, Broadcast, Reply],
    broadcast: Broadcast,
    replies: Mapping[str, Reply],
    sizes: tuple[int, int] | None = None,
) -> Traffic:
    """The traffic of one exchange: the broadcast to every silo, and every reply.

    `sizes`, if already known, are the bytes of the encoded broadcast and of all encoded replies together.
    """
    down, up = sizes or (len(wire.encode(broadcast)), sum(len(wire.encode(reply)) for reply in replies.values()))
    return Traffic(
        up=up,
        down=len(replies) * down,
        formula=len(replies) * algorithm.cost(broadcast) + sum(algorithm.cost(reply) for reply in replies.values()),
    )


def pack_state(algorithm: Algorithm, state: Any) -> bytes:
    """The fields of a silo's state that change from round to round, as bytes."""
    return wire.encode({name: wire.encode(getattr(state, name)) for name in algorithm.persisted_state})


def unpack_state(algorithm: Algorithm, opened: Any, packed: bytes) -> Any:
    """`opened` (the result of `open_silo`) with the fields in `packed` restored."""
    hints = wire.field_types(type(opened))
    fields: dict[str, bytes] = wire.decode(dict, packed)
    return replace(opened, **{name: wire.decode(hints[name], value) for name, value in fields.items()})


Message = TypeVar("Message")


@dataclass(frozen=True)
class OnceBroadcast:
    """The only broadcast of a single exchange: a request for each silo's reply."""


def single_reply(
    open_silo: Callable[[Any, Schema, str, np.random.Generator], Message],
    open_server: Callable[[Schema], Server],
    aggregate: Callable[[Server, Replies[Message]], Server],
    structure: Callable[[Server], Structure],
    server_type: type[Server],
    message_type: type[Message],
) -> FederatedAlgorithm[Server, Message, OnceBroadcast, Message]:
    """An algorithm of one exchange in which each silo sends its state, the result of `open_silo`."""
    return FederatedAlgorithm(
        open_silo=open_silo,
        open_server=open_server,
        broadcast=lambda server: OnceBroadcast(),
        local_solve=lambda silo, request: (silo, silo),
        aggregate=aggregate,
        structure=structure,
        server_type=server_type,
        broadcast_type=OnceBroadcast,
        reply_type=message_type,
    )


@dataclass(frozen=True, eq=False)
class Summand:
    """A silo's summand, the only content of its reply."""

    values: NDArray[Any]

    def as_floats(self) -> FloatArray:
        """The summand as float64, in which whole numbers up to 2⁵³ are exact."""
        return self.values.astype(np.float64, copy=False)

    def as_integers(self) -> NDArray[np.int64]:
        """The summand as int64."""
        return self.values.astype(np.int64, copy=False)


def sum_each_round(
    *,
    open_silo: Callable[[Any, Schema, str, np.random.Generator], Silo],
    open_server: Callable[[Schema], Server],
    broadcast: Callable[[Server], Broadcast],
    part: Callable[[Silo, Broadcast], NDArray[Any]],
    aggregate: Callable[[Server, Replies[Summand]], Server],
    server_type: type[Server],
    broadcast_type: type[Broadcast],
    structure: Callable[[Server], Structure] = without_edges,
    converged: Callable[[Server], bool] = always_converged,
    max_rounds: int = 1,
    whole_numbers: bool = False,
    entry_units: Callable[[Schema, Broadcast], FloatArray] | None = None,
    greatest_total: Callable[[Schema, Broadcast], int | None] = no_bound,
    needs_secure_sum: bool = False,
    tolerates_dropout: bool = True,
    measures: Callable[[Server], dict[str, float]] = no_measures,
    basis: Callable[[Server], tuple[str, ...]] = no_basis,
    private: Private[Silo, Broadcast] | None = None,
) -> FederatedAlgorithm[Server, Silo, Broadcast, Summand]:
    """An algorithm of one sum over the silos in each round.

    Parameters
    ----------
    part
        (what `open_silo` returned, broadcast) -> the silo's part of the requested sum, a vector of floats, or of whole
        numbers with `whole_numbers`. The state of a silo does not change. Masked floats are sent as fixed-point
        numbers, which must be below 2³¹. So either divide sums over rows by the number of all rows, or give
        `entry_units`.
    aggregate
        (server, replies) -> the server after the round; `replies.total` is the sum over `replies.silos`.
    structure
        The default has no edges; it is for steps of a run that learn no structure.
    tolerates_dropout
        By default the sum may be over the remaining silos.
    open_silo, open_server, broadcast, server_type, broadcast_type, converged, max_rounds, whole_numbers, entry_units, \
    greatest_total, needs_secure_sum, measures, basis, private
        As in `FederatedAlgorithm`.
    """
    return FederatedAlgorithm(
        open_silo=open_silo,
        open_server=open_server,
        broadcast=broadcast,
        local_solve=lambda silo, request: (silo, Summand(part(silo, request))),
        aggregate=aggregate,
        converged=converged,
        structure=structure,
        server_type=server_type,
        broadcast_type=broadcast_type,
        reply_type=Summand,
        max_rounds=max_rounds,
        summand=Summand.as_integers if whole_numbers else Summand.as_floats,
        whole_numbers=whole_numbers,
        entry_units=entry_units,
        greatest_total=greatest_total,
        needs_secure_sum=needs_secure_sum,
        tolerates_dropout=tolerates_dropout,
        measures=measures,
        basis=basis,
        private=private,
    )


@dataclass(frozen=True, eq=False)
class SumServer:
    """The sum over the silos that answered, empty before the exchange, and the schema of these silos."""

    schema: Schema
    total: NDArray[Any] = field(default_factory=lambda: np.empty(0))


def sum_once(
    part: Callable[[Any, Schema], NDArray[Any]],
    learn: Callable[[NDArray[Any], Schema], Structure] = lambda total, schema: empty_structure(schema.variables),
    *,
    whole_numbers: bool = False,
    needs_secure_sum: bool = False,
    entry_units: Callable[[Schema, OnceBroadcast], FloatArray] | None = None,
    basis: Callable[[SumServer], tuple[str, ...]] = no_basis,
) -> FederatedAlgorithm[SumServer, NDArray[Any], OnceBroadcast, Summand]:
    """An algorithm of one exchange: the sum of parts that depend only on the silos' rows, over the silos that answer.

    Parameters
    ----------
    part
        (table `[n_rows, n_variables]`, public schema) -> a silo's part of the sum, as in `sum_each_round`.
    learn
        (the sum, schema of the silos that answered) -> the structure. Before the exchange, the structure has no edges.
    whole_numbers, needs_secure_sum, entry_units, basis
        As in `FederatedAlgorithm`.
    """
    return sum_each_round(
        open_silo=lambda table, schema, silo, rng: part(table, schema),
        open_server=lambda schema: SumServer(schema.in_order()),
        broadcast=lambda server: OnceBroadcast(),
        part=lambda own, request: own,
        aggregate=lambda server, replies: SumServer(server.schema.of_silos(replies.silos), replies.total),
        structure=lambda server: (
            learn(server.total, server.schema) if server.total.size else empty_structure(server.schema.variables)
        ),
        server_type=SumServer,
        broadcast_type=OnceBroadcast,
        whole_numbers=whole_numbers,
        entry_units=entry_units,
        needs_secure_sum=needs_secure_sum,
        basis=basis,
    )


def silo_generator(seed: int, silo: str) -> np.random.Generator:
    """The random generator of one silo; it depends on the seed and the name of the silo, but not on other silos."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(crc32(silo.encode()),)))


def learn_alone(algorithm: Algorithm, schema: Schema, table: Any) -> Structure:
    """The structure that `algorithm` learns from the `table` `[n_rows, n_variables]` of the only silo of `schema`.

    Raises `ValueError` for a private algorithm, because here there is no ledger for its releases.
    """
    if algorithm.private is not None:
        raise ValueError("a private algorithm learns through a silo's service, which charges its noise")
    *_, last = rounds(algorithm, _OneSilo(schema, table))
    return algorithm.structure(last.server)


class _OneSilo:
    """The only silo of `schema` as a `Federation` that does not count traffic."""

    def __init__(self, schema: Schema, table: Any) -> None:
        self.schema = schema
        (self._silo,) = schema.silos
        self._table = table
        self._state: Any = None

    def exchange(
        self, algorithm: Algorithm, number: int, broadcast: Any, sparse: Sparse | None = None
    ) -> tuple[Replies[Any], Traffic]:
        """Run the local solve."""
        if number == 1:
            generator = silo_generator(0, self._silo)
            self._state = algorithm.open_silo(self._table, self.schema, self._silo, generator)
        self._state, reply = algorithm.local_solve(self._state, broadcast)
        return gather(algorithm, {self._silo: reply}), Traffic()

    def charges(self, run: str | None = None) -> dict[str, tuple[Charge, ...]]:
        """No charges."""
        return {self._silo: ()}

    def releases(self, run: str) -> dict[str, tuple[Disclosed, ...]]:
        """Nothing: no gate records what one process computes for itself."""
        return {}
