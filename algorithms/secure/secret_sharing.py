"""Secret sharing (Shamir 1979): a 32-byte secret becomes n points of a random polynomial, any t of which determine it.

The field is the integers modulo the smallest prime above 2²⁵⁶. Fewer than t shares are independent of the secret.
"""

from collections.abc import Mapping
from functools import lru_cache

PRIME = 2**256 + 297
SECRET_BYTES = 32
SHARE_BYTES = 33
COEFFICIENT_BYTES = 64
"""random bytes per coefficient: about twice the length of the prime, so that the bias of the reduction is 2⁻²⁵⁵"""


def random_bytes(threshold: int) -> int:
    """The number of random bytes that `split` needs."""
    return COEFFICIENT_BYTES * (threshold - 1)


def split(secret: bytes, threshold: int, silos: int, random: bytes) -> tuple[bytes, ...]:
    """The shares of `secret` at the points 1 to `silos`; any `threshold` of them determine it.

    `random` are `random_bytes(threshold)` secret, uniform bytes. Raises `ValueError` for a secret or randomness of
    another length.
    """
    if len(secret) != SECRET_BYTES or len(random) != random_bytes(threshold):
        raise ValueError(f"sharing needs 32 secret and {random_bytes(threshold)} random bytes")
    chunks = (random[i : i + COEFFICIENT_BYTES] for i in range(0, len(random), COEFFICIENT_BYTES))
    coefficients = [*(int.from_bytes(chunk) % PRIME for chunk in chunks), int.from_bytes(secret)]
    return tuple(_value(coefficients, point).to_bytes(SHARE_BYTES) for point in range(1, silos + 1))


def combine(shares: Mapping[int, bytes]) -> bytes:
    """The secret of the `shares`, which are given by point; their number must equal the threshold.

    Raises `ValueError` if the result is not a 32-byte secret. Most wrong shares do not raise, but give a wrong secret.
    """
    points = tuple(sorted(shares))
    if any(len(share) != SHARE_BYTES for share in shares.values()):
        raise ValueError(f"a share does not have {SHARE_BYTES} bytes")
    values = (int.from_bytes(shares[point]) for point in points)
    secret = sum(weight * value for weight, value in zip(_weights(points), values, strict=True)) % PRIME
    if secret >= 2**256:
        raise ValueError("not the shares of one secret")
    return secret.to_bytes(SECRET_BYTES)


def _value(coefficients: list[int], point: int) -> int:
    """The value of a polynomial modulo the prime, by Horner's scheme; `coefficients` begin with the highest degree."""
    value = 0
    for coefficient in coefficients:
        value = (value * point + coefficient) % PRIME
    return value


@lru_cache(maxsize=256)
def _weights(points: tuple[int, ...]) -> tuple[int, ...]:
    """The weights of Lagrange interpolation at 0."""
    weights = []
    for point in points:
        numerator, denominator = 1, 1
        for other in points:
            if other != point:
                numerator *= other
                denominator *= other - point
        weights.append(numerator * pow(denominator, -1, PRIME) % PRIME)
    return tuple(weights)
