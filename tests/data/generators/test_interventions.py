"""Rows of experiments: an intervention changes its targets and no other mechanism."""

import numpy as np
import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.generators.interventions import interventions


def regression(data, silo, child):
    """The weights of a child's causes in one silo, relative to the true ones, and its noise's standard deviation."""
    X = data.tables[silo] - data.tables[silo].mean(axis=0)
    parents = np.flatnonzero(data.truth.weights[:, child])
    found = np.linalg.lstsq(X[:, parents], X[:, child])[0]
    return found / data.truth.weights[parents, child], (X[:, child] - X[:, parents] @ found).std()


@pytest.mark.parametrize(
    ("experiment", "weight", "noise"), [("randomised", 0.0, None), ("soft", -0.5, 2.0), ("inhibiting", 0.3, 1.0)]
)
def test_an_experiment_changes_the_mechanisms_of_its_targets_only(experiment, weight, noise):
    data = interventions(8, 5, 30_000, 5, experiment, targeted_silos=3, edges=12, strength=0.3)
    names, changed = data.schema.variables, 0
    for child in np.flatnonzero(data.truth.weights.any(axis=0)):
        usual, deviation = regression(data, "silo-5", child)
        np.testing.assert_allclose(usual, 1.0, atol=0.06)
        for silo in ("silo-1", "silo-2", "silo-3", "silo-4"):
            target = names[child] in data.schema.targets.get(silo, ((),))[0]
            changed += target
            found, own = regression(data, silo, child)
            np.testing.assert_allclose(found, weight if target else 1.0, atol=0.12)
            assert own == pytest.approx(
                2.0 if target and noise is None else deviation * (noise if target else 1), rel=0.05
            )
    assert changed >= 3
    assert sorted(data.schema.targets) == ["silo-1", "silo-2", "silo-3"]


def test_silos_differ_in_rows_and_offsets_and_a_seed_gives_the_same_again():
    data, again = (interventions(6, 4, 500, 1, "soft", targeted_silos=2) for _ in range(2))
    assert len(set(data.schema.rows.values())) == 4
    assert np.std([table.mean(axis=0) for table in data.tables.values()]) > 1
    assert data.schema == again.schema
    for silo, table in data.tables.items():
        np.testing.assert_array_equal(table, again.tables[silo])
    more = interventions(6, 5, 500, 1, "soft", targeted_silos=2)
    np.testing.assert_array_equal(more.tables["silo-2"], data.tables["silo-2"])


def test_a_silo_without_targets_is_needed():
    with pytest.raises(BadInput, match="targeted_silos: 3 of 3 silos: at least one must set no variable"):
        interventions(6, 3, 100, 0, "soft", targeted_silos=3)
