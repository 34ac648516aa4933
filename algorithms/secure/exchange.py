"""The phases of a secure sum over a transport, and a silo's answer to the request of each phase, as bytes.

The coordinator calls `secure_sum`; a silo passes every request to `answer` and stores the returned state.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ..core import wire
from . import participant, sparse
from .masks import Aborted, Phase, Refused, Ring, RunKey, SecureSession
from .messages import KEYS_BYTES, compressed, read_by_silo, read_names, read_session
from .participant import Participant
from .recovery import recover, route

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

    Raises `Refused` if an answer would not be safe, and for a repeated request. A caller that must repeat an answer has
    to store it, so that `vector` is not called twice. Raises `Aborted` for an unreadable message.
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
