"""Masks: a short key stretched to as many ring elements as the vector has (Bonawitz et al. 2017, §3.4, §4).

The generator is AES-256 in counter mode; every key is used for one mask, so counting starts at 0. Of two silos the
first by name adds their pairwise mask and the other subtracts it, so the masks cancel in the sum.
"""

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

from .agreement import agree, derive
from .session import SecureSession

Ring = NDArray[np.uint64]


def keystream(key: bytes, length: int) -> Ring:
    """Return the mask of 32-byte `key`: `length` elements of the ring."""
    zeros = bytes(8 * length)
    return np.frombuffer(Cipher(AES256(key), CTR(bytes(16))).encryptor().update(zeros), "<u8")


def add(vector: Ring, key: bytes) -> None:
    """Add the mask of `key` to `vector`, in place."""
    np.add(vector, keystream(key, len(vector)), out=vector)


def subtract(vector: Ring, key: bytes) -> None:
    """Subtract the mask of `key` from `vector`, in place."""
    np.subtract(vector, keystream(key, len(vector)), out=vector)


def self_key(seed: bytes, session: SecureSession, silo: str) -> bytes:
    """Return the key of the self-mask of `silo`, whose shared secret is `seed`."""
    return derive(seed, session, "self mask", silo)


def commitment(seed: bytes, session: SecureSession, silo: str) -> bytes:
    """Return a hash of its self-mask's seed, which `silo` advertises: it identifies the seed but does not reveal it."""
    return derive(seed, session, "self mask commitment", silo)


def pairwise_key(private: X25519PrivateKey, public: bytes, session: SecureSession, silo: str, peer: str) -> bytes:
    """Return the key of the mask between `silo` and `peer`: `private` of one, `public` of the other, either way round.

    Raises `ValueError` if `public` is no usable key.
    """
    return agree(private, public, session, "pairwise mask", *sorted((silo, peer)))


def adds(silo: str, peer: str) -> bool:
    """Tell whether `silo` adds the mask it shares with `peer` (else it subtracts it)."""
    return silo < peer
