"""The degenerate Gaussian BOSS: scores against numpy's determinants, graphs against all DAGs of few variables."""

import functools
import math
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.knowledge import Prior
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.cpdag import cpdag
from fedbnsl.algorithms.score import block_order, boss
from fedbnsl.algorithms.score.block_order import block_boss
from fedbnsl.algorithms.score.families import Batch
from fedbnsl.algorithms.score.gaussian import price_of, score_blocks
from fedbnsl.algorithms.score.gaussian_order import gaussian_boss
from fedbnsl.algorithms.score.settings import OrderSettings
from fedbnsl.algorithms.statistics.coding import Blocks, blocks_of, coding_of
from fedbnsl.algorithms.statistics.moments import centred_moments
from fedbnsl.data.federated import mixed as mixed_schema
from fedbnsl.data.federated import pool
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.data.generators.mixed import mixed
from fedbnsl.tasks.transport.in_process import InProcessFederation
from tests.algorithms.score.small_dags import all_dags

THOROUGH = OrderSettings(starts=20, agreeing_starts=10)


def blocks_in(data):
    coding = coding_of(data.schema)
    return blocks_of(sum(centred_moments(coding.encode(t), (len(t),)) for t in data.tables.values()), coding)


def plain(blocks, price):
    """The score of a family by determinants: −n/2·(ln|R_{X ∪ Pa}| − ln|R_Pa|) − price/2·|X|·Σ|Pa|."""
    first = blocks.first

    def logdet(members):
        at = np.concatenate([[], *(np.arange(first[v], first[v + 1]) for v in members)]).astype(int)
        return np.linalg.slogdet(blocks.R[np.ix_(at, at)])[1]

    @functools.cache
    def score(parents, j):
        width = np.diff(first)
        pairs = width[j] * sum(width[p] for p in parents)
        return -0.5 * blocks.rows * (logdet((*parents, j)) - logdet(parents)) - 0.5 * price * pairs

    return score


def of_dag(dag, score):
    return sum(score(tuple(map(int, np.flatnonzero(dag[:, j]))), j) for j in range(len(dag)))


@pytest.mark.parametrize("seed", range(3))
def test_families_are_scored_as_the_paper_says(seed):
    blocks = blocks_in(mixed(6, 2, 200, seed, edges=9))
    score = plain(blocks, 2 * math.log(blocks.rows))
    rng = np.random.default_rng(seed)
    families = [tuple(rng.permutation(6)[: rng.integers(1, 6)]) for _ in range(25)]
    first = np.cumsum([0, *map(len, families)])
    found = score_blocks(blocks, Batch(first, np.concatenate(families).astype(np.uint16)))
    np.testing.assert_allclose(found, [score(tuple(map(int, ps)), int(j)) for j, *ps in families], atol=1e-6)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("rows", [60, 600])
def test_no_dag_scores_better(seed, rows):
    blocks = blocks_in(mixed(4, 2, rows, seed, edges=4))
    price = price_of(blocks.rows)
    score = plain(blocks, price)
    found = block_boss(blocks, price, THOROUGH)
    assert found.score == pytest.approx(max(of_dag(dag, score) for dag in all_dags(4)), abs=1e-6)
    assert of_dag(found.dag, score) == pytest.approx(found.score, abs=1e-6)


@pytest.mark.parametrize("seed", range(15))
def test_knowledge_holds_and_the_best_dag_that_agrees_is_found(seed):
    blocks = blocks_in(mixed(4, 2, 300, seed, edges=4))
    rng = np.random.default_rng(seed)
    one, other = rng.permutation(4)[:2]
    required = np.zeros((4, 4), bool)
    required[one, other] = True
    possible = ((rng.random((4, 4)) < 0.6) | required) & ~required.T & ~np.eye(4, dtype=bool)
    price = price_of(blocks.rows)
    score = plain(blocks, price)
    found = block_boss(blocks, price, THOROUGH, Prior(possible, required))
    assert (found.dag <= possible).all()
    assert (found.dag >= required).all()
    agree = [dag for dag in all_dags(4) if (dag <= possible).all() and (dag >= required).all()]
    assert found.score == pytest.approx(max(of_dag(dag, score) for dag in agree), abs=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_blocks_of_one_column_are_gaussian_data(seed):
    data = homogeneous(12, 1, 2000, 300 + seed, edges=24)
    X = data.tables["silo-1"] - data.tables["silo-1"].mean(axis=0)
    S = X.T @ X / len(X)
    scale = np.sqrt(np.diag(S))
    price = math.log(2000)
    one = gaussian_boss(S, 2000, price, THOROUGH)
    other = block_boss(Blocks(2000, S / np.outer(scale, scale), np.arange(13)), price, THOROUGH)
    assert other.score == pytest.approx(one.score + 2000 * np.log(scale).sum(), abs=1e-6)
    np.testing.assert_array_equal(cpdag(other.dag), cpdag(one.dag))


def test_columns_in_another_order_give_the_same_class():
    for seed in range(4):
        blocks = blocks_in(mixed(10, 2, 1000, 50 + seed, edges=15))
        found = block_boss(blocks, price_of(blocks.rows), THOROUGH)
        order = np.random.default_rng(seed).permutation(10)
        at = np.concatenate([np.arange(blocks.first[v], blocks.first[v + 1]) for v in order])
        first = np.concatenate([[0], np.cumsum(np.diff(blocks.first)[order])])
        turned = Blocks(blocks.rows, np.ascontiguousarray(blocks.R[np.ix_(at, at)]), first)
        again = block_boss(turned, price_of(blocks.rows), replace(THOROUGH, seed=3))
        np.testing.assert_array_equal(cpdag(again.dag), cpdag(found.dag)[np.ix_(order, order)])


def test_trees_that_are_full_are_forgotten_and_change_nothing(monkeypatch):
    blocks = blocks_in(mixed(10, 2, 1000, 60, edges=20))
    whole = block_boss(blocks, price_of(blocks.rows), THOROUGH)
    monkeypatch.setattr(block_order, "MAX_NODES", 1)
    monkeypatch.setattr(block_order, "MAX_ENTRIES", 1)
    few = block_boss(blocks, price_of(blocks.rows), THOROUGH)
    np.testing.assert_array_equal(few.dag, whole.dag)
    assert few.score == pytest.approx(whole.score)


@pytest.mark.parametrize(("federated", "pooled"), [("secure-boss", "boss"), ("secure-ges", "ges"), ("fed-pc", "pc")])
@pytest.mark.parametrize("effects", ["additive", "slopes"])
def test_federated_is_pooled_exactly_in_one_exchange(federated, pooled, effects):
    for seed in range(3):
        data = mixed(12, 4, 300, 70 + seed, edges=20, effects=effects)
        whole = pool(data)
        found = []
        for name, one in ((federated, data), (pooled, whole)):
            algorithm = registry.build(registry.specify(name, {}))
            *_, last = rounds(algorithm, InProcessFederation(one.schema, one.tables))
            found.append(algorithm.structure(last.server).weights)
            assert last.number == 1
        np.testing.assert_array_equal(*found)
        assert found[0].any()


@pytest.mark.compiles
@pytest.mark.parametrize("score", ["degenerate-gaussian", "conditional-gaussian"])
def test_masked_sums_in_units_of_the_columns_find_the_same_whatever_a_silo_lacks(score):
    """A column of tiny numbers, one of huge ones, and a label of which one silo has a single level."""
    data = mixed(8, 3, 400, 12, edges=10)
    names = data.schema.variables
    numbers, labels = (np.flatnonzero(data.schema.discrete == kind) for kind in (False, True))
    unit = np.ones(8)
    unit[numbers[:2]] = 2.0**-30, 2.0**30
    tables = {silo: table * unit for silo, table in data.tables.items()}
    tables["silo-1"][:, labels[0]] = 0
    levels = {name: data.schema.levels[name] for name in names if name in data.schema.levels}
    schema = replace(mixed_schema(tables, names, levels), units=tuple(unit))
    algorithm = registry.build(registry.specify("secure-boss", {"mixed_score": score}))
    found = []
    for secure in (False, True):
        *_, last = rounds(algorithm, InProcessFederation(schema, tables, secure=secure))
        found.append(algorithm.structure(last.server).weights)
    assert found[0].any()
    np.testing.assert_array_equal(*found)


def test_a_label_of_one_level_in_a_silo_is_no_number_too_small_for_a_masked_sum():
    data = mixed(6, 2, 100, 4)
    tables = {silo: table.copy() for silo, table in data.tables.items()}
    tables["silo-1"][:, np.flatnonzero(data.schema.discrete)[0]] = 0
    algorithm = registry.build(registry.specify("secure-boss", {}))
    *_, last = rounds(algorithm, InProcessFederation(data.schema, tables, secure=True))
    assert last.outcome == "converged"


def test_a_code_that_no_level_has_is_refused_by_name():
    data = mixed(6, 2, 50, 1)
    label = int(np.flatnonzero(data.schema.discrete)[0])
    for code in (-1.0, 9.0, 0.5, np.nan):
        tables = {silo: table.copy() for silo, table in data.tables.items()}
        tables["silo-2"][3, label] = code
        algorithm = registry.build(registry.specify("secure-boss", {}))
        with pytest.raises(BadInput, match=rf"silo-2: row 4, column {data.schema.variables[label]}: .* is not a level"):
            list(rounds(algorithm, InProcessFederation(data.schema, tables)))


def test_a_required_arc_stays_though_it_explains_nothing():
    required = np.zeros((3, 3), bool)
    required[0, 1] = True
    possible = ~np.eye(3, dtype=bool) & ~required.T
    found = block_boss(Blocks(500, np.eye(3), np.arange(4)), 12.0, THOROUGH, Prior(possible, required))
    np.testing.assert_array_equal(found.dag, required)


COMPILE = """
from fedbnsl.algorithms.score import block_order
from fedbnsl.algorithms.statistics.coding import Blocks
from fedbnsl.algorithms.score.settings import OrderSettings
import numpy as np
R = np.eye(4) * 0.5 + 0.5
block_order.block_boss(Blocks(300, R, np.arange(5)), 5.7, OrderSettings())
print(len(block_order._new_node._dispatcher.nopython_signatures))
"""


@pytest.mark.slow(60)
def test_a_node_is_compiled_once(tmp_path):
    surroundings = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", COMPILE], env=surroundings, capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"


def test_mixed_data_start_no_search_of_single_families(monkeypatch):
    def refuse(*given):
        raise AssertionError("a search of single families, whose code would be compiled for nothing")

    monkeypatch.setattr(boss, "better_place", refuse)
    data = mixed(6, 2, 300, 1)
    *_, last = rounds(
        registry.build(registry.specify("secure-boss", {})), InProcessFederation(data.schema, data.tables)
    )
    assert last.server.found.any()
