"""Linear effects: pooled least squares with an intercept per silo, path products, and published sensitivities."""

import numpy as np
import pytest

from fedbnsl.algorithms.effects.linear import Estimate, WithinMoments, adjusted_effect, joint_effects, sensitivity
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters.networks import linear_network
from tests.algorithms.unequal import stacked, unequal

TABLES = unequal(dag=True)


def within(tables):
    centred = stacked({silo: table - table.mean(axis=0) for silo, table in tables.items()})
    return WithinMoments(centred.T @ centred / len(centred), len(centred), len(tables))


def least_squares(tables, y, regressors):
    """Coefficients, standard errors and degrees of freedom with an indicator for every silo."""
    rows = stacked(tables)
    offsets = np.repeat(np.eye(len(tables)), [len(table) for _, table in sorted(tables.items())], axis=0)
    design = np.hstack([rows[:, regressors], offsets])
    q, r = np.linalg.qr(design)
    b = np.linalg.solve(r, q.T @ rows[:, y])
    degrees = len(rows) - design.shape[1]
    residual = ((rows[:, y] - design @ b) ** 2).sum() / degrees
    inverse = np.linalg.inv(r)
    return b, np.sqrt(residual * (inverse**2).sum(axis=1)), degrees


@pytest.mark.parametrize(("x", "y", "covariates"), [(0, 4, ()), (1, 4, (0,)), (3, 4, (0, 1, 2)), (4, 0, (2,))])
def test_an_effect_is_pooled_least_squares_with_an_offset_per_silo(x, y, covariates):
    found = adjusted_effect(within(TABLES), x, y, covariates)
    b, errors, degrees = least_squares(TABLES, y, [x, *covariates])
    assert found.value == pytest.approx(b[0], rel=1e-8)
    assert found.standard_error == pytest.approx(errors[0], rel=1e-8)
    assert found.degrees == degrees


def test_the_interval_is_that_of_statsmodels():
    api = pytest.importorskip("statsmodels.api")
    rows = stacked(TABLES)
    offsets = np.repeat(np.eye(3), [40, 90, 310], axis=0)
    fitted = api.OLS(rows[:, 4], np.hstack([rows[:, [1, 0]], offsets])).fit()
    found = adjusted_effect(within(TABLES), 1, 4, (0,))
    assert found.interval == pytest.approx(tuple(fitted.conf_int()[0]), rel=1e-8)


def test_path_products_equal_adjustment_in_a_saturated_graph():
    """In a complete DAG, path products and adjustment use the same moments."""
    moments, dag = within(TABLES), np.triu(np.ones((5, 5), bool), 1)
    (one,) = joint_effects(moments, dag, [1], 4)
    alone = adjusted_effect(moments, 1, 4, (0,))
    assert one.value == pytest.approx(alone.value, rel=1e-9)
    assert one.standard_error == pytest.approx(alone.standard_error, rel=0.02)


def implied_moments(weights, variances, rows, silos):
    """The moments of a linear network without means."""
    structure = Structure(tuple("abcd"[: len(weights)]), weights)
    _, covariance = linear_network(structure, np.zeros(len(weights)), variances).joint_normal()
    return WithinMoments(covariance, rows, silos)


def test_jointly_set_variables_do_not_pass_effects_on():
    dag = np.zeros((3, 3), bool)
    dag[0, 1] = dag[1, 2] = True
    W = np.array([[0, 2.0, 0], [0, 0, 3.0], [0, 0, 0]])
    moments = implied_moments(W, np.ones(3), 1000, 1)
    first, second = joint_effects(moments, dag, [0, 1], 2)
    assert first == Estimate(0.0)
    assert second.value == pytest.approx(3.0)
    (alone,) = joint_effects(moments, dag, [0], 2)
    assert alone.value == pytest.approx(6.0)
    # Var(w01 w12) by the delta method: w12² Var(w01) + w01² Var(w12).
    assert alone.standard_error**2 == pytest.approx((9 * 1 / 998 + 4 * (1 / 5) / 998), rel=1e-9)


def test_the_effect_of_several_units_and_its_interval_scale():
    assert Estimate(2.0, (1.0, 3.0), 0.5, 10).scaled(-2) == Estimate(-4.0, (-6.0, -2.0), 1.0, 10)


def test_moments_that_a_model_implies_are_those_of_its_rows():
    rng = np.random.default_rng(0)
    W = np.triu(rng.normal(size=(4, 4)), 1)
    rows = (rng.normal(size=(200_000, 4)) * [1, 2, 1, 3]) @ np.linalg.inv(np.eye(4) - W)
    implied = implied_moments(W, np.array([1.0, 4, 1, 9]), 100, 2).covariance
    assert np.allclose(np.cov(rows.T), implied, rtol=0.05, atol=0.1)


def test_the_sensitivity_is_that_of_the_published_example():
    """Cinelli & Hazlett 2020, Table 1: t = 4.18, 783 degrees of freedom: 2.2 %, 13.9 % and 7.6 %."""
    found = sensitivity(Estimate(0.097, None, 0.097 / 4.18445, 783))
    assert [round(100 * one, 1) for one in vars(found).values()] == [2.2, 13.9, 7.6]
    assert sensitivity(Estimate(0.01, None, 0.1, 100)).robustness_interval == 0.0
    assert sensitivity(Estimate(0.0, None, 0.1, 100)).robustness == 0.0


def test_a_common_cause_as_strong_as_the_robustness_of_the_interval_just_makes_it_include_zero():
    """Cinelli & Hazlett 2020, §4: one that explains the share r of both residual variances takes se √(df r²/(1 - r)).

    It also takes one of 10 degrees of freedom, so the standard error grows by √(10/9); t of 9 degrees is 2.262157.
    """
    error = 1 / np.sqrt(10)
    r = sensitivity(Estimate(1.0, None, error, 10)).robustness_interval
    left = 1.0 - error * np.sqrt(10 * r**2 / (1 - r))
    assert left == pytest.approx(2.262157 * error * np.sqrt(10 / 9), rel=1e-6)


def test_an_interval_of_a_joint_effect_has_the_degrees_of_the_regression_with_most_regressors():
    """x → y → z ← w in 8 rows of one silo: 6 degrees for y, and 5 for z; t of 5 degrees is 2.570582."""
    W = np.zeros((4, 4))
    W[0, 1], W[1, 2], W[3, 2] = 2.0, 3.0, 1.0
    (found,) = joint_effects(implied_moments(W, np.ones(4), 8, 1), W != 0, [0], 2)
    assert (found.value, found.degrees) == (pytest.approx(6.0), 5)
    assert found.interval[1] - found.value == pytest.approx(2.570582 * found.standard_error, rel=1e-6)


def test_what_cannot_be_estimated_says_why():
    moments = within(TABLES)
    twice = WithinMoments(np.kron(np.ones((2, 2)), moments.covariance), moments.rows, 3)
    with pytest.raises(ValueError, match="linear combination"):
        adjusted_effect(twice, 0, 1, (5,))
    with pytest.raises(ValueError, match="5 rows in 3 silos are too few for 2 regressors"):
        adjusted_effect(WithinMoments(moments.covariance, 5, 3), 0, 1, (2,))
    with pytest.raises(ValueError, match="constant within the silos"):
        adjusted_effect(WithinMoments(np.zeros((2, 2)), 50, 3), 0, 1, ())
