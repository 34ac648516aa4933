"""Searches over windows of time series: past variables have no parents, and scores equal regressions on windows."""

from dataclasses import replace

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.knowledge import Knowledge, Prior
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.dynamic import lag_order
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.score.discrete import EXCLUDED_SCORE, score_rows
from fedbnsl.algorithms.score.families import Batch
from fedbnsl.algorithms.score.procedures import BOSS
from fedbnsl.algorithms.score.secure_search import question, secure_boss
from fedbnsl.algorithms.score.settings import SecureSearch
from fedbnsl.algorithms.statistics.count_tables import PAD
from fedbnsl.algorithms.statistics.lagged import centred_windows, window_rows, window_schema, windows
from fedbnsl.data.generators.dynamic import dynamic, svar
from fedbnsl.tasks.transport.in_process import InProcessFederation

D = 5
NAMES = tuple(f"x{v}" for v in range(D))
WITHIN, ACROSS = ((0, 1), (1, 2), (3, 2), (3, 4)), ((0, 3), (2, 0), (4, 1))


def unlike_silos(seed: int, sd: float = 0.3, rows: tuple[int, ...] = (150, 220, 300, 190)) -> tuple[dict, np.ndarray]:
    """Series of one graph `[2, d, d]`, whose weights vary by `sd` between silos; columns in random order."""
    rng = np.random.default_rng(seed)
    order, graph = rng.permutation(D), np.zeros((2, D, D))
    for lag, arcs in enumerate((WITHIN, ACROSS)):
        for i, j in arcs:
            graph[lag, order[i], order[j]] = rng.choice([-1.0, 1.0])
    graph[1] += 0.8 * np.eye(D)
    tables = {}
    for k, n in enumerate(rows):
        own = graph * np.clip(0.5 + sd * rng.normal(size=graph.shape), -0.9, 0.9)
        own[1] *= 0.6
        tables[f"s{k}"] = svar(own, n, rng) + 3 * rng.normal(size=D)
    return tables, graph != 0


def federation(tables, secure=False, **other):
    stretches = {silo: (60, len(table) - 60) for silo, table in tables.items()}
    rows = {silo: len(table) for silo, table in tables.items()}
    schema = Schema(NAMES, rows, "time-series", stretches=stretches, units=(1.0,) * D, **other)
    return InProcessFederation(schema, tables, secure=secure)


def test_own_scores_find_the_graph_where_common_weights_do_not(running, learning):
    right, common = 0, 0
    for seed in range(4):
        tables, graph = unlike_silos(seed, 0.6)
        found = learning("secure-boss", federation(tables), weights="own", lags=1)
        assert found.kind == "dag"
        right += np.array_equal(np.stack([found.adjacency, found.lagged[0] != 0]), graph)
        linear = learning("secure-linear", federation(tables), lags=1)
        common += np.array_equal(np.stack([linear.adjacency, linear.lagged[0] != 0]), graph)
    assert right >= 3
    assert common <= 1


def test_a_family_s_score_is_the_sum_of_the_silos_regressions_on_their_windows(running):
    tables, _ = unlike_silos(0)
    server = running("secure-boss", federation(tables, secure=True), weights="own", lags=1).server
    families = server.families
    scored = np.flatnonzero(families.score[: families.used[1]] > EXCLUDED_SCORE)
    for m in np.random.default_rng(0).choice(scored, 20):
        child, *parents = server_family(server, int(m))
        score = 0.0
        for table in tables.values():
            rows = centred_windows(table, (60, len(table) - 60), 1)
            n = len(rows) - 2
            errors = rows[:, child] - rows[:, parents] @ np.linalg.lstsq(rows[:, parents], rows[:, child])[0]
            score -= 0.5 * n * np.log(errors @ errors / (n - len(parents))) + 0.5 * np.log(n) * (len(parents) + 1)
        assert families.score[m] == pytest.approx(score, abs=1e-4)


def test_halves_of_each_series_have_scores_of_their_own(running):
    tables, _ = unlike_silos(0)
    server = running("secure-boss", federation(tables, secure=True), weights="own", segments=2, lags=1).server
    scored = np.flatnonzero(server.families.score[: server.families.used[1]] > EXCLUDED_SCORE)
    for m in np.random.default_rng(0).choice(scored, 20):
        child, *parents = server_family(server, int(m))
        score = 0.0
        for table in tables.values():
            series = [windows(part, (len(part),), 1) for part in np.split(table, [60])]
            for half in range(2):
                parts = [np.array_split(one, 2)[half] for one in series]
                rows = np.concatenate([part - part.mean(axis=0) for part in parts])
                n = len(rows) - 2
                errors = rows[:, child] - rows[:, parents] @ np.linalg.lstsq(rows[:, parents], rows[:, child])[0]
                score -= 0.5 * n * np.log(errors @ errors / (n - len(parents))) + 0.5 * np.log(n) * (len(parents) + 1)
        assert server.families.score[m] == pytest.approx(score, abs=1e-4)


def test_segments_are_those_of_series_with_own_weights(learning):
    with pytest.raises(BadInput, match="segments"):
        SecureSearch(segments=2)
    table = InProcessFederation(Schema(NAMES, {"s": 50}), {"s": np.random.default_rng(0).normal(size=(50, D))})
    with pytest.raises(BadInput, match="segments is 2, but only time series have segments"):
        learning("secure-boss", table, weights="own", segments=2)


def server_family(server, m):
    """The columns of family `m`, in the search's own order, as numbers of columns of the windows."""
    order = np.random.default_rng((0, 1)).permutation(len(server.variables))
    return order[server.families.members[server.families.first[m] : server.families.first[m + 1]]]


def test_no_family_in_which_a_lagged_column_has_parents_is_requested():
    tables, _ = unlike_silos(1)
    settings = SecureSearch(weights="own", lags=2)
    algorithm, asked = secure_boss(settings), []
    for one in rounds(algorithm, federation(tables)):
        if not one.outcome:
            query = question(one.server, settings, BOSS)
            lists = np.split(query.sets[0], np.flatnonzero(query.sets[0] == PAD)) if query.sets.size else []
            asked += [part[part != PAD] for part in lists]
    asked = [family for family in asked if len(family)]
    assert {int(family[0]) for family in asked} >= set(range(D))
    assert all(family[0] < D for family in asked if len(family) > 1)
    assert one.server.found[:, D:].sum() == 0


@pytest.mark.parametrize("name", ["secure-boss", "secure-ges"])
@pytest.mark.parametrize("weights", ["common", "own"])
def test_background_knowledge_holds_within_a_step_and_masks_change_nothing(name, weights, learning):
    tables, graph = unlike_silos(2)
    cause, effect = np.argwhere(graph[0])[0]
    knowledge = Knowledge(forbidden=((NAMES[cause], NAMES[effect]),))
    found = learning(name, federation(tables, knowledge=knowledge), weights=weights, lags=1)
    masked = learning(name, federation(tables, secure=True, knowledge=knowledge), weights=weights, lags=1)
    assert not found.adjacency[cause, effect]
    np.testing.assert_array_equal(found.weights, masked.weights)
    np.testing.assert_array_equal(found.lagged, masked.lagged)


def test_windows_in_parts_have_the_moments_of_centred_windows():
    schema = Schema(("a", "b"), {"s": 75}, "time-series", stretches={"s": (30, 30, 8, 7)}, units=(1.0, 2.0))
    table = np.random.default_rng(0).normal(size=(75, 2)).cumsum(axis=0)
    view, rows = window_schema(schema, 1), window_rows(table, (30, 30, 8, 7), 1)
    assert view.stretches == {"s": (29, 29, 13)}
    assert (view.rows, view.variables, view.units) == ({"s": 71}, ("a", "b", "a[t-1]", "b[t-1]"), (1.0, 2.0, 1.0, 2.0))
    parts = np.split(rows, np.cumsum(view.stretches["s"])[:-1])
    products = sum((part - part.mean(axis=0)).T @ (part - part.mean(axis=0)) for part in parts)
    centred = centred_windows(table, (30, 30, 8, 7), 1)
    np.testing.assert_allclose(products, centred.T @ centred)


def test_variables_that_can_have_no_parents_are_known():
    prior = Prior(np.ones((3, 3), bool), np.zeros((3, 3), bool)).of_windows(6)
    assert prior.parentless.tolist() == [False, False, False, True, True, True]
    assert prior.ordered == 3
    assert Prior(np.eye(2, dtype=bool), np.array([[False, True], [False, False]])).parentless.tolist() == [True, False]


def test_lags_that_nobody_chose_and_series_that_are_too_short_are_refused():
    algorithm = registry.build(registry.specify("secure-boss", {}))
    tables, _ = unlike_silos(0)
    with pytest.raises(BadInput, match="lags is auto"):
        algorithm.open_server(federation(tables).schema)
    longer = registry.build(registry.specify("secure-boss", {"lags": 300}))
    with pytest.raises(BadInput, match="silo s0: fewer rows than lags"):
        longer.open_server(federation(tables).schema)


def found_matrix(structure):
    return np.stack([structure.adjacency | structure.adjacency.T, structure.lagged[0] != 0])


@pytest.mark.parametrize(("labels", "rows", "wrong"), [(4, 600, 2), (8, 1200, 3)])
def test_states_and_numbers_are_found_and_masks_change_nothing(labels, rows, wrong, learning):
    data = dynamic(8, 3, rows, 5, degree=2.0, labels=labels)
    schema = replace(data.schema, units=(1.0,) * 8)
    found = learning("secure-boss", InProcessFederation(schema, data.tables), lags=1)
    masked = learning("secure-boss", InProcessFederation(schema, data.tables, secure=True), lags=1)
    assert (found_matrix(found) ^ found_matrix(data.truth))[0].sum() / 2 <= wrong
    assert (found_matrix(found) ^ found_matrix(data.truth))[1].sum() <= wrong
    np.testing.assert_array_equal(found.weights, masked.weights)
    np.testing.assert_array_equal(found.lagged, masked.lagged)


def test_counts_of_windows_are_scored_as_those_of_a_table(running):
    data = dynamic(4, 2, 300, 3, degree=2.0, labels=4)
    server = running("secure-boss", InProcessFederation(data.schema, data.tables), lags=1).server
    view = window_schema(data.schema, 1)
    rows = np.concatenate([window_rows(data.tables[s], data.schema.stretches[s], 1) for s in data.schema.silos])
    sizes = np.array([len(view.levels[name]) for name in view.variables])
    scored = np.flatnonzero(server.families.score[: server.families.used[1]] > EXCLUDED_SCORE)[:30]
    families = [server_family(server, int(m)) for m in scored]
    batch = Batch(np.cumsum([0, *map(len, families)]), np.concatenate(families).astype(np.uint16))
    plain = score_rows(np.ascontiguousarray(rows.T, np.int16), sizes, batch, SecureSearch())
    np.testing.assert_allclose(server.families.score[scored], plain)


def test_a_lag_order_is_chosen_for_states_too():
    for labels in (3, 6):
        data = dynamic(6, 3, 500, 4, degree=1.0, lagged_degree=2.0, lags=2, decay=1.0, labels=labels)
        algorithm = lag_order.build(lag_order.LagOrder(max_lags=3))
        schema = replace(data.schema, units=(1.0,) * 6)
        *_, last = rounds(algorithm, InProcessFederation(schema, data.tables, secure=True))
        assert lag_order.choose_lag_order(last.server)[0] == 2
