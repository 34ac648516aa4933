"""Effects in discrete networks: the g-formula against truncated factorisation, coverage, and simulation."""

from itertools import product
from math import prod

import numpy as np
import pytest

from fedbnsl.algorithms.effects.g_formula import direct_mixed_effect, discrete_effect, mixed_effect
from fedbnsl.algorithms.effects.identification import optimal_adjustment_set
from fedbnsl.algorithms.parameters.distributions import Linear, Logistic, Tabular
from fedbnsl.algorithms.parameters.inference import joint_table
from fedbnsl.algorithms.parameters.networks import Network
from tests.algorithms.parameters.networks import numbered


def random_network(seed, d=5, density=0.5):
    rng = np.random.default_rng(seed)
    names = tuple(f"v{i}" for i in rng.permutation(d))
    levels = {name: tuple("abc"[: rng.integers(2, 4)]) for name in names}
    order = [str(name) for name in rng.permutation(names)]
    parents = {name: tuple(u for u in order[:place] if rng.random() < density) for place, name in enumerate(order)}
    tables = {}
    for name in names:
        shape = [len(levels[one]) for one in (*parents[name], name)]
        tables[name] = rng.dirichlet(np.ones(shape[-1]), shape[:-1])
    return Network(names, levels, parents, tables)


def whole_table(network, fixed=None):
    """The joint of all variables by enumeration; `fixed` = (name, code) cuts the edges into it."""
    sizes = [len(network.levels[name]) for name in network.variables]
    assert prod(sizes) < 10_000
    table = np.zeros(sizes)
    for codes in product(*map(range, sizes)):
        state = dict(zip(network.variables, codes, strict=True))
        table[codes] = prod(
            float(state[name] == fixed[1])
            if fixed and name == fixed[0]
            else network.tables[name][tuple(state[one] for one in (*network.parents[name], name))]
            for name in network.variables
        )
    return table


@pytest.mark.parametrize("seed", range(6))
def test_joint_tables_are_sums_over_the_whole_table(seed):
    network = random_network(seed)
    chosen = [str(one) for one in np.random.default_rng(seed).permutation(network.variables)[:3]]
    axes = [network.variables.index(name) for name in chosen]
    others = tuple(v for v in range(len(network.variables)) if v not in axes)
    summed = whole_table(network).sum(axis=others)
    expected = summed.transpose(np.argsort(np.argsort(axes)))
    assert np.allclose(joint_table(network, chosen), expected, atol=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_the_g_formula_is_the_truncated_factorisation(seed):
    network = random_network(100 + seed)
    names, dag = network.variables, network.structure.adjacency
    for x, y in product(range(len(names)), repeat=2):
        if x == y:
            continue
        one = optimal_adjustment_set(dag, x, y)
        others = tuple(v for v in range(len(names)) if v != y)
        before, after = (whole_table(network, (names[x], code)).sum(axis=others) for code in (0, 1))
        if not one.causal:
            assert np.allclose(before, after)
            continue
        found = discrete_effect(network, names[x], names[y], [names[v] for v in one.covariates], ("a", "b"), 1000)
        assert np.allclose([effect.estimate.value for effect in found], after - before, atol=1e-12)


def test_the_interval_of_a_table_without_covariates_is_that_of_two_proportions():
    network = Network(
        ("x", "y"),
        {"x": ("0", "1"), "y": ("0", "1")},
        {"x": (), "y": ("x",)},
        {"x": np.array([0.25, 0.75]), "y": np.array([[0.5, 0.5], [0.2, 0.8]])},
    )
    _, one = discrete_effect(network, "x", "y", [], ("0", "1"), 400)
    assert one.estimate.value == pytest.approx(0.3)
    # The two groups have 100 and 300 rows.
    assert one.estimate.standard_error**2 == pytest.approx(0.5 * 0.5 / 100 + 0.8 * 0.2 / 300, rel=1e-9)
    assert one.overlap == pytest.approx(0.25)


def test_the_standard_error_is_the_spread_of_adjusted_estimates():
    network = random_network(7, d=3, density=1.0)
    order = sorted(network.variables, key=lambda name: len(network.parents[name]))
    z, x, y = order
    rng, n = np.random.default_rng(0), 2000
    error = discrete_effect(network, x, y, [z], ("a", "b"), n)[0].estimate.standard_error
    cells = joint_table(network, (x, z, y))
    found = []
    for _ in range(800):
        counts = rng.multinomial(n, cells.ravel()).reshape(cells.shape)
        given = counts[:2, :, 0] / counts[:2].sum(axis=2)
        found.append(counts.sum(axis=(0, 2)) / n @ (given[1] - given[0]))
    assert error == pytest.approx(np.std(found), rel=0.1)


def test_a_table_that_is_too_large_is_refused():
    with pytest.raises(ValueError, match="cells would be needed, more than 4"):
        joint_table(random_network(0), random_network(0).variables, max_cells=4)


def mixed():
    """Z → x, z → y, x → y, y → s; x has labels, y is a number, s a label with a logistic regression."""
    names, levels = ("s", "y", "x", "z"), {"s": ("no", "yes"), "x": ("a", "b", "c")}
    return numbered(
        names,
        levels,
        ((1,), (2, 3), (3,), ()),
        (
            Logistic(np.array([0.0, -1.0]), np.array([[0.0], [0.5]])),
            Linear(1.0, np.array([2.0, -1.0, 3.0]), 1.0),
            Logistic(np.zeros(3), np.array([[0.0], [1.0], [-1.0]])),
            Linear(0.0, np.empty(0), 4.0),
        ),
    )


def direct(network, x, y, values, rows=1000, n=20_000):
    table, _ = network.sample(n, np.random.default_rng(0))
    return direct_mixed_effect(network, x, y, values, table, rows)


def test_the_interval_of_a_linear_direct_effect_is_that_of_least_squares():
    network = mixed()
    table, _ = network.sample(4000, np.random.default_rng(3))
    design = np.column_stack([np.ones(4000), table[:, 2] == 1, table[:, 2] == 2, table[:, 3]])
    covariance = np.linalg.inv(design.T @ design)
    for x, values, gradient in (("z", (0.0, 2.0), [0, 0, 0, 2]), ("x", ("b", "c"), [0, -1, 1, 0])):
        found = direct_mixed_effect(network, x, "y", values, table, 4000)[""]
        expected = np.sqrt(np.array(gradient) @ covariance @ gradient)
        assert found.standard_error == pytest.approx(expected, rel=1e-9)
        assert found.interval == pytest.approx((found.value - 1.96 * expected, found.value + 1.96 * expected), abs=1e-4)


def logistic(intercepts, weights):
    """x, z → s, with s of three levels by a logistic regression of a label x and a number z."""
    return numbered(
        ("s", "x", "z"),
        {"s": ("no", "some", "much"), "x": ("a", "b")},
        ((1, 2), (), ()),
        (Logistic(intercepts, weights), Tabular(np.array([0.6, 0.4])), Linear(0.0, np.empty(0), 1.0)),
    )


def test_intervals_of_logistic_direct_effects_cover_the_truth():
    """MNLogit of statsmodels fits each of 120 data sets of 600 rows; its covariance gives the same standard errors."""
    discrete_model = pytest.importorskip("statsmodels.discrete.discrete_model")
    intercepts, weights = np.array([0.0, -0.4, 0.3]), np.array([[0.0, 0.0], [1.0, -0.6], [0.5, 0.8]])
    truth = logistic(intercepts, weights)
    wide = truth.sample(200_000, np.random.default_rng(9))[0]
    true = {level: one.value for level, one in direct_mixed_effect(truth, "x", "s", ("a", "b"), wide, 600).items()}
    covered = []
    for seed in range(120):
        table, _ = truth.sample(600, np.random.default_rng(seed))
        design = np.column_stack([np.ones(600), table[:, 1], table[:, 2]])
        fitted = discrete_model.MNLogit(table[:, 0].astype(int), design).fit(disp=0)
        params = np.column_stack([np.zeros(3), fitted.params]).T
        network = logistic(params[:, 0], params[:, 1:])
        found = direct_mixed_effect(network, "x", "s", ("a", "b"), table, 600)
        covered += [one.interval[0] <= true[level] <= one.interval[1] for level, one in found.items()]
    assert 0.92 <= np.mean(covered) <= 0.98


def test_intervals_of_tabular_direct_effects_are_those_of_proportions():
    shares = np.array([[0.7, 0.3], [0.4, 0.6]])
    network = numbered(
        ("x", "y"), {"x": ("a", "b"), "y": ("n", "m")}, ((), (0,)), (Tabular(np.array([0.8, 0.2])), Tabular(shares))
    )
    found = direct(network, "x", "y", ("a", "b"), rows=500, n=100_000)["m"]
    expected = np.sqrt(0.3 * 0.7 / 400 + 0.6 * 0.4 / 100)
    assert found.value == pytest.approx(0.3)
    assert found.standard_error == pytest.approx(expected, rel=0.02)
    assert direct(network, "x", "y", ("a", "b"), rows=4, n=100_000)["m"].interval is None


def test_mixed_effects_by_simulation_remove_confounding():
    found = mixed_effect(mixed(), "x", "y", ("a", "b"))[""]
    assert found.value == pytest.approx(2.0, abs=1e-9)  # all other rows are the same, so there is no simulation error
    assert found.interval is None
    slope = direct(mixed(), "z", "y", (0.0, 1.0))[""]
    assert slope.value == pytest.approx(3.0, abs=1e-9)
    total = mixed_effect(mixed(), "z", "y", (0.0, 1.0))[""]
    weight = np.exp([0.0, 1.0, -1.0]) / np.exp([0.0, 1.0, -1.0]).sum()
    expected = 3.0 + weight @ [0, 2, -1] - np.mean([0, 2, -1])
    assert total.value == pytest.approx(expected, abs=5 * total.standard_error)
    labels = mixed_effect(mixed(), "x", "s", ("a", "b"))
    assert sum(one.value for one in labels.values()) == pytest.approx(0.0, abs=1e-12)
    assert labels["yes"].value > 0.1


def test_a_tabular_treatment_can_be_fixed():
    network = numbered(
        ("x", "y"), {"x": ("a", "b")}, ((), (0,)), (Tabular(np.array([0.5, 0.5])), Linear(0.0, np.array([1.5]), 1.0))
    )
    assert mixed_effect(network, "x", "y", ("b", "a"))[""].value == pytest.approx(-1.5)
