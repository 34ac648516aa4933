"""The problems that the server and the silos solve in NOTEARS-MLP-ADMM, against their formulas."""

import numpy as np
from scipy.optimize import approx_fprime, minimize

from fedbnsl.algorithms.admm.problem import Pull
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.mlp.admm import MlpModel
from fedbnsl.algorithms.mlp.network import MlpSettings, WeightLayout, acyclicity, squared_loss

SETTINGS = MlpSettings(units=2, l2=0.05)
MODEL = MlpModel(SETTINGS, steps=5000)
LAYOUT = WeightLayout(3, 2)


def test_the_servers_step_is_the_minimum_over_all_first_layer_weights() -> None:
    """The minimum found over the norms alone equals the minimum of a search over every weight."""
    target = 2 * LAYOUT.start(seed=3)
    curvature, alpha, rho1 = np.full(LAYOUT.m, 1.5), 0.4, 2.0
    theta, h = MODEL.nearest(target, target, curvature, alpha, rho1, 500)

    def objective(flat: np.ndarray) -> float:
        value = acyclicity(LAYOUT, flat.reshape(target.shape))[0]
        return 0.75 * np.sum((flat - target.ravel()) ** 2) + alpha * value + 0.5 * rho1 * value**2

    found = minimize(objective, target.ravel(), method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(theta, found.x.reshape(target.shape), atol=1e-3)
    assert h == acyclicity(LAYOUT, theta)[0] or abs(h - acyclicity(LAYOUT, theta)[0]) < 1e-9
    np.testing.assert_array_equal(theta[LAYOUT.first :], target[LAYOUT.first :])


def test_a_silo_ends_where_its_loss_and_the_pull_are_in_balance() -> None:
    rng = np.random.default_rng(4)
    table = rng.normal(size=(30, 3))
    schema = Schema(("a", "b", "c"), {"one": 30, "two": 50})
    shape = (LAYOUT.m, 3)
    pull = Pull(
        rng.normal(0, 0.1, shape),
        np.full(LAYOUT.m, 0.5),
        np.zeros(LAYOUT.m),
        MODEL.possible(np.ones((3, 3), bool)),
        np.zeros(shape),
    )
    theta = MODEL.problem(table, schema, "one").solve(pull)

    def objective(flat: np.ndarray) -> float:
        A, _, c, _ = LAYOUT.split(flat.reshape(shape))
        loss = squared_loss(LAYOUT, flat.reshape(shape), table, rows=40)[0]
        ridge = 0.5 * SETTINGS.l2 * (np.sum(A**2) + np.sum(c**2))
        return loss + ridge + float(pull.linear.ravel() @ flat) + 0.25 * float(flat @ flat)

    slope = approx_fprime(theta.ravel(), objective, 1e-7).reshape(shape)
    assert np.abs(slope[pull.allowed]).max() < 1e-3
    assert not theta[~pull.allowed].any()
