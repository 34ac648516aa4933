"""The cryptography of a secure sum: session, keys, sealing, masks, and encoding of numbers (Bonawitz et al. 2017).

**Session**: `SecureSession` has the public terms of one secure sum; every key and every sealed message is bound to it.

**Keys and sealing** (§3.2, §3.3): two silos agree on a secret by X25519, once in a run; the coordinator does not learn
the secret. In each session they expand three keys from the secret by HKDF-SHA256 (RFC 5869): a key to seal messages in
each direction (AES-256-GCM), and a key for their mask. These keys are bound to the session and to both advertisements,
which contain hashes of fresh secrets. Therefore no key is used for two purposes, directions, rounds or attempts, even
if a coordinator repeats a session. The secret of a run never leaves a silo. To remove the masks of a silo that drops
out, only its mask keys of that session are revealed (`participant`), as in Flamingo (Ma et al. 2023, S&P). So its
replies in other sessions stay hidden.

**Masks** (§3.4, §4): a short key is expanded to as many ring elements as the vector has. The mask is the encryption of
zeros by AES-256-GCM, that is, the keystream of AES-256 in counter mode. A key is used for one mask only, so the nonce
of each chunk can be its offset. Of two silos, the first by name adds their pairwise mask and the other subtracts it, so
the masks cancel in the sum.

**Encoding**: vectors of numbers become vectors over a ring of integers modulo 2⁶⁴, in which masks are uniform and sums
are exact. Integers are unchanged. Counts, whose sum has a public bound, may need only a smaller ring: modulo 2⁸, 2¹⁶ or
2³², whichever is the smallest above the bound. Their messages and masks are then up to eight times as short. Floats
become fixed-point numbers: v is encoded as the integer nearest to v·2^f, so the error of a sum of P vectors is at most
P·2^-(f+1) per entry, plus the rounding of the decoded sum to 53 bits. Each entry of the P encoded summands must be
below 2⁶³/P, so that no sum wraps around; a larger entry is refused, not clipped.
"""

import hashlib
import hmac
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeVar

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand
from numpy.typing import ArrayLike, NDArray

from ..core import wire
from ..core.schema import FloatArray
from ..errors import BadInput

MAX_SILOS = 256

Phase = Literal["advertise", "share", "mask", "unmask"]


class Aborted(Exception):  # noqa: N818 - an event, not a programming error
    """The protocol was aborted, without information about the sum; the message is the reason, in one line."""


class Refused(Aborted):
    """A silo refused to continue because an answer would not be safe; the message has the silo and the reason."""


@dataclass(frozen=True)
class SecureSession:
    """The terms of one secure sum. `silos` are sorted; fewer than `threshold` of them can recover nothing.

    The threshold must be above half of the silos. Otherwise two disjoint groups could reveal the two secrets of one
    silo, and both secrets together remove its masks. A `sparse` session has no such secrets. Its `threshold` is the
    number of neighbours of each silo in the mask graph, which is even, above a quarter of the silos, and at most half
    of them. Raises `BadInput` for any other threshold, for fewer than 2 or more than 256 silos, and for names that are
    not sorted and distinct.
    """

    run: str
    round: int
    attempt: int
    silos: tuple[str, ...]
    threshold: int
    exchange: bytes = b""
    """a digest of the settings, the schema and the broadcast, which must be the same for all silos of the sum"""
    protocol: str = ""
    """the version of the protocol, `PROTOCOL`, with which a silo recognises a coordinator of another version"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for terms that would not protect the vectors."""
        n = len(self.silos)
        if not 2 <= n <= MAX_SILOS:
            raise BadInput(f"a secure sum needs 2 to {MAX_SILOS} silos, not {n}")
        if self.silos != tuple(sorted(set(self.silos))):
            raise BadInput(f"the silos of a secure sum must be distinct and sorted: they are {', '.join(self.silos)}")
        in_graph = n >= MIN_SPARSE and n < 4 * self.threshold and self.threshold % 2 == 0
        if not (n // 2 + 1 if not in_graph else 2) <= self.threshold <= n:
            raise BadInput(
                f"the threshold of a secure sum of {n} silos is {self.threshold}: it must be {n // 2 + 1} to {n}"
            )

    @property
    def sparse(self) -> bool:
        """Whether each silo shares masks with only `threshold` other silos; then all silos must answer."""
        return 2 * self.threshold <= len(self.silos)

    @property
    def required(self) -> int:
        """The number of silos that must answer each phase."""
        return len(self.silos) if self.sparse else self.threshold

    @cached_property
    def digest(self) -> bytes:
        """A hash of all terms, to which keys are bound."""
        return hashlib.sha256(wire.encode(self)).digest()

    def point(self, silo: str) -> int:
        """The point at which the sharing polynomials are evaluated for `silo`: 1 to n."""
        return self.silos.index(silo) + 1


def default_threshold(silos: int) -> int:
    """The threshold for a number of silos: more than two thirds of them, and at least 2."""
    return min(silos, max(2, 2 * silos // 3 + 1))


MESH_SILOS = 32
"""maximum number of silos in a full mesh, in which all silos share masks with each other"""
MIN_SPARSE = 12
"""minimum number of silos of a sparse session"""


def mask_threshold(silos: int) -> int:
    """The threshold of the sessions of a run with this number of silos.

    If fewer silos than the threshold collude, they learn only sums. Above 32 silos, the threshold is the number of
    neighbours in the mask graph: the largest even number up to half of the default threshold. A session has at least as
    many silos as the default threshold, so the number of neighbours is at most half of the silos of a session.
    """
    return default_threshold(silos) if silos <= MESH_SILOS else default_threshold(silos) // 4 * 2


PROTOCOL = "fedbnsl secure sum 4"
_PROTOCOL = PROTOCOL.encode()
# A sealing key is for one sender, one receiver and one session, and an escrow key is for one escrow. Each key
# encrypts one message, so the nonce can be constant.
NONCE = bytes(12)
MAX_DERIVED_BYTES = 255 * 32
"""maximum number of bytes that one HKDF-SHA256 derivation can output (RFC 5869)"""


def derive(secret: bytes, session: SecureSession, purpose: str, *silos: str, length: int = 32) -> bytes:
    """`length` bytes that are pseudorandom without knowledge of `secret`.

    HKDF derives at most 8160 bytes; longer outputs are derived in numbered pieces.
    """
    pieces = []
    for begin in range(0, length, MAX_DERIVED_BYTES):
        part = (purpose, silos) if begin == 0 else (purpose, silos, begin)
        info = wire.encode((PROTOCOL, session.digest, *part))
        pieces.append(HKDF(SHA256(), min(MAX_DERIVED_BYTES, length - begin), salt=None, info=info).derive(secret))
    return b"".join(pieces)


class RunKey:
    """A silo's private key in a run, and the secrets that it has agreed on with other silos; it stays in memory."""

    def __init__(self, entropy: bytes) -> None:
        """Create the key from 32 secret bytes."""
        self._private = X25519PrivateKey.from_private_bytes(entropy)
        self._agreed: dict[bytes, bytes] = {}
        self.public = self._private.public_key().public_bytes_raw()
        """the public key, 32 bytes"""

    def agree(self, public: bytes) -> bytes:
        """The secret shared with the owner of the key `public`, 32 bytes from which keys are expanded; computed once.

        Raises `ValueError` if `public` is not a usable key.
        """
        if public not in self._agreed:
            agreed = self._private.exchange(X25519PublicKey.from_public_bytes(public))
            self._agreed[public] = hmac.digest(bytes(32), agreed, "sha256")  # HKDF-Extract without salt
        return self._agreed[public]


@dataclass(frozen=True)
class PairKeys:
    """The keys of two silos in a session, 32 bytes each, from the view of one of them."""

    sealing: bytes
    """key for messages from this silo to its peer"""
    unsealing: bytes
    """key for messages from the peer to this silo"""
    mask: bytes
    """key of the pairwise mask, the same for both silos"""


def pair_keys(key: RunKey, session: SecureSession, silo: str, own: bytes, peer: str, theirs: bytes) -> PairKeys:
    """The keys of `silo`, owner of `key`, with `peer` in `session`.

    `own` and `theirs` are the advertisements of `silo` and `peer` in this session, which begin with their public keys.
    Raises `ValueError` if the public key of `peer` is not usable.
    """
    derived = _derive_pair(key, session, (silo, own), (peer, theirs), 96)
    upward, downward, mask = derived[:32], derived[32:64], derived[64:]
    return PairKeys(upward, downward, mask) if silo < peer else PairKeys(downward, upward, mask)


def mask_key(key: RunKey, session: SecureSession, silo: str, own: bytes, peer: str, theirs: bytes) -> bytes:
    """The key of the mask of two silos in a sparse session; arguments and errors as for `pair_keys`."""
    return _derive_pair(key, session, (silo, own), (peer, theirs), 32)


def _derive_pair(
    key: RunKey, session: SecureSession, own: tuple[str, bytes], peer: tuple[str, bytes], length: int
) -> bytes:
    """`length` secret bytes, the same for both silos; a silo is given by its name and its advertisement."""
    low, high = (own, peer) if own < peer else (peer, own)
    name = low[0].encode()
    info = b"".join((_PROTOCOL, session.digest, low[1], high[1], len(name).to_bytes(4), name, high[0].encode()))
    return HKDFExpand(SHA256(), length, info).derive(key.agree(peer[1][:32]))


def seal(key: bytes, session: SecureSession, sender: str, receiver: str, content: bytes) -> bytes:
    """`content` sealed by `sender` for `receiver` under the `key` of this direction."""
    return AESGCM(key).encrypt(NONCE, content, _bound_to(session, sender, receiver))


def unseal(key: bytes, session: SecureSession, sender: str, receiver: str, sealed: bytes) -> bytes:
    """The content that `sender` sealed for `receiver` under the `key` of this direction.

    Raises `Refused`, naming both silos, if the message was changed, is for another receiver or session, or is not from
    `sender`.
    """
    try:
        return AESGCM(key).decrypt(NONCE, sealed, _bound_to(session, sender, receiver))
    except (InvalidTag, ValueError):
        raise Refused(
            f"{receiver} refuses the shares of {sender}: not sealed by it for {receiver} in this session"
        ) from None


def _bound_to(session: SecureSession, sender: str, receiver: str) -> bytes:
    return b"".join((session.digest, len(sender.encode()).to_bytes(4), sender.encode(), receiver.encode()))


Ring = NDArray[np.unsignedinteger]
"""elements of a ring of integers modulo 2⁸, 2¹⁶, 2³² or 2⁶⁴: numpy's unsigned integers, whose sums wrap around"""
RINGS = tuple(np.dtype(f"<u{size}") for size in (1, 2, 4, 8))


def require_ring(vector: NDArray[Any]) -> None:
    """Raise `ValueError` for an array that is not a vector of ring elements."""
    if vector.dtype not in RINGS or vector.ndim != 1:
        raise ValueError(f"an array of {vector.dtype} {vector.shape}: it must be a vector of unsigned integers")


CHUNK = 1 << 17
"""number of bytes of a mask that are generated at once, few enough for the processor's cache"""
_ZEROS = memoryview(bytes(CHUNK))


def keystream(key: bytes, length: int, ring: np.dtype[Any] = RINGS[-1]) -> Iterator[Ring]:
    """The mask of the 32-byte `key`, `length` elements of `ring`, in chunks."""
    cipher = AESGCM(key)
    most = CHUNK // ring.itemsize
    for begin in range(0, length, most):
        count = min(most, length - begin)
        stream = cipher.encrypt(begin.to_bytes(len(NONCE)), _ZEROS[: ring.itemsize * count], None)
        yield np.frombuffer(stream, ring, count)  # without the tag of GCM at the end


def add(vector: Ring, key: bytes) -> None:
    """Add the mask of `key` to `vector`, in place."""
    _combine(np.add, vector, key)


def subtract(vector: Ring, key: bytes) -> None:
    """Subtract the mask of `key` from `vector`, in place."""
    _combine(np.subtract, vector, key)


def _combine(operation: np.ufunc, vector: Ring, key: bytes) -> None:
    begin = 0
    for mask in keystream(key, len(vector), vector.dtype):
        part = vector[begin : begin + len(mask)]
        operation(part, mask, out=part)
        begin += len(mask)


def self_key(seed: bytes, session: SecureSession, silo: str) -> bytes:
    """The key of the self-mask of `silo`, whose shared secret is `seed`."""
    return derive(seed, session, "self mask", silo)


def commitment(secret: bytes, session: SecureSession, silo: str, purpose: str = "self mask") -> bytes:
    """A hash of a fresh secret of `silo`: it identifies the secret but does not reveal it."""
    return derive(secret, session, f"{purpose} commitment", silo)


def adds_mask(silo: str, peer: str) -> bool:
    """Whether `silo` adds its pairwise mask with `peer`; otherwise it subtracts it."""
    return silo < peer


FRACTION_BITS = 32

Number = TypeVar("Number", bound=np.number)
Labels = Sequence[str] | None
"""names of the entries for messages, besides their positions"""


def encode_integers(values: ArrayLike, summands: int, labels: Labels = None) -> Ring:
    """Integers `[n]` as ring elements, for a sum over at most `summands` silos.

    Raises `BadInput`, naming the position, if the absolute value of an entry is 2⁶³/summands or more, and `TypeError`
    for numbers of another type.
    """
    integers = np.asarray(values)
    if not np.issubdtype(integers.dtype, np.integer):
        raise TypeError(f"whole numbers must have an integer type, not {integers.dtype}")
    limit = (2**63 - 1) // _positive(summands)
    _refuse_first((integers > limit) | (integers < -limit), f"at most {limit}", summands, labels)
    return integers.astype(np.int64).view(np.uint64)


def encode_counts(values: ArrayLike, greatest: int, labels: Labels = None) -> Ring:
    """Whole numbers `[n]` of 0 or more as elements of the smallest ring that holds `greatest`, a bound on their sum.

    Raises `BadInput`, naming the position, if an entry is negative or above `greatest`.
    """
    counts = np.asarray(values)
    for index in np.flatnonzero(~((counts >= 0) & (counts <= greatest)))[:1]:
        raise BadInput(f"{_name(index, labels)} is out of range: a count must be from 0 to {greatest}")
    return counts.astype(ring_of(greatest))


def ring_of(greatest: int) -> np.dtype[Any]:
    """The smallest ring that holds `greatest`."""
    return next(ring for ring in RINGS if greatest < 1 << 8 * ring.itemsize)


def encode_fixed(values: ArrayLike, summands: int, fraction_bits: int = FRACTION_BITS, labels: Labels = None) -> Ring:
    """Floats `[n]` as ring elements with `fraction_bits` bits after the point, for at most `summands` silos.

    Raises `BadInput`, naming the position, if an entry is not finite, or has an absolute value of
    2^(63 − fraction_bits)/summands or more.
    """
    if not 0 <= fraction_bits <= 62:
        raise BadInput(f"parameter fraction_bits is {fraction_bits}: it must be 0 to 62")
    floats = np.asarray(values, dtype=np.float64)
    with np.errstate(over="ignore"):
        scaled = np.rint(np.ldexp(floats, fraction_bits))
    # No float is between 2⁶³/summands and its rounded value, so a comparison with either gives the same result.
    limit = 2.0**63 / _positive(summands)
    range_ = f"below {np.ldexp(limit, -fraction_bits):g}"
    _refuse_first(~(np.abs(scaled) < limit), range_, summands, labels)
    return scaled.astype(np.int64).view(np.uint64)


def decode_integers(total: Ring) -> NDArray[np.int64]:
    """The sum of the integers, or of the counts, whose encodings sum to `total`."""
    return total.view(np.int64) if total.dtype == RINGS[-1] else total.astype(np.int64)


def decode_fixed(total: Ring, fraction_bits: int = FRACTION_BITS) -> FloatArray:
    """The sum of the floats whose encodings, with `fraction_bits`, sum to `total`."""
    return np.ldexp(total.view(np.int64).astype(np.float64), -fraction_bits)


def gather(dense: NDArray[Number], positions: NDArray[np.int64]) -> NDArray[Number]:
    """The entries of `dense` `[length]` at public `positions`; all other entries are left out, whatever they are.

    The coordinator must fix the positions, because positions that a silo chooses would reveal where its vector is
    nonzero. For the same reason, a silo does not say whether it leaves out an entry that is not 0. Raises `BadInput`,
    as `scatter` does, for invalid positions.
    """
    _check_positions(positions, len(dense))
    return dense[positions]


def scatter(entries: NDArray[Number], positions: NDArray[np.int64], length: int) -> NDArray[Number]:
    """The vector `[length]` with `entries` at `positions` and 0 elsewhere: the inverse of `gather`.

    Raises `BadInput` if the positions do not increase, exceed the length, or differ in number from the entries.
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
        raise BadInput(f"public positions must increase, from 0 or more to below {length}")


def _refuse_first(bad: NDArray[np.bool_], range_: str, summands: int, labels: Labels) -> None:
    """Raise `BadInput` with the position of the first bad entry, but not with its value, which masks must hide."""
    for index in np.flatnonzero(bad)[:1]:
        raise BadInput(
            f"{_name(index, labels)} is out of range: its absolute value must be {range_}, "
            f"so that a sum of {summands} cannot overflow"
        )


def _name(index: int, labels: Labels) -> str:
    return f"entry {index} ({labels[index]})" if labels is not None else f"entry {index}"
