import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import chi2_contingency, chisquare, ks_2samp

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.privacy import discrete_gaussian as module
from fedbnsl.algorithms.privacy.discrete_gaussian import (
    Bits,
    child_key,
    discrete_gaussian,
    exponential,
    exponential_coin,
    noise_on_grid,
    release_on_grid,
)

KEY = (7).to_bytes(32)
SIGMAS = [0.3, 0.4, 1.0, 7.3, 1e6]
Samples = NDArray[np.int64]


def bits(label: str = "") -> Bits:
    return Bits(child_key(KEY, label))


def square(sigma: float) -> Fraction:
    return Fraction(sigma) ** 2


def fits(drawn: Samples, sigma: float) -> float:
    """The p-value of a chi-square test of `drawn` against the closed-form law of N_Z(0, σ²).

    There are about forty bins of integers over ±4.5σ, and a bin for each tail. For a large σ, the probability of a bin
    is the normal integral with continuity correction, up to about 10⁻¹².
    """
    cuts = np.unique(np.floor(np.linspace(-4.5 * sigma, 4.5 * sigma, 40))) + 0.5
    if sigma > 100:
        cdf = ndtr(cuts / sigma)
    else:
        x = np.arange(-20 * math.ceil(sigma), 20 * math.ceil(sigma) + 1)
        law = np.exp(-(x**2) / (2 * sigma**2))
        cdf = np.array([law[x < cut].sum() for cut in cuts]) / law.sum()
    expected = np.diff(cdf, prepend=0, append=1) * len(drawn)
    found = np.bincount(np.searchsorted(cuts, drawn), minlength=len(cuts) + 1)
    while len(expected) > 2 and expected.min() < 4:  # the test needs some expected counts in every bin
        i = int(expected.argmin())
        into = i - 1 if i == len(expected) - 1 or (i > 0 and expected[i - 1] < expected[i + 1]) else i + 1
        expected[into], found[into] = expected[into] + expected[i], found[into] + found[i]
        expected, found = np.delete(expected, i), np.delete(found, i)
    return float(chisquare(found, expected).pvalue)


class TestLaw:
    @pytest.mark.parametrize("sigma", SIGMAS)
    def test_closed_form(self, sigma: float) -> None:
        drawn = discrete_gaussian(bits(), square(sigma), 100_000)
        assert drawn.dtype == np.int64
        assert fits(drawn, sigma) > 1e-3

    @pytest.mark.parametrize("variance", [Fraction(1, 2**80), Fraction(1, 7), 2, 10**6 + 7, 2**41 + 1, 2**80])
    def test_mean_and_variance(self, variance: int | Fraction) -> None:
        drawn = discrete_gaussian(bits(), variance, 50_000).astype(float)
        x = np.arange(-20, 21)
        law = np.exp(-(x**2) / (2 * float(variance)))
        exact = float(variance) if variance >= 2 else (x**2 * law).sum() / law.sum()
        assert abs(drawn.mean()) <= 4 * math.sqrt(exact / 50_000)
        assert abs(drawn.var() - exact) <= 5 * math.sqrt(2 / 50_000) * exact + 3 * math.sqrt(exact / 50_000) * (
            exact < 1
        )

    @pytest.mark.parametrize(
        ("sigma", "mutant"),
        [
            (1.0, lambda n: discrete_gaussian(bits(), Fraction(1, 4), n)),
            (1e6, lambda n: discrete_gaussian(bits(), square(0.97e6), n)),
            (0.4, lambda n: np.rint(np.random.default_rng(1).normal(0, 0.4, n)).astype(np.int64)),
            (7.3, lambda n: np.clip(discrete_gaussian(bits(), square(7.3), n), -22, 22)),
            (7.3, lambda n: np.abs(discrete_gaussian(bits(), square(7.3), n))),
            (1.0, lambda n: discrete_gaussian(bits(), 1, n) * 2 // 2 + (np.arange(n) % 50 == 0)),
        ],
        ids=["halved scale", "3 % less", "rounded continuous", "truncated at 3σ", "one-sided", "shifted now and then"],
    )
    def test_a_wrong_law_is_caught(self, sigma: float, mutant: Callable[[int], Samples]) -> None:
        assert fits(mutant(100_000), sigma) < 1e-6

    @pytest.mark.parametrize("sigma", [0.3, 1.0, 7.3, 1e6])
    def test_against_opendp(self, sigma: float) -> None:
        """OpenDP draws from the operating system: one false alarm in a million runs."""
        dp.enable_features("contrib")
        space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=int)
        theirs = np.array(dp.m.make_gaussian(*space, scale=sigma)([0] * 10_000))
        ours = discrete_gaussian(bits(), square(sigma), 40_000)
        halved = discrete_gaussian(bits(), square(sigma) / 4, 40_000)
        assert same_law(ours, theirs) > 1e-6
        assert same_law(halved, theirs) < 1e-6


def same_law(one: Samples, other: Samples) -> float:
    if len(np.unique(one)) > 200:
        return float(ks_2samp(one, other).pvalue)
    least = min(one.min(), other.min())
    length = max(one.max(), other.max()) - least + 1
    table = np.array([np.bincount(sample - least, minlength=length) for sample in (one, other)])
    common = table[:, table[1] >= 5]
    rest = table.sum(axis=1) - common.sum(axis=1)
    return float(chi2_contingency(np.column_stack([common, rest]) if rest.min() > 0 else common).pvalue)


class TestKeys:
    def test_the_same_key_draws_the_same_noise_again(self) -> None:
        assert np.array_equal(discrete_gaussian(bits("x"), 50, 1000), discrete_gaussian(bits("x"), 50, 1000))

    def test_another_label_draws_independent_noise(self) -> None:
        one, other = (discrete_gaussian(bits(label), 10**8, 20_000) for label in ("x", "y"))
        assert abs(np.corrcoef(one, other)[0, 1]) < 4 / math.sqrt(20_000)
        assert np.mean(one == other) < 1e-3

    def test_draws_of_a_stream_are_independent(self) -> None:
        drawn = discrete_gaussian(bits(), 10**8, 20_000)
        for lag in (1, 2, 17):
            assert abs(np.corrcoef(drawn[lag:], drawn[:-lag])[0, 1]) < 4 / math.sqrt(20_000)


class TestExactness:
    @pytest.mark.parametrize("variance", [Fraction(9, 100), 1, 53, 10**12 + 1, 2**80, Fraction(1, 2**80)])
    def test_exact_arithmetic_throughout_decides_the_same(
        self, variance: int | Fraction, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With an error bound that decides no coin, fractions decide all of them, and no result may change."""
        fast = discrete_gaussian(bits(), variance, 300)
        asked = self.count_exact(monkeypatch)
        assert np.array_equal(discrete_gaussian(bits(), variance, 300), fast)
        assert asked == []
        monkeypatch.setattr(module, "ROUNDING", 2.0)
        assert np.array_equal(discrete_gaussian(bits(), variance, 300), fast)
        assert len(asked) > 600

    @staticmethod
    def count_exact(monkeypatch: pytest.MonkeyPatch) -> list[Fraction]:
        asked = []

        def counting(bits: Bits, gamma: Fraction, word: int, doublings: int = 0) -> bool:
            asked.append(gamma)
            return exponential_coin(bits, gamma, word, doublings)

        monkeypatch.setattr(module, "exponential_coin", counting)
        return asked

    def test_a_wrong_decision_of_the_open_coins_is_caught(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "ROUNDING", 0.25)
        monkeypatch.setattr(module, "exponential_coin", lambda *_: True)
        assert fits(discrete_gaussian(bits(), square(1.3), 6000), 1.3) < 1e-6

    @pytest.mark.parametrize("variance", [Fraction(1, 2**80), Fraction(9, 100), 53, 10**12 + 1, 2**80, 2**80 - 1])
    def test_the_error_bound_of_gamma_holds(self, variance: int | Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
        original, looked_at = module._coins, [0]

        def checking(bits: Bits, numbers: Samples, gamma: NDArray, error: NDArray, exact: Callable) -> NDArray:
            for number, float_gamma, bound in zip(numbers, gamma, error, strict=True):
                assert abs(Fraction(float_gamma) - exact(int(number))) <= Fraction(bound)
                looked_at[0] += 1
            return original(bits, numbers, gamma, error, exact)

        monkeypatch.setattr(module, "_coins", checking)
        discrete_gaussian(bits(), variance, 300)
        assert looked_at[0] > 1000


class TestSelection:
    scores = np.array([0.3, -1.0, 2.0, -np.inf, 0.0, 1.9])

    def frequencies(self, scale: float, n: int = 2500) -> NDArray[np.int64]:
        stream = bits("select")
        return np.bincount([exponential(stream, self.scores, scale) for _ in range(n)], minlength=len(self.scores))

    def law(self, scale: float) -> NDArray[np.float64]:
        weights = np.exp(self.scores / scale)
        return weights / weights.sum()

    @pytest.mark.parametrize("scale", [0.5, 3.0])
    def test_it_is_the_exponential_mechanism_and_another_scale_is_caught(self, scale: float) -> None:
        found, possible = self.frequencies(scale), np.isfinite(self.scores)
        assert found[3] == 0
        assert chisquare(found[possible], 2500 * self.law(scale)[possible]).pvalue > 1e-3
        assert chisquare(found[possible], 2500 * self.law(scale / 2)[possible]).pvalue < 1e-9

    def test_it_is_gumbel_max(self) -> None:
        gumbels = np.random.default_rng(3).gumbel(0, 0.8, (2500, len(self.scores)))
        other = np.bincount((self.scores + gumbels).argmax(axis=1), minlength=len(self.scores))
        table = np.array([self.frequencies(0.8), other])[:, np.isfinite(self.scores)]
        assert chi2_contingency(table).pvalue > 1e-3

    def test_proposals_in_one_level_only_keep_the_law(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "LEVELS", 1)
        possible = np.isfinite(self.scores)
        assert chisquare(self.frequencies(1.0)[possible], 2500 * self.law(1.0)[possible]).pvalue > 1e-3

    def test_no_proposal_is_less_likely_than_what_it_stands_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """2^k·e^{−γ} ≤ 1 for every proposed index, also if γ is a multiple of ln 2 up to rounding."""
        proposed = []

        def recording(bits: Bits, gamma: Fraction, word: int, doublings: int = 0) -> bool:
            proposed.append((gamma, doublings))
            return exponential_coin(bits, gamma, word, doublings)

        monkeypatch.setattr(module, "exponential_coin", recording)
        stream = bits("proposals")
        for gaps in (np.linspace(0, 5, 300), np.log(2.0) * np.arange(8), np.log(2.0) * np.arange(8) * (1 + 1e-15)):
            for _ in range(200):
                exponential(stream, -0.7 * gaps, 0.7)
        assert all(math.exp(k * math.log(2) - float(gamma)) <= 1 + 1e-15 for gamma, k in proposed)
        assert max(k for _, k in proposed) >= 5

    @settings(max_examples=50, deadline=None)
    @given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30), st.floats(1e-9, 1e9))
    def test_any_scores(self, scores: list[float], scale: float) -> None:
        chosen = exponential(bits(), np.array(scores), scale)
        assert 0 <= chosen < len(scores)
        assert max(scores) - scores[chosen] <= 100 * scale

    def test_a_better_score_wins_by_more_than_its_weight_in_doubles(self) -> None:
        assert all(exponential(bits(str(i)), np.array([0.0, 1000.0, -1e300]), 1.0) == 1 for i in range(50))

    @pytest.mark.parametrize("scores", [[], [-np.inf, -np.inf], [0.0, np.nan], [np.inf, 0.0]])
    def test_scores_that_select_nothing_are_refused(self, scores: list[float]) -> None:
        with pytest.raises(BadInput, match="nothing can be selected"):
            exponential(bits(), np.array(scores), 1.0)

    @pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf])
    def test_scales_are_refused(self, scale: float) -> None:
        with pytest.raises(BadInput, match=f"scale is {scale}"):
            exponential(bits(), self.scores, scale)


class TestOnGrid:
    @settings(max_examples=50, deadline=None)
    @given(st.floats(1e-9, 1e9), st.floats(1e-10, 1e3), st.integers(1, 40_000))
    def test_the_noise_is_what_rho_asks_for_the_enlarged_sensitivity(
        self, sensitivity: float, rho: float, d: int
    ) -> None:
        step, variance = noise_on_grid(sensitivity, rho, d)
        assert math.frexp(step)[0] == 0.5
        assert step <= 2.0**-20 * sensitivity / math.sqrt(2 * rho)
        enlarged = Fraction(sensitivity) / Fraction(step)  # plus √d, squared: compared without taking a root
        spare = 2 * Fraction(rho) * variance - enlarged**2 - d
        assert spare >= 0
        assert spare**2 >= 4 * d * enlarged**2
        assert step * math.sqrt(variance) <= 1.002 * sensitivity / math.sqrt(2 * rho)

    @settings(max_examples=30, deadline=None)
    @given(st.integers(0, 10_000))
    def test_rounding_is_within_the_enlarged_sensitivity(self, seed: int) -> None:
        """Half-way between grid points, almost equal neighbours are rounded to points a step apart."""
        rng = np.random.default_rng(seed)
        d, sensitivity, rho = 50, 1e-3, 1e-3
        step, variance = noise_on_grid(sensitivity, rho, d)
        value = (rng.integers(-1000, 1000, d) + 0.5) * step
        direction = rng.choice([-1, 1], d) * sensitivity / math.sqrt(d)
        neighbour = value + direction
        apart = np.linalg.norm(np.rint(value / step) - np.rint(neighbour / step))
        assert apart**2 / (2 * variance) <= rho

    def test_plain_sensitivity_is_refuted(self) -> None:
        step, variance = noise_on_grid(1.0, 0.5, 10_000)
        value = np.full(10_000, 0.5 - 1e-9) * step
        neighbour = value + 1.0 / 100
        apart = np.linalg.norm(np.rint(value / step) - np.rint(neighbour / step))
        plain = (1.0 / step) ** 2
        assert plain / (2 * 0.5) < apart**2 / (2 * 0.5) <= variance

    def test_it_releases_multiples_of_the_step_around_the_value(self) -> None:
        value = np.linspace(-3, 3, 6000).reshape(60, 100)
        step, _ = noise_on_grid(0.2, 0.08, value.size)
        released = release_on_grid(bits(), value, 0.2, 0.08, bound=4.0)
        assert released.shape == value.shape
        assert np.array_equal(np.rint(released / step) * step, released)
        noise = released - value
        assert abs(noise.mean()) < 4 * 0.5 / math.sqrt(value.size)
        assert noise.std() == pytest.approx(0.5, rel=0.05)
        assert np.array_equal(released, release_on_grid(bits(), value, 0.2, 0.08, bound=4.0))
        assert not np.array_equal(released, release_on_grid(bits("other"), value, 0.2, 0.08, bound=4.0))

    def test_what_is_beyond_the_bound_is_clamped(self) -> None:
        released = release_on_grid(bits(), np.array([1e300, -np.inf, 0.0]), 1e-6, 0.5, bound=2.0)
        np.testing.assert_allclose(released, [2.0, -2.0, 0.0], atol=1e-5)

    @pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
    def test_refusals(self, bad: float) -> None:
        good = {"sensitivity": 1.0, "rho": 1.0, "bound": 1.0}
        for name in good:
            with pytest.raises(BadInput, match=f"{name} is {bad}"):
                release_on_grid(bits(), np.zeros(2), **(good | {name: bad}))

    def test_what_floats_cannot_carry_is_refused(self) -> None:
        with pytest.raises(BadInput, match="has a NaN"):
            release_on_grid(bits(), np.array([0.0, np.nan]), 1.0, 1.0, 1.0)
        with pytest.raises(BadInput, match=r"bound is 1e\+20: too large for the noise"):
            release_on_grid(bits(), np.zeros(2), 1.0, 1.0, 1e20)
        with pytest.raises(BadInput, match="too small for a grid of floats"):
            release_on_grid(bits(), np.zeros(2), 1e-307, 1.0, 1.0)


@pytest.mark.parametrize("variance", [0, -1, Fraction(1, 2**81), 2**80 + 1])
def test_variances_out_of_range_are_refused(variance: int | Fraction) -> None:
    with pytest.raises(BadInput, match=f"variance is {variance}"):
        discrete_gaussian(bits(), variance, 3)
