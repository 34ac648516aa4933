import numpy as np
import pytest
from scipy.optimize import minimize

from fedbnsl.algorithms.admm.acyclicity import acyclicity, consensus_step, soft_threshold


def plain_solution(
    target: np.ndarray, curvature: np.ndarray, alpha: float, rho1: float, l1: float
) -> tuple[float, np.ndarray]:
    """The same problem with W split into positive and negative parts and every entry free."""
    d = len(target)
    off = ~np.eye(d, dtype=bool)
    c = np.broadcast_to(curvature[:, None], (d, d))[off]

    def value(z: np.ndarray) -> tuple[float, np.ndarray]:
        W = np.zeros((d, d))
        W[off] = z[: len(c)] - z[len(c) :]
        h, gradient = acyclicity(W)
        slack = (W - target)[off]
        smooth = c * slack + (alpha + rho1 * h) * gradient[off]
        total = 0.5 * (c * slack**2).sum() + alpha * h + 0.5 * rho1 * h * h + l1 * z.sum()
        return total, np.concatenate([smooth + l1, -smooth + l1])

    best = min(
        (
            minimize(
                value,
                start,
                jac=True,
                method="L-BFGS-B",
                bounds=[(0, None)] * (2 * len(c)),
                options={"maxiter": 5000, "ftol": 1e-14},
            )
            for start in (
                np.zeros(2 * len(c)),
                np.concatenate([np.maximum(target, 0)[off], np.maximum(-target, 0)[off]]),
            )
        ),
        key=lambda found: found.fun,
    )
    W = np.zeros((d, d))
    W[off] = best.x[: len(c)] - best.x[len(c) :]
    return best.fun, W


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("l1", [0.0, 0.3])
def test_it_finds_what_the_split_problem_finds(seed: int, l1: float) -> None:
    rng = np.random.default_rng(seed)
    d = 5
    target = rng.normal(size=(d, d)) * (rng.random((d, d)) < 0.6)
    np.fill_diagonal(target, 0)
    curvature = rng.uniform(1, 4, d)
    alpha, rho1 = 0.5, 0.5
    shrunk = soft_threshold(target, (l1 / curvature)[:, None])
    W, h = consensus_step(shrunk, shrunk, curvature, alpha, rho1, 5000)
    assert h == pytest.approx(acyclicity(W)[0], abs=1e-12)
    reached = (
        0.5 * (curvature[:, None] * (W - target) ** 2).sum() + alpha * h + 0.5 * rho1 * h * h + l1 * np.abs(W).sum()
    )
    plain, _ = plain_solution(target, curvature, alpha, rho1, l1)
    assert reached <= plain + 1e-5 * abs(plain)


def test_an_entry_lies_between_zero_and_its_target() -> None:
    rng = np.random.default_rng(3)
    target = rng.normal(size=(6, 6))
    np.fill_diagonal(target, 0)
    W, _ = consensus_step(target, np.zeros((6, 6)), np.ones(6), 1.0, 10.0, 500)
    assert (W * target >= 0).all()
    assert (np.abs(W) <= np.abs(target)).all()


def test_zeros_of_the_target_stay_zero_and_acyclic_parts_are_untouched() -> None:
    target = np.zeros((5, 5))
    target[0, 1], target[1, 2], target[3, 4], target[4, 3] = 1.5, -0.7, 1.0, 0.4
    W, h = consensus_step(target, np.zeros((5, 5)), np.ones(5), 5.0, 5.0, 500)
    assert (W[target == 0] == 0).all()
    assert W[0, 1] == 1.5
    assert W[1, 2] == -0.7
    assert abs(W[4, 3]) < 0.4
    assert h > 0


def test_a_target_without_cycles_is_the_answer() -> None:
    target = np.triu(np.ones((4, 4)), 1)
    W, h = consensus_step(target, np.zeros((4, 4)), np.ones(4), 1.0, 1.0, 5)
    np.testing.assert_array_equal(W, target)
    assert h == 0


@pytest.mark.parametrize(("rho1", "excess"), [(1.0, 2e-4), (100.0, 1e-5), (1e4, 1e-6)])
def test_five_steps_follow_the_minimum_from_round_to_round(rho1: float, excess: float) -> None:
    """The penalty on h² couples all entries: without its part of the Hessian, a step overshoots and is cut short."""
    rng = np.random.default_rng(5)
    target = rng.normal(size=(12, 12)) * (rng.random((12, 12)) < 0.5)
    np.fill_diagonal(target, 0)
    before, h_before = consensus_step(target, np.zeros((12, 12)), np.ones(12), 1.0, rho1, 1000)
    target = target * rng.uniform(0.98, 1.02, target.shape)
    alpha, grown = 1.0 + rho1 * h_before, 1.3 * rho1

    def reached(iterations: int) -> float:
        W, h = consensus_step(target, before, np.ones(12), alpha, grown, iterations)
        return float(0.5 * ((W - target) ** 2).sum() + alpha * h + 0.5 * grown * h * h)

    assert reached(5) <= (1 + excess) * reached(1000)


def test_a_start_whose_exponential_overflows_is_shrunk() -> None:
    target = np.full((4, 4), 40.0)
    np.fill_diagonal(target, 0)
    with np.errstate(all="ignore"):
        W, h = consensus_step(target, target, np.ones(4), 1.0, 1.0, 500)
    assert np.isfinite(W).all()
    assert h == pytest.approx(acyclicity(W)[0])
    assert 0 < h < 1000
