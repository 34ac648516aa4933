"""Shamir 1979: a 32-byte secret as n points of a random polynomial, any t of which give it back.

The field is the integers modulo the smallest prime above 2²⁵⁶. Fewer than t shares are independent of the secret.
"""

from collections.abc import Mapping
from functools import lru_cache

PRIME = 2**256 + 297
SECRET_BYTES = 32
SHARE_BYTES = 33
COEFFICIENT_BYTES = 64
"""random bytes for a coefficient: twice the prime's, so that reduction leaves a bias of 2⁻²⁵⁵"""


def random_bytes(threshold: int) -> int:
    """Return how many random bytes `split` takes."""
    return COEFFICIENT_BYTES * (threshold - 1)


def split(secret: bytes, threshold: int, silos: int, random: bytes) -> tuple[bytes, ...]:
    """Return the shares of `secret` at the points 1 to `silos`; any `threshold` of them determine it.

    `random` are `random_bytes(threshold)` secret, uniform bytes. Raises `ValueError` for a secret or randomness of
    another length.
    """
    if len(secret) != SECRET_BYTES or len(random) != random_bytes(threshold):
        raise ValueError(f"sharing takes 32 secret and {random_bytes(threshold)} random bytes")
    chunks = (random[i : i + COEFFICIENT_BYTES] for i in range(0, len(random), COEFFICIENT_BYTES))
    falling = [int.from_bytes(chunk) % PRIME for chunk in chunks]
    falling.append(int.from_bytes(secret))
    return tuple(_value(falling, point).to_bytes(SHARE_BYTES) for point in range(1, silos + 1))


def combine(shares: Mapping[int, bytes]) -> bytes:
    """Return the secret whose shares are given by their points, exactly as many as the threshold.

    Raises `ValueError` if they are no shares of one 32-byte secret; most wrong shares only give a wrong secret.
    """
    points = tuple(sorted(shares))
    if any(len(share) != SHARE_BYTES for share in shares.values()):
        raise ValueError("a share of another length")
    values = (int.from_bytes(shares[point]) for point in points)
    secret = sum(weight * value for weight, value in zip(_weights(points), values, strict=True)) % PRIME
    if secret >= 2**256:
        raise ValueError("not the shares of one secret")
    return secret.to_bytes(SECRET_BYTES)


def _value(falling: list[int], point: int) -> int:
    # Horner; points are at most 256, so reducing once at the end is cheaper than at each of up to 256 steps.
    value = 0
    for coefficient in falling:
        value = value * point + coefficient
    return value % PRIME


@lru_cache(maxsize=256)
def _weights(points: tuple[int, ...]) -> tuple[int, ...]:
    """Return the weights of Lagrange interpolation at 0."""
    weights = []
    for point in points:
        above, below = 1, 1
        for other in points:
            if other != point:
                above *= other
                below *= other - point
        weights.append(above * pow(below, -1, PRIME) % PRIME)
    return tuple(weights)
