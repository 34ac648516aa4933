import math
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import dp_accounting
import mpmath
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms import errors
from fedbnsl.algorithms.core import promise, schema
from fedbnsl.algorithms.core.promise import AddRemove, Cost, ReplaceOne, no_cost
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.privacy.zcdp import (
    budget,
    closed_form_rho,
    delta_for,
    distributed_gaussian_cost,
    epsilon,
    gaussian_sigma,
    rho_for,
)

DELTA = 4e-8
# methods.md §2: ε, ρ of the Canonne-Kamath-Steinke conversion, ρ of the papers' closed form, at δ = 4e-8.
TABLE = [
    (0.5, "0.00506", "0.00362"),
    (1, "0.01889", "0.01426"),
    (2, "0.06975", "0.05549"),
    (5, "0.3779", "0.3213"),
    (10, "1.2921", "1.1496"),
    (25, "5.940", "5.551"),
    (50, "17.18", "16.49"),
]
epsilons = st.floats(1e-3, 200)
deltas = st.floats(-34.5, -0.1).map(math.exp)
rhos = st.floats(-40, 7).map(math.exp)


def as_printed(value: float, like: str) -> str:
    return f"{value:.{len(like.split('.')[1])}f}"


@pytest.mark.parametrize(("target", "rho", "closed"), TABLE)
def test_the_table_of_the_specification(target: float, rho: str, closed: str) -> None:
    assert as_printed(rho_for(target, DELTA), rho) == rho
    assert as_printed(closed_form_rho(target, DELTA), closed) == closed


class TestConversion:
    @settings(max_examples=20, deadline=None)
    @given(rhos, deltas)
    @example(17.0, 1e-15)
    @example(1e-12, 1e-15)
    def test_it_is_the_infimum_and_not_below_it(self, rho: float, delta: float) -> None:
        found = epsilon(Cost(rho, ReplaceOne), delta)
        with mpmath.workdps(40):
            r, length = mpmath.mpf(rho), -mpmath.log(mpmath.mpf(delta))

            def at(u: mpmath.mpf) -> mpmath.mpf:
                return (1 + u) * r + (length - mpmath.log1p(u)) / u - mpmath.log1p(1 / u)

            # A search for the minimum of a function with one local minimum, in 40 digits.
            low, high = -mpmath.log(r) / 2 - 50, -mpmath.log(r) / 2 + 50
            for _ in range(17):
                points = mpmath.linspace(low, high, 9)
                best = min(range(9), key=lambda i: at(mpmath.exp(points[i])))
                low, high = points[max(best - 1, 0)], points[min(best + 1, 8)]
            least = max(mpmath.mpf(0), at(mpmath.exp((low + high) / 2)))
            assert found >= least * (1 - mpmath.mpf(10) ** -20)
            assert found <= least + 1e-12 * (1 + least)

    @settings(max_examples=25, deadline=None)
    @given(epsilons, deltas)
    @example(50.0, 1e-15)
    @example(1e-200, 0.5)
    @example(1e300, 1e-15)
    def test_the_inverse_is_rounded_down_and_no_more(self, target: float, delta: float) -> None:
        rho = rho_for(target, delta)
        assert epsilon(Cost(rho, ReplaceOne), delta) <= target
        assert epsilon(Cost(rho * (1 + 1e-12) + 1e-300, ReplaceOne), delta) >= target * (1 - 1e-12)
        assert rho >= closed_form_rho(target, delta)

    @settings(max_examples=50, deadline=None)
    @given(rhos, deltas, st.floats(1.01, 100))
    def test_more_cost_or_less_delta_is_more_epsilon(self, rho: float, delta: float, factor: float) -> None:
        here = epsilon(Cost(rho, ReplaceOne), delta)
        assert epsilon(Cost(rho * factor, ReplaceOne), delta) >= here
        assert epsilon(Cost(rho, ReplaceOne), delta / factor) >= here

    def test_nothing_costs_nothing_and_no_guarantee_is_no_epsilon(self) -> None:
        assert epsilon(no_cost(ReplaceOne), DELTA) == 0
        assert epsilon(Cost(math.inf, ReplaceOne), DELTA) == math.inf

    @pytest.mark.parametrize("delta", [1e-15, 4e-8, 1e-3])
    @pytest.mark.parametrize("rho", [1e-4, 0.0189, 1.0, 17.2, 60.0])
    def test_against_dp_accounting(self, rho: float, delta: float) -> None:
        """Above the exact value for the Gaussian, and at most, but close to, the zCDP result of Google's accountant."""
        ours = epsilon(Cost(rho, ReplaceOne), delta)
        exact = dp_accounting.get_epsilon_gaussian(1 / math.sqrt(2 * rho), delta)
        accountant = RdpAccountant(1 + np.geomspace(1e-3, 1e6, 4000), dp_accounting.NeighboringRelation.REPLACE_ONE)
        theirs = accountant.compose(dp_accounting.ZCDpEvent(rho)).get_epsilon(delta)
        assert exact < ours
        assert theirs * (1 - 1e-3) <= ours <= theirs * (1 + 1e-9)

    @pytest.mark.parametrize("target", [1e-3, 0.5, 5.0, 50.0, 500.0])
    @pytest.mark.parametrize("delta", [1e-30, 1e-15, 4e-8, 0.1])
    def test_the_analytic_gaussian_is_enough_and_only_just(self, target: float, delta: float) -> None:
        sigma = gaussian_sigma(3.0, target, delta) / 3

        def delta_of(sigma: float) -> mpmath.mpf:
            s, e = mpmath.mpf(sigma), mpmath.mpf(target)
            return mpmath.ncdf(1 / (2 * s) - e * s) - mpmath.exp(e) * mpmath.ncdf(-1 / (2 * s) - e * s)

        with mpmath.workdps(60):
            assert delta_of(sigma) <= delta < delta_of(sigma * (1 - 1e-8))
        assert sigma < 1 / math.sqrt(2 * rho_for(target, delta))


class TestCosts:
    @settings(max_examples=50, deadline=None)
    @given(st.lists(st.floats(0, 1e3), min_size=1, max_size=20), st.integers(0, 1000))
    def test_sums_are_not_below_the_exact_ones(self, rhos: list[float], times: int) -> None:
        total = no_cost(AddRemove)
        for rho in rhos:
            total += Cost(rho, AddRemove)
        exact = sum(map(Fraction, rhos))
        assert exact <= Fraction(total.rho) <= exact * (1 + Fraction(len(rhos), 2**51))
        assert Fraction((total * times).rho) >= Fraction(total.rho) * times

    @settings(max_examples=25, deadline=None)
    @given(rhos, st.floats(0, 1), st.integers(1, 300))
    def test_portions_add_up_to_no_more_than_the_whole(self, rho: float, share: float, releases: int) -> None:
        whole = Cost(rho, ReplaceOne)
        one, other = whole.portion(share, releases), whole.portion(1 - share, releases)
        spent = no_cost(ReplaceOne)
        for _ in range(releases):
            spent = spent + one + other
        assert spent <= whole
        assert spent.rho >= rho * (1 - 1e-10)

    def test_costs_of_other_neighbours_do_not_mix(self) -> None:
        mine, other = Cost(0.1, ReplaceOne), Cost(0.1, AddRemove)
        for mixed in (lambda: mine + other, lambda: mine < other, lambda: mine >= other):
            with pytest.raises(TypeError, match="costs of different adjacencies cannot be combined"):
                mixed()
        assert mine != other

    @pytest.mark.slow
    def test_mypy_refuses_to_mix_them(self, tmp_path: Path) -> None:
        """Only a copy of these modules is checked, because mypy takes a minute for the whole package."""
        package = tmp_path / "copied"
        (package / "core").mkdir(parents=True)
        for module in (errors, promise, schema):
            path = package.joinpath(*module.__name__.split(".")[2:]).with_suffix(".py")
            path.write_text(Path(module.__file__).read_text())
        program = """
from copied.core.promise import AddRemove, Cost, ReplaceOne
Cost(1.0, ReplaceOne) + Cost(1.0, ReplaceOne)
Cost(1.0, ReplaceOne) + Cost(1.0, AddRemove)
"""
        (tmp_path / "program.py").write_text(program)
        checked = subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir=.", "program.py"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        refused = [line for line in checked.stdout.splitlines() if "error" in line and "program.py" in line]
        assert len(refused) == 1, checked.stdout
        assert refused[0].startswith("program.py:4")


def renyi(alpha: float, log_p: np.ndarray, log_q: np.ndarray) -> float:
    """The Rényi divergence of order α > 1."""
    exponents = alpha * log_p + (1 - alpha) * log_q
    return float((np.log(np.sum(np.exp(exponents - exponents.max()))) + exponents.max()) / (alpha - 1))


ORDERS = (1.0001, 1.5, 2, 4, 16, 64, 1000)


def selection_rho(sensitivity: float, scale: float) -> float:
    """Δ²/(2β²), the price of one selection with Gumbel noise of scale β (Fassy El Fehri et al., Theorem A.4)."""
    return sensitivity**2 / (2 * scale**2)


class TestSelection:
    @settings(max_examples=50, deadline=None)
    @given(st.integers(0, 10_000), st.floats(0.01, 20))
    def test_it_is_true_of_scores_that_move_any_way(self, seed: int, sensitivity: float) -> None:
        rng = np.random.default_rng(seed)
        scores = rng.normal(size=6) * rng.choice([0.1, 1, 10])
        moved = scores + sensitivity * rng.choice([-1, 1, rng.uniform(-1, 1)], 6)
        log_p, log_q = (s / 2.0 - np.logaddexp.reduce(s / 2.0) for s in (scores, moved))
        cost = selection_rho(sensitivity, 2.0)
        assert all(renyi(alpha, log_p, log_q) <= alpha * cost * (1 + 1e-9) + 1e-12 for alpha in ORDERS)

    def test_what_monotone_scores_cost_is_too_little_here(self) -> None:
        """Δ²/(8β²) holds if all scores move in the same direction; two scores that move apart refute it."""
        log_p, log_q = (s - np.logaddexp.reduce(s) for s in (np.array([0.05, -0.05]), np.array([-0.05, 0.05])))
        cost = selection_rho(0.1, 1.0)
        assert 0.99 * cost < renyi(1.0001, log_p, log_q) / 1.0001 < cost


def law_of_sum(variance: float, shares: int) -> np.ndarray:
    x = np.arange(-40, 41)
    one = np.exp(-(x**2) / (2 * variance))
    one /= one.sum()
    law = one
    for _ in range(shares - 1):
        law = np.convolve(law, one)
    return law


class TestDistributedGaussian:
    @pytest.mark.parametrize("variance", [0.25, 0.3, 0.5, 1.0, 2.0])
    @pytest.mark.parametrize("shares", [1, 2, 3, 8])
    def test_it_covers_the_exact_law_of_the_sum(self, variance: float, shares: int) -> None:
        law = law_of_sum(variance, shares)
        with np.errstate(divide="ignore"):
            log_p, log_q = np.log(law[1:]), np.log(law[:-1])
        kept = np.minimum(log_p, log_q) > -150
        cost = distributed_gaussian_cost(1, variance, shares, 1, ReplaceOne).rho
        worst = max(renyi(alpha, log_p[kept], log_q[kept]) / alpha for alpha in ORDERS[:5])
        assert worst <= cost * (1 + 1e-9)
        if shares > 1 and variance < 0.5:  # taking the sum for a discrete Gaussian is refuted
            assert worst > 1.01 / (2 * shares * variance)

    @settings(max_examples=50, deadline=None)
    @given(st.floats(0.25, 50), st.integers(1, 100), st.integers(1, 10_000))
    def test_less_noise_fewer_shares_or_more_coordinates_cost_no_less(self, s2: float, m: int, d: int) -> None:
        cost = distributed_gaussian_cost(3, s2, m, d, ReplaceOne)
        assert cost.rho >= 9 / (2 * m * s2) * (1 - 1e-12)
        assert distributed_gaussian_cost(3, s2, m, d + 1, ReplaceOne) >= cost
        assert distributed_gaussian_cost(3, s2 / 2 + 0.125, m, d, ReplaceOne).rho >= cost.rho * (1 - 1e-12)
        if s2 > 4:  # the sum is then as good as a discrete Gaussian
            assert distributed_gaussian_cost(3, s2, m, d, ReplaceOne).rho <= 9 / (2 * m * s2) * (1 + 1e-9)


class TestRefusals:
    @pytest.mark.parametrize("target", [0, -1, math.nan, math.inf])
    def test_epsilon(self, target: float) -> None:
        for function in (rho_for, closed_form_rho):
            with pytest.raises(BadInput, match=f"epsilon is {target}: it must be above 0"):
                function(target, DELTA)
        with pytest.raises(BadInput, match="epsilon"):
            gaussian_sigma(1, target, DELTA)
        with pytest.raises(BadInput, match="epsilon"):
            budget(target, DELTA, ReplaceOne)

    @pytest.mark.parametrize("delta", [0, 1, -0.1, 1.5, math.nan, math.inf])
    def test_delta(self, delta: float) -> None:
        for function in (rho_for, closed_form_rho):
            with pytest.raises(BadInput, match=f"delta is {delta}: it must be between 0 and 1"):
                function(1, delta)
        with pytest.raises(BadInput, match="delta"):
            epsilon(Cost(1, ReplaceOne), delta)

    @pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf])
    def test_scales(self, bad: float) -> None:
        with pytest.raises(BadInput, match=f"variance of a noise share is {float(bad)}"):
            distributed_gaussian_cost(1, bad, 2, 1, ReplaceOne)
        with pytest.raises(BadInput, match="noise shares is 0"):
            distributed_gaussian_cost(1, 1, 0, 1, ReplaceOne)

    @pytest.mark.parametrize("rho", [-1e-9, math.nan])
    def test_costs(self, rho: float) -> None:
        with pytest.raises(BadInput, match=f"rho is {rho}"):
            Cost(rho, ReplaceOne)


def test_the_default_delta_protects_the_smallest_silo():
    sizes = schema.Schema(("a", "b"), {"large": 1000, "small": 20, "middle": 300})
    assert delta_for(0.0, sizes) == 1 / 20**2
    assert delta_for(0.01, sizes) == 0.01
    with pytest.raises(BadInput, match=r"below 1/n = 0\.05, n the rows of silo small"):
        delta_for(0.05, sizes)
    with pytest.raises(BadInput, match="silo single has 1 row"):
        delta_for(0.0, schema.Schema(("a", "b"), {"large": 1000, "single": 1}))
