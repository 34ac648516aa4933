"""Effects in networks with labels: the g-formula against truncated factorisation, coverage, and simulation."""

from itertools import product
from math import prod

import numpy as np
import pytest

from fedbnsl.algorithms.effects import interventions
from fedbnsl.algorithms.effects.identification import optimal_adjustment_set
from fedbnsl.algorithms.effects.interventions import discrete_effect, joint_table, mixed_effect
from fedbnsl.algorithms.parameters.mixed_network import Linear, Logistic, MixedNetwork, Tabular
from fedbnsl.algorithms.parameters.networks import DiscreteNetwork
from fedbnsl.algorithms.statistics.coding import Coding


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
    return DiscreteNetwork(names, levels, parents, tables)


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
    network = DiscreteNetwork(
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


def test_a_table_that_is_too_large_is_refused(monkeypatch):
    monkeypatch.setattr(interventions, "MAX_JOINT_CELLS", 4)
    with pytest.raises(ValueError, match="cells would be needed, more than 4"):
        joint_table(random_network(0), random_network(0).variables)


def mixed():
    """Z → x, z → y, x → y, y → s; x has labels, y is a number, s a label with a logistic regression."""
    names, levels = ("s", "y", "x", "z"), {"s": ("no", "yes"), "x": ("a", "b", "c")}
    coding = Coding(names, (1, 1, 2, 1), (True, False, True, False))
    return MixedNetwork(
        coding,
        levels,
        ((1,), (2, 3), (3,), ()),
        (
            Logistic(np.array([0.0, -1.0]), np.array([[0.0], [0.5]])),
            Linear(1.0, np.array([2.0, -1.0, 3.0]), 1.0),
            Logistic(np.zeros(3), np.array([[0.0], [1.0], [-1.0]])),
            Linear(0.0, np.empty(0), 4.0),
        ),
    )


def test_mixed_effects_by_simulation_remove_confounding():
    found = mixed_effect(mixed(), "x", "y", ("a", "b"), direct=False)[""]
    assert found.value == pytest.approx(2.0, abs=1e-9)  # the same rows otherwise, so no simulation error is left
    assert found.interval is None
    slope = mixed_effect(mixed(), "z", "y", (0.0, 1.0), direct=True)[""]
    assert slope.value == pytest.approx(3.0, abs=1e-9)
    total = mixed_effect(mixed(), "z", "y", (0.0, 1.0), direct=False)[""]
    weight = np.exp([0.0, 1.0, -1.0]) / np.exp([0.0, 1.0, -1.0]).sum()
    expected = 3.0 + weight @ [0, 2, -1] - np.mean([0, 2, -1])
    assert total.value == pytest.approx(expected, abs=5 * total.standard_error)
    labels = mixed_effect(mixed(), "x", "s", ("a", "b"), direct=False)
    assert sum(one.value for one in labels.values()) == pytest.approx(0.0, abs=1e-12)
    assert labels["yes"].value > 0.1


def test_a_tabular_treatment_can_be_fixed():
    coding = Coding(("x", "y"), (1, 1), (True, False))
    network = MixedNetwork(
        coding, {"x": ("a", "b")}, ((), (0,)), (Tabular(np.array([0.5, 0.5])), Linear(0.0, np.array([1.5]), 1.0))
    )
    assert mixed_effect(network, "x", "y", ("b", "a"), direct=False)[""].value == pytest.approx(-1.5)
