"""The search with a perfect test finds the true class; with data, batches and column order do not change the graph."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedbnsl.algorithms.constraint.orientation import FCI, PC
from fedbnsl.algorithms.constraint.search import Results, create_plan, run, separating_sets
from fedbnsl.algorithms.constraint.settings import ConstraintSettings
from fedbnsl.algorithms.constraint.table_tests import chi_square
from fedbnsl.algorithms.core.knowledge import no_prior
from fedbnsl.algorithms.graphs.cpdag import cpdag
from fedbnsl.algorithms.graphs.dag import d_separated
from fedbnsl.algorithms.graphs.pag import pag_of
from fedbnsl.algorithms.statistics.count_tables import count, tables_for
from tests.algorithms.constraint.oracle import oracle

REFERENCES = Path(__file__).parents[2] / "references"
ORIENTATIONS = ("sepset", "conservative", "clear", "majority")


def settings(**changes):
    return ConstraintSettings(**{"max_sets": 0, "rows_per_cell": 0.0, **changes})


def search(procedure, answer, d, chosen, levels=None, rows=1000):
    levels = np.ones(d, np.int64) if levels is None else levels
    return run(create_plan(chosen, levels, rows, procedure.pools), answer)


def graph(procedure, dag, latent=(), **changes):
    """The graph that `procedure` finds from the true independences."""
    observed = [v for v in range(len(dag)) if v not in latent]
    chosen = settings(**changes)
    found = search(procedure, oracle(dag, observed), len(observed), chosen)
    return procedure.graph(found, tuple(map(str, observed)), chosen.orientation, no_prior(len(observed)))


def on_rows(table, levels, g_square=False):
    """The tests on rows."""
    columns = np.ascontiguousarray(table.T, np.int16)

    def answer(tests):
        tables = tables_for(tests, len(levels))
        counts = count(columns, levels, tables.sets).astype(np.float64)
        return chi_square(counts, tables, levels, tests, g_square=g_square)

    return answer


@pytest.mark.parametrize("part", range(4))
def test_pc_with_an_oracle_finds_the_class_of_200_graphs(part, dag_of):
    for seed in range(part, 200, 4):
        rng = np.random.default_rng(seed)
        d = int(rng.integers(3, 10))
        dag = dag_of(d, min(1, rng.uniform(0.5, 3.0) / (d - 1)), rng)
        orientation = ORIENTATIONS[seed // 4 % 4]
        found = graph(PC, dag, orientation=orientation)
        np.testing.assert_array_equal(found.adjacency, cpdag(dag), err_msg=f"{seed} {orientation}")


def cases():
    """200 DAGs with latent variables, and their PAGs by enumeration (see the file)."""
    for case in json.loads((REFERENCES / "pags.json").read_text())["cases"]:
        dag = np.array([[one == "1" for one in row] for row in case["dag"]])
        yield dag, case["latent"], np.array([[int(mark) for mark in row] for row in case["pag"]])


def wrong_pags(step=1):
    numbered = list(enumerate(cases()))[::step]
    found = (
        (graph(FCI, dag, latent, orientation=ORIENTATIONS[n % 4]).marks, pag) for n, (dag, latent, pag) in numbered
    )
    return sum(not np.array_equal(marks, pag) for marks, pag in found)


def test_fci_with_an_oracle_finds_the_pag_of_200_graphs():
    assert wrong_pags() == 0


def larger(dag_of, seed):
    rng = np.random.default_rng(seed)
    dag = dag_of(12, 0.22, rng)
    return dag, rng.choice(12, 3, replace=False).tolist()


def test_fci_on_larger_graphs_agrees_with_the_pag_of_their_mag(dag_of):
    for seed in range(12):
        dag, latent = larger(dag_of, seed)
        np.testing.assert_array_equal(graph(FCI, dag, latent).marks, pag_of(dag, latent))


def needs_possible_d_sep():
    """Only {0, 1, 3} separates 2 and 4, and 1 is joined to neither of them; 5 to 7 are latent."""
    dag = np.zeros((8, 8), bool)
    for i, j in ((0, 2), (1, 3), (3, 4), (5, 0), (5, 1), (6, 0), (6, 4), (7, 2), (7, 3)):
        dag[i, j] = True
    return dag, [5, 6, 7]


@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_possible_d_sep_separates_what_the_neighbours_do_not(orientation):
    dag, latent = needs_possible_d_sep()
    marks = graph(FCI, dag, latent, orientation=orientation).marks
    np.testing.assert_array_equal(marks, pag_of(dag, latent))
    assert not marks[2, 4]
    assert graph(PC, dag, latent, orientation=orientation).adjacency[2, 4]


def test_possible_d_sep_sets_that_are_too_small_are_found_out():
    dag, latent = needs_possible_d_sep()
    neighbours_only = replace(FCI, pools=lambda search: search.joined)
    assert graph(neighbours_only, dag, latent).marks[2, 4]


@pytest.mark.parametrize("procedure", [PC, FCI], ids=["pc", "fci"])
def test_every_separating_set_separates(procedure, dag_of):
    dag = dag_of(9, 0.3, np.random.default_rng(3))
    found = search(procedure, oracle(dag, range(9)), 9, settings(orientation="majority"))
    sets = separating_sets(found)
    assert sets.keys() == {(i, j) for i, j in np.argwhere(np.triu(~found.joined, 1)).tolist()}
    assert all(d_separated(dag, i, j, given) for (i, j), of_pair in sets.items() for given in of_pair)


@pytest.mark.parametrize("name", ["chisq", "gsq"])
def test_the_skeleton_of_causal_learn(causal_learn, name):
    table = np.array([[int(code) for code in column] for column in causal_learn["columns"]]).T
    levels = np.array(causal_learn["cardinalities"])
    found = search(PC, on_rows(table, levels, name == "gsq"), len(levels), settings(), levels)
    assert np.argwhere(np.triu(found.joined)).tolist() == causal_learn["skeletons"][name]


@pytest.mark.parametrize("procedure", [PC, FCI], ids=["pc", "fci"])
@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_the_order_of_the_columns_does_not_matter(procedure, orientation, drawing):
    changed = 0
    for seed in range(4):
        drawn = drawing(9, 400, seed, density=0.35)
        order = np.random.default_rng(seed).permutation(9)
        chosen = settings(orientation=orientation)
        graphs = []
        for columns in (np.arange(9), order):
            levels = drawn.cardinalities[columns]
            found = search(procedure, on_rows(drawn.table[:, columns], levels), 9, chosen, levels)
            names = tuple(f"v{v}" for v in columns)
            graphs.append(procedure.graph(found, names, orientation, no_prior(len(names))))
        np.testing.assert_array_equal(graphs[1].reordered(graphs[0].variables).weights, graphs[0].weights)
        changed += graphs[0].adjacency.sum()
    assert changed > 20


@pytest.mark.parametrize("procedure", [PC, FCI], ids=["pc", "fci"])
def test_sending_a_level_in_parts_changes_no_graph_and_saves_tests(procedure, drawing):
    drawn = drawing(12, 2000, 1, density=0.3)
    answer = on_rows(drawn.table, drawn.cardinalities)
    whole, parts = (search(procedure, answer, 12, settings(cells=cells), drawn.cardinalities) for cells in (10**9, 500))
    np.testing.assert_array_equal(whole.joined, parts.joined)
    assert parts.made < whole.made
    for pair, sets in separating_sets(whole).items():
        assert separating_sets(parts)[pair][0] == sets[0]


def test_pools_stay_as_they_were_when_the_level_began():
    """With one test per exchange, edges disappear within a level; no set may remain untested because of that."""

    def answer(tests):
        """Report about one test in eight as independent, selected by a hash of the test."""
        drawn = [np.random.default_rng([255 & int(v) for v in test]).random() for test in tests]
        return Results(np.where(np.array(drawn) < 1 / 8, 1.0, 0.0), np.ones(len(tests)))

    for orientation in ("sepset", "majority"):
        whole, single = (search(PC, answer, 8, settings(orientation=orientation, cells=n)) for n in (10**9, 1))
        np.testing.assert_array_equal(single.joined, whole.joined)
        assert 3 <= whole.joined.sum() / 2 <= 20
        first = [{pair: sets[0] for pair, sets in separating_sets(one).items()} for one in (single, whole)]
        assert first[0] == first[1]


def test_depth_and_rows_bound_the_conditioning_sets(drawing):
    drawn = drawing(10, 2000, 2, density=0.6)
    answer = on_rows(drawn.table, drawn.cardinalities)

    def deepest(**changes):
        found = search(PC, answer, 10, settings(orientation="sepset", **changes), drawn.cardinalities, rows=2000)
        sizes = [len(given) for sets in separating_sets(found).values() for given in sets]
        return found.deepest, max(sizes), found.left_out

    free = deepest()
    assert free[0] > 2
    assert free[2] == 0
    assert deepest(depth=1) == (1, 1, 0)
    assert deepest(depth=0)[:2] == (0, 0)
    assert deepest(rows_per_cell=50.0)[0] < free[0]
    assert deepest(rows_per_cell=20.0)[2] > 0


def test_a_pair_without_rows_enough_for_any_test_stays_joined():
    levels = np.array([30, 30, 2])
    table = np.random.default_rng(0).integers(0, levels, (400, 3))
    found = search(PC, on_rows(table, levels), 3, settings(rows_per_cell=1.0), levels, rows=400)
    assert np.argwhere(np.triu(found.joined)).tolist() == [[0, 1]]


def test_two_variables_and_one():
    assert graph(PC, np.array([[False, True], [False, False]])).adjacency.sum() == 2
    assert graph(FCI, np.zeros((2, 2), bool)).adjacency.sum() == 0
    assert graph(PC, np.zeros((1, 1), bool)).adjacency.sum() == 0
