"""Pairs of columns that no row has together: they are neither joined nor separated, and they are reported."""

import numpy as np
import pytest

from fedbnsl import learn
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.statistics.em import of_maximum_entropy
from fedbnsl.data.federated import FederatedData, with_gaps
from fedbnsl.data.generators.linear import homogeneous


def with_apart(seed, pair=(0, 3)):
    """Four silos; each lacks one column of the pair."""
    data = homogeneous(variables=6, silos=4, rows=800, seed=seed)
    tables = {silo: table.copy() for silo, table in data.tables.items()}
    for number, table in enumerate(tables.values()):
        table[:, pair[number % 2]] = np.nan
    return FederatedData(with_gaps(data.schema, tables), tables, data.truth)


def test_pairs_apart_become_independent_given_the_others():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(6, 20))
    S, apart = A @ A.T, np.zeros((6, 6), bool)
    for i, j in ((0, 3), (1, 4), (0, 5)):
        apart[i, j] = apart[j, i] = True
    out = of_maximum_entropy(S, apart)
    K = np.linalg.inv(out)
    K /= np.sqrt(np.outer(np.diag(K), np.diag(K)))
    assert np.abs(K[apart]).max() < 1e-5
    assert np.array_equal(out[~apart], S[~apart]) or np.allclose(out[~apart], S[~apart], rtol=1e-12)
    assert np.linalg.eigvalsh(out)[0] > 0


@pytest.mark.parametrize("secure", [False, True])
def test_they_are_not_joined_and_the_finding_names_them(secure):
    for seed in range(4):
        found = learn(with_apart(seed), parameters=False, secure=secure)
        graph = found.result.structure.adjacency
        assert not graph[0, 3]
        assert not graph[3, 0]
        said = {one.name: one.message for one in found.result.diagnosed.findings}["not identified"]
        assert said.startswith(
            f"{found.result.structure.variables[0]} and {found.result.structure.variables[3]}: no row has both"
        )


def test_with_one_row_that_has_both_they_are_identified():
    data = with_apart(1)
    silo = data.schema.silos[0]
    data.tables[silo][:100] = homogeneous(variables=6, silos=4, rows=800, seed=1).tables[silo][:100]
    data = FederatedData(with_gaps(data.schema, data.tables), data.tables, data.truth)
    assert "not identified" not in {one.name for one in learn(data, parameters=False).result.diagnosed.findings}


def test_a_required_arc_overrides_it():
    data = with_apart(2)
    names = data.schema.variables
    found = learn(data, parameters=False, required_arcs=f"{names[0]}->{names[3]}")
    assert found.result.structure.adjacency[0, 3]
    assert "not identified" not in {one.name for one in found.result.diagnosed.findings}


def test_columns_that_no_silo_has_together_are_known_before_the_run():
    schema = Schema(("a", "b", "c"), {"s": 5, "t": 7}, empty={"s": (5, 0, 0), "t": (0, 7, 1)})
    assert schema.columns_apart.tolist() == [[False, True, False], [True, False, False], [False, False, False]]
    assert not Schema(("a", "b"), {"s": 5}).columns_apart.any()
