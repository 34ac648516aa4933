"""The four phases over a transport, and a silo's answer to each of their questions, as bytes.

The coordinator calls `secure_sum`; a silo gives every question it gets to `answer` and keeps the state it returns.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ..core import wire
from . import participant
from .masks import Aborted, Phase, Refused, Ring, SecureSession
from .messages import read, read_by_silo, read_names
from .participant import Participant, recover, route

COORDINATOR = "the coordinator"


class Transport(Protocol):
    """How the coordinator reaches the silos."""

    def ask(self, phase: Phase, messages: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Put a question to each silo in `messages`; return the answers of those that gave one in time."""
        ...


@dataclass(frozen=True)
class UnmaskedSum:
    """The sum, modulo 2⁶⁴, of the vectors of `survivors`, and the bytes that all messages together took."""

    total: Ring
    survivors: tuple[str, ...]
    bytes_up: int
    bytes_down: int


def secure_sum(session: SecureSession, transport: Transport) -> UnmaskedSum:
    """The exact sum of the vectors of the silos that answered phase 3.

    Raises `Aborted`, with one line that says why, if in any phase fewer than the threshold answer, and if an answer
    is not what it should be; nothing of the vectors is known then. Silos that refuse may raise `Refused` through the
    transport.
    """
    line = _Line(session, transport)
    keys = line.ask("advertise", dict.fromkeys(session.silos, wire.encode(session)))
    shared = line.ask("share", dict.fromkeys(keys, wire.encode(keys)))
    masked = line.ask("mask", route(shared))
    survivors = tuple(masked)
    revealed = line.ask("unmask", dict.fromkeys(survivors, wire.encode(survivors)))
    total = recover(session, keys, tuple(shared), masked, revealed)
    return UnmaskedSum(total, survivors, line.up, line.down)


def answer(
    state: Participant | None,
    phase: Phase,
    message: bytes,
    *,
    silo: str,
    entropy: bytes = b"",
    vector: Callable[[], Ring] | None = None,
) -> tuple[Participant, bytes]:
    """The silo's next state and its answer to `message`.

    `entropy`, 32 bytes fresh from the operating system, is needed in phase `advertise`, which begins a session whatever
    the state was; `vector`, what the silo puts into the sum, in phase `mask`. The caller decides whether to take part
    in the session (`state.session`), and must store state and answer together if it stores them. A repeated question is
    refused, except in phase `unmask`: it is for a journal to answer it, so that `vector` is not called twice. Raises
    `Refused` if it would not be safe to answer.
    """
    if phase == "advertise":
        session = read(SecureSession, message, COORDINATOR)
        if state is not None and state.session == session:
            raise Refused(f"{silo} refuses to advertise: it has keys for this session")
        return participant.advertise(session, silo, entropy)
    if state is None:
        raise Refused(f"{silo} refuses to {phase}: it has advertised no keys")
    if phase == "share":
        state, dealt = participant.share(state, read_by_silo(message, COORDINATOR))
        return state, wire.encode(dealt)
    if phase == "mask":
        if vector is None:
            raise ValueError("phase mask takes the vector to put into the sum")
        sealed = read_by_silo(message, COORDINATOR)
        participant.expect(state, "mask")  # first: making the vector may draw noise and spend a privacy budget
        state, masked = participant.mask(state, sealed, vector())
        return state, wire.encode(masked)
    return participant.unmask(state, read_names(message, COORDINATOR))


class _Line:
    """A transport that counts bytes and aborts when fewer silos than the threshold answer."""

    def __init__(self, session: SecureSession, transport: Transport) -> None:
        self._session, self._transport = session, transport
        self.up = self.down = 0

    def ask(self, phase: Phase, messages: Mapping[str, bytes]) -> dict[str, bytes]:
        given = self._transport.ask(phase, messages)
        answers = {silo: given[silo] for silo in sorted(messages) if silo in given}
        self.down += sum(map(len, messages.values()))
        self.up += sum(map(len, answers.values()))
        if len(answers) < self._session.threshold:
            silent = ", ".join(silo for silo in self._session.silos if silo not in answers)
            raise Aborted(
                f"secure sum aborted in phase {phase}: {len(answers)} of {len(self._session.silos)} silos answered, "
                f"the threshold is {self._session.threshold} (silent: {silent})"
            )
        return answers
