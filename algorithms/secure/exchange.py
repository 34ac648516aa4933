"""The phases of a secure sum over a transport, and a silo's answer to the request of each phase, as bytes.

The coordinator calls `secure_sum`; a silo passes every request to `answer` and stores the returned state.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..core import wire
from ..core.protocol import FederatedAlgorithm, Replies, Sparse, Traffic
from ..core.schema import FloatArray, Schema
from ..errors import BadInput
from ..statistics.moments import Table, column_summaries
from . import masks, participant, sparse
from .masks import (
    MESH_SILOS,
    PROTOCOL,
    Aborted,
    Phase,
    Refused,
    Ring,
    RunKey,
    SecureSession,
    default_threshold,
    mask_threshold,
)
from .participant import KEYS_BYTES, Participant, compressed, read_by_silo, read_names, read_session, recover, route

COORDINATOR = "the coordinator"


class Transport(Protocol):
    """The coordinator's connection to the silos."""

    def ask(self, phase: Phase, messages: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Send each silo in `messages` its request; returns the answers of the silos that respond in time."""
        ...


@dataclass(frozen=True)
class UnmaskedSum:
    """The sum of the vectors of `survivors`, as ring elements, and the total bytes of all messages."""

    total: Ring
    survivors: tuple[str, ...]
    bytes_up: int
    bytes_down: int


def secure_sum(session: SecureSession, transport: Transport) -> UnmaskedSum:
    """The exact sum of the vectors of the silos that answered phase 3; in a sparse session, of all its silos.

    Raises `Aborted`, with the reason in one line, if fewer silos than required answer in a phase, or if an answer is
    invalid; the coordinator then learns nothing about the vectors. The transport may raise `Refused` for a silo that
    refuses. In a sparse session, `Aborted` in the last phase becomes `SumLost`, because other silos may already have
    revealed the seeds of their masks.
    """
    counting = _CountingTransport(session, transport)
    if session.sparse:
        return _sparse_sum(session, counting)
    keys = counting.ask("advertise", dict.fromkeys(session.silos, wire.encode(session)))
    shared = counting.ask("share", dict.fromkeys(keys, wire.encode(keys)))
    masked = counting.ask("mask", route(shared))
    survivors = tuple(masked)
    revealed = counting.ask("unmask", dict.fromkeys(survivors, wire.encode(survivors)))
    unsigned = {silo: packed[:KEYS_BYTES] for silo, packed in keys.items()}
    total = recover(session, unsigned, shared, masked, revealed)
    return UnmaskedSum(total, survivors, counting.up, counting.down)


def _sparse_sum(session: SecureSession, counting: "_CountingTransport") -> UnmaskedSum:
    """The sum in the three phases of `sparse`."""
    keys = counting.ask("advertise", dict.fromkeys(session.silos, compressed(session)))
    masked = counting.ask("mask", {silo: sparse.pack_keys(session, silo, keys) for silo in session.silos})
    try:
        revealed = counting.ask("unmask", dict.fromkeys(session.silos, b""))
    except Refused:
        raise
    except Aborted as reason:
        raise sparse.SumLost(str(reason)) from None
    return UnmaskedSum(sparse.recover(session, keys, masked, revealed), session.silos, counting.up, counting.down)


def answer(
    state: Participant | None,
    phase: Phase,
    message: bytes,
    *,
    silo: str,
    key: RunKey,
    entropy: bytes = b"",
    vector: Callable[[], Ring] | None = None,
) -> tuple[Participant, bytes]:
    """The silo's next state and its answer to `message`.

    `key` is the silo's key in this run, the same in all sessions. Phase `advertise` starts a session from any state,
    and needs `entropy`, 32 fresh bytes from the operating system. Phase `mask` needs `vector`, which returns the silo's
    summand. The caller decides whether to take part in the session (`state.session`). If it stores the state or the
    answer, it must store both together.

    Raises `Refused` if an answer would not be safe, and for a repeated request in any phase but `unmask`. A caller that
    must repeat an answer has to store it, so that `vector` is not called twice. Raises `Aborted` for an unreadable
    message.
    """
    if phase == "advertise":
        session = read_session(message, COORDINATOR)
        if state is not None and state.session == session:
            raise Refused(f"{silo} refuses to advertise: it has keys for this session")
        if session.sparse:
            return sparse.advertise(session, silo, entropy, key)
        return participant.advertise(session, silo, entropy, key)
    if state is None:
        raise Refused(f"{silo} refuses to {phase}: it has advertised no keys")
    if state.session.sparse:
        return _sparse_answer(state, phase, message, key, vector)
    if phase == "share":
        state, shares = participant.share(state, read_by_silo(message, COORDINATOR), key)
        return state, wire.encode(shares)
    if phase == "mask":
        if vector is None:
            raise ValueError("phase mask needs the vector to sum")
        sealed = read_by_silo(message, COORDINATOR)
        participant.require_phase(state, "mask")  # before the vector, which may draw noise and spend a budget
        state, masked = participant.mask(state, sealed, vector())
        return state, wire.encode(masked)
    return participant.unmask(state, read_survivors(state, message))


def read_survivors(state: Participant | None, message: bytes) -> tuple[str, ...]:
    """The silos whose sum the coordinator's `message` asks to unmask; in a sparse session, an empty message means all.

    Raises `Aborted` for a message that is not names of silos, and `Refused` before a sum has begun, for an empty
    message without a sparse session, and for names that are not distinct silos of the session.
    """
    if state is None:
        raise Refused("a silo refuses to unmask: it has advertised no keys")
    if not message and not state.session.sparse:
        raise Refused(f"{state.silo} refuses to unmask: it is not asked for the sum of any silos")
    names = read_names(message, COORDINATOR) if message else state.session.silos
    if len(set(names)) < len(names) or not set(names) <= set(state.session.silos):
        raise Refused(f"{state.silo} refuses to unmask: the names are not distinct silos of this sum")
    return names


def _sparse_answer(
    state: Participant, phase: Phase, message: bytes, key: RunKey, vector: Callable[[], Ring] | None
) -> tuple[Participant, bytes]:
    if phase == "share":
        raise Refused(f"{state.silo} refuses to share: a sum over so many silos has no shares")
    if phase == "mask":
        if vector is None:
            raise ValueError("phase mask needs the vector to sum")
        keys = sparse.read_keys(state.session, state.silo, message, COORDINATOR)
        sparse.require_phase(state, "mask", "advertise")
        state, masked = sparse.mask(state, keys, vector(), key)
        return state, wire.encode(masked)
    return sparse.unmask(state, read_survivors(state, message))


class _CountingTransport:
    """A transport that counts bytes and aborts when fewer silos than the threshold answer."""

    def __init__(self, session: SecureSession, transport: Transport) -> None:
        self._session, self._transport = session, transport
        self.up = self.down = 0

    def ask(self, phase: Phase, messages: Mapping[str, bytes]) -> dict[str, bytes]:
        received = self._transport.ask(phase, messages)
        answers = {silo: received[silo] for silo in sorted(messages) if silo in received}
        self.down += sum(map(len, messages.values()))
        self.up += sum(map(len, answers.values()))
        if len(answers) < self._session.required:
            silent = ", ".join(silo for silo in self._session.silos if silo not in answers)
            raise Aborted(
                f"secure sum aborted in phase {phase}: {len(answers)} of {len(self._session.silos)} silos answered, "
                f"{self._needed()} (silent: {silent})"
            )
        return answers

    def _needed(self) -> str:
        return "all have to" if self._session.sparse else f"the threshold is {self._session.threshold}"


# A round of an algorithm with secure aggregation: the encoding of a silo's summand, and the decoding of the sum.


Algorithm = FederatedAlgorithm[Any, Any, Any, Any]

# Fixed-point numbers have 32 bits before and 32 after the point. In this range of mean squares, the sums keep their
# leading digits.
MIN_MEAN_SQUARE = 2.0**-16
MAX_MEAN_SQUARE = 2.0**24


class OutOfRange(BadInput):
    """A column does not fit the fixed-point sums; `variable` is its name."""

    def __init__(self, message: str, variable: str) -> None:
        """Store the message and the name of the column."""
        super().__init__(message)
        self.variable = variable


def check_range(algorithm: Algorithm, table: Table, schema: Schema, silo: str) -> None:
    """Raise `OutOfRange` for a column whose values are too small or too large for the fixed-point sums of `algorithm`.

    The message reaches the coordinator, so it names the column but not the value. Labels and events always fit. If
    summands are sent in units, the check uses centred columns in these units, and also checks the means. A silo's
    service skips the check in private runs: their replies use clipped values, and ε does not account for the outcome of
    the check.
    """
    if schema.kind in ("discrete", "events"):
        return
    columns = column_summaries(table)
    squares = columns.variances + columns.means**2
    if travels_in_units(algorithm, schema):
        _check_means(columns.means, schema, silo)
        squares = columns.variances / np.array(schema.units) ** 2
        squares = np.where(squares == 0, 1.0, squares)
    outside = (squares < MIN_MEAN_SQUARE) | (squares > MAX_MEAN_SQUARE)
    for j in np.flatnonzero(outside & ~schema.discrete):
        raise OutOfRange(
            f"silo {silo}, column '{schema.variables[j]}': its mean square does not fit the fixed-point numbers "
            f"of a secure sum ({MIN_MEAN_SQUARE:.3g} to {MAX_MEAN_SQUARE:.3g}): use another unit or, if all rows "
            f"of the silo are 0 there, leave the column out with --ignore {schema.variables[j]}",
            schema.variables[j],
        )


def _check_means(means: FloatArray, schema: Schema, silo: str) -> None:
    scaled_means = np.abs(means / np.array(schema.units))
    limit = 2.0**30 / len(schema.rows)
    for j in np.flatnonzero(scaled_means >= limit):
        raise OutOfRange(
            f"silo {silo}, column '{schema.variables[j]}': its mean is so large compared with its standard deviation "
            "that it does not fit the fixed-point numbers of a secure sum: subtract a constant",
            schema.variables[j],
        )


def new_attempt() -> int:
    """A fresh random number for an attempt at a sum: 62 bits, always of the same length."""
    return secrets.randbits(61) | 1 << 61


def session_of(
    run: str, number: int, attempt: int, schema: Schema, exchange: bytes, present: tuple[str, ...] | None = None
) -> SecureSession:
    """The terms of the secure sum of round `number`; each attempt has its own keys.

    `exchange` is a digest of the settings and the broadcast, which are the same for all silos of a session. If `schema`
    has more than 32 silos, the session consists of the silos in `present`, by default all. It then raises `Aborted` if
    `present` has fewer silos than the default threshold, or a silo that is not in `schema`.
    """
    silos = schema.silos
    if len(silos) > MESH_SILOS and present is not None:
        least, unknown = default_threshold(len(silos)), sorted(set(present) - set(silos))
        if unknown or len(set(present)) < least:
            raise Aborted(
                f"secure sum aborted: {', '.join(unknown)} is not in this run"
                if unknown
                else f"secure sum aborted: {len(present)} of {len(silos)} silos are left, the threshold is {least}"
            )
        silos = tuple(sorted(set(present)))
    return SecureSession(run, number, attempt, silos, mask_threshold(len(schema.rows)), exchange, PROTOCOL)


def travels_in_units(algorithm: Algorithm, schema: Schema) -> bool:
    """Whether the summands of `algorithm` are sent in units of the columns."""
    return bool(schema.units) and algorithm.entry_units is not None


@dataclass(frozen=True)
class Encoding:
    """The encoding of the summands of a round as ring elements.

    Public facts determine the encoding, so all silos and the coordinator use the same encoding.
    """

    silos: int
    whole: bool
    """whether summands are whole numbers"""
    sparse: Sparse | None = None
    """the positions of the entries that are sent; None means that all entries are sent"""
    units: FloatArray | None = None
    """the units in which floats are sent; None means that they are sent unchanged"""
    greatest: int | None = None
    """a bound on the entries of the sum, if the summands are counts; otherwise None"""

    def encode(self, vector: NDArray[Any]) -> Ring:
        """A silo's summand, or its entries at the public positions. Raises `BadInput` for a number out of range."""
        if self.units is not None:
            vector = vector / self.units
        if self.sparse is not None:
            vector = masks.gather(vector, self.sparse.positions)
        if self.greatest is not None:
            return masks.encode_counts(vector, self.greatest)
        return masks.encode_integers(vector, self.silos) if self.whole else masks.encode_fixed(vector, self.silos)

    def decode(self, total: Ring) -> NDArray[Any]:
        """The sum of the summands, at full length. Raises `Aborted` for a sum in another ring."""
        ring = masks.ring_of(self.greatest) if self.greatest is not None else masks.RINGS[-1]
        if total.dtype != ring:
            raise Aborted(f"secure sum aborted: the silos sent {total.dtype}, but this sum needs {ring}")
        integers = self.whole or self.greatest is not None
        values: NDArray[Any] = masks.decode_integers(total) if integers else masks.decode_fixed(total)
        if not self.whole:
            values = values.astype(np.float64, copy=False)
        full = values if self.sparse is None else masks.scatter(values, self.sparse.positions, self.sparse.length)
        return full if self.units is None else full * self.units


def encoding_of(algorithm: Algorithm, schema: Schema, broadcast: Any, sparse: Sparse | None = None) -> Encoding:
    """The encoding of the replies to `broadcast`; only the entries at the positions in `sparse` are sent."""
    greatest = algorithm.greatest_total(schema, broadcast) if algorithm.private is None else None
    in_units = greatest is None and travels_in_units(algorithm, schema)
    units = algorithm.entry_units(schema, broadcast) if in_units and algorithm.entry_units is not None else None
    return Encoding(len(schema.rows), algorithm.whole_numbers, sparse, units, greatest)


def masked_round(
    algorithm: Algorithm,
    session: SecureSession,
    transport: Transport,
    broadcast: Any,
    broadcast_bytes: int,
    encoding: Encoding,
) -> tuple[Replies[Any], Traffic]:
    """The sum over the silos that answered, and the traffic of all messages.

    `broadcast_bytes` is the size of the encoded broadcast. Raises `Aborted` as `secure_sum` and `Encoding.decode` do.
    """
    unmasked = secure_sum(session, transport)
    total = encoding.decode(unmasked.total)
    silos = len(session.silos)
    traffic = Traffic(
        up=unmasked.bytes_up,
        down=unmasked.bytes_down + silos * broadcast_bytes,
        formula=silos * algorithm.cost(broadcast) + len(unmasked.survivors) * 8 * len(unmasked.total),
    )
    return Replies(unmasked.survivors, total=total), traffic
