"""Unknown targets: they are found in numbers and labels, and the unchanged side is identified."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.score.families import families_of
from fedbnsl.algorithms.score.mechanisms import Sums
from fedbnsl.algorithms.score.settings import SecureSearch
from fedbnsl.algorithms.score.unknown_targets import changes_of, found_targets, unchanged_conditions
from fedbnsl.tasks.transport.in_process import InProcessFederation
from tests.algorithms.score.test_experiments import DAG, NAMES, TARGETS, draw, in_conditions, schema_of

SETTINGS = SecureSearch(score="bic")


def skewed(rows, targets, seed, kind):
    """As `draw`, but labels differ in frequency; otherwise the changed label would not be identified."""
    if kind == "continuous":
        return draw(rows, targets, seed)
    rng, tables = np.random.default_rng(seed), {}
    for place, silo in enumerate("pqrst"):
        n = rows + 31 * place
        X = np.zeros((n, 6))
        for j in range(6):
            is_set = any(NAMES[j] in own for own in targets.get(silo, ()))
            fresh = rng.choice(3, n, p=(0.2, 0.3, 0.5) if is_set else (0.6, 0.3, 0.1))
            copies = (rng.random(n) < 0.7) & bool(DAG[:, j].any()) & (not is_set)
            X[:, j] = np.where(copies, X @ DAG[:, j], fresh)
        tables[silo] = X.astype(np.int16)
    return tables


def server_of(tables, kind="continuous", secure=False, schema=None):
    schema = replace(schema or schema_of(tables, {}, kind), compares_conditions=True)
    built = registry.build(AlgorithmSpec("unknown-targets", SETTINGS))
    *_, last = rounds(built, InProcessFederation(schema, tables, secure=secure))
    return last.server


def pairs(server):
    return {(one.condition, one.variable) for one in server.changes}


EXPECTED = {(silo, name) for silo, (own,) in TARGETS.items() for name in own}


@pytest.mark.parametrize("kind", ["continuous", "discrete"])
class TestEveryKind:
    def test_the_targets_are_found_and_direct_the_graph(self, kind) -> None:
        found = server_of(skewed(3000, TARGETS, 2, kind), kind)
        assert pairs(found) == EXPECTED
        np.testing.assert_array_equal(found.search.found, DAG)
        by_variable = {one.variable: one for one in found.changes}
        assert by_variable["c"].parents == ("b",)
        assert all(one.p_value < 0.001 and one.parameters > 0 and not one.tied for one in found.changes)

    def test_silos_alike_have_none(self, kind) -> None:
        assert not server_of(skewed(700, {}, 3, kind), kind).changes

    def test_masks_change_nothing_and_silos_are_as_conditions_of_one(self, kind) -> None:
        tables = skewed(500, TARGETS, 4, kind)
        plain = server_of(tables, kind)
        assert pairs(server_of(tables, kind, secure=True)) == pairs(plain)
        whole, sizes, _ = in_conditions(tables, TARGETS)
        names = {"all": tuple(sorted(tables))}
        schema = schema_of({"all": whole}, {}, kind, stretches={"all": sizes}, condition_names=names)
        pooled = server_of({"all": whole}, kind, schema=schema)
        assert pairs(pooled) == pairs(plain)
        for one, other in zip(pooled.changes, plain.changes, strict=True):
            assert one.statistic == pytest.approx(other.statistic)


def test_targets_of_a_condition_are_those_of_all_silos_that_have_it():
    tables = draw(900, TARGETS, 5)
    parts = {lab: np.vstack([np.array_split(tables[s], 2)[k] for s in sorted(tables)]) for k, lab in enumerate("AB")}
    sizes = {lab: tuple(len(np.array_split(tables[s], 2)[k]) for s in sorted(tables)) for k, lab in enumerate("AB")}
    names = dict.fromkeys("AB", tuple(sorted(tables)))
    schema = schema_of(parts, {}, stretches=sizes, condition_names=names)
    found = server_of(parts, schema=schema)
    assert pairs(found) == EXPECTED
    targets = found_targets(found.changes, schema)
    assert targets["A"] == targets["B"]
    assert {name for name, own in zip(names["A"], targets["A"], strict=True) if own} == set(TARGETS)


def test_two_silos_cannot_say_which_one_has_changed():
    with pytest.raises(BadInput, match="--targets unknown compares 3 silos or conditions at least, and there are 2"):
        server_of(draw(100, {}, 6, silos="pq"))


class TestUnchanged:
    rows = np.array([30, 10, 20, 10, 10])

    def test_silos_that_share_all_mechanisms_are_unchanged_even_in_a_minority(self) -> None:
        """The last two share both variables; the first variable has another mechanism in the three others."""
        classes = np.array([[7, 7, 7, 24, 24], [1, 2, 4, 24, 24]])
        unchanged, tied = unchanged_conditions(classes, self.rows)
        assert unchanged.astype(int).tolist() == [[0, 0, 0, 1, 1], [0, 0, 0, 1, 1]]
        assert not tied.any()

    def test_without_such_silos_the_larger_group_of_each_variable_is(self) -> None:
        classes = np.array(
            [[1, 30, 30, 30, 30], [29, 2, 29, 29, 29], [27, 27, 4, 27, 27], [7, 7, 7, 24, 24], [23, 23, 23, 8, 23]]
        )
        unchanged, _ = unchanged_conditions(classes, self.rows)
        assert unchanged.sum(axis=1).tolist() == [4, 4, 4, 3, 4]

    def test_a_tie_that_only_the_rows_decide_is_marked(self) -> None:
        classes = np.array([[3, 3, 12, 12], [15, 15, 15, 15]])
        unchanged, tied = unchanged_conditions(classes, self.rows[:4])
        assert unchanged.astype(int).tolist() == [[1, 1, 0, 0], [1, 1, 1, 1]]
        assert tied.tolist() == [True, False]


def test_a_p_value_is_multiplied_by_the_variables_and_by_the_conditions_less_one():
    """Of x and y in three conditions of 100 rows, the variance of x is 2 in the last one, and all others are 1."""
    variances = np.array([[1.0, 1.0, 2.0], [1.0, 1.0, 1.0]])

    def likelihood(conditions, families):
        inside = [u for u in range(3) if conditions >> u & 1]
        return -0.5 * 100 * len(inside) * np.log(variances[families][:, inside].mean(axis=1))

    rows = np.full(3, 100)
    sums = Sums(rows, lambda batch: likelihood, lambda batch: np.ones(len(batch)), 0.0, 2)
    (found,) = changes_of(families_of(np.zeros((2, 2), bool)), sums, ("x", "y"), ("p", "q", "r"))
    assert (found.condition, found.variable) == ("r", "x")
    statistic = 300 * math.log(4 / 3) - 100 * math.log(2)
    assert found.statistic == pytest.approx(statistic)
    # χ² with one degree of freedom exceeds s with probability erfc(√(s/2)).
    assert found.p_value == pytest.approx(2 * 2 * math.erfc(math.sqrt(statistic / 2)), rel=1e-6)
