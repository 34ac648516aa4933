import numpy as np

from fedbnsl.algorithms.graphs.changes import change_texts, structure_changes
from fedbnsl.algorithms.graphs.structure import Structure


def dag(names, edges, kind="dag", lagged=None):
    weights = np.zeros((len(names), len(names)))
    for source, target, weight in edges:
        weights[names.index(source), names.index(target)] = weight
    return Structure(tuple(names), weights, kind, lagged=lagged)


def test_edges_gained_lost_turned_and_kept_each_with_its_weights():
    before = dag("abcd", [("a", "b", 1.0), ("b", "c", 2.0), ("c", "d", -1.0)])
    after = dag("abcd", [("a", "b", 1.5), ("c", "b", 0.5), ("a", "d", 0.25)])
    found = structure_changes(before, after)
    by_text = {one.edge.text: (one.fate, one.before, one.after, one.weight_change) for one in found.edges}
    assert by_text == {
        "a → b": ("kept", 1.0, 1.5, 0.5),
        "c → b": ("turned", 2.0, 0.5, 1.5),
        "a → d": ("gained", None, 0.25, 0.25),
        "c → d": ("lost", -1.0, None, 1.0),
    }
    assert (found.count("gained"), found.count("lost", "turned"), len(found.changed)) == (1, 2, 3)
    assert change_texts(found.edges, "lost") == ["c → d"]


def test_the_order_of_the_variables_makes_no_difference():
    before = dag("abc", [("a", "b", 1.0), ("b", "c", 2.0)])
    after = dag("cba", [("a", "b", 1.0), ("b", "c", 2.0)])
    assert {one.fate for one in structure_changes(before, after).edges} == {"kept"}


def test_variables_of_only_one_run_are_named_and_their_edges_left_out():
    before = dag("abx", [("a", "b", 1.0), ("x", "a", 1.0)])
    after = dag("aby", [("a", "b", 1.0), ("y", "b", 1.0)])
    found = structure_changes(before, after)
    assert (found.added_variables, found.removed_variables) == (("y",), ("x",))
    assert [one.fate for one in found.edges] == ["kept"]


def test_an_edge_that_has_lost_its_direction_is_marked_otherwise():
    v_structure = [("a", "b", 1), ("c", "b", 1)]
    before = dag("abc", v_structure, "cpdag")
    after = dag("abc", [("a", "b", 1), ("b", "a", 1)], "cpdag")
    assert {one.edge.text: one.fate for one in structure_changes(before, after).edges} == {
        "a — b": "marked otherwise",
        "c → b": "lost",
    }


def test_edges_across_time_also_where_the_earlier_run_had_none():
    lagged = np.zeros((2, 2, 2))
    lagged[1, 0, 1] = 0.5
    after = dag("ab", [("a", "b", 1.0)], lagged=lagged)
    found = structure_changes(dag("ab", [("a", "b", 1.0)]), after)
    assert [(one.edge.text, one.fate, one.edge.lag) for one in found.edges] == [
        ("a → b", "kept", 0),
        ("a[t-2] → b", "gained", 2),
    ]
    back = structure_changes(after, dag("ab", [("a", "b", 1.0)], lagged=np.zeros((1, 2, 2))))
    assert [one.fate for one in back.edges] == ["kept", "lost"]
