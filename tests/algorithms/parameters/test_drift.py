import numpy as np
import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters.drift import drift_of
from fedbnsl.algorithms.parameters.networks import Network, linear_network


def gaussian(weights, intercepts, variances, names="abc"):
    weights = np.array(weights, float)
    return linear_network(Structure(tuple(names), weights), np.array(intercepts, float), np.array(variances, float))


def moments(network):
    mixing = np.linalg.inv(np.eye(len(network.variances)) - network.structure.weights)
    return network.intercepts @ mixing, mixing.T @ np.diag(network.variances) @ mixing


def divergence(after, before):
    """The textbook formula of two multivariate normal distributions."""
    (m1, s1), (m0, s0) = moments(after), moments(before)
    inverse, d = np.linalg.inv(s0), m1 - m0
    logs = np.linalg.slogdet(s0)[1] - np.linalg.slogdet(s1)[1]
    return 0.5 * (np.trace(inverse @ s1) + d @ inverse @ d - len(m1) + logs)


BEFORE = gaussian([[0, 1, 0.5], [0, 0, -2], [0, 0, 0]], [0, 1, 2], [1, 2, 0.5])
OTHERS = [
    gaussian([[0, 1.5, 0], [0, 0, -2], [0, 0, 0]], [0.5, 1, 2], [1, 1, 0.5]),
    gaussian([[0, 0, 0], [1, 0, 0], [0.3, -0.4, 0]], [1, 0, 2], [2, 1, 3]),
]


@pytest.mark.parametrize("after", OTHERS, ids=["same way", "turned"])
def test_the_drift_of_gaussian_networks_is_the_divergence_of_their_joint_distributions(after):
    found = drift_of(BEFORE, after)
    assert found.total == pytest.approx(divergence(after, BEFORE))
    assert list(found.by_variable) == ["a", "b", "c"]


def test_nothing_has_drifted_where_nothing_has_changed():
    assert drift_of(BEFORE, BEFORE).total == pytest.approx(0.0, abs=1e-12)


def test_the_order_of_the_variables_makes_no_difference():
    backwards = np.ix_([2, 1, 0], [2, 1, 0])
    after = gaussian(
        OTHERS[0].structure.weights[backwards], OTHERS[0].intercepts[::-1], OTHERS[0].variances[::-1], "cba"
    )
    assert drift_of(BEFORE, after).by_variable == pytest.approx(drift_of(BEFORE, OTHERS[0]).by_variable)


def test_only_the_variable_whose_regression_changed_has_drifted():
    after = gaussian([[0, 1, 0.5], [0, 0, -2], [0, 0, 0]], [0, 1, 5], [1, 2, 0.5])
    found = drift_of(BEFORE, after).by_variable
    assert found["a"] == found["b"] == pytest.approx(0.0, abs=1e-12)
    assert found["c"] == pytest.approx(0.5 * 3**2 / 0.5)


def test_an_edge_turned_within_its_class_adds_nothing():
    there = gaussian([[0, 0.5], [0, 0]], [0, 0], [1, 0.75], "ab")
    back = gaussian([[0, 0], [0.5, 0]], [0, 0], [0.75, 1], "ab")
    assert drift_of(there, back).total == pytest.approx(0.0, abs=1e-12)


def discrete(first, second, names=("a", "b"), levels=("no", "yes")):
    a, b = names
    tables = {a: np.array(first, float), b: np.array(second, float)}
    return Network((a, b), {a: levels, b: levels}, {a: (), b: (a,)}, tables)


def test_the_drift_of_discrete_networks_is_their_divergence_whatever_the_order_of_levels():
    before, after = discrete([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]]), discrete([0.3, 0.7], [[0.8, 0.2], [0.2, 0.8]])
    joint = lambda one: one.tables["a"][:, None] * one.tables["b"]  # noqa: E731
    exact = float((joint(after) * np.log(joint(after) / joint(before))).sum())
    assert drift_of(before, after).total == pytest.approx(exact, abs=0.01)
    turned_round = discrete([0.7, 0.3], [[0.8, 0.2], [0.2, 0.8]], levels=("yes", "no"))
    assert drift_of(after, turned_round).total == pytest.approx(0.0, abs=1e-12)


def test_drawn_rows_have_the_probabilities_of_the_network():
    rows, _ = discrete([0.3, 0.7], [[0.8, 0.2], [0.1, 0.9]]).sample(40_000, np.random.default_rng(1))
    assert rows[:, 0].mean() == pytest.approx(0.7, abs=0.01)
    assert rows[rows[:, 0] == 0, 1].mean() == pytest.approx(0.2, abs=0.01)
    assert rows[rows[:, 0] == 1, 1].mean() == pytest.approx(0.9, abs=0.01)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (BEFORE, gaussian([[0, 1], [0, 0]], [0, 0], [1, 1], "ab"), "the variables are not the same"),
        (
            discrete([1, 0], [[1, 0], [0, 1]]),
            discrete([1, 0], [[1, 0], [0, 1]], levels=("n", "y")),
            "the levels of a differ",
        ),
        (BEFORE, discrete([1, 0], [[1, 0], [0, 1]]), "two linear Gaussian networks or two discrete"),
    ],
    ids=["variables", "levels", "kinds"],
)
def test_networks_that_cannot_be_compared_say_why(before, after, said):
    with pytest.raises(BadInput, match=said):
        drift_of(before, after)
