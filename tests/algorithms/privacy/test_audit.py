import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from fedbnsl.algorithms.core.promise import Cost, ReplaceOne
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.privacy.discrete_gaussian import Bits, child_key, discrete_gaussian, exponential
from fedbnsl.algorithms.privacy.zcdp import epsilon
from tests.algorithms.privacy.audit import audit, clopper_pearson, epsilon_lower_bound

KEY = (11).to_bytes(32)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5000), st.floats(0, 1), st.floats(0.5, 0.999))
def test_clopper_pearson_against_scipy(trials: int, share: float, confidence: float) -> None:
    hits = round(share * trials)
    interval = binomtest(hits, trials).proportion_ci(confidence)
    assert clopper_pearson(hits, trials, confidence) == pytest.approx((interval.low, interval.high), abs=1e-9)


def test_a_bound_by_hand() -> None:
    """900 of 1000 against 100 of 1000: ln 9 minus an allowance for chance, from the event or its complement."""
    bound = epsilon_lower_bound(900, 1000, 100, 1000, 0.0)
    p, q = binomtest(900, 1000).proportion_ci().low, binomtest(100, 1000).proportion_ci().high
    assert bound == pytest.approx(math.log(p / q))
    assert 1.9 < bound < math.log(9)
    assert epsilon_lower_bound(1000, 1000, 900, 1000, 0.0) == pytest.approx(
        math.log((1 - binomtest(900, 1000).proportion_ci().high) / (1 - binomtest(1000, 1000).proportion_ci().low))
    )
    assert epsilon_lower_bound(100, 1000, 900, 1000, 0.0) == epsilon_lower_bound(500, 1000, 500, 1000, 0.0) == 0


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.integers(0, 1000), st.floats(0, 0.5))
def test_a_delta_a_doubt_or_a_chance_makes_the_bound_no_greater(hits: int, false_hits: int, delta: float) -> None:
    bound = epsilon_lower_bound(hits, 1000, false_hits, 1000, 0.0)
    assert epsilon_lower_bound(hits, 1000, false_hits, 1000, delta) <= bound
    assert epsilon_lower_bound(hits, 1000, false_hits, 1000, 0.0, 0.999) <= bound
    assert epsilon_lower_bound(min(hits + 1, 1000), 1000, false_hits, 1000, 0.0) >= bound - 1e-12


def test_the_confidence_is_kept() -> None:
    """Randomised response of ε = 1: at 80 % confidence the bound is above 1 in no more than one audit in five."""
    rng = np.random.default_rng(0)
    truth = math.e / (1 + math.e)
    bounds = [
        epsilon_lower_bound(rng.binomial(300, truth), 300, rng.binomial(300, 1 - truth), 300, 0.0, 0.8)
        for _ in range(400)
    ]
    above = np.mean(np.array(bounds) > 1)
    assert above <= 0.2 + 3 * math.sqrt(0.2 * 0.8 / 400)
    assert np.mean(bounds) > 0.6


class TestSelection:
    """Ten scores: for the neighbour, the first falls by Δ and the others rise by Δ, the worst case for Gumbel-max."""

    sensitivity, scale, runs = 1.0, 2.0, 2000
    scores = np.array([2.0] + [0.0] * 9)
    neighbour = scores + np.array([-1.0] + [1.0] * 9)
    claim = 2 * sensitivity / scale

    def selected(self, scores: np.ndarray, scale: float, label: str) -> np.ndarray:
        bits = Bits(child_key(KEY, label))
        return np.array([exponential(bits, scores, scale) for _ in range(self.runs)])

    def bound(self, scale: float) -> float:
        outcomes = (self.selected(scores, scale, str(i)) for i, scores in enumerate((self.scores, self.neighbour)))
        return audit(*outcomes, delta=0.0, confidence=0.99)

    def test_the_right_scale_stays_below_the_claim_and_half_of_it_does_not(self) -> None:
        assert 0.4 * self.claim < self.bound(self.scale) <= self.claim
        assert self.bound(self.scale / 2) > self.claim

    def test_scales_that_differ_by_coordinate_break_the_claim(self) -> None:
        """Scales in proportion to each sensitivity (Fassy El Fehri et al., A.2.2) spend more ε than 2Δ/β."""
        rng = np.random.default_rng(5)
        sensitivities = np.array([0.5, 0.01])
        scales = 2.0 * sensitivities / self.claim  # for each coordinate alone the claim would hold
        scores = np.array([1.5, 0.0])

        def selected(scores: np.ndarray, scales: np.ndarray | float) -> np.ndarray:
            return (scores + rng.gumbel(size=(100_000, 2)) * scales).argmax(axis=1)

        neighbour = scores - sensitivities * [1, -1]
        assert audit(selected(neighbour, scales), selected(scores, scales), 0.0, 0.999) > 1.3 * self.claim
        one_scale = scales.max()
        assert audit(selected(neighbour, one_scale), selected(scores, one_scale), 0.0, 0.999) <= self.claim


class TestGaussian:
    def test_the_right_noise_stays_below_the_claim_and_half_of_it_does_not(self) -> None:
        delta = 1e-3
        claim = epsilon(Cost(30**2 / (2 * 20**2), ReplaceOne), delta)

        def bound(variance: int) -> float:
            noise = [discrete_gaussian(Bits(child_key(KEY, label)), variance, 100_000) for label in "ab"]
            return audit(noise[0] + 30, noise[1], delta, 0.999)

        assert 0.3 * claim < bound(20**2) <= claim
        assert bound(8**2) > claim

    def test_no_noise_is_caught_at_once(self) -> None:
        assert audit(np.full(2000, 1.0), np.full(2000, 0.0), 1e-5) > 5
        assert audit(np.zeros(2000), np.zeros(2000), 1e-5) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((5, 4, 0, 4, 0.0), "hits is 5 of 4 trials"),
        ((0, 0, 0, 4, 0.0), "hits is 0 of 0 trials"),
        ((0, 4, -1, 4, 0.0), "false_hits is -1 of 4"),
        ((0, 4, 0, 4, 1.0), "delta is 1.0"),
        ((0, 4, 0, 4, math.nan), "delta is nan"),
        ((0, 4, 0, 4, 0.0, 1.0), "confidence is 1.0"),
    ],
)
def test_refusals(arguments: tuple, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        epsilon_lower_bound(*arguments)
