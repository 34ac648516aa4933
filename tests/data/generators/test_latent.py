"""Hidden variables: which are hidden, the remaining data, and the true PAG."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.graphs.dag import d_separated
from fedbnsl.algorithms.graphs.pag import ARROW, CIRCLE
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.data.federated import FederatedData, continuous
from fedbnsl.data.folder.folder import read_folder, write_folder
from fedbnsl.data.generators.discrete import discrete
from fedbnsl.data.generators.hidden_variables import choose_hidden, hide
from fedbnsl.data.generators.random_graphs import random_dag
from fedbnsl.data.networks.published import network
from fedbnsl.data.networks.surrogate import surrogate


def of_edges(variables, *edges):
    dag = np.zeros((variables, variables))
    for source, target in edges:
        dag[source, target] = 1
    return dag


def data_of(dag):
    names = tuple(f"v{number}" for number in range(len(dag)))
    tables = {"a": np.arange(3.0 * len(dag)).reshape(3, -1)}
    return FederatedData(continuous(tables, names), tables, Structure(names, dag))


def test_a_hidden_common_cause_leaves_an_arrow_both_ways():
    """a → x ← L → y ← b: with L hidden, x and y each have their own cause, and neither causes the other."""
    data = data_of(of_edges(5, (0, 1), (2, 1), (2, 3), (4, 3)))
    seen = hide(data, 1, np.random.default_rng(0))
    assert seen.schema.variables == ("v0", "v1", "v3", "v4")
    assert seen.about["latent"] == ["v2"]
    assert seen.tables["a"].tolist() == data.tables["a"][:, [0, 1, 3, 4]].tolist()
    marks = seen.truth.weights
    assert (marks[1, 2], marks[2, 1]) == (ARROW, ARROW)
    assert (marks[0, 1], marks[1, 0]) == (ARROW, CIRCLE)
    assert (marks[0, 2], marks[0, 3], marks[1, 3]) == (0, 0, 0)


@given(st.integers(3, 9), st.integers(0, 20), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_common_causes_go_first_and_sinks_last(variables, edges, seed):
    rng = np.random.default_rng(seed)
    dag = random_dag(variables, min(edges, variables * (variables - 1) // 2), rng)
    children = dag.sum(axis=1)
    for latent in range(1, variables - 1):
        gone = choose_hidden(dag, latent, rng)
        assert len(set(gone)) == latent
        assert gone == sorted(gone)
        stay = [v for v in range(variables) if v not in gone]
        assert min(children[gone].clip(max=2)) >= max(children[stay].clip(max=2))


def test_any_common_cause_may_be_hidden_first_whatever_the_number_of_its_children():
    """v0 has four children, v1 two and v2 one; the others are sinks."""
    dag = of_edges(8, (0, 3), (0, 4), (0, 5), (0, 6), (1, 6), (1, 7), (2, 7)) != 0
    chosen = [[tuple(choose_hidden(dag, n, np.random.default_rng(seed))) for seed in range(100)] for n in (1, 2, 4)]
    assert set(chosen[0]) == {(0,), (1,)}
    assert 30 <= chosen[0].count((0,)) <= 70
    assert set(chosen[1]) == {(0, 1)}
    assert set(chosen[2]) == {(0, 1, 2, sink) for sink in range(3, 8)}


@given(st.integers(3, 7), st.integers(2, 15), st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_two_variables_are_joined_if_nothing_observed_separates_them(variables, edges, seed):
    from itertools import chain, combinations

    rng = np.random.default_rng(seed)
    dag = random_dag(variables, min(edges, variables * (variables - 1) // 2), rng)
    seen = hide(data_of(dag.astype(float)), 1, rng)
    kept = [int(name[1:]) for name in seen.schema.variables]
    for one, other in combinations(range(len(kept)), 2):
        rest = [v for v in kept if v not in (kept[one], kept[other])]
        sets = chain.from_iterable(combinations(rest, size) for size in range(len(rest) + 1))
        separated = any(d_separated(dag, kept[one], kept[other], given) for given in sets)
        assert bool(seen.truth.adjacency[one, other]) is not separated


@pytest.mark.parametrize("make", ["discrete", "surrogate", "network", "gaussian"])
def test_every_kind_of_data_can_have_hidden_variables(tmp_path, make):
    data = {
        "discrete": lambda: discrete(10, 2, 30, seed=1, latent=2),
        "surrogate": lambda: surrogate(2, 60, seed=1, parents=2, variables=10, latent=2),
        "network": lambda: network("alarm", 2, 30, seed=1, latent=2),
        "gaussian": lambda: network("ecoli70", 2, 30, seed=1, latent=2),
    }[make]()
    whole = {"discrete": 10, "surrogate": 10, "network": 37, "gaussian": 46}[make]
    assert len(data.schema.variables) == whole - 2
    assert not set(data.about["latent"]) & set(data.schema.variables)
    assert data.truth.kind == "pag"
    assert set(data.schema.levels) == (set() if make == "gaussian" else set(data.schema.variables))
    write_folder(tmp_path / "set", data)
    back = read_folder(tmp_path / "set")
    assert np.array_equal(back.truth.weights, data.truth.weights)
    assert back.schema == data.schema
    assert compare(back.truth, data.truth)["shd"] == 0


def test_the_rows_are_those_of_the_whole_data():
    whole, seen = discrete(10, 2, 30, seed=1), discrete(10, 2, 30, seed=1, latent=3)
    at = [whole.schema.variables.index(name) for name in seen.schema.variables]
    assert all(np.array_equal(seen.tables[silo], whole.tables[silo][:, at]) for silo in whole.tables)
    split = surrogate(2, 60, seed=1, parents=3, variables=10, latent=3)
    assert set(split.about["surrogate_parents"]) <= set(split.schema.variables), "the parents are visible (Def. 1)"


@pytest.mark.parametrize("latent", [-1, 4])
def test_two_variables_must_stay(latent):
    with pytest.raises(BadInput, match=rf"latent: {latent} is not between 0 and 3: 2 variables must stay"):
        discrete(5, 2, 10, seed=0, latent=latent)
    assert len(discrete(5, 2, 10, seed=0, latent=3).schema.variables) == 2
