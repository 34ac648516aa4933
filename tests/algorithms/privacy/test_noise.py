import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.privacy.discrete_gaussian import Bits, child_key, exponential_coin

KEY = (1).to_bytes(32)


class Scripted(Bits):
    """Random bits that are given in advance."""

    def __init__(self, *words: int) -> None:
        super().__init__(KEY)
        self.script = list(words)

    def integer(self) -> int:
        return self.script.pop(0)


class TestKeys:
    def test_the_same_key_gives_the_same_bits_again(self) -> None:
        assert np.array_equal(Bits(KEY).words(100), Bits(KEY).words(100))

    def test_bits_do_not_depend_on_how_they_are_asked_for(self) -> None:
        one, other = Bits(KEY), Bits(KEY)
        asked = [one.words(3), one.words(0), np.array([one.integer()], np.uint64), one.words(6)]
        assert np.array_equal(np.concatenate(asked), other.words(10))

    def test_keys_differ_by_label_and_parent(self) -> None:
        keys = [
            KEY,
            child_key(KEY, "round 1"),
            child_key(KEY, "round 2"),
            child_key(child_key(KEY, "round 1"), "round 2"),
        ]
        keys += [(2).to_bytes(32), child_key((2).to_bytes(32), "round 1")]
        assert len(set(keys)) == len(keys)
        assert {len(key) for key in keys} == {32}
        agreeing = np.unpackbits((Bits(keys[1]).words(4000) ^ Bits(keys[2]).words(4000)).view(np.uint8)).mean()
        assert abs(agreeing - 0.5) < 5 * 0.5 / math.sqrt(256_000)

    def test_it_is_aes_in_counter_mode(self) -> None:
        """The first block is the encryption of zeros, which is known for this key."""
        key = bytes.fromhex("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f")
        assert Bits(key).words(2).tobytes().hex() == "f29000b62a499fd0a9f39a6add2e7780"

    @pytest.mark.parametrize("size", [0, 16, 31, 33])
    def test_short_keys_are_refused(self, size: int) -> None:
        for use in (Bits, lambda key: child_key(key, "x")):
            with pytest.raises(BadInput, match=f"32 bytes, not {size}"):
                use(bytes(size))


class TestUniform:
    @pytest.mark.parametrize("bound", [1, 2, 3, 6, 10, 1000])
    def test_integers_below_a_bound_are_evenly_spread(self, bound: int) -> None:
        drawn = Bits(KEY).all_below(bound, 20_000)
        assert chisquare(np.bincount(drawn.astype(int), minlength=bound)).pvalue > 1e-4 or bound == 1
        few = [Bits(child_key(KEY, str(i))).below(bound) for i in range(500)]
        assert set(few) <= set(range(bound))
        assert len(set(few)) >= min(bound, 6)

    def test_what_would_be_uneven_is_drawn_again(self) -> None:
        """The largest 64-bit words would make remainders uneven: with bound 2⁴⁷ + 1 they are drawn again."""
        bound = 2**47 + 1
        bits = Bits(KEY)
        words = iter([np.array([5, 2**64 - 1], np.uint64), np.array([2**64 - 2], np.uint64), np.array([7], np.uint64)])
        bits.words = lambda count: next(words)  # type: ignore[method-assign]
        assert bits.all_below(bound, 2).tolist() == [5, 7]

    @settings(max_examples=30, deadline=None)
    @given(st.integers(1, 2**300))
    def test_great_bounds(self, bound: int) -> None:
        assert 0 <= Bits(KEY).below(bound) < bound

    def test_great_bounds_are_evenly_spread_too(self) -> None:
        """Remainders of one word would make the first third of the integers below ¾·2⁶⁴ twice as likely."""
        stream = Bits(KEY)
        thirds = np.bincount([stream.below(3 * 2**62) >> 62 for _ in range(3000)], minlength=3)
        assert chisquare(thirds).pvalue > 1e-3

    def test_signs_and_uniforms(self) -> None:
        bits = Bits(KEY)
        signs = bits.signs(10_001)
        assert set(signs.tolist()) == {-1, 1}
        assert abs(signs.mean()) < 0.05
        uniforms = np.array([bits.uniform() for _ in range(2000)])
        assert 0 <= uniforms.min() < 0.01 < 0.99 < uniforms.max() < 1
        assert abs(uniforms.mean() - 0.5) < 0.03


class TestExponentialCoin:
    @settings(max_examples=50, deadline=None)
    @given(st.fractions(0, 60), st.integers(0, 2**64 - 1), st.lists(st.integers(0, 2**64 - 1), min_size=5, max_size=5))
    def test_it_compares_the_drawn_number_with_the_exponential(self, gamma: Fraction, word: int, more: list) -> None:
        self.agrees(gamma, word, more)

    @settings(max_examples=50, deadline=None)
    @given(st.fractions(0, 40), st.integers(-2, 2), st.lists(st.integers(0, 2**64 - 1), min_size=5, max_size=5))
    def test_close_calls(self, gamma: Fraction, off: int, more: list) -> None:
        """The first 64 bits equal those of e^{−γ} or are adjacent to them, so further bits must decide."""
        with mpmath.workdps(60):
            word = int(mpmath.floor(mpmath.exp(-mpmath.mpf(gamma.numerator) / gamma.denominator) * 2**64)) + off
        self.agrees(gamma, min(max(word, 0), 2**64 - 1), more)

    def agrees(self, gamma: Fraction, word: int, more: list[int]) -> None:
        number = Fraction(word, 2**64) + sum(Fraction(w, 2 ** (64 * (i + 2))) for i, w in enumerate(more))
        with mpmath.workdps(120):
            power = mpmath.exp(-mpmath.mpf(gamma.numerator) / gamma.denominator)
            below = mpmath.mpf(number.numerator) / number.denominator < power
        assert exponential_coin(Scripted(*more, 2**64 - 1 if not below else 0), gamma, word) == below

    def test_ties_of_the_first_word_are_settled_with_the_probability_that_is_left(self) -> None:
        """If the first 64 bits equal those of e^{−γ}, the probability of heads is the remaining fraction."""
        for gamma in (Fraction(1), Fraction(1, 3), Fraction(20)):
            with mpmath.workdps(60):
                word, left = divmod(mpmath.exp(-mpmath.mpf(gamma.numerator) / gamma.denominator) * 2**64, 1)
            stream = Bits(child_key(KEY, str(gamma)))
            heads = np.mean([exponential_coin(stream, gamma, int(word)) for _ in range(1000)])
            assert abs(heads - float(left)) < 4 * math.sqrt(float(left * (1 - left)) / 1000)

    def test_certain_and_hopeless_coins_end(self) -> None:
        assert exponential_coin(Bits(KEY), Fraction(0), 2**64 - 1)
        assert not exponential_coin(Bits(KEY), Fraction(10) ** 300, 0)

    def test_doublings(self) -> None:
        """2^k·e^{−γ} with large k and γ: with γ = 44 and k = 63 the probability is .72."""
        heads = np.mean([exponential_coin(Bits(KEY), Fraction(44), int(w), 63) for w in Bits(KEY).words(2000)])
        assert abs(heads - 2**63 * math.exp(-44)) < 4 * 0.45 / math.sqrt(2000)
