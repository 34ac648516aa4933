"""Random mixed data: kinds, silos, means, and effects as in the model."""

import numpy as np
import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.generators.mixed import draw_rows, mixed, random_mixed_model


def test_half_of_the_columns_are_discrete_and_silos_differ_in_rows_and_means():
    data = mixed(21, 5, 1000, seed=3)
    assert data.schema.kind == "mixed"
    assert data.schema.discrete.sum() == 10
    assert list(data.schema.rows.values()) == [333, 667, 1000, 1333, 1667]
    assert data.truth.acyclic
    for table in data.tables.values():
        for j, name in enumerate(data.schema.variables):
            if name in data.schema.levels:
                assert set(np.unique(table[:, j])) <= set(range(len(data.schema.levels[name])))
    continuous = ~data.schema.discrete
    means = np.array([table[:, continuous].mean(axis=0) for table in data.tables.values()])
    within = np.concatenate([table - table.mean(axis=0) for table in data.tables.values()])[:, continuous].std(axis=0)
    assert 0.6 < float((means.std(axis=0) / within).mean()) < 1.2
    alike = mixed(21, 5, 1000, seed=3, site_means=0.0, unequal=False)
    assert set(alike.schema.rows.values()) == {1000}
    near = np.array([table[:, continuous].mean(axis=0) for table in alike.tables.values()])
    assert float((near.std(axis=0) / within).max()) < 0.15


def test_more_silos_leave_the_model_and_the_first_silo_as_they_were():
    few, many = (mixed(8, silos, 40, 7, unequal=False) for silos in (2, 4))
    np.testing.assert_array_equal(few.truth.weights, many.truth.weights)
    np.testing.assert_array_equal(few.tables["silo-1"], many.tables["silo-1"])
    assert not np.array_equal(few.truth.weights, mixed(8, 2, 40, 8).truth.weights)


@pytest.mark.parametrize("effects", ["additive", "slopes", "configurations"])
def test_a_child_depends_on_its_parents_as_its_mechanism_says(effects):
    """Numbers 0, 1 and a label 2 with three levels act on a number 3: least squares within each level finds them."""
    dag = np.zeros((4, 4), bool)
    dag[:3, 3] = True
    model = random_mixed_model(dag, np.array([0, 0, 3, 0]), effects, np.random.default_rng(1))
    rows = draw_rows(model, 60_000, np.random.default_rng(2))
    told = model.mechanisms[3]
    found = []
    for level in range(3):
        chosen = rows[rows[:, 2] == level]
        X = np.column_stack([np.ones(len(chosen)), (chosen[:, :2] - model.location[:2]) / model.scale[:2]])
        weights = np.linalg.lstsq(X, chosen[:, 3], rcond=None)[0]
        np.testing.assert_allclose(weights, [told.intercepts[level, 0], *told.slopes[level, :, 0]], atol=0.04)
        found.append(weights[1:])
    differ = float(np.ptp(found, axis=0).min())
    assert differ < 0.06 if effects == "additive" else differ > 0.1


@pytest.mark.parametrize("effects", ["additive", "slopes", "configurations"])
def test_logits_of_a_discrete_child_are_those_of_its_mechanism(effects):
    dag = np.zeros((2, 2), bool)
    dag[0, 1] = True
    model = random_mixed_model(dag, np.array([2, 3]), effects, np.random.default_rng(4))
    rows = draw_rows(model, 40_000, np.random.default_rng(5)).astype(int)
    for level in range(2):
        weights = np.exp(model.mechanisms[1].intercepts[level])
        shares = np.bincount(rows[rows[:, 0] == level, 1], minlength=3) / (rows[:, 0] == level).sum()
        np.testing.assert_allclose(shares, weights / weights.sum(), atol=0.02)


@pytest.mark.parametrize("effects", ["additive", "slopes", "configurations"])
def test_two_labels_add_up_unless_every_configuration_has_its_own_intercept(effects):
    dag = np.zeros((3, 3), bool)
    dag[:2, 2] = True
    model = random_mixed_model(dag, np.array([2, 3, 0]), effects, np.random.default_rng(6))
    grid = model.mechanisms[2].intercepts[:, 0].reshape(2, 3)
    interaction = grid - grid.mean(axis=0) - grid.mean(axis=1, keepdims=True) + grid.mean()
    assert (np.abs(interaction).max() > 0.1) == (effects == "configurations")


@pytest.mark.parametrize(
    ("asked", "word"),
    [({"levels": (1, 3)}, "levels"), ({"effects": "odd"}, "effects"), ({"site_means": -1.0}, "site_means")],
)
def test_what_cannot_be_drawn_is_refused_by_name(asked, word):
    with pytest.raises(BadInput, match=word):
        mixed(6, 2, 50, 0, **asked)
