"""The silo's lasso: PGCD, the closed form and Frank-Wolfe against plain solvers of the same problem."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms.admm.frank_wolfe import frank_wolfe
from fedbnsl.algorithms.admm.notears_admm import closed_form
from fedbnsl.algorithms.admm.orders import forward
from fedbnsl.algorithms.admm.pgcd import pgcd
from fedbnsl.algorithms.admm.problem import Lasso


def problem(seed: int, d: int = 6, l1: float = 0.1, ordered: bool = False, start: bool = False) -> Lasso:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(50, d)) @ rng.normal(size=(d, d)) * rng.uniform(0.3, 3, d)
    place = rng.permutation(d) if ordered else np.empty(0, dtype=np.int64)
    allowed = forward(place, d)
    return Lasso(
        S=X.T @ X / len(X),
        linear=0.3 * rng.normal(size=(d, d)),
        r=rng.uniform(0.2, 2, d),
        l1=l1 * rng.uniform(0.5, 2, d),
        allowed=allowed,
        start=np.where(allowed, rng.normal(size=(d, d)), 0.0) if start else np.zeros((d, d)),
    )


def value(p: Lasso, B: np.ndarray) -> float:
    gap = np.eye(len(B)) - B
    return float(
        0.5 * np.trace(gap.T @ p.S @ gap)
        + (p.linear * B).sum()
        + 0.5 * (p.r[:, None] * B**2).sum()
        + (p.l1[:, None] * np.abs(B)).sum()
    )


def proximal_gradient(p: Lasso, steps: int = 20_000) -> np.ndarray:
    """A simple solver of the same lasso: one step size for all entries, and no greedy choice."""
    B = np.zeros_like(p.S)
    size = 1 / (np.linalg.eigvalsh(p.S)[-1] + p.r.max())
    for _ in range(steps):
        G = p.S @ B - p.S + p.linear + p.r[:, None] * B
        moved, before = B - size * G, B
        B = np.where(p.allowed, np.sign(moved) * np.maximum(np.abs(moved) - size * p.l1[:, None], 0), 0.0)
        if np.abs(B - before).max() < 1e-13:
            break
    return B


@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize("part", ["S", "linear", "r", "l1", "start"])
def test_a_problem_with_a_number_that_is_not_finite_is_refused(part, number):
    numbers = getattr(problem(1), part).copy()
    numbers.flat[-1] = number
    with pytest.raises(FloatingPointError, match="moments of the rows" if part == "S" else "terms of the coordinator"):
        replace(problem(1), **{part: numbers})


def test_a_descent_whose_numbers_overflow_ends():
    with np.errstate(all="ignore"):
        huge = replace(problem(1, start=True), S=np.full((6, 6), 1e308), start=np.full((6, 6), 1e10))
        assert pgcd(huge, 1.0, 1e-3, 1000).shape == (6, 6)


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 1000), st.booleans(), st.booleans(), st.sampled_from([0.5, 1.0]))
def test_pgcd_solves_the_lasso(seed: int, ordered: bool, start: bool, gamma: float) -> None:
    p = problem(seed, ordered=ordered, start=start)
    B = pgcd(p, gamma, 1e-10, 1_000_000)
    np.testing.assert_allclose(B, proximal_gradient(p), atol=1e-6)
    assert not B[~p.allowed].any()


def test_pgcd_takes_the_largest_score_first() -> None:
    """From zero, a single step changes the entry with the largest guaranteed decrease (Fassy El Fehri et al., Eq.

    8).
    """
    p = problem(3, l1=0.4)
    M = np.diag(p.S) + p.r
    G = -p.S + p.linear
    step = np.sign(-G) * np.maximum(np.abs(G) - p.l1[:, None], 0) / M[:, None]
    scores = np.where(p.allowed, np.sqrt(M)[:, None] * np.abs(step), -1)
    best = np.unravel_index(np.argmax(scores), scores.shape)
    B = pgcd(p, 1.0, 0.0, 1)
    assert np.count_nonzero(B) == 1
    assert B[best] == pytest.approx(step[best])


def test_curvature_goes_by_the_row() -> None:
    """The second derivative along B_ij is S_ii + r_i, not S_jj as in Fassy El Fehri et al., Eq. 14."""
    p = problem(1, l1=0.0)
    rng = np.random.default_rng(0)
    for i, j in [(0, 3), (4, 1), (2, 5)]:
        B = rng.normal(size=p.S.shape)
        bump = np.zeros_like(B)
        bump[i, j] = 1e-3
        second = (value(p, B + bump) - 2 * value(p, B) + value(p, B - bump)) / 1e-6
        assert second == pytest.approx(p.S[i, i] + p.r[i], rel=1e-4)


def test_the_column_rule_would_diverge() -> None:
    """A planted defect: with the column's curvature, the same descent moves away from the solution."""
    p = problem(8, l1=0.01)

    def descend(M: np.ndarray) -> float:
        B = np.zeros_like(p.S)
        for _ in range(400):
            G = p.S @ B - p.S + p.linear + p.r[:, None] * B
            moved = B - G / M
            step = np.where(p.allowed, np.sign(moved) * np.maximum(np.abs(moved) - p.l1[:, None] / M, 0) - B, 0)
            i, j = np.unravel_index(np.argmax(np.sqrt(M) * np.abs(step)), B.shape)
            B[i, j] += step[i, j]
        return value(p, B)

    d = len(p.S)
    by_row = np.broadcast_to((np.diag(p.S) + p.r)[:, None], (d, d))
    best = value(p, proximal_gradient(p))
    assert descend(by_row) == pytest.approx(best, rel=1e-3)
    with np.errstate(over="ignore", invalid="ignore"):
        assert not descend(by_row.T) < best + 1.0


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 1000), st.booleans())
def test_the_closed_form_is_the_lasso_without_the_l1_term(seed: int, ordered: bool) -> None:
    p = problem(seed, l1=0.0, ordered=ordered)
    np.testing.assert_allclose(closed_form(p, loops=False), pgcd(p, 1.0, 1e-11, 1_000_000), atol=1e-6)


def test_the_papers_closed_form_keeps_the_diagonal() -> None:
    p = problem(2, l1=0.0)
    B = closed_form(p, loops=True)
    np.testing.assert_allclose((p.S + np.diag(p.r)) @ B, p.S - p.linear, atol=1e-8)
    assert np.diag(B).all()


def test_frank_wolfe_stays_in_the_ball_and_comes_down() -> None:
    p = problem(4, l1=0.0)
    radius = 2.0
    B = frank_wolfe(p, radius, 2000)
    assert np.abs(B).sum() <= radius * (1 + 1e-9)
    assert not np.diag(B).any()
    values = [value(p, frank_wolfe(p, radius, steps)) for steps in (1, 10, 100, 2000)]
    assert values == sorted(values, reverse=True)


def test_frank_wolfe_reaches_the_constrained_minimum() -> None:
    """Projected gradient gives the minimum over the ball; Frank-Wolfe comes within its O(1/k) bound of it."""
    p = problem(5, d=4, l1=0.0)
    radius = 1.0
    B = np.zeros_like(p.S)
    size = 1 / (np.linalg.eigvalsh(p.S)[-1] + p.r.max())
    for _ in range(5000):
        moved = np.where(p.allowed, B - size * (p.S @ B - p.S + p.linear + p.r[:, None] * B), 0.0).ravel()
        if np.abs(moved).sum() > radius:
            sizes = np.sort(np.abs(moved))[::-1]
            excess = (np.cumsum(sizes) - radius) / np.arange(1, len(sizes) + 1)
            cut = excess[np.flatnonzero(sizes > excess)[-1]]
            moved = np.sign(moved) * np.maximum(np.abs(moved) - cut, 0)
        B = moved.reshape(B.shape)
    assert value(p, frank_wolfe(p, radius, 20_000)) <= value(p, B) + 0.02
