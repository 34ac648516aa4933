"""The messages of a secure sum in its phases, and parsers whose errors name the sender.

The phases are advertise, share, mask and unmask (`masks.py`).
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeGuard, TypeVar

import numpy as np

from ..core import wire
from .masks import Aborted, Ring, SecureSession, require_ring

T = TypeVar("T")
KEYS_BYTES = 96
"""the length of an advertisement without a signature"""
ZLIB = b"\x78"
"""the first byte of a compressed message; no uncompressed message of these types begins with it"""
MAX_BYTES = 1 << 22
"""maximum length of a message after decompression"""


@dataclass(frozen=True)
class PublicKeys:
    """The advertisement of a silo: its public key and two commitments, 32 bytes each.

    The commitments are hashes of the silo's fresh secrets. A secret that is combined from wrong shares does not match
    its commitment, so the error is noticed. The commitments also make the keys of two silos differ between sessions.
    """

    agreement: bytes
    """the public key of the silo in this run"""
    seed: bytes
    """the commitment to the seed of its self-mask"""
    escrow: bytes
    """the commitment to the key of its escrow"""

    def pack(self) -> bytes:
        """The encoded advertisement, 96 bytes."""
        return self.agreement + self.seed + self.escrow


@dataclass(frozen=True)
class Revealed:
    """A silo's answer in phase 4: its share of either the self-mask seed or the escrow key of each silo, never both."""

    self_masks: dict[str, bytes]
    escrow_keys: dict[str, bytes]


def public_keys(packed: bytes, silo: str) -> PublicKeys:
    """The advertisement of `silo`; raises `Aborted` if it does not have 96 bytes."""
    if len(packed) != KEYS_BYTES:
        raise Aborted(f"{silo} advertised {len(packed)} bytes of keys: they must be {KEYS_BYTES}")
    return PublicKeys(packed[:32], packed[32:64], packed[64:])


def compressed(message: Any) -> bytes:
    """The encoded and compressed `message`: the terms of a session consist mostly of similar names."""
    return zlib.compress(wire.encode(message), 1)


def _decompressed(packed: bytes) -> bytes:
    inflating = zlib.decompressobj()
    content = inflating.decompress(packed, MAX_BYTES)
    if not inflating.eof:
        raise ValueError(f"it is cut off, or longer than {MAX_BYTES} bytes")
    return content


def read(kind: type[T], packed: bytes, sender: str) -> T:
    """The message in `packed`; raises `Aborted`, naming `sender`, unless it is a message of type `kind`."""
    try:
        value = wire.decode(kind, _decompressed(packed) if packed[:1] == ZLIB else packed)
    except (ValueError, TypeError, KeyError, zlib.error) as error:
        raise Aborted(f"{sender} sent an unreadable message: {error}") from None
    if not isinstance(value, kind):
        raise Aborted(f"{sender} sent a message that is not a {kind.__name__}")
    return value


@lru_cache(maxsize=4)
def read_session(packed: bytes, sender: str) -> SecureSession:
    """The session's terms in `packed`, read once for all silos of this process.

    Raises `Aborted`, naming `sender`, for any other content.
    """
    return read(SecureSession, packed, sender)


def read_by_silo(packed: bytes, sender: str) -> dict[str, bytes]:
    """The bytes by silo in `packed`; raises `Aborted`, naming `sender`, for any other content."""
    table: object = read(dict, packed, sender)
    if not _is_by_silo(table):
        raise Aborted(f"{sender} sent a message that is not bytes by silo")
    return table


def read_revealed(packed: bytes, sender: str) -> Revealed:
    """The shares revealed in `packed`; raises `Aborted`, naming `sender`, for any other content."""
    revealed = read(Revealed, packed, sender)
    if not _is_by_silo(revealed.self_masks) or not _is_by_silo(revealed.escrow_keys):
        raise Aborted(f"{sender} sent a message that is not shares by silo")
    return revealed


def read_names(packed: bytes, sender: str) -> tuple[str, ...]:
    """The names of silos in `packed`; raises `Aborted`, naming `sender`, for any other content."""
    return _read_each(str, packed, sender, "names of silos")


def read_parts(packed: bytes, sender: str) -> tuple[bytes, ...]:
    """The parts in `packed`, each bytes; raises `Aborted`, naming `sender`, for any other content."""
    return _read_each(bytes, packed, sender, "a sequence of bytes")


def _read_each(kind: type[T], packed: bytes, sender: str, what: str) -> tuple[T, ...]:
    """The values of type `kind` in `packed`; raises `Aborted` for any other content. `what` names them in errors."""
    values: tuple[Any, ...] = read(tuple, packed, sender)
    if not all(isinstance(one, kind) for one in values):
        raise Aborted(f"{sender} sent a message that is not {what}")
    return values


def read_vector(packed: bytes, sender: str) -> Ring:
    """The masked vector in `packed`; raises `Aborted`, naming `sender`, for any other content."""
    vector = read(np.ndarray, packed, sender)
    try:
        require_ring(vector)
    except ValueError as error:
        raise Aborted(f"{sender} sent {error}") from None
    return vector


def sum_of_vectors(masked: Mapping[str, bytes]) -> Ring:
    """The sum of the masked vectors of all silos, as ring elements.

    Raises `Aborted`, naming the silo, if a vector has another length or ring than the vector of the first silo by name.
    """
    silos = sorted(masked)
    total = read_vector(masked[silos[0]], silos[0])
    for silo in silos[1:]:
        vector = read_vector(masked[silo], silo)
        if (len(vector), vector.dtype) != (len(total), total.dtype):
            expected = f"{len(total)} of {total.dtype}"
            raise Aborted(f"{silo} sent {len(vector)} entries of {vector.dtype}, but {silos[0]} sent {expected}")
        np.add(total, vector, out=total)
    return total


def _is_by_silo(table: object) -> TypeGuard[dict[str, bytes]]:
    return isinstance(table, dict) and all(isinstance(k, str) and isinstance(v, bytes) for k, v in table.items())
