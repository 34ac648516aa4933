"""The conditional Gaussian score against its formula on rows, and its searches over silos against pooled rows."""

import math

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.score.families import Batch
from fedbnsl.algorithms.score.procedures import configuration_scores
from fedbnsl.algorithms.statistics.rows import configuration_moments, configuration_units, open_mixed_rows
from fedbnsl.data.federated import FederatedData, mixed, pool
from fedbnsl.data.generators.mixed import mixed as draw
from fedbnsl.tasks.transport.in_process import InProcessFederation

CONDITIONAL = {"mixed_score": "conditional-gaussian"}
LEVELS = {"a": ("u", "v", "w"), "c": ("no", "yes")}
RNG = np.random.default_rng(0)
"""for empty cells; there are none"""


def table(rows=400, seed=0):
    """Rows of a label a, a number b, a label c and a number e, all of which depend on each other."""
    rng = np.random.default_rng(seed)
    b = rng.normal(size=rows)
    a = (np.outer(b, (0, 1, -1)) + rng.gumbel(size=(rows, 3))).argmax(axis=1)
    c = (rng.random(rows) < 0.3 + 0.2 * (a == 1)).astype(float)
    e = np.array([1.0, -1.0, 0.3])[a] * b + c + rng.normal(size=rows)
    return np.column_stack([a, b, c, e])


def schema(rows=400):
    return Schema(("a", "b", "c", "e"), {"s": rows}, "mixed", LEVELS)


def likelihood(X, members, levels):
    """The score of a set of columns with the penalty of BIC only."""
    n = len(X)
    labels, numbers = [v for v in members if v in levels], [v for v in members if v not in levels]
    configurations = [()]
    for v in labels:
        configurations = [(*one, code) for one in configurations for code in range(levels[v])]
    parts = [X[(X[:, labels] == one).all(axis=1)][:, numbers] for one in configurations]
    c = len(numbers)
    found = -0.5 * math.log(n) * (len(parts) - 1 + len(parts) * c * (c + 3) / 2)
    for part in parts:
        if len(part):
            found += len(part) * math.log(len(part) / n)
        if len(part) and c:
            S = np.cov(part.T, bias=True).reshape(c, c)
            found -= 0.5 * len(part) * (np.linalg.slogdet(2 * math.pi * S)[1] + c)
    return found


def test_families_are_scored_as_the_paper_says():
    X = table()
    X[:, [1, 3]] -= X[:, [1, 3]].mean(axis=0)
    families = [(3, 1, 0), (0, 1), (1,), (2, 0), (2, 0, 1, 3), (0,), (3, 0, 2), (1, 3)]
    first = np.cumsum([0, *map(len, families)])
    rows = open_mixed_rows(X, schema(), "s", RNG)
    found = configuration_scores(rows, 100)(Batch(first, np.concatenate(families).astype(np.uint16)))
    levels = {0: 3, 2: 2}
    expected = [likelihood(X, family, levels) - likelihood(X, family[1:], levels) for family in families]
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_a_family_of_too_many_configurations_is_excluded():
    rows = open_mixed_rows(table(), schema(), "s", RNG)
    found = configuration_scores(rows, 5)(Batch(np.array([0, 2, 4]), np.array([0, 2, 0, 1], np.uint16)))
    assert found[0] == -np.inf
    assert np.isfinite(found[1])


def test_a_configuration_of_few_rows_takes_the_common_covariance():
    X = table()
    X[:3, 2], X[3:, 2] = 1, 0
    rows = open_mixed_rows(X, schema(), "s", RNG)
    score = configuration_scores(rows, 100)(Batch(np.array([0, 3]), np.array([3, 1, 2], np.uint16)))
    assert np.isfinite(score).all()


def test_moments_of_silos_add_up_to_those_of_pooled_rows_and_have_their_units():
    X = table()
    parts = {"s": X[:150], "t": X[150:] + np.array([0, 9.0, 0, -3.0])}
    whole = mixed(parts, ("a", "b", "c", "e"), LEVELS)
    sets = np.array([[0, 1, 3], [1, 2, -1]], np.int16)
    added = sum(configuration_moments(open_mixed_rows(part, whole, silo, RNG), sets) for silo, part in parts.items())
    pooled = pool(FederatedData(whole, parts))
    alone = configuration_moments(open_mixed_rows(pooled.tables["pooled"], pooled.schema, "pooled", RNG), sets)
    np.testing.assert_allclose(added, alone, atol=1e-12)
    assert len(added) == 3 * 6 + 2 * 3
    apart = configuration_moments(open_mixed_rows(parts["t"], whole, "t", RNG), sets)
    np.testing.assert_allclose(
        apart, configuration_moments(open_mixed_rows(X[150:], whole, "t", RNG), sets), atol=1e-12
    )
    assert added[[0, 6, 12]].sum() == added[[18, 21]].sum() == 400
    in_units = configuration_units(Schema(whole.variables, whole.rows, "mixed", LEVELS, units=(1, 2, 1, 8)), sets)
    assert in_units.tolist() == [1, 2, 8, 4, 16, 64] * 3 + [1, 2, 4] * 2


@pytest.mark.parametrize(("federated", "pooled"), [("secure-boss", "boss"), ("secure-ges", "ges")])
def test_federated_is_pooled_and_masks_change_nothing(federated, pooled):
    data = draw(7, 3, 300, 5, edges=9, effects="configurations")
    whole = pool(data)
    found = []
    for name, one, secure in ((federated, data, False), (federated, data, True), (pooled, whole, False)):
        algorithm = registry.build(registry.specify(name, CONDITIONAL))
        *_, last = rounds(algorithm, InProcessFederation(one.schema, one.tables, secure=secure))
        found.append(algorithm.structure(last.server).weights)
    assert found[0].any()
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_slopes_that_turn_with_a_label_are_found_by_no_other_score():
    """A label reverses the sign of a slope: by second moments alone, all three variables are independent."""
    rng = np.random.default_rng(3)
    label, x = rng.integers(0, 2, 1500), rng.normal(size=1500)
    X = np.column_stack([label, x, np.where(label == 1, x, -x) + rng.normal(size=1500)])
    parts = {"s": X[:700], "t": X[700:]}
    whole = mixed(parts, ("label", "x", "y"), {"label": ("no", "yes")})
    joined = {}
    for score in ("conditional-gaussian", "degenerate-gaussian"):
        algorithm = registry.build(registry.specify("secure-boss", {"mixed_score": score}))
        *_, last = rounds(algorithm, InProcessFederation(whole, parts))
        structure = algorithm.structure(last.server)
        joined[score] = structure.adjacency | structure.adjacency.T
    assert not joined["degenerate-gaussian"].any()
    assert joined["conditional-gaussian"][1, 2]
    assert joined["conditional-gaussian"][0].any()
