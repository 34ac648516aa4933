"""Missingness that depends on observed columns is reported; random missingness is not."""

import numpy as np
import pytest

from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.diagnosis.missingness import Missingness, build, findings
from fedbnsl.data.federated import with_gaps
from fedbnsl.tasks.transport.in_process import InProcessFederation

NAMES = ("age", "dose", "score")


def test_chance_is_reckoned_right_however_many_cells_are_empty():
    """A mean over most of the rows is close to the mean over all rows, so its error is small."""
    errors = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        table = rng.standard_normal((300, 3))
        table[rng.random(300) < 0.7, 2] = np.nan
        schema = with_gaps(Schema(NAMES, {"s": 300}), {"s": table})
        *_, last = rounds(build(Missingness()), InProcessFederation(schema, {"s": table}))
        differences, chance, _ = last.server.sums
        errors += list(differences[2, :2] / np.sqrt(chance[2, :2]))
    assert np.std(errors) == pytest.approx(1, abs=0.2)


def told(tables, schema, secure=False):
    algorithm = build(Missingness())
    *_, last = rounds(algorithm, InProcessFederation(with_gaps(schema, tables), tables, secure=secure))
    return findings(last.server)


def numbers(seed, depends):
    """Silos with different means, in which `score` is missing if `age` is high, or at random."""
    rng, tables = np.random.default_rng(seed), {}
    for k in range(3):
        table = rng.standard_normal((500, 3)) + 20 * k
        high = table[:, 0] - 20 * k
        table[rng.random(500) < (1 / (1 + np.exp(-2 * high)) if depends else 0.3), 2] = np.nan
        tables[f"s{k}"] = table
    return tables, Schema(NAMES, dict.fromkeys(tables, 500))


@pytest.mark.parametrize("secure", [False, True])
def test_gaps_that_depend_on_another_column_are_named(secure):
    (finding,) = told(*numbers(1, True), secure=secure)
    assert finding.name == "empty cells depend on other columns"
    assert "empty in score where age is high" in finding.message
    assert "dose" not in finding.message
    assert "missing value itself" in finding.advice


def test_gaps_by_chance_are_not():
    assert not [seed for seed in range(20) if told(*numbers(seed, False))]


def test_a_silo_where_a_column_is_always_empty_says_nothing_of_chance():
    tables, schema = numbers(2, False)
    tables["s1"][:, 2] = np.nan
    assert told(tables, schema) == []


def test_labels_too():
    rng, levels = np.random.default_rng(3), dict.fromkeys(NAMES, ("no", "yes"))
    table = rng.integers(0, 2, (900, 3))
    table[(table[:, 0] == 1) & (rng.random(900) < 0.5), 1] = -1
    schema = Schema(NAMES, {"s": 900}, "discrete", levels)
    (finding,) = told({"s": table}, schema)
    assert "empty in dose where age=yes is high" in finding.message
