"""Exact samplers for private noise: random bits from a key, the discrete Gaussian and Laplace, and exact selection.

In order: keys and the stream of random bits of a key; an exact coin of probability e^{−γ}; samplers of the discrete
Gaussian and the discrete Laplace; exact selection of an index, with the law of Gumbel-max; the release of an array on a
grid.

A key is 32 bytes of fresh entropy from the operating system. The caller draws it (`secrets.token_bytes(32)`), and the
silo stores it with the charge in its ledger. The same key and label give the same noise, so a round that is repeated
after a crash repeats its release and makes no second release. The key determines the noise, so it must stay secret.

N_Z(0, σ²) gives each integer x a probability ∝ exp(−x²/(2σ²)) (Canonne, Kamath, Steinke 2020). Floating-point samples
of the continuous Gaussian leave traces of the noiseless value in their low bits (Mironov 2012); integers do not. The
samplers draw whole arrays. A coin of probability e^{−γ} compares 64 random bits with the float e^{−γ}. In about one of
10¹⁴ coins the rounding error of the float leaves the outcome open; exact arithmetic and further bits then decide it.
The distribution is therefore exact, given uniform random bits.
"""

import math
import sys
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from numpy.typing import NDArray

from ..core.schema import FloatArray
from ..errors import BadInput

KEY_BYTES = 32


def child_key(key: bytes, label: str) -> bytes:
    """The key derived from `key` for `label` (a round, a purpose) by HKDF-SHA256, independent between labels.

    Raises `BadInput` if `key` does not have 32 bytes.
    """
    _require_key(key)
    return HKDFExpand(SHA256(), KEY_BYTES, b"fedbnsl noise\0" + label.encode()).derive(key)


class Bits:
    """The stream of random bits of one key: AES-256 in counter mode. Each bit is used once."""

    def __init__(self, key: bytes) -> None:
        """Start the stream. Raises `BadInput` if `key` does not have 32 bytes."""
        _require_key(key)
        self._stream = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()

    def words(self, count: int) -> NDArray[np.uint64]:
        """`count` words of 64 random bits."""
        return np.frombuffer(self._stream.update(bytes(8 * count)), np.dtype("<u8")).astype(np.uint64)

    def signs(self, count: int) -> NDArray[np.int64]:
        """`count` random signs, each −1 or 1."""
        packed = self.words((count + 63) // 64).view(np.uint8)
        return 1 - 2 * np.unpackbits(packed)[:count].astype(np.int64)

    def integer(self) -> int:
        """One word of 64 random bits as an integer."""
        return int.from_bytes(self._stream.update(bytes(8)), "little")

    def uniform(self) -> float:
        """A number from [0, 1), uniform on the multiples of 2⁻⁵³."""
        return (self.integer() >> 11) * 2.0**-53

    def below(self, bound: int) -> int:
        """An integer, exactly uniform on 0 to `bound` − 1; the bound may be arbitrarily large."""
        size = bound.bit_length()
        while True:
            drawn = 0
            for _ in range((size + 63) // 64):
                drawn = drawn << 64 | self.integer()
            drawn &= (1 << size) - 1
            if drawn < bound:
                return drawn

    def all_below(self, bound: int, count: int) -> NDArray[np.uint64]:
        """`count` independent integers, exactly uniform on 0 to `bound` − 1; the bound is at most 2⁴⁸."""
        accepted = self.words(count)
        last = np.uint64(2**64 // bound * bound - 1)  # above it, the remainders are not uniform
        while (rejected := np.flatnonzero(accepted > last)).size:
            accepted[rejected] = self.words(rejected.size)
        return accepted % np.uint64(bound)


def exponential_coin(bits: Bits, gamma: Fraction, word: int, doublings: int = 0) -> bool:
    """Whether a uniform number with the first 64 bits `word` is below 2^doublings·e^{−γ}, decided exactly.

    Further bits are drawn until the comparison is decided. Decimal arithmetic, whose exponential is correctly rounded,
    encloses e^{−γ} more precisely than the bits drawn so far can resolve.
    """
    bit_count = 64
    while True:
        low, high = _enclosure(gamma, bit_count, doublings)
        if word + 1 <= low:
            return True
        if word >= high:
            return False
        word = word << 64 | bits.integer()
        bit_count += 64


def _enclosure(gamma: Fraction, bit_count: int, doublings: int) -> tuple[Fraction, Fraction]:
    """A lower and an upper bound of 2^(bit_count + doublings)·e^{−γ}."""
    if gamma > bit_count + doublings:
        return Fraction(0), Fraction(1)
    digits = bit_count // 3 + 20
    numerator, denominator = Decimal(gamma.numerator), Decimal(gamma.denominator)
    upper = Context(prec=digits + 20, rounding=ROUND_FLOOR).divide(numerator, denominator).copy_negate()
    lower = Context(prec=digits + 20, rounding=ROUND_CEILING).divide(numerator, denominator).copy_negate()
    powers, scale = Context(prec=digits), 2 ** (bit_count + doublings)
    return Fraction(powers.next_minus(powers.exp(lower))) * scale, Fraction(powers.next_plus(powers.exp(upper))) * scale


def _require_key(key: bytes) -> None:
    if len(key) != KEY_BYTES:
        raise BadInput(f"a noise key must have {KEY_BYTES} bytes, not {len(key)}")


IntArray = NDArray[np.int64]

MIN_VARIANCE, MAX_VARIANCE = Fraction(1, 2**80), 2**80
ROUNDING = 2.0**-50
"""generous bound on the relative error of the float e^{−γ} for a float γ, and of a 64-bit word as a float"""
LEVELS = 64
"""number of powers of two in the proposal distribution of `exponential`"""


def discrete_gaussian(bits: Bits, variance: int | Fraction, size: int) -> IntArray:
    """`size` independent draws from N_Z(0, σ²), where σ² is the `variance`, `[size]`.

    Algorithm 3 of Canonne, Kamath, Steinke 2020: a discrete Laplace of scale t = ⌊σ⌋ + 1 is accepted with probability
    exp(−(|y| − σ²/t)²/(2σ²)). Raises `BadInput` unless 2⁻⁸⁰ ≤ σ² ≤ 2⁸⁰.
    """
    sigma2 = _exact_variance(variance)
    scale = math.isqrt(math.floor(sigma2)) + 1
    center, s2 = float(sigma2 / scale), float(sigma2)

    def exact_gamma(y: int) -> Fraction:
        return (abs(y) - sigma2 / scale) ** 2 / (2 * sigma2)

    accepted, missing = [np.zeros(0, np.int64)], size
    while missing > 0:
        y = _discrete_laplace(bits, scale, 2 * missing + 16)
        distance = np.abs(y).astype(np.float64) - center
        gamma = distance**2 / (2 * s2)
        error = 8 * 2.0**-53 * (gamma + np.abs(distance) / scale)  # of γ, mostly from cancellation in the distance
        drawn = y[_coins(bits, y, gamma, error, exact_gamma)]
        accepted.append(drawn[:missing])
        missing -= len(accepted[-1])
    return np.concatenate(accepted)


def discrete_laplace(bits: Bits, scale: int, size: int) -> IntArray:
    """`size` independent integers with probabilities ∝ exp(−|y|/`scale`), `[size]`.

    Raises `BadInput` for a scale that is not from 1 to 2⁴⁸.
    """
    if not 1 <= scale <= 2**48:
        raise BadInput(f"scale is {scale}: it must be from 1 to 2^48")
    drawn = np.zeros(0, np.int64)
    while len(drawn) < size:
        drawn = np.concatenate([drawn, _discrete_laplace(bits, scale, 2 * (size - len(drawn)) + 16)])
    return drawn[:size]


def _discrete_laplace(bits: Bits, scale: int, attempts: int) -> IntArray:
    """The accepted integers of `attempts` attempts; they are independent, with probabilities ∝ exp(−|y|/t).

    |y| = u + t·v, where u is below t and drawn by rejection, and v is the number of heads of a coin of probability
    e^{−1} before the first tails. A negative zero is rejected.
    """
    u = bits.all_below(scale, attempts).astype(np.int64)
    gamma = u / scale
    u = u[_coins(bits, u, gamma, 2.0**-53 * gamma, lambda number: Fraction(number, scale))]
    v, heads = np.zeros(len(u), np.int64), np.arange(len(u))
    while heads.size:
        ones = np.ones(heads.size)
        heads = heads[_coins(bits, heads, ones, 0 * ones, lambda _: Fraction(1))]
        v[heads] += 1
    size, sign = u + scale * v, bits.signs(len(u))
    return (sign * size)[(size > 0) | (sign > 0)]


def _coins(
    bits: Bits, numbers: IntArray, gamma: FloatArray, error: FloatArray, exact: Callable[[int], Fraction]
) -> NDArray[np.bool_]:
    """For each number, whether a coin of probability e^{−γ} shows heads; `gamma` is γ up to `error`.

    `exact` returns the exact γ of a number; it is called only if the error bound leaves the outcome open.
    """
    words = bits.words(len(gamma))
    drawn, threshold = words.astype(np.float64), np.exp(-gamma) * 2.0**64
    margin = threshold * (2 * error + ROUNDING) + drawn * ROUNDING + 2
    heads: NDArray[np.bool_] = drawn < threshold
    for i in np.flatnonzero(np.abs(drawn - threshold) <= margin):
        heads[i] = exponential_coin(bits, exact(int(numbers[i])), int(words[i]))
    return heads


def exponential(bits: Bits, scores: FloatArray, scale: float) -> int:
    """A random index, with probability exactly ∝ exp(score/scale), as by Gumbel-max with noise of this scale.

    An index of score −∞ is never chosen. The weight of an index is e^{−γ} with γ = (max − score)/scale. It is at most
    2^−k for k = ⌊γ/ln 2⌋ (one less if rounding leaves it open); k is limited to 63. An index is proposed with
    probability exactly ∝ 2^−k, and accepted with probability 2^k·e^{−γ}. The probability of acceptance is at least
    about half, except for indices with the largest k, which are rarely proposed. Raises `BadInput` if a score is NaN or
    ∞, if no score is finite, and for a scale that is infinite, NaN, or 0 or less.
    """
    possible = np.flatnonzero(scores > -np.inf)
    finite = scores[possible]
    best = finite.max(initial=-np.inf)
    if not math.isfinite(best) or np.isnan(scores).any():
        raise BadInput(f"scores have a NaN or the maximum {best}: nothing can be selected")
    if not (math.isfinite(scale) and scale > 0):
        raise BadInput(f"scale is {scale}: it must be above 0 and finite")
    halvings = (best - finite) / scale * (1 / math.log(2) - 1e-9)
    level = np.minimum(halvings, LEVELS - 1).astype(np.int64)
    weights = [int(count) << (LEVELS - 1 - k) for k, count in enumerate(np.bincount(level, minlength=LEVELS))]
    while True:
        k, rest = 0, bits.below(sum(weights))
        while rest >= weights[k]:
            k, rest = k + 1, rest - weights[k]
        chosen = possible[np.flatnonzero(level == k)[rest >> (LEVELS - 1 - k)]]
        gamma = (Fraction(best) - Fraction(scores[chosen])) / Fraction(scale)
        if exponential_coin(bits, gamma, bits.integer(), doublings=k):
            return int(chosen)


def release_on_grid(bits: Bits, value: FloatArray, sensitivity: float, rho: float, bound: float) -> FloatArray:
    """A release of `value` at a cost of at most ρ zCDP, as multiples of a power of two.

    Rounding to the grid of step g may increase the distance between the values of neighbouring tables by g√d, where d
    is the number of coordinates. The noise is calibrated to Δ + g√d, so ρ is valid for the released array. The grid
    depends only on public numbers: Δ (the ℓ₂ `sensitivity` of the array as computed), ρ and d. Before noise is added,
    coordinates are clipped to ±`bound`. Raises `BadInput` if the sensitivity, ρ or the bound is not above 0 and finite,
    if the value has a NaN, if the sensitivity is too small for a grid of floats, or if the bound is over 2⁵⁰g.
    """
    for name, number in (("sensitivity", sensitivity), ("rho", rho), ("bound", bound)):
        if not (math.isfinite(number) and number > 0):
            raise BadInput(f"{name} is {number}: it must be above 0 and finite")
    if np.isnan(value).any():
        raise BadInput("the value to release has a NaN")
    step, variance = noise_on_grid(sensitivity, rho, value.size)
    if bound > 2.0**50 * step:
        raise BadInput(f"bound is {bound}: too large for the noise of sensitivity {sensitivity} and rho {rho}")
    steps = np.rint(np.clip(value, -bound, bound) / step).astype(np.int64)
    noisy = steps + discrete_gaussian(bits, variance, value.size).reshape(value.shape)
    released: FloatArray = np.clip(noisy, -(2**53), 2**53) * step
    return released


def noise_on_grid(sensitivity: float, rho: float, dimension: int) -> tuple[float, int]:
    """The grid's step g, a power of two, and the noise's variance in squared steps, for `release_on_grid`.

    The step satisfies g ≤ 2⁻²⁰σ and g√d ≤ 2⁻¹⁰Δ, so that rounding increases the noise by at most a thousandth. The
    noise of a coordinate has the standard deviation g·√variance.
    """
    coarsest = min(sensitivity / math.sqrt(2 * rho), 2.0**10 * sensitivity / math.sqrt(max(dimension, 1)))
    step = 2.0 ** (math.frexp(coarsest)[1] - 21)
    if step < sys.float_info.min:
        raise BadInput(f"sensitivity is {sensitivity} at rho {rho}: too small for a grid of floats")
    root = Fraction(math.isqrt(dimension << 60) + 1, 2**30)
    enlarged = Fraction(sensitivity) / Fraction(step) + root
    return step, math.ceil(enlarged**2 / (2 * Fraction(rho)))


def _exact_variance(variance: int | Fraction) -> Fraction:
    if not MIN_VARIANCE <= variance <= MAX_VARIANCE:
        raise BadInput(f"variance is {variance}: it must be from 2^-80 to 2^80")
    return Fraction(variance)
