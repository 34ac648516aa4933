"""A federated algorithm, split at the privacy boundary, and the loop that runs its rounds.

An algorithm is a frozen bundle of pure functions. `open_silo` and `local_solve` run at the silo; everything else runs
at the coordinator, which sees only broadcasts and replies. A `Federation` carries messages between the two: in this
process, or over Dask under Prefect (`tasks/transport/`). All of them run `rounds`, so all give the same result.

Between rounds a silo keeps only the fields of its state that change (`pack_state`). `single_reply` and `sum_once` build
algorithms of one exchange.

Learning from one table at hand, as a silo does by itself and a pooled baseline does with all rows.

There is nobody to send anything to: no privacy, no journal, no transport and no masks, which are a silo's service's
(`tasks/silo/service.py`). Here is only the loop of `rounds` over the algorithm's own functions.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, Protocol, TypeVar, get_type_hints
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from ..core import wire
from ..graphs.structure import Structure, no_edges
from .promise import Charge, Private
from .schema import FloatArray, Schema

Server = TypeVar("Server")
Silo = TypeVar("Silo")
Broadcast = TypeVar("Broadcast")
Reply = TypeVar("Reply")


@dataclass(frozen=True)
class Replies(Generic[Reply]):
    """The replies of one round as the coordinator receives them: each silo's, or only their sum if that is enough.

    `silos` are those that replied, sorted; `each` is empty if there is only a `total`.
    """

    silos: tuple[str, ...]
    each: tuple[Reply, ...] = ()
    total: NDArray[Any] | None = None


@dataclass(frozen=True)
class Traffic:
    """Bytes of one round over all silos: as serialised, and by the papers' formula.

    Source: Fassy El Fehri et al., B.2.1.
    """

    up: int = 0
    down: int = 0
    formula: int = 0

    def __add__(self, other: "Traffic") -> "Traffic":
        """Add two rounds' traffic."""
        return Traffic(self.up + other.up, self.down + other.down, self.formula + other.formula)


def no_basis(server: Any) -> tuple[str, ...]:
    """No sentence: for algorithms whose result rests on the same assumptions whatever the data."""
    return ()


def dense_cost(message: Any) -> int:
    """The cost of `message` by the formula for dense messages: 8 bytes a number.

    Source: Fassy El Fehri et al., B.2.1.
    """
    arrays = (getattr(message, name) for name in message.__dataclass_fields__)
    return sum(8 * array.size for array in arrays if isinstance(array, np.ndarray))


def no_measures(server: Any) -> dict[str, float]:
    """No measures: for algorithms whose rounds have no residual."""
    return {}


@dataclass(frozen=True)
class Sparse:
    """Where the summands of a round may differ from zero, from public facts: rising positions in `[length]`."""

    positions: NDArray[np.int64]
    length: int


def everywhere(server: Any) -> Sparse | None:
    """None: any entry of a summand may differ from zero."""
    return None


def unchanged(server: Server) -> Server:
    """The state as it is: for algorithms without a dual update."""
    return server


def after_one_round(server: Any) -> bool:
    """Converged: for algorithms of one round."""
    return True


def only_field(reply: Any) -> NDArray[Any]:
    """The array of a reply that has one field, as its summand."""
    (name,) = reply.__dataclass_fields__
    values: NDArray[Any] = getattr(reply, name)
    return values


@dataclass(frozen=True, kw_only=True)
class FederatedAlgorithm(Generic[Server, Silo, Broadcast, Reply]):
    """A federated algorithm as pure functions; the coordinator runs all but `open_silo` and `local_solve`.

    Server, Silo, Broadcast and Reply are frozen dataclasses that `wire` can encode: a checkpoint is the encoded Server,
    a silo's journal the encoded Silo and Reply.
    """

    open_silo: Callable[[Any, Schema, str, np.random.Generator], Silo]
    """(table `[n_rows, n_variables]`, public schema, this silo's name, its randomness) -> its private state;
    the table may be read in passes (`statistics/chunks.py`) if the algorithm's entry has `streams`"""
    open_server: Callable[[Schema], Server]
    broadcast: Callable[[Server], Broadcast]
    """everything that is sent to the silos"""
    local_solve: Callable[[Silo, Broadcast], tuple[Silo, Reply]]
    """everything that is sent back is Reply"""
    aggregate: Callable[[Server, Replies[Reply]], Server]
    dual_update: Callable[[Server], Server] = unchanged
    converged: Callable[[Server], bool] = after_one_round
    structure: Callable[[Server], Structure]
    server_type: type[Server]
    silo_type: type[Silo]
    broadcast_type: type[Broadcast]
    reply_type: type[Reply]
    max_rounds: int = 1
    summand: Callable[[Reply], NDArray[Any]] | None = None
    """set if the server needs only the sum of these over the silos; it then receives nothing else
    (`only_field` for replies of one field).

    A vector of float64, or, with `whole_numbers`, of int64."""
    whole_numbers: bool = False
    """whether summands are int64 and their sum exact; floats travel masked as fixed-point numbers"""
    sparse: Callable[[Server], Sparse | None] = everywhere
    """where the summands of this round may differ from zero, as far as the server knows: only these are sent masked"""
    entry_units: Callable[[Schema, Broadcast], FloatArray] | None = None
    """(public schema with `units`, broadcast) -> the unit of each entry of a float summand, from public facts: masked
    summands are sent in these units"""
    needs_secure_sum: bool = False
    """whether a single reply reveals more than the algorithm promises: the server may see only the sum"""
    tolerates_dropout: bool = False
    """whether the server can continue with the replies of the remaining silos"""
    private: Private[Silo, Broadcast] | None = None
    """set if every reply is noisy and paid for (`privacy/private.py`)"""
    residual_variances: Callable[[Server], FloatArray] | None = None
    """set if the server knows each variable's mean squared residual `[d]` without another exchange"""
    measures: Callable[[Server], dict[str, float]] = no_measures
    """measures of each round: h, residuals, edges"""
    basis: Callable[[Server], tuple[str, ...]] = no_basis
    """sentences on the decisions made from the data, and on the assumptions behind the directions"""
    cost: Callable[[Any], int] = dense_cost
    """bytes of a broadcast or a reply by the papers' formula"""
    local_structures: Callable[[Server], dict[str, Structure]] | None = None
    """for baselines that learn one structure a silo: each of them"""
    persisted_state: tuple[str, ...] = ()
    """the fields of Silo that change from round to round: a silo journals them and rebuilds the rest from its rows"""


class SiloLost(Exception):  # noqa: N818 - an event, not a programming error
    """Raised by a federation when silos did not reply in a round before the timeout."""

    def __init__(self, silos: tuple[str, ...], reason: str) -> None:
        """Name the lost silos and the reason."""
        super().__init__(f"{', '.join(silos)}: {reason}")
        self.silos = silos
        self.reason = reason


class Federation(Protocol):
    """The silos as the coordinator sees them: a public schema, and a way to send all of them one broadcast."""

    @property
    def schema(self) -> Schema:
        """What is public."""
        ...

    def exchange(
        self,
        algorithm: FederatedAlgorithm[Any, Any, Any, Any],
        number: int,
        broadcast: Any,
        sparse: Sparse | None = None,
    ) -> tuple[Replies[Any], Traffic]:
        """Have every silo run `local_solve` on `broadcast` in round `number` (from 1) and return what they replied.

        Masked replies are sent where `sparse` says they may differ from zero. Raises `SiloLost` when a silo stays
        silent.
        """
        ...

    def charges(self, run: str | None = None) -> dict[str, tuple[Charge, ...]]:
        """Return, by silo, the lines of its privacy ledger: those of `run`, or all."""
        ...


Outcome = Literal["converged", "out of rounds", "silo lost"]


@dataclass(frozen=True)
class Round(Generic[Server]):
    """The state after one round. `outcome` is None while the run continues; `lost` names the lost silos.

    If the algorithm tolerates dropout, the run continues without them.
    """

    number: int
    server: Server
    traffic: Traffic
    outcome: Outcome | None
    lost: tuple[str, ...] = ()


def rounds(
    algorithm: FederatedAlgorithm[Server, Silo, Broadcast, Reply],
    federation: Federation,
    resume: tuple[int, Server] | None = None,
) -> Iterator[Round[Server]]:
    """Run `algorithm` over `federation`, one Round after another, until it converges or runs out of rounds.

    `resume` is (number of the last finished round, its server state) from a checkpoint. A silo that is lost ends the
    run with the state of the last finished round: it is a value in the result, not an exception.
    """
    number, server = resume or (0, algorithm.open_server(federation.schema))
    outcome: Outcome | None = None
    while outcome is None:
        number += 1
        try:
            replies, traffic = federation.exchange(
                algorithm, number, algorithm.broadcast(server), algorithm.sparse(server)
            )
        except SiloLost as loss:
            yield Round(number - 1, server, Traffic(), "silo lost", loss.silos)
            return
        lost = tuple(silo for silo in federation.schema.silos if silo not in replies.silos)
        server = algorithm.dual_update(algorithm.aggregate(server, replies))
        if algorithm.converged(server):
            outcome = "converged"
        elif number >= algorithm.max_rounds:
            outcome = "out of rounds"
        yield Round(number, server, traffic, outcome, lost)


def gather(
    algorithm: FederatedAlgorithm[Server, Silo, Broadcast, Reply], replies: Mapping[str, Reply]
) -> Replies[Reply]:
    """The part of `replies` that the coordinator may see: their sum if the algorithm needs only that, else each.

    Sums run over the silos in sorted order, so that every engine adds the same numbers in the same order.
    """
    silos = tuple(sorted(replies))
    if algorithm.summand is None:
        return Replies(silos, each=tuple(replies[silo] for silo in silos))
    total = algorithm.summand(replies[silos[0]]).copy()
    for silo in silos[1:]:
        total += algorithm.summand(replies[silo])
    return Replies(silos, total=total)


def traffic_of(
    algorithm: FederatedAlgorithm[Server, Silo, Broadcast, Reply],
    broadcast: Broadcast,
    replies: Mapping[str, Reply],
    sizes: tuple[int, int] | None = None,
) -> Traffic:
    """The bytes one exchange takes: the broadcast to every silo, and every reply back.

    `sizes` are those of the encoded broadcast and of all encoded replies together, where they have been encoded.
    """
    down, up = sizes or (len(wire.encode(broadcast)), sum(len(wire.encode(reply)) for reply in replies.values()))
    return Traffic(
        up=up,
        down=len(replies) * down,
        formula=len(replies) * algorithm.cost(broadcast) + sum(algorithm.cost(reply) for reply in replies.values()),
    )


def pack_state(algorithm: FederatedAlgorithm[Any, Any, Any, Any], state: Any) -> bytes:
    """The fields of a silo's state that change from round to round, as bytes."""
    return wire.encode({name: wire.encode(getattr(state, name)) for name in algorithm.persisted_state})


def unpack_state(algorithm: FederatedAlgorithm[Any, Any, Any, Any], opened: Any, packed: bytes) -> Any:
    """`opened` (fresh from `open_silo`) with the fields in `packed` put back."""
    hints = get_type_hints(algorithm.silo_type)
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
    """An algorithm of one exchange in which a silo sends its state, which is what `open_silo` computed."""
    return FederatedAlgorithm(
        open_silo=open_silo,
        open_server=open_server,
        broadcast=lambda server: OnceBroadcast(),
        local_solve=lambda silo, request: (silo, silo),
        aggregate=aggregate,
        structure=structure,
        server_type=server_type,
        silo_type=message_type,
        broadcast_type=OnceBroadcast,
        reply_type=message_type,
    )


@dataclass(frozen=True, eq=False)
class Summand:
    """A silo's part of a sum, all that it sends."""

    values: NDArray[Any]


@dataclass(frozen=True, eq=False)
class SumServer:
    """The sum over the silos that answered, empty before the exchange, and what is public of these silos."""

    schema: Schema
    total: NDArray[Any] = field(default_factory=lambda: np.empty(0))


def sum_once(
    summand: Callable[[Any, Schema], NDArray[Any]],
    learn: Callable[[NDArray[Any], Schema], Structure],
    *,
    whole_numbers: bool = False,
    needs_secure_sum: bool = False,
    entry_units: Callable[[Schema, OnceBroadcast], FloatArray] | None = None,
) -> FederatedAlgorithm[SumServer, Summand, OnceBroadcast, Summand]:
    """An algorithm of one sum, over those silos that answer.

    Parameters
    ----------
    summand
        (table `[n_rows, n_variables]`, public schema) -> the vector that a silo adds: float64, or int64 with
        `whole_numbers`. Masked, floats are fixed-point numbers below 2³¹: divide sums over rows by the number of all
        rows (`statistics.moments.per_row`), or give `entry_units`.
    learn
        (the sum, schema of the silos that answered) -> the structure. Before the exchange there is no sum, and the
        structure has no edges.
    whole_numbers, needs_secure_sum, entry_units
        As in `FederatedAlgorithm`.
    """

    def aggregate(server: SumServer, replies: Replies[Summand]) -> SumServer:
        assert replies.total is not None
        return SumServer(server.schema.of_silos(replies.silos), replies.total)

    def structure(server: SumServer) -> Structure:
        return learn(server.total, server.schema) if server.total.size else no_edges(server.schema.variables)

    single = single_reply(
        lambda table, schema, silo, rng: Summand(summand(table, schema)),
        lambda schema: SumServer(schema.in_order()),
        aggregate,
        structure,
        SumServer,
        Summand,
    )
    return replace(
        single,
        summand=only_field,
        whole_numbers=whole_numbers,
        needs_secure_sum=needs_secure_sum,
        entry_units=entry_units,
        tolerates_dropout=True,
    )


Algorithm = FederatedAlgorithm[Any, Any, Any, Any]


def silo_generator(seed: int, silo: str) -> np.random.Generator:
    """The randomness of one silo: it depends on the seed and its name, never on the order of the silos."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(crc32(silo.encode()),)))


def learn_alone(algorithm: Algorithm, schema: Schema, table: Any) -> Structure:
    """Return what `algorithm` learns from the `table` `[n_rows, n_variables]` of the one silo of `schema`.

    Raises `ValueError` for a private algorithm: nothing would charge its noise.
    """
    if algorithm.private is not None:
        raise ValueError("a private algorithm learns through a silo's service, which charges its noise")
    *_, last = rounds(algorithm, _OneSilo(schema, table))
    return algorithm.structure(last.server)


class _OneSilo:
    """The one silo of `schema` as a federation (see `Federation`) that counts no traffic."""

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
        """No charge."""
        return {self._silo: ()}
