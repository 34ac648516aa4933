"""Randomness for private noise: keys that are not seeds, a stream of bits from a key, and the exact coin e^{−γ}.

A key is 32 bytes of fresh entropy of the operating system, made by the caller (`secrets.token_bytes(32)`) and kept by
the silo with what it has reserved of its budget. The same key and label give the same noise again: a round that is
repeated after a crash repeats its release and is not a second one. Whoever knows the key knows the noise.
"""

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from numpy.typing import NDArray

from ..errors import BadInput

KEY_BYTES = 32


def child(key: bytes, label: str) -> bytes:
    """Return the key that `label` (a round, a purpose) has under `key`: HKDF-SHA256, independent from label to label.

    Raises `BadInput` if `key` is not of 32 bytes.
    """
    _require_key(key)
    return HKDFExpand(SHA256(), KEY_BYTES, b"fedbnsl noise\0" + label.encode()).derive(key)


class Bits:
    """The stream of random bits of one key: AES-256 in counter mode. Each bit is handed out once."""

    def __init__(self, key: bytes) -> None:
        """Start the stream. Raises `BadInput` if `key` is not of 32 bytes."""
        _require_key(key)
        self._stream = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return `count` words of 64 random bits."""
        return np.frombuffer(self._stream.update(bytes(8 * count)), np.dtype("<u8")).astype(np.uint64)

    def signs(self, count: int) -> NDArray[np.int64]:
        """Return `count` times −1 or 1."""
        packed = self.words((count + 63) // 64).view(np.uint8)
        return 1 - 2 * np.unpackbits(packed)[:count].astype(np.int64)

    def integer(self) -> int:
        """Return one word of 64 random bits as an integer."""
        return int.from_bytes(self._stream.update(bytes(8)), "little")

    def uniform(self) -> float:
        """Return a number from [0, 1), uniform on the multiples of 2⁻⁵³."""
        return (self.integer() >> 11) * 2.0**-53

    def below(self, bound: int) -> int:
        """Return an integer from 0 to `bound` − 1, each exactly as likely, however great the bound."""
        size = bound.bit_length()
        while True:
            drawn = 0
            for _ in range((size + 63) // 64):
                drawn = drawn << 64 | self.integer()
            drawn &= (1 << size) - 1
            if drawn < bound:
                return drawn

    def all_below(self, bound: int, count: int) -> NDArray[np.uint64]:
        """Return `count` integers from 0 to `bound` − 1 (at most 2⁴⁸), each exactly as likely."""
        accepted = self.words(count)
        last = np.uint64(2**64 // bound * bound - 1)  # above it, the remainders are not evenly spread
        while (again := np.flatnonzero(accepted > last)).size:
            accepted[again] = self.words(again.size)
        return accepted % np.uint64(bound)


def exponential_coin(bits: Bits, gamma: Fraction, word: int, doublings: int = 0) -> bool:
    """Tell whether a uniform number, of which `word` is the first 64 bits, is below 2^doublings·e^{−γ}: exactly.

    As many further bits are drawn as it takes to tell. e^{−γ} is enclosed by decimal arithmetic, whose exponential is
    correctly rounded, with digits to spare for the bits at hand.
    """
    known = 64
    while True:
        low, high = _enclosure(gamma, known, doublings)
        if word + 1 <= low:
            return True
        if word >= high:
            return False
        word = word << 64 | bits.integer()
        known += 64


def _enclosure(gamma: Fraction, known: int, doublings: int) -> tuple[Fraction, Fraction]:
    """Return bounds, below and above, of 2^(known + doublings)·e^{−γ}."""
    if gamma > known + doublings:
        return Fraction(0), Fraction(1)
    digits = known // 3 + 20
    numerator, denominator = Decimal(gamma.numerator), Decimal(gamma.denominator)
    most = Context(prec=digits + 20, rounding=ROUND_FLOOR).divide(numerator, denominator).copy_negate()
    least = Context(prec=digits + 20, rounding=ROUND_CEILING).divide(numerator, denominator).copy_negate()
    powers, scale = Context(prec=digits), 2 ** (known + doublings)
    return Fraction(powers.next_minus(powers.exp(least))) * scale, Fraction(powers.next_plus(powers.exp(most))) * scale


def _require_key(key: bytes) -> None:
    if len(key) != KEY_BYTES:
        raise BadInput(f"a noise key is of {KEY_BYTES} bytes, not {len(key)}")
