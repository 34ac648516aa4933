"""The one abstraction and the one loop: a federated algorithm, split at the privacy boundary, and its rounds.

An algorithm is a frozen bundle of pure functions. `open_silo` and `local_solve` run where the rows are; everything
else runs at the coordinator, which sees broadcasts and replies only. A `Federation` carries messages between the two:
in this process, or over Dask under Prefect (`tasks/transport/`). All of them run `rounds`, so all give the same result.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..graphs.structure import Structure
from . import wire
from .promise import Charge, Private
from .schema import FloatArray, Schema

Server = TypeVar("Server")
Silo = TypeVar("Silo")
Broadcast = TypeVar("Broadcast")
Reply = TypeVar("Reply")


@dataclass(frozen=True)
class Replies(Generic[Reply]):
    """What the coordinator receives in one round: each silo's reply, or only their sum where that is enough.

    `silos` are those that answered, sorted; `each` is empty when only `total` is handed over.
    """

    silos: tuple[str, ...]
    each: tuple[Reply, ...] = ()
    total: NDArray[Any] | None = None


@dataclass(frozen=True)
class Traffic:
    """Bytes of one round over all silos: really serialised, and by the papers' formula.

    Source: Fassy El Fehri et al., B.2.1.
    """

    up: int = 0
    down: int = 0
    formula: int = 0

    def __add__(self, other: "Traffic") -> "Traffic":
        """Add two rounds' traffic."""
        return Traffic(self.up + other.up, self.down + other.down, self.formula + other.formula)


def nothing_said(server: Any) -> tuple[str, ...]:
    """Return no sentence: for algorithms whose answer rests on the same assumptions whatever the data."""
    return ()


def dense_cost(message: Any) -> int:
    """Return what `message` costs by the formula for dense messages: 8 bytes a number.

    Source: Fassy El Fehri et al., B.2.1.
    """
    arrays = (getattr(message, name) for name in message.__dataclass_fields__)
    return sum(8 * array.size for array in arrays if isinstance(array, np.ndarray))


def no_measures(server: Any) -> dict[str, float]:
    """Return nothing to plot: for algorithms whose rounds have no residual."""
    return {}


@dataclass(frozen=True)
class Sparse:
    """Where the summands of a round may differ from zero, by what is public: rising positions in `[length]`."""

    positions: NDArray[np.int64]
    length: int


def everywhere(server: Any) -> Sparse | None:
    """Return no positions: any entry of a summand may differ from zero."""
    return None


@dataclass(frozen=True)
class FederatedAlgorithm(Generic[Server, Silo, Broadcast, Reply]):
    """A federated algorithm as pure functions; the coordinator runs all but `open_silo` and `local_solve`.

    Server, Silo, Broadcast and Reply are frozen dataclasses that `wire` can encode: a checkpoint is the encoded Server,
    a silo's journal the encoded Silo and Reply.
    """

    open_silo: Callable[[Any, Schema, str, np.random.Generator], Silo]
    """(table `[n_rows, n_variables]`, public schema, this silo's name, its randomness) -> what it keeps to itself;
    the table may be one that is read in passes (`statistics/chunks.py`) if the algorithm's entry says so"""
    open_server: Callable[[Schema], Server]
    broadcast: Callable[[Server], Broadcast]
    """all that travels out"""
    local_solve: Callable[[Silo, Broadcast], tuple[Silo, Reply]]
    """all that travels back is Reply"""
    aggregate: Callable[[Server, Replies[Reply]], Server]
    dual_update: Callable[[Server], Server]
    converged: Callable[[Server], bool]
    structure: Callable[[Server], Structure]
    server_type: type[Server]
    silo_type: type[Silo]
    broadcast_type: type[Broadcast]
    reply_type: type[Reply]
    max_rounds: int
    summand: Callable[[Reply], NDArray[Any]] | None = None
    """set if the server needs no more than the sum of these over the silos; it is then given nothing else.

    A vector of float64, or, with `whole_numbers`, of int64."""
    whole_numbers: bool = False
    """whether summands are int64 and their sum exact; floats travel masked as fixed-point numbers"""
    sparse: Callable[[Server], Sparse | None] = everywhere
    """where the summands of this round may differ from zero, as far as the server knows: only that is sent masked"""
    entry_units: Callable[[Schema, Broadcast], FloatArray] | None = None
    """(public schema with `units`, broadcast) -> about how large each entry of a float summand is, by what is public:
    masked, summands travel in these units"""
    needs_secure_sum: bool = False
    """whether a single reply reveals more than the algorithm promises: only the sum may be seen"""
    bears_loss: bool = False
    """whether the server can go on from the sum over those silos that answered"""
    private: Private[Silo, Broadcast] | None = None
    """set if every reply is noisy and paid for (`privacy/private.py`)"""
    residual_variances: Callable[[Server], FloatArray] | None = None
    """set if the server knows each variable's mean squared residual `[d]` and need not ask the silos again"""
    measures: Callable[[Server], dict[str, float]] = no_measures
    """numbers to follow from round to round: h, residuals, edges"""
    basis: Callable[[Server], tuple[str, ...]] = nothing_said
    """sentences that say what was decided from the data, and what the directions of the edges then rest on"""
    cost: Callable[[Any], int] = dense_cost
    """bytes of a broadcast or a reply by the papers' formula"""
    local_structures: Callable[[Server], dict[str, Structure]] | None = None
    """for baselines that learn one structure a silo: each of them"""
    kept: tuple[str, ...] = ()
    """the fields of Silo that change from round to round: a silo journals them and rebuilds the rest from its rows"""


class SiloLost(Exception):  # noqa: N818 - an event, not a programming error
    """Raised by a federation when silos did not answer a round and cannot be waited for any longer."""

    def __init__(self, silos: tuple[str, ...], reason: str) -> None:
        """Name the silos and say why they were given up."""
        super().__init__(f"{', '.join(silos)}: {reason}")
        self.silos = silos
        self.reason = reason


class Federation(Protocol):
    """The silos as the coordinator sees them: a public schema, and a way to ask all of them the same thing."""

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
    """The state after one round. `outcome` is None while the run goes on; `lost` names silos that were given up.

    Where the algorithm bears the loss, the run goes on without them.
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
    """Return what the coordinator may see of `replies`: their sum if the algorithm needs only that, else each.

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
    """Return the bytes one exchange takes: the broadcast to every silo, and every reply back.

    `sizes` are those of the encoded broadcast and of all encoded replies together, where they have been encoded.
    """
    down, up = sizes or (len(wire.encode(broadcast)), sum(len(wire.encode(reply)) for reply in replies.values()))
    return Traffic(
        up=up,
        down=len(replies) * down,
        formula=len(replies) * algorithm.cost(broadcast) + sum(algorithm.cost(reply) for reply in replies.values()),
    )
