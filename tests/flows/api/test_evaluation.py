"""`evaluate` and `learn(truth=...)`: graphs in the formats of other libraries give the same scores."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from fedbnsl import compare, evaluate, learn, load, prepare
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.structure import Structure

NAMES = ("a", "b", "c", "d")


def forms(tmp_path, edges):
    """The same graph as a file, a DataFrame, a networkx graph and a structure."""
    file = tmp_path / f"{len(edges)}.csv"
    file.write_text("source,target\n" + "".join(f"{x},{y}\n" for x, y in edges))
    frame = pd.DataFrame(0.0, list(NAMES), list(NAMES))
    for x, y in edges:
        frame.loc[x, y] = 1.0
    graph = nx.DiGraph(edges)
    graph.add_nodes_from(NAMES)
    return [file, frame, frame.loc[["d", "b", "a", "c"]], graph, Structure(NAMES, frame.to_numpy())]


def test_all_forms_give_the_same_scores(tmp_path):
    learned = forms(tmp_path, [("a", "b"), ("c", "b")])
    truth = forms(tmp_path, [("a", "b"), ("b", "c"), ("c", "d")])
    expected = evaluate(learned[-1], truth[-1])
    assert (expected["shd"], expected["reversed"], expected["missing"]) == (2, 1, 1)
    for one, other in zip(learned, truth, strict=True):
        assert evaluate(one, truth[-1]) == expected
        assert evaluate(learned[-1], other) == expected


def test_edges_in_both_directions_make_a_cpdag():
    graph = nx.Graph([("a", "b"), ("b", "c")])
    assert evaluate(graph, nx.DiGraph([("c", "b"), ("b", "a")]))["shd"] == 0
    assert evaluate(graph, nx.DiGraph([("a", "b"), ("c", "b")]))["shd"] == 2


def test_the_truth_of_a_call_is_compared_with():
    data = prepare("homogeneous", variables=5, silos=3, rows=300, seed=3)
    frames = {silo: pd.DataFrame(table, columns=data.schema.variables) for silo, table in data.tables.items()}
    names = list(data.schema.variables)
    truth = pd.DataFrame(data.truth.weights, names, names)
    shuffled = truth.sample(frac=1, random_state=1)
    found = learn(frames, "secure-linear", truth=shuffled, bootstrap=0)
    assert found.metrics["shd"] == learn(data, "secure-linear", bootstrap=0).metrics["shd"]
    assert evaluate(found, truth)["shd"] == found.metrics["shd"]
    wrong = pd.DataFrame(np.triu(np.ones((5, 5)), 1), names, names)
    assert learn(frames, "secure-linear", truth=wrong, bootstrap=0).metrics["missing"] > 0
    assert "shd" not in {name for name, value in learn(frames, "secure-linear", bootstrap=0).metrics.items() if value}


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        ([("a", "b")], "a graph is a list: give the result of learn, a CSV file of edges"),
        (pd.DataFrame([[0, 1]], ["a"], ["a", "b"]), "the same variables as index and as columns"),
        (pd.DataFrame([[0, "x"], [0, 0]], ["a", "b"], ["a", "b"]), "a graph cannot be read"),
        (pd.DataFrame([[0, np.nan], [0, 0]], ["a", "b"], ["a", "b"]), "a weight is not a number"),
        (pd.DataFrame([[1, 0], [0, 0]], ["a", "b"], ["a", "b"]), "a graph cannot be read"),
    ],
)
def test_other_forms_are_one_line(graph, said):
    with pytest.raises(BadInput, match=said):
        evaluate(graph, nx.DiGraph([("a", "b")]))


def test_a_truth_over_other_variables_is_refused():
    data = prepare("homogeneous", variables=3, silos=3, rows=50, seed=3)
    with pytest.raises(BadInput, match="has a variable that the data do not have: z"):
        learn(data, "secure-linear", truth=nx.DiGraph([("z", "x1")]))
    with pytest.raises(BadInput, match="truth is for the engine inline"):
        learn(".", "secure-linear", truth=nx.DiGraph([("z", "x1")]), engine="prefect")


def test_two_runs_are_compared_as_results_and_as_folders(tmp_path):
    data = prepare("homogeneous", variables=4, silos=2, rows=300, seed=4)
    before = learn(data, bootstrap=0)
    source, target = next(iter(before.graph.edges()))
    after = learn(data, bootstrap=0, forbidden_arcs=f"{source}->{target}")
    found = compare(before, after)
    assert found.structure.changed
    assert found.drift.total > 0
    assert str(found) == found.summary
    assert compare(before, before).metrics["edges_changed"] == 0
    folders = [one.save(tmp_path / name) for one, name in ((before, "before"), (after, "after"))]
    again = compare(*folders)
    assert again.metrics == pytest.approx(found.metrics)
    assert again.structure == compare(load(folders[0]), folders[1]).structure
    with pytest.raises(ValueError, match="no finished run"):
        compare(tmp_path / "nowhere", after)
