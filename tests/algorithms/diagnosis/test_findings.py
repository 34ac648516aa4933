"""Each finding appears on data with its fault and not on other data, and names the right silo."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedbnsl import learn
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.diagnosis.exchange import FIGURES, Server
from fedbnsl.algorithms.diagnosis.findings import (
    RULES,
    apart_findings,
    excesses,
    fit_findings,
    one_to_one_pairs,
    parent_cap_findings,
    same_columns,
    scale_findings,
    silo_findings,
    table_fit_findings,
    uncompared_findings,
)
from fedbnsl.algorithms.diagnosis.tables import start as table_start
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.tasks.transport.in_process import federate
from tests.algorithms.diagnosis.test_exchange import asked


def server_of(S, rows=1000, means=None, silos=4, figures=None):
    """The state with within-silo moments `S` of `rows` rows in this number of silos."""
    d = len(S)
    schema = Schema(tuple("abcdefgh"[:d]), {f"s{k}": rows // silos for k in range(silos)})
    means = np.zeros(d) if means is None else np.array(means, float)
    figures = np.zeros((silos, len(FIGURES), 2)) if figures is None else figures
    return Server(
        schema, np.zeros((d, d), bool), rows, means, np.array(S, float), np.ones(silos, bool), figures, np.arange(d)
    )


def names(found):
    return [one.name for one in found]


def dag(*edges, d=3):
    weights = np.zeros((d, d))
    for i, j in edges:
        weights[i, j] = 1.0
    return Structure(tuple("abcdefgh"[:d]), weights)


@pytest.mark.parametrize(
    ("variances", "equal", "expected"),
    [
        ([1.0, 1.02, 1.04], True, ["standardised"]),
        ([1.0, 1.02, 1.04], False, []),
        ([1.0, 1.1, 2.0], True, []),
        ([1.0, 4.0, 1.1e4], True, ["units"]),
        ([1.0, 4.0, 1.1e4], False, []),
        ([1.0, 4.0, 0.9e4], True, []),
    ],
)
def test_scales(variances, equal, expected):
    found = scale_findings(server_of(np.diag(variances)), equal_variances=equal, centred=True)
    assert names(found) == expected
    if expected == ["units"]:
        assert found[0].message == "The standard deviation of c is 105 times that of a: units differ."


@pytest.mark.parametrize(("mean", "centred", "expected"), [(7, False, ["means"]), (7, True, []), (5, False, [])])
def test_means_far_from_zero(mean, centred, expected):
    found = scale_findings(
        server_of(np.diag([1.0, 4.0, 2.0]), means=[1, mean, 0]), equal_variances=True, centred=centred
    )
    assert names(found) == expected


def test_few_rows():
    S = np.eye(3) + 0.9 * (np.ones((3, 3)) - np.eye(3))
    # Three variances and two weights, so 25 rows beyond the four silos' means.
    assert "few rows" in names(fit_findings(server_of(S, 28), dag((0, 1), (1, 2)), equal_variances=False))
    assert "few rows" not in names(fit_findings(server_of(S, 29), dag((0, 1), (1, 2)), equal_variances=False))


def test_unequal_errors():
    for ratio, equal, expected in ((9.0, True, True), (9.0, False, False), (1.2, True, False)):
        S = np.array([[1.0, 1, 0], [1, 1 + ratio, 0], [0, 0, 1.0]])
        found = names(fit_findings(server_of(S), dag((0, 1)), equal_variances=equal))
        assert ("unequal errors" in found) == expected


def test_no_better_than_empty():
    for correlation, expected in ((0.02, True), (0.2, False)):
        S = np.eye(3)
        S[0, 1] = S[1, 0] = correlation
        found = names(fit_findings(server_of(S), dag((0, 1)), equal_variances=True))
        assert ("no better than empty" in found) == expected
    assert "no better than empty" not in names(fit_findings(server_of(np.eye(3)), dag(), equal_variances=True))


def test_one_to_one_columns():
    S = np.array([[1.0, 2, 0], [2, 4, 0], [0, 0, 1]])
    (found,) = same_columns(S, "abc", np.arange(3))
    assert "a and b determines the other" in found.message
    S[0, 1] = S[1, 0] = 1.999
    assert same_columns(S, "abc", np.arange(3)) == []


def test_a_single_row_does_not_decide_whether_columns_are_one_to_one():
    """Whether 0, 1 or 2 rows contradict it, the finding is the same; 3 rows are no small cell."""
    data = Schema(("a", "b"), {"s": 100}, "discrete", {"a": ("x", "y"), "b": ("u", "v")})

    def found(rows):
        counts = np.array([50, 50, 50 - rows, 50 + rows, 50 - rows, rows, 0, 50], float)
        server = replace(table_start(data, dag((0, 1), d=2)), counts=counts)
        return names(table_fit_findings(server, dag((0, 1), d=2)))

    assert found(0) == found(1) == found(2) == ["one-to-one"]
    assert found(3) == []


def test_a_cap_on_parents():
    structure = dag((0, 2), (1, 2), d=4)
    (found,) = parent_cap_findings(structure, 2)
    assert (found.name, found.message.split(":")[0]) == ("cap reached", "c")
    assert parent_cap_findings(structure, 3) == []
    assert parent_cap_findings(structure, None) == []
    assert parent_cap_findings(replace(structure, kind="cpdag"), 2) == []
    assert parent_cap_findings(dag((0, 2), (1, 2), d=3), 2) == []  # 2 is the number of other variables


def silos_of(seed, silos=6, rows=300):
    data = homogeneous(6, silos, rows, seed)
    return {silo: table.copy() for silo, table in data.tables.items()}, data.truth


def said_of(given, truth):
    server, _ = asked(federate(given, truth.variables), structure=truth)
    return silo_findings(server, RULES)


def shifted(given, truth, silo, rng):
    given[silo][:, 3] += 2 * given[silo][:, 3].std()


def other_weights(given, truth, silo, rng):
    E = rng.normal(size=given[silo].shape)
    given[silo] = E @ np.linalg.inv(np.eye(6) - truth.weights * rng.uniform(0.4, 0.7, (6, 6)))


def outlying(given, truth, silo, rng):
    table = given[silo]
    wild = rng.random(table.shape) < 0.01
    table[wild] += 15 * table.std() * rng.choice([-1, 1], wild.sum())


@pytest.mark.parametrize(
    ("harm", "name"),
    [(shifted, "shifted silo"), (other_weights, "silo with different weights"), (outlying, "outliers")],
)
def test_the_silo_that_disagrees_is_named(harm, name):
    right = 0
    for seed in range(10):
        given, truth = silos_of(700 + seed)
        rng = np.random.default_rng(seed)
        culprit = f"silo-{rng.integers(1, 7)}"
        harm(given, truth, culprit, rng)
        right += (name, (culprit,)) in [(one.name, one.silos) for one in said_of(given, truth)]
    assert right >= 9


def test_silos_that_agree_are_not_accused():
    accused = sum(bool(said_of(*silos_of(800 + seed))) for seed in range(30))
    assert accused <= 2


def test_means_that_differ_everywhere_accuse_nobody_alone():
    given, truth = silos_of(900)
    rng = np.random.default_rng(0)
    moved = {silo: table + 3 * rng.uniform(2, 3, 6) * (-1) ** k for k, (silo, table) in enumerate(given.items())}
    (found,) = said_of(moved, truth)
    assert found.name == "site means"
    assert set(found.silos) == set(given)


def test_a_lost_silo_says_nothing():
    figures = np.zeros((4, len(FIGURES), 2))
    figures[2] = np.nan
    assert silo_findings(server_of(np.eye(3), figures=figures), RULES) == []
    figures[1, 2] = (0.01, 1)
    (found,) = silo_findings(server_of(np.eye(3), figures=figures), RULES)
    assert (found.name, found.silos) == ("outliers", ("s1",))
    assert "1-5 % of the cells are outliers, most of them in b" in found.message
    (found,) = silo_findings(server_of(np.eye(3), silos=2, figures=figures[1:3]), RULES)
    assert found.message.startswith("s0: ")


def outliers_in(cells, rows=100):
    """The findings about a silo with this number of outliers."""
    figures = np.zeros((4, len(FIGURES), 2))
    figures[0, 2] = cells / (3 * rows), 1
    return [one.message for one in silo_findings(server_of(np.eye(3), 4 * rows, figures=figures), RULES)]


def test_one_or_two_cells_are_not_reported():
    assert [len(outliers_in(cells)) for cells in (0, 1, 2, 5, 6)] == [0, 0, 0, 0, 1]


def test_one_or_two_cells_are_not_reported_even_if_a_rule_allows_for_no_chance():
    rule = replace(RULES["outliers"], least=1e-9, chance=lambda rows, d: np.zeros(len(rows)))
    figures = np.zeros((4, 1, 2))
    figures[:, 0, 0] = np.arange(4) / (3 * 100)
    found = excesses(server_of(np.eye(3), 400, figures=figures), {"outliers": rule})["outliers"]
    assert (found > 1).tolist() == [False, False, False, True]


def test_outliers_are_reported_in_classes():
    said = outliers_in(6)
    assert said == outliers_in(7) == outliers_in(14)
    assert "1-5 % of the cells are outliers" in said[0]


def test_weights_that_differ_because_of_one_silos_outliers_are_not_told_twice():
    figures = np.zeros((4, len(FIGURES), 2))
    figures[:, 1, 0] = 0.5
    assert names(silo_findings(server_of(np.eye(3), figures=figures), RULES)) == ["weights differ"]
    figures[0, 2] = (0.05, 2)
    assert names(silo_findings(server_of(np.eye(3), figures=figures), RULES)) == ["outliers"]


def test_effects_that_are_not_linear_are_told_wherever_they_are():
    rng = np.random.default_rng(3)
    truth = Structure(("a", "b"), np.array([[0.0, 1.0], [0.0, 0.0]]))
    straight, bent = {}, {}
    for silo in ("s1", "s2", "s3"):
        a = rng.uniform(0, 4, size=500)
        noise = rng.normal(size=500)
        straight[silo], bent[silo] = np.column_stack([a, a + noise]), np.column_stack([a, a**2 + noise])
    assert said_of(straight, truth) == []
    (found,) = said_of(bent, truth)
    assert (found.name, set(found.silos)) == ("not linear", set(bent))
    assert "% of the residual of b: not all effects are linear" in found.message


@pytest.mark.parametrize("finding", [lambda pairs: apart_findings(pairs)[0], one_to_one_pairs])
def test_pairs_beyond_five_are_counted(finding):
    assert "and 2 more pairs" in finding([("a", f"b{k}") for k in range(7)]).message
    assert "more pairs" not in finding([("a", f"b{k}") for k in range(5)]).message


@pytest.mark.parametrize("rows", [1, 60])
def test_a_level_of_one_silo_is_no_shift(rows):
    """A note on the table names it; at the other silos, the level has no standard deviation."""
    rng = np.random.default_rng(0)
    tables = {}
    for silo in ("a", "b", "c"):
        tables[silo] = pd.DataFrame(rng.normal(size=(200, 2)), columns=["x", "y"]).assign(
            kind=rng.choice(["one", "two"], 200)
        )
    tables["a"].loc[: rows - 1, "kind"] = "three"
    said = [one.message for one in learn(tables, bootstrap=0).result.diagnosed.findings]
    assert not any("kind=three" in sentence for sentence in said)


def test_owners_that_allow_only_sums_leave_errors_unchecked():
    (of_numbers,), (of_labels,) = (uncompared_findings(("clinic",), numbers=numbers) for numbers in (True, False))
    assert "checked whether errors depend on causes" in of_numbers.message
    assert "errors" not in of_labels.message
    assert not uncompared_findings((), numbers=True)
