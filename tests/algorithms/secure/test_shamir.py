import hashlib
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbnsl.algorithms.secure import secret_sharing
from fedbnsl.algorithms.secure.secret_sharing import PRIME, split

secrets = st.binary(min_size=32, max_size=32)


def random_for(threshold: int, seed: int) -> bytes:
    return hashlib.shake_256(seed.to_bytes(8)).digest(secret_sharing.random_bytes(threshold))


def is_prime(n: int) -> bool:
    """Miller and Rabin, with the first 40 primes as witnesses."""
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    witnesses = [k for k in range(2, 174) if all(k % i for i in range(2, k))]
    return all(
        pow(a, odd, n) == 1 or any(pow(a, odd * 2**i, n) == n - 1 for i in range(twos)) for a in witnesses if n % a
    ) and all(n % a for a in witnesses)


def test_the_modulus_is_the_smallest_prime_that_holds_every_secret() -> None:
    assert is_prime(secret_sharing.PRIME)
    assert not any(is_prime(n) for n in range(2**256, secret_sharing.PRIME))


@given(secrets, st.data())
def test_any_threshold_of_the_shares_gives_the_secret(secret: bytes, data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 64))
    threshold = data.draw(st.integers(1, n))
    shares = secret_sharing.split(secret, threshold, n, random_for(threshold, data.draw(st.integers(0, 99))))
    points = data.draw(st.permutations(range(1, n + 1)))[:threshold]
    assert secret_sharing.combine({point: shares[point - 1] for point in points}) == secret


@pytest.mark.parametrize("secret", [bytes(32), b"\xff" * 32])
def test_every_choice_of_shares_agrees_at_the_ends_of_the_range(secret: bytes) -> None:
    shares = secret_sharing.split(secret, 3, 6, random_for(3, 1))
    for points in combinations(range(1, 7), 3):
        assert secret_sharing.combine({point: shares[point - 1] for point in points}) == secret


@given(secrets, secrets, st.integers(2, 8))
def test_fewer_shares_fit_every_secret_equally(secret: bytes, other: bytes, threshold: int) -> None:
    """t - 1 shares and any other secret lie on one polynomial: there is randomness that would have made them so."""
    shares = secret_sharing.split(secret, threshold, threshold - 1, random_for(threshold, 0))
    values = [int.from_bytes(other), *map(int.from_bytes, shares)]
    coefficients = solve_vandermonde(values)
    random = b"".join(c.to_bytes(64) for c in reversed(coefficients[1:]))
    assert secret_sharing.split(other, threshold, threshold - 1, random) == shares


def solve_vandermonde(values: list[int]) -> list[int]:
    """The polynomial through the points 0, 1, 2, ... modulo the prime, lowest power first (Newton's form)."""
    p, table = secret_sharing.PRIME, list(values)
    for level in range(1, len(values)):
        for i in range(len(values) - 1, level - 1, -1):
            table[i] = (table[i] - table[i - 1]) * pow(level, -1, p) % p
    polynomial = [0]
    for i in range(len(values) - 1, -1, -1):
        shifted = [0, *polynomial]
        polynomial = [(a - i * b) % p for a, b in zip(shifted, [*polynomial, 0], strict=True)]
        polynomial[0] = (polynomial[0] + table[i]) % p
    return polynomial[: len(values)]


def test_shares_that_do_not_fit_are_refused() -> None:
    shares = secret_sharing.split(bytes(32), 2, 2, random_for(2, 0))
    with pytest.raises(ValueError, match="does not have 33 bytes"):
        secret_sharing.combine({1: shares[0], 2: shares[1][:-1]})
    with pytest.raises(ValueError, match="one secret"):  # (2·a − b) mod p = 2²⁵⁶: no 32 bytes hold it
        secret_sharing.combine({1: bytes(33), 2: (secret_sharing.PRIME - 2**256).to_bytes(33)})


def test_secret_and_randomness_must_have_their_length() -> None:
    for secret, random in ((bytes(31), random_for(3, 0)), (bytes(32), random_for(2, 0))):
        with pytest.raises(ValueError, match="32 secret and 128 random"):
            secret_sharing.split(secret, 3, 5, random)


@pytest.mark.parametrize("silos", [2, 7, 256])
@pytest.mark.parametrize("coefficient", [0, 1, PRIME - 1, PRIME - 297, 2**255 + 12345])
def test_shares_are_the_values_of_the_polynomial(silos, coefficient):
    """By the definition, also where sums of limbs carry and fold the most."""
    threshold, secret = silos // 2 + 1, b"\xff" * 32
    shares = split(secret, threshold, silos, coefficient.to_bytes(64) * (threshold - 1))
    for point, share in enumerate(shares, 1):
        value = int.from_bytes(secret) + sum(coefficient * point**k for k in range(1, threshold))
        assert int.from_bytes(share) == value % PRIME
