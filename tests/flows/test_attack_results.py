"""Attacks on one's own results folder: each finds what it describes, and its protection prevents it."""

import math
import re

import numpy as np
import pandas as pd
import pytest

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.federated import FederatedData
from fedbnsl.data.folder.folder import write_folder
from fedbnsl.data.generators.discrete import discrete
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.data.generators.mixed import mixed
from fedbnsl.flows import attack_results
from fedbnsl.flows.attack import run_attack
from fedbnsl.flows.attack_results import (
    Membership,
    SmallCell,
    advantage,
    difference,
    fitted_network,
    membership,
    membership_advantage,
    recovered_cells,
    smallest_cell,
    thirds,
    true_count,
)
from tests.flows.commands import run


@pytest.fixture(scope="module")
def patients():
    """Two silos of wards, treatments and outcomes; only one patient of ward 3 has treatment b."""
    levels = {"ward": ("1", "2", "3"), "treatment": ("a", "b"), "outcome": ("died", "lives")}
    ward, treatment = np.repeat([0, 1, 2], 40), np.tile([0, 1], 60)
    outcome = ((ward == 0) | ((ward == 1) & (treatment == 0))).astype(int)
    rows = np.stack([ward, treatment, outcome], axis=1)
    rows = rows[(ward != 2) | (treatment == 0)]
    rows = np.concatenate([rows, [[2, 1, 0]]])
    tables = {"lab": rows[::2], "ulm": rows[1::2]}
    schema = Schema(tuple(levels), {silo: len(table) for silo, table in tables.items()}, "discrete", levels)
    return FederatedData(schema, tables)


ALL_PARENTS = np.array([[0, 0, 1], [0, 0, 1], [0, 0, 0]], bool)
"""ward → outcome ← treatment"""


class TestSmallestCell:
    def test_a_person_is_named_by_the_exact_tables_only(self, patients):
        cells = recovered_cells(fitted_network(patients, ALL_PARENTS), patients.schema)
        assert [cell.text for cell in cells] == ["the only row with ward=3, treatment=b has outcome=died"]
        assert true_count(patients, cells[0]) == 1
        assert recovered_cells(fitted_network(patients, ALL_PARENTS, blank=True), patients.schema) == []

    def test_every_cell_that_is_recovered_is_right(self):
        data = discrete(variables=5, silos=3, rows=100, seed=4)
        dag = np.triu(np.ones((5, 5), bool), 1)
        dag[0, 3:] = False
        cells = recovered_cells(fitted_network(data, dag), data.schema)
        assert {cell.count for cell in cells} == {1, 2}
        assert all(true_count(data, cell) == cell.count for cell in cells)
        assert recovered_cells(fitted_network(data, dag, blank=True), data.schema) == []

    def test_tables_of_mixed_models_are_attacked_too(self):
        data = mixed(variables=6, silos=2, rows=60, seed=1, unequal=False)
        labels = [data.schema.variables.index(name) for name in data.schema.levels]
        dag = np.zeros((6, 6), bool)
        dag[labels[0], labels[1]] = True
        for rows in (60, 12):
            tables = {silo: table[:rows] for silo, table in data.tables.items()}
            fewer = FederatedData(
                Schema(data.schema.variables, dict.fromkeys(tables, rows), "mixed", data.schema.levels), tables
            )
            cells = recovered_cells(fitted_network(fewer, dag), fewer.schema)
            assert all(true_count(fewer, cell) == cell.count for cell in cells)
        assert cells

    def test_in_words(self):
        given = {"ward": "3"}
        assert SmallCell("x", "ill", given, 1, 1).text == "the only row with ward=3 has x=ill"
        assert SmallCell("x", "ill", given, 2, 2).text == "the only 2 rows with ward=3 have x=ill"
        assert SmallCell("x", "ill", given, 1, 9).text == "exactly 1 of the 9 rows with ward=3 has x=ill"
        assert SmallCell("x", "ill", {}, 2, 9).text == "exactly 2 of the 9 rows have x=ill"

    def test_a_run_ends_with_what_it_found(self, capsys, tmp_path):
        write_folder(tmp_path / "data", discrete(variables=4, silos=3, rows=60, seed=4))
        code, out, _ = run(capsys, "attack", "smallest-cell", tmp_path / "data", "--algorithm", "fed-pc")
        assert code == 0
        exact, hidden = out.splitlines()[-2:]
        assert exact.startswith("exact tables, --small-cells keep: the attack succeeds: ")
        assert "rows, " in exact
        assert "are as in the data" in exact
        assert hidden.endswith("the attack fails: no cell of fewer than 3 rows follows from the tables")

    def test_numbers_have_no_tables(self):
        with pytest.raises(BadInput, match="needs tables of probabilities"):
            smallest_cell(homogeneous(variables=3, silos=2, rows=30, seed=1))


KINDS = {"continuous": homogeneous, "discrete": discrete, "mixed": mixed}


def words(data, silo, number):
    """A row as the attack names it."""
    row = data.tables[silo][number - 1]
    values = [
        data.schema.levels[name][int(value)] if name in data.schema.levels else f"{value:.5f}"
        for name, value in zip(data.schema.variables, row, strict=True)
    ]
    return dict(zip(data.schema.variables, values, strict=True))


class TestDifference:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize(("silo", "number"), [("silo-1", 40), ("silo-2", 1), ("silo-3", 17)])
    def test_a_row_is_recovered_from_masked_sums_and_the_rule_prevents_it(self, kind, silo, number):
        data = KINDS[kind](variables=4, silos=3, rows=40, seed=2)
        if number > len(data.tables[silo]):
            number = len(data.tables[silo])
        masks, rule = difference(data, silo, number)
        assert masks.finding.startswith(f"row {number} of silo {silo} was recovered exactly: ")
        found = dict(part.split("=") for part in masks.finding.partition(": ")[2].split(", "))
        for name, value in words(data, silo, number).items():
            assert found[name] == value or float(found[name]) == pytest.approx(float(value), abs=2e-4)
        assert masks.succeeded
        assert not rule.succeeded
        assert rule.finding.startswith(f"the second sum is refused: silo {silo}: fewer than 10 rows changed")

    def test_the_default_is_the_last_row_of_the_first_silo_and_the_folder_stays_as_it_is(self, capsys, tmp_path):
        write_folder(tmp_path / "data", discrete(variables=4, silos=2, rows=30, seed=4))
        code, out, _ = run(capsys, "attack", "difference", tmp_path / "data")
        assert code == 0
        assert "row 30 of silo silo-1 was recovered exactly: x1=" in out
        assert not (tmp_path / "data" / ".fedbnsl").exists()

    def test_what_is_not_there_is_refused(self):
        data = discrete(variables=4, silos=2, rows=30, seed=4)
        with pytest.raises(BadInput, match="--row is 31: silo silo-2 has the rows 1 to 30"):
            difference(data, "silo-2", 31)
        with pytest.raises(BadInput, match="--row is 0"):
            difference(data, "silo-2", 0)
        with pytest.raises(BadInput, match="--silo: there is no silo x; available: silo-1, silo-2"):
            difference(data, "x")
        with pytest.raises(BadInput, match="needs 2 silos or more"):
            difference(discrete(variables=4, silos=1, rows=30, seed=4))


class TestMembership:
    def test_the_parts_are_disjoint_and_centred_by_the_attackers_own(self):
        data = homogeneous(variables=3, silos=2, rows=31, seed=1)
        parts = thirds(data, np.random.default_rng(1))
        assert [part.schema.rows for part in parts] == [{"silo-1": 10, "silo-2": 10}] * 3
        rows = np.concatenate([part.tables[silo] for part in parts for silo in part.tables])
        assert len(np.unique(rows, axis=0)) == 60
        reference = np.concatenate(list(parts[2].tables.values()))
        np.testing.assert_allclose(reference.mean(axis=0), 0, atol=1e-12)

    def test_the_advantage_of_scores_that_tell_nothing_is_none(self):
        """A threshold that is chosen and tested on the same rows would seem to have an advantage."""
        rng = np.random.default_rng(0)
        found = [advantage(rng.normal(size=20), rng.normal(size=20), rng) for _ in range(400)]
        assert abs(np.mean(found)) < 0.04
        assert advantage(rng.normal(size=20) + 20, rng.normal(size=20), rng) > 0.8
        assert advantage(rng.normal(size=20) - 20, rng.normal(size=20), rng) < 0.1

    def test_a_model_of_few_rows_gives_members_away_and_one_of_many_hardly(self):
        few, many = (
            membership_advantage(discrete(variables=6, silos=3, rows=rows, seed=4), None, 0.0, 6, 0)
            for rows in (60, 3000)
        )
        assert few.mean > 0.08 > many.mean
        assert few.mean > 2 * few.error

    def test_with_an_epsilon_the_advantage_is_within_its_bound(self):
        data = homogeneous(variables=4, silos=3, rows=3000, seed=1)
        plain, private = membership(data, epsilon=2.0, trials=3)
        delta = 1000.0**-2
        bound = (math.exp(2.0) - 1 + 2 * delta) / (math.exp(2.0) + 1)
        assert private.finding.endswith(f"this ε bounds the advantage of every attack by {bound:.3f}")
        share = float(private.finding.split("over guessing is ")[1].split(" ")[0])
        assert share < bound
        assert "the attacker's advantage over guessing is " in plain.finding

    def test_what_publishes_nothing_gives_nothing_away(self):
        _, private = membership(homogeneous(variables=4, silos=2, rows=30, seed=1), trials=2)
        assert private.finding.startswith("the run is refused, so nothing is published: ")
        assert not private.succeeded
        private = membership_advantage(discrete(variables=4, silos=2, rows=400, seed=1), 1.0, 1e-5, 2, 0)
        assert private.reason.startswith("the run publishes a graph without parameters")

    @pytest.mark.parametrize(
        ("advantages", "succeeds"),
        [
            ((0.1, -0.1, 0.05), False),
            ((0.3, 0.31, 0.29), True),
            ((-0.3, -0.31, -0.29), False),
            ((0.1, 0.5), False),  # of two trials, the standard error is half their distance
            ((0.19, 0.5), True),
        ],
    )
    def test_chance_is_no_success(self, monkeypatch, advantages, succeeds):
        """A success is a mean of more than two standard errors; δ is 1/n² for the n rows that are learned from."""
        deltas = []

        def found(data, epsilon, delta, trials, seed):
            deltas.append(delta)
            return Membership(advantages)

        monkeypatch.setattr(attack_results, "membership_advantage", found)
        plain, private = membership(homogeneous(variables=3, silos=2, rows=36, seed=1))
        assert (plain.succeeded, private.succeeded) == (succeeds, succeeds)
        assert deltas == [12.0**-2] * 2

    @pytest.mark.parametrize("count", [2, 3, 7])
    def test_the_error_is_the_standard_error_of_a_mean(self, count):
        values = np.random.default_rng(count).normal(size=count)
        assert Membership(tuple(values)).error == pytest.approx(pd.Series(values).sem())

    def test_the_reference_is_neither_learned_from_nor_guessed(self, monkeypatch):
        """If the guessed rows were the reference, the attack would underestimate the likelihood ratio of members."""
        data, known = homogeneous(variables=3, silos=2, rows=36, seed=1), []
        fit = attack_results.fitted_network

        def fitted(reference, dag):
            known.append(reference)
            return fit(reference, dag)

        monkeypatch.setattr(attack_results, "fitted_network", fitted)
        membership_advantage(data, None, 1e-5, 1, 7)
        *_, third = thirds(data, np.random.default_rng([7, 0]))
        assert all(np.array_equal(known[0].tables[silo], table) for silo, table in third.tables.items())

    @pytest.mark.parametrize(
        ("options", "reason"),
        [
            ({"trials": 1}, "--trials is 1: it must be 2 or more"),
            ({"epsilon": 0.0}, "--epsilon is 0: it must be above 0"),
            ({"epsilon": math.inf}, "--epsilon is inf"),
        ],
    )
    def test_wrong_options_are_refused(self, options, reason):
        with pytest.raises(BadInput, match=reason):
            membership(homogeneous(variables=3, silos=2, rows=40, seed=1), **options)

    def test_too_few_rows_are_refused(self):
        with pytest.raises(BadInput, match="silo silo-1 has 11 rows: the attack needs 12"):
            membership(homogeneous(variables=3, silos=2, rows=11, seed=1))

    def test_a_run_ends_with_both_advantages(self, capsys, tmp_path):
        write_folder(tmp_path / "data", discrete(variables=4, silos=2, rows=60, seed=4))
        code, out, _ = run(capsys, "attack", "membership", tmp_path / "data", "--trials", "3")
        assert code == 0
        assert [line.split(":")[0] for line in out.splitlines()[-2:]] == ["no ε", "ε = 1"]


class TestReconstruct:
    def test_it_ends_with_what_was_reconstructed(self, capsys, tmp_path):
        data = homogeneous(variables=4, silos=3, rows=1000, seed=1)
        write_folder(tmp_path / "data", data)
        code, out, _ = run(capsys, "attack", "reconstruct", tmp_path / "data", "--epsilon", "3")
        assert code == 0
        square = float(np.mean(data.tables["silo-1"][:, 0] ** 2))
        plain, secure, private = out.splitlines()[-3:]
        assert plain.startswith("plain replies: the second moments of each of the 3 silos were reconstructed: ")
        assert f"the mean square of x1 at silo silo-1 as {square:.4g} (it is {square:.4g})" in plain
        for line in (secure, private):
            assert "nothing beyond the mean of all silos was reconstructed" in line

    def test_the_example_is_the_attackers(self):
        plain, masked, _ = run_attack(homogeneous(variables=3, silos=2, rows=400, seed=1), 3.0)
        assert (plain.succeeds, masked.succeeds) == (True, False)
        for found, exact in ((plain, True), (masked, False)):
            guess, true = re.search(r"as (\S+) \(it is (\S+)\)", found.example).groups()
            assert (guess == true) is exact
