import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import binom, norm

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.privacy import tight
from fedbnsl.algorithms.privacy.tight import Composition, tight_delta, tight_epsilon
from fedbnsl.algorithms.privacy.zcdp import epsilon

Array = NDArray[np.float64]


def probability(t: Array | float, eta: float) -> Array | float:
    """P_t, the probability of loss t; t − η has the rest."""
    return np.expm1(np.asarray(t) - eta) / np.expm1(-eta)


def gaussian_delta(target: Array | float, mu: float) -> Array | float:
    return ndtr(mu / 2 - target / mu) - np.exp(target) * ndtr(-mu / 2 - target / mu)


def best_of_one_selection(y: Array | float, eta: float) -> Array | float:
    """V_1(y): for y ≥ 0 only loss t counts, and p_t·(1 − e^{y−t}) is greatest half-way between y and η."""
    y = np.asarray(y, float)
    t = (np.abs(y) + eta) / 2
    one_sided = np.where(np.abs(y) < eta, probability(t, eta) * -np.expm1(np.abs(y) - t), 0.0)
    return np.where(y >= 0, one_sided, -np.expm1(y) + np.exp(y) * one_sided)


def a_strategy(selections: int, eta: float, cells: int) -> tuple[Array, Array]:
    """The exact V_k of an adversary who chooses adaptively among t = 0, h, 2h, …, a lower bound of the worst case."""
    step = eta / cells
    t = step * np.arange(cells + 1)
    p = probability(t, eta)
    y = step * np.arange(-2 * selections * cells, 2 * selections * cells + 1)
    V = np.maximum(0, -np.expm1(y))
    for _ in range(selections):
        y = y[cells:-cells]
        n = len(y)
        V = np.max(
            [
                p[j] * V[cells - j : cells - j + n] + (1 - p[j]) * V[2 * cells - j : 2 * cells - j + n]
                for j in range(cells + 1)
            ],
            axis=0,
        )
    return y, V


class TestNeverBelowTheTruth:
    @pytest.mark.parametrize("eta", [0.01, 0.5, 2.0, 6.0])
    def test_one_selection_in_closed_form(self, eta: float) -> None:
        for target in np.linspace(0, eta, 37):
            exact = float(best_of_one_selection(target, eta))
            assert exact <= tight_delta(target, Composition(1, eta, 0)) <= exact * 1.001 + 1e-5 * eta

    @pytest.mark.parametrize(("selections", "eta"), [(2, 1.0), (5, 0.3), (5, 2.0), (40, 0.25)])
    def test_an_adaptive_strategy_attains_nearly_as_much(self, selections: int, eta: float) -> None:
        y, V = a_strategy(selections, eta, 64)
        for i in np.flatnonzero((y >= 0) & (V > 1e-12))[::40]:
            assert V[i] <= tight_delta(y[i], Composition(selections, eta, 0)) <= 1.005 * V[i - 2]

    @pytest.mark.parametrize(("selections", "eta"), [(3, 1.0), (20, 0.4), (200, 0.08)])
    def test_any_offset_kept_throughout_is_covered(self, selections: int, eta: float) -> None:
        """The exact δ of the same two-outcome mechanism k times: the non-adaptive composition of Dong et al."""
        count = np.arange(selections + 1)
        for target in np.linspace(0, 3 * math.sqrt(selections) * eta / 2, 7):
            bound = tight_delta(target, Composition(selections, eta, 0))
            for t in np.linspace(0, eta, 21):
                loss = count * t + (selections - count) * (t - eta)
                weights = binom.pmf(count, selections, probability(t, eta))
                assert np.sum(weights * np.maximum(0, -np.expm1(target - loss))) <= bound

    @settings(max_examples=25, deadline=None)
    @given(st.integers(0, 10_000), st.floats(0.2, 3), st.floats(0.1, 1))
    def test_real_exponential_mechanisms_chosen_adaptively(self, seed: int, eta: float, mu: float) -> None:
        """Three selections among three, whose scores depend on all earlier outcomes, and a Gaussian release."""
        rng = np.random.default_rng(seed)
        paths = [(1.0, 0.0)]
        for _ in range(3):
            grown = []
            for weight, loss in paths:
                scores, moved = rng.normal(size=3) * 2, rng.choice([-eta / 2, eta / 2], 3)
                p, q = (np.exp(s - np.logaddexp.reduce(s)) for s in (scores, scores + moved))
                grown += [(weight * a, loss + math.log(a / b)) for a, b in zip(p, q, strict=True)]
            paths = grown
        weights, losses = np.array(paths).T
        for target in (0.0, 0.5, 1.0, 2.0, 4.0):
            exact = np.sum(weights * gaussian_delta(target - losses, mu))
            assert exact <= tight_delta(target, Composition(3, eta, mu))

    @pytest.mark.parametrize(("eta", "mu"), [(1.0, 1.0), (2.0, 0.5), (0.5, 2.0)])
    def test_a_selection_chosen_in_view_of_the_gaussian_is_covered(self, eta: float, mu: float) -> None:
        """Placing the Gaussian last, as if no selection depended on it, would underestimate the loss."""
        target = 1.5

        def after(z: float) -> float:
            return float(norm.pdf(z, mu**2 / 2, mu) * best_of_one_selection(target - z, eta))

        truth = quad(after, -12 * mu, 12 * mu, limit=400, epsabs=1e-13)[0]
        assert truth <= tight_delta(target, Composition(1, eta, mu)) <= truth * 1.001
        t = np.linspace(0, eta, 2001)
        p = probability(t, eta)
        gaussian_last = np.max(p * gaussian_delta(target - t, mu) + (1 - p) * gaussian_delta(target - t + eta, mu))
        assert gaussian_last < truth * 0.9999

    def test_a_grid_that_ends_early_errs_upwards(self, monkeypatch: pytest.MonkeyPatch) -> None:
        composition = Composition(20, 0.4, 0.5)
        whole = [tight_delta(e, composition) for e in np.linspace(0, 6, 30)]
        tight._worst_of_selections.cache_clear()
        monkeypatch.setattr(tight, "MIN_DELTA", 0.1)
        cut = [tight_delta(e, composition) for e in np.linspace(0, 6, 30)]
        tight._worst_of_selections.cache_clear()
        assert np.all(np.array(cut) >= whole)
        assert cut[-1] > 2 * whole[-1]

    @pytest.mark.parametrize(("sigma", "shift"), [(2.0, 1), (3.0, 2), (20.0, 9)])
    def test_a_discrete_gaussian_with_what_its_lattice_adds(self, sigma: float, shift: int) -> None:
        x = np.arange(-40 * int(sigma), 40 * int(sigma))
        law, other = (np.exp(-((x - at) ** 2) / (2 * sigma**2)) for at in (0, shift))
        law, other = law / law.sum(), other / other.sum()
        mu, targets = shift / sigma, np.linspace(0, 3, 60)
        exact = np.array([np.maximum(0, law - math.exp(e) * other).sum() for e in targets])
        plain = [tight_delta(e, Composition(0, 0, mu)) for e in targets]
        covered = [tight_delta(e, Composition(0, 0, mu, lattice=2 * shift / sigma**2)) for e in targets]
        assert np.all(exact <= covered)
        assert not np.all(exact <= plain)


class TestAgainstOthers:
    @pytest.mark.parametrize("mu", [0.05, 0.5, 3.0])
    @pytest.mark.parametrize("delta", [1e-15, 4e-8, 1e-2])
    def test_a_gaussian_alone_is_the_analytic_gaussian(self, mu: float, delta: float) -> None:
        exact = dp_accounting.get_epsilon_gaussian(1 / mu, delta)
        assert exact * (1 - 1e-9) <= tight_epsilon(delta, Composition(0, 0, mu)) <= exact * (1 + 1e-5) + 1e-9

    @pytest.mark.parametrize(("selections", "eta", "within"), [(10, 0.4, 2.1), (100, 0.1, 1.05)])
    def test_dp_accounting_with_randomized_response_for_the_selections(
        self, selections: int, eta: float, within: float
    ) -> None:
        """Losses ±η/2 are η-bounded-range: the worst case for many selections, and an upper bound for few."""
        mu, step = 0.7, 1e-3
        lie = 2 / (1 + math.exp(eta / 2))

        def composed(pessimistic: bool) -> pld.PrivacyLossDistribution:
            settings = {"value_discretization_interval": step, "pessimistic_estimate": pessimistic}
            response = pld.from_randomized_response(lie, 2, **settings)
            gaussian = pld.from_gaussian_mechanism(1 / mu, **settings)
            return response.self_compose(selections).compose(gaussian)

        low, high = composed(False), composed(True)
        for target in (0.5, 1.0, 2.0, 4.0):
            bound = tight_delta(target, Composition(selections, eta, mu))
            assert low.get_delta_for_epsilon(target) <= bound <= within * high.get_delta_for_epsilon(target)

    @pytest.mark.parametrize("selections", [100, 400, 2000])
    @pytest.mark.parametrize("rho", [0.0189, 0.3779, 1.2921])
    def test_it_saves_a_twentieth_of_what_zcdp_says(self, selections: int, rho: float) -> None:
        composition = Composition(selections, math.sqrt(8 * 0.8 * rho / selections), math.sqrt(2 * 0.2 * rho))
        assert composition.cost.rho == pytest.approx(rho)
        for delta in (4e-8, 1e-15):
            loose = epsilon(composition.cost, delta)
            assert tight_delta(loose, composition) < delta
            assert 0.9 * loose < tight_epsilon(delta, composition) < 0.975 * loose


class TestMonotone:
    @pytest.mark.parametrize("base", [Composition(1, 1.0, 0.5), Composition(31, 0.2, 0.3), Composition(300, 0.05, 1.0)])
    def test_more_of_anything_is_more(self, base: Composition) -> None:
        k, eta, mu = base.selections, base.bounded_range, base.gaussian
        here = np.array([tight_delta(e, base) for e in (0.0, 0.3, 1.0, 3.0)])
        assert np.all(np.diff(here) < 0)
        for more in (Composition(k + 1, eta, mu), Composition(k, eta * 1.1, mu), Composition(k, eta, mu * 1.1)):
            assert np.all(np.array([tight_delta(e, more) for e in (0.0, 0.3, 1.0, 3.0)]) >= here)
        epsilons = [tight_epsilon(delta, base) for delta in (1e-15, 1e-12, 1e-8, 1e-4)]
        assert np.all(np.diff(epsilons) < 0)

    @given(st.floats(0.0, 20), st.floats(1e-15, 0.5))
    @settings(max_examples=30, deadline=None)
    def test_epsilon_and_delta_are_inverse(self, mu: float, delta: float) -> None:
        composition = Composition(10, 0.3, mu)
        found = tight_epsilon(delta, composition)
        assert tight_delta(found, composition) <= delta
        assert found == 0 or tight_delta(found * (1 - 1e-5), composition) > delta

    def test_nothing_released_is_nothing_lost(self) -> None:
        assert tight_delta(0, Composition(0, 0, 0)) < 1e-13
        assert tight_epsilon(1e-9, Composition(0, 0, 0)) == 0
        assert tight_delta(2.0, Composition(2, 1.0, 0)) < 1e-13


class TestRefusals:
    @pytest.mark.parametrize("bad", [-0.1, math.nan, math.inf, 101.0])
    def test_losses(self, bad: float) -> None:
        for name in ("bounded_range", "gaussian", "lattice"):
            with pytest.raises(BadInput, match=f"{name} is {bad}"):
                Composition(**({"selections": 1, "bounded_range": 1.0, "gaussian": 1.0} | {name: bad}))

    @pytest.mark.parametrize("count", [-1, 20_001])
    def test_numbers_of_selections(self, count: int) -> None:
        with pytest.raises(BadInput, match=f"selections is {count}: it must be from 0 to 20000"):
            Composition(count, 0.1, 0.1)

    @pytest.mark.parametrize("delta", [0.0, 1.0, math.nan])
    def test_deltas(self, delta: float) -> None:
        with pytest.raises(BadInput, match="delta"):
            tight_epsilon(delta, Composition(1, 0.1, 0.1))
