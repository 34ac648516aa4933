"""Masks: a short key stretched to as many ring elements as the vector has (Bonawitz et al. 2017, §3.4, §4).

The generator is AES-256 in counter mode; every key is used for one mask, so counting starts at 0. Of two silos the
first by name adds their pairwise mask and the other subtracts it, so the masks cancel in the sum.

The public terms of one secure sum, to which every key and every sealed message is bound.

Keys that two silos agree on without the coordinator, and sealing messages (Bonawitz et al. 2017, §3.2, §3.3).

X25519, HKDF-SHA256 and AES-256-GCM. Every derived key is bound to the session, to a purpose and to the silos it is for,
so no key serves two purposes, two rounds, two attempts or two directions.

Vectors of numbers as vectors of the ring of integers modulo 2⁶⁴, in which masks are uniform and sums are exact.

Integers are themselves, floats fixed-point numbers: v is the integer nearest to v·2^f, so the sum of P vectors is off
by at most P·2^-(f+1) an entry, plus the rounding of the decoded sum to 53 bits. Each of the P summands must stay below
2⁶³/P, so that no sum wraps around; a larger entry is refused, not clipped.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeVar

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import ArrayLike, NDArray

from ..core import wire
from ..core.schema import FloatArray
from ..errors import BadInput

MOST_SILOS = 256

Phase = Literal["advertise", "share", "mask", "unmask"]


class Aborted(Exception):  # noqa: N818 - an event, not a programming error
    """The protocol was aborted, and nothing was learned about the sum; the message says why, in one line."""


class Refused(Aborted):
    """A silo refused to continue, because answering would not be safe; the message names the silo and says why."""


@dataclass(frozen=True)
class SecureSession:
    """Who takes part in which sum. `silos` are sorted; fewer than `threshold` of them can recover nothing.

    Raises `BadInput` for fewer than 2 or more than 256 silos, for names that are not sorted and distinct, and for a
    threshold that is not above half of the silos: two disjoint groups could each be made to reveal one share, and both
    shares of a silo together undo its masks.
    """

    run: str
    round: int
    attempt: int
    silos: tuple[str, ...]
    threshold: int

    def __post_init__(self) -> None:
        """Raise `BadInput` for terms that would protect nothing."""
        n = len(self.silos)
        if not 2 <= n <= MOST_SILOS:
            raise BadInput(f"a secure sum takes 2 to {MOST_SILOS} silos: there are {n}")
        if self.silos != tuple(sorted(set(self.silos))):
            raise BadInput(f"the silos of a secure sum must be distinct and sorted: they are {', '.join(self.silos)}")
        if not n // 2 + 1 <= self.threshold <= n:
            raise BadInput(
                f"the threshold of a secure sum of {n} silos is {self.threshold}: it must be {n // 2 + 1} to {n}"
            )

    @cached_property
    def digest(self) -> bytes:
        """A hash of all terms: what keys are bound to."""
        return hashlib.sha256(wire.encode(self)).digest()

    def point(self, silo: str) -> int:
        """Where the sharing polynomials are evaluated for `silo`: 1 to n."""
        return self.silos.index(silo) + 1


def default_threshold(silos: int) -> int:
    """The threshold for a number of silos: more than two thirds of them, and at least 2."""
    return min(silos, max(2, 2 * silos // 3 + 1))


PROTOCOL = "fedbnsl secure sum 1"
# A sealing key belongs to one sender, one receiver and one session and seals one message, so no nonce is needed.
NONCE = bytes(12)
MOST_DERIVED = 255 * 32
"""bytes that HKDF-SHA256 can derive at once (RFC 5869)"""


def derive(secret: bytes, session: SecureSession, purpose: str, *silos: str, length: int = 32) -> bytes:
    """`length` bytes that look random to anyone who does not know `secret`.

    HKDF gives 8160 at most; more are derived piece by piece, each for its own number.
    """
    pieces = []
    for begin in range(0, length, MOST_DERIVED):
        part = (purpose, silos) if begin == 0 else (purpose, silos, begin)
        info = wire.encode((PROTOCOL, session.digest, *part))
        pieces.append(HKDF(SHA256(), min(MOST_DERIVED, length - begin), salt=None, info=info).derive(secret))
    return b"".join(pieces)


def agree(private: X25519PrivateKey, public: bytes, session: SecureSession, purpose: str, *silos: str) -> bytes:
    """The 32-byte key for `purpose` between the owners of `private` and `public`.

    Both sides must name `silos` in the same order. Raises `ValueError` if `public` is no usable key.
    """
    return derive(private.exchange(X25519PublicKey.from_public_bytes(public)), session, purpose, *silos)


def seal(
    private: X25519PrivateKey, public: bytes, session: SecureSession, sender: str, receiver: str, content: bytes
) -> bytes:
    """`content` sealed by `sender`, owner of `private`, for `receiver`, owner of `public`."""
    key = agree(private, public, session, "seal", sender, receiver)
    return AESGCM(key).encrypt(NONCE, content, _bound_to(session, sender, receiver))


def unseal(
    private: X25519PrivateKey, public: bytes, session: SecureSession, sender: str, receiver: str, sealed: bytes
) -> bytes:
    """Return what `sender`, owner of `public`, sealed for `receiver`, owner of `private`.

    Raises `Refused`, naming both, if it was changed, or meant for another receiver or session, or not sent by `sender`.
    """
    try:
        key = agree(private, public, session, "seal", sender, receiver)
        return AESGCM(key).decrypt(NONCE, sealed, _bound_to(session, sender, receiver))
    except (InvalidTag, ValueError):
        raise Refused(f"{receiver} refuses the shares of {sender}: not sealed by it for {receiver} and now") from None


def _bound_to(session: SecureSession, sender: str, receiver: str) -> bytes:
    return wire.encode((PROTOCOL, session.digest, sender, receiver))


Ring = NDArray[np.uint64]


def keystream(key: bytes, length: int) -> Ring:
    """The mask of 32-byte `key`: `length` elements of the ring."""
    zeros = bytes(8 * length)
    return np.frombuffer(Cipher(AES256(key), CTR(bytes(16))).encryptor().update(zeros), "<u8")


def add(vector: Ring, key: bytes) -> None:
    """Add the mask of `key` to `vector`, in place."""
    np.add(vector, keystream(key, len(vector)), out=vector)


def subtract(vector: Ring, key: bytes) -> None:
    """Subtract the mask of `key` from `vector`, in place."""
    np.subtract(vector, keystream(key, len(vector)), out=vector)


def self_key(seed: bytes, session: SecureSession, silo: str) -> bytes:
    """The key of the self-mask of `silo`, whose shared secret is `seed`."""
    return derive(seed, session, "self mask", silo)


def commitment(seed: bytes, session: SecureSession, silo: str) -> bytes:
    """A hash of its self-mask's seed, which `silo` advertises: it identifies the seed but does not reveal it."""
    return derive(seed, session, "self mask commitment", silo)


def pairwise_key(private: X25519PrivateKey, public: bytes, session: SecureSession, silo: str, peer: str) -> bytes:
    """The key of the mask between `silo` and `peer`: `private` of one, `public` of the other, either way round.

    Raises `ValueError` if `public` is no usable key.
    """
    return agree(private, public, session, "pairwise mask", *sorted((silo, peer)))


def adds_mask(silo: str, peer: str) -> bool:
    """Tell whether `silo` adds the mask it shares with `peer` (else it subtracts it)."""
    return silo < peer


FRACTION_BITS = 32

Number = TypeVar("Number", bound=np.number)
Labels = Sequence[str] | None
"""what the entries are called in messages, besides by their position"""


def encode_integers(values: ArrayLike, summands: int, labels: Labels = None) -> Ring:
    """Integers `[n]` as ring elements, to be summed over at most `summands` silos.

    Raises `BadInput` that names the place of an entry of size 2⁶³/summands or more, `TypeError` for numbers of another
    type.
    """
    integers = np.asarray(values)
    if not np.issubdtype(integers.dtype, np.integer):
        raise TypeError(f"whole numbers must come as an integer type, not as {integers.dtype}")
    most = (2**63 - 1) // _positive(summands)
    _refuse_first((integers > most) | (integers < -most), f"at most {most}", summands, labels)
    return integers.astype(np.int64).view(np.uint64)


def encode_fixed(values: ArrayLike, summands: int, fraction_bits: int = FRACTION_BITS, labels: Labels = None) -> Ring:
    """Floats `[n]` as ring elements with `fraction_bits` bits after the point, for at most `summands` silos.

    Raises `BadInput` that names the place of an entry that is not finite, or of size 2^(63 − fraction_bits)/summands or
    more.
    """
    if not 0 <= fraction_bits <= 62:
        raise BadInput(f"parameter fraction_bits is {fraction_bits}: it must be 0 to 62")
    floats = np.asarray(values, dtype=np.float64)
    with np.errstate(over="ignore"):
        scaled = np.rint(np.ldexp(floats, fraction_bits))
    # No float lies between 2⁶³/summands and its rounded value here, so comparing with either gives the same answer.
    limit = 2.0**63 / _positive(summands)
    range_ = f"below {np.ldexp(limit, -fraction_bits):g}"
    _refuse_first(~(np.abs(scaled) < limit), range_, summands, labels)
    return scaled.astype(np.int64).view(np.uint64)


def decode_integers(total: Ring) -> NDArray[np.int64]:
    """The sum of the integers whose encodings sum to `total`."""
    return total.view(np.int64)


def decode_fixed(total: Ring, fraction_bits: int = FRACTION_BITS) -> FloatArray:
    """The sum of the floats whose encodings, with `fraction_bits`, sum to `total`."""
    return np.ldexp(total.view(np.int64).astype(np.float64), -fraction_bits)


def gather(dense: NDArray[Number], positions: NDArray[np.int64], labels: Labels = None) -> NDArray[Number]:
    """The entries of `dense` `[length]` at public `positions`: the vector must be 0 everywhere else.

    The positions must be fixed by the coordinator: positions chosen by a silo would reveal the support of its vector.
    Raises `BadInput` that names the first entry elsewhere that is not 0, and for positions as `scatter` does.
    """
    _check_positions(positions, len(dense))
    elsewhere = np.asarray(dense != 0)
    elsewhere[positions] = False
    for at in np.flatnonzero(elsewhere)[:1]:
        raise BadInput(f"{_name(at, labels)} is not 0: only {len(positions)} other, public positions are sent")
    return dense[positions]


def scatter(entries: NDArray[Number], positions: NDArray[np.int64], length: int) -> NDArray[Number]:
    """The vector `[length]` with `entries` at `positions` and 0 elsewhere: the inverse of `gather`.

    Raises `BadInput` if the positions do not rise, are not within the length, or not as many as the entries.
    """
    _check_positions(positions, length)
    if len(entries) != len(positions):
        raise BadInput(f"{len(entries)} entries were sent for {len(positions)} public positions")
    dense = np.zeros(length, entries.dtype)
    dense[positions] = entries
    return dense


def _positive(summands: int) -> int:
    if summands < 1:
        raise BadInput(f"parameter summands is {summands}: it must be 1 or more")
    return summands


def _check_positions(positions: NDArray[np.int64], length: int) -> None:
    if len(positions) and (np.any(np.diff(positions) <= 0) or positions[0] < 0 or positions[-1] >= length):
        raise BadInput(f"public positions must rise, from 0 or more to below {length}")


def _refuse_first(bad: NDArray[np.bool_], range_: str, summands: int, labels: Labels) -> None:
    """Refuse the first bad entry by its place alone: its value is what masks are to hide."""
    for at in np.flatnonzero(bad)[:1]:
        raise BadInput(
            f"{_name(at, labels)} is out of range: its size must be {range_}, "
            f"so that a sum of {summands} cannot overflow"
        )


def _name(at: int, labels: Labels) -> str:
    return f"entry {at} ({labels[at]})" if labels is not None else f"entry {at}"
