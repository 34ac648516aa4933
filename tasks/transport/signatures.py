"""Signed calls and answers, for transports that do not know the certificates of a federation.

A relay accepts the holder of a certificate (`channel.py`). A platform has members, certificates and administrators of
its own, so there each message carries the proof: a silo answers only what a coordinator has signed for this silo, and a
run accepts only what this silo has signed as the answer to this call. A signature includes the version of the protocol.
A message that is delivered again is still valid: the silo's journal makes a repeated call harmless. Whoever administers
the platform can read the messages, as the coordinator can.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.errors import foreign_text

from .certificates import COORDINATOR, Identity, has_signed, holder_of
from .channel import Greeting
from .tls import PeerRefusedError

CALL, ANSWER = b"fedbnsl call\0", b"fedbnsl answer\0"
"""the prefixes of signed content, so that signatures for other purposes are not valid here"""


@dataclass(frozen=True)
class Signed:
    """A message with its sender's greeting, certificate (DER) and signature."""

    greeting: bytes
    certificate: bytes
    signature: bytes
    content: bytes


wire.prepare(Signed)


def sign_call(identity: Identity, silo: str, content: bytes) -> bytes:
    """The call `content` for `silo`, signed by the coordinator with `identity`."""
    greeting = Greeting("run").pack()
    signature = identity.sign(_call_statement(greeting, silo, content))
    return wire.encode(Signed(greeting, identity.own_certificate(), signature, content))


def answer_signed(identity: Identity, silo: str, packed: bytes, answer: Callable[[bytes], bytes]) -> bytes:
    """The signed `answer` of `silo`, with `identity`, to the signed call in `packed`.

    Raises `PeerRefusedError`, with the reason for the other side, unless a coordinator that the silo trusts has signed
    the call for this silo, and has the same version of the protocol.
    """
    call = _read_signed(packed, Greeting("silo"))
    if reason := identity.refusal_of(call.certificate, server=False):
        raise PeerRefusedError(reason)
    if holder_of(call.certificate) != COORDINATOR:
        raise PeerRefusedError(f"the call is signed by '{holder_of(call.certificate)}', not by a coordinator")
    if not has_signed(call.certificate, call.signature, _call_statement(call.greeting, silo, call.content)):
        raise PeerRefusedError(f"the call is not signed for silo {silo}, or has been changed on its way")
    content, greeting = answer(call.content), Greeting("silo").pack()
    signature = identity.sign(_answer_statement(greeting, silo, packed, content))
    return wire.encode(Signed(greeting, identity.own_certificate(), signature, content))


def open_answer(identity: Identity, silo: str, call: bytes, packed: bytes) -> bytes:
    """The answer in `packed` to the signed `call`, as the coordinator with `identity` accepts it.

    Raises `PeerRefusedError` unless `silo` has signed it as its answer to this call.
    """
    answer = _read_signed(packed, Greeting("run"))
    if reason := identity.refusal_of(answer.certificate, server=True):
        raise PeerRefusedError(reason)
    if (holder := holder_of(answer.certificate)) != silo:
        raise PeerRefusedError(f"the answer is signed by '{holder}', not by {silo}")
    if not has_signed(
        answer.certificate, answer.signature, _answer_statement(answer.greeting, silo, call, answer.content)
    ):
        raise PeerRefusedError("the answer is not signed for this call, or has been changed on its way")
    return answer.content


def _read_signed(packed: bytes, own: Greeting) -> Signed:
    try:
        message = wire.decode(Signed, packed)
        greeting = Greeting.unpack(message.greeting)
    except (ValueError, TypeError, RecursionError) as error:
        reason = error if isinstance(error, PeerRefusedError) else type(error).__name__
        raise PeerRefusedError(f"what arrived is no signed message ({foreign_text(str(reason))})") from None
    own.require_same_protocol(greeting)
    return message


def _call_statement(greeting: bytes, silo: str, content: bytes) -> bytes:
    return CALL + wire.encode((greeting, silo, hashlib.sha256(content).digest()))


def _answer_statement(greeting: bytes, silo: str, call: bytes, content: bytes) -> bytes:
    return ANSWER + wire.encode((greeting, silo, hashlib.sha256(call).digest(), hashlib.sha256(content).digest()))
