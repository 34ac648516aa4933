"""Each finding just above and just below its threshold, and its exact text; all numbers in it are different."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import entropy

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.diagnosis import exchange, findings, missingness, tables
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.data.federated import with_gaps
from fedbnsl.tasks.transport.in_process import federate
from tests.algorithms.exact import exact, of_model
from tests.algorithms.losing import Losing, last_of

NAMES = ("age", "dose", "score", "smoke")


def numbers_of(given, structure):
    """The state after both exchanges of a diagnosis of numbers."""
    algorithm = registry.build(AlgorithmSpec("diagnosis", exchange.Diagnosis()))
    federation = federate(given, NAMES[: len(structure.variables)])
    return last_of(algorithm, federation, exchange.start(federation.schema, structure)).server


def dag(*edges, d=3):
    weights = np.zeros((d, d))
    for i, j in edges:
        weights[i, j] = 1.0
    return Structure(NAMES[:d], weights)


def fit_of(S, rows, structure, silos=3, **how):
    """The names and sentences of the findings on `structure`, given the within-silo moments `S` per row."""
    d, names = len(S), NAMES[: len(S)]
    schema = Schema(names, {f"s{k}": rows // silos + (k < rows % silos) for k in range(silos)})
    server = exchange.start(schema, structure)
    server = replace(server, rows=rows, means=np.zeros(d), within=np.array(S, float), counted=np.ones(silos, bool))
    return {
        one.name: one.message for one in findings.fit_findings(server, structure, **({"equal_variances": False} | how))
    }


def scales_of(sd, means=(0.0, 0.0, 0.0), **how):
    schema = Schema(NAMES[:3], {"s": 100})
    server = replace(exchange.start(schema, dag()), rows=100, means=np.array(means), within=np.diag(np.square(sd)))
    how = {"equal_variances": True, "centred": True} | how
    return {one.name: one.message for one in findings.scale_findings(server, **how)}


def test_columns_of_nearly_one_variance():
    assert list(scales_of(np.sqrt([1.0, 1.049, 1.02]))) == ["standardised"]
    assert scales_of(np.sqrt([1.0, 1.051, 1.02])) == {}
    assert scales_of(np.ones(3), equal_variances=False) == {}


def test_columns_in_other_units():
    said = "The standard deviation of dose is 101 times that of score: units differ."
    assert scales_of([2.0, 101.0, 1.0]) == {"units": said}
    assert scales_of([2.0, 99.0, 1.0]) == {}
    assert scales_of([2.0, 101.0, 1.0], equal_variances=False) == {}


def test_means_that_stayed_in():
    said = "The mean of score is 3.02 standard deviations from 0 and was not subtracted."
    assert scales_of([2.0, 3.0, 5.0], (5.9, 8.9, -15.1), centred=False) == {"means": said}
    assert scales_of([2.0, 3.0, 5.0], (5.9, 8.9, -14.9), centred=False) == {}
    assert scales_of([2.0, 3.0, 5.0], (5.9, 8.9, -15.1)) == {}


def test_few_rows():
    """Three variances and two weights need 25 rows beyond the means of the three silos."""
    S, said = of_model(np.triu(np.ones((3, 3)), 1), np.ones(3)), "few rows"
    graph = dag((0, 1), (1, 2))
    assert (
        fit_of(S, 27, graph)[said]
        == "5 weights and variances were learned from 24 rows: many edges may be due to chance."
    )
    assert said not in fit_of(S, 28, graph)
    assert said in fit_of(S, 28, dag((0, 1), (1, 2), (0, 2)))


def spread(variances):
    return math.log(np.mean(variances)) - np.mean(np.log(variances))


def test_errors_that_are_not_equally_large():
    weights = np.zeros((3, 3))
    weights[0, 1], weights[1, 2] = 1.5, 0.7
    for ratio in np.linspace(1.1, 3.0, 39):
        variances = np.array([1.3, ratio, 1.0])
        said = fit_of(of_model(weights, variances), 900, dag((0, 1), (1, 2)), equal_variances=True)
        assert ("unequal errors" in said) == (spread(variances) > 0.05)
        if ratio > 1.3 and "unequal errors" in said:
            assert said["unequal errors"] == (
                f"The error variance of dose is {ratio:.3g} times that of score: error variances are "
                "unequal, but the directions rest on equal ones."
            )
    assert "unequal errors" not in fit_of(of_model(weights, np.array([1.3, 9.0, 1])), 900, dag((0, 1), (1, 2)))


def test_a_structure_no_better_than_none():
    """An edge of correlation ρ gains −½ n ln(1 − ρ²) and costs ½ ln n; n is the number of rows minus that of silos."""
    n = 300 - 3
    for worth, expected in ((0.97, True), (1.03, False)):
        S = np.diag([1.0, 4.0, 2.0])
        S[0, 1] = S[1, 0] = 2 * math.sqrt(1 - math.exp(-worth * math.log(n) / n))
        said = fit_of(S, 300, dag((0, 1)))
        assert ("no better than empty" in said) == expected
        if expected:
            gain = 0.5 * (worth - 1) * math.log(n)
            text = f"By BIC the structure is no better than a graph without edges ({gain:.3g})."
            assert said["no better than empty"] == text
    assert fit_of(np.eye(3), 300, dag()) == {}


@pytest.mark.parametrize(("correlation", "expected"), [(1 - 5e-7, True), (1 - 2e-6, False), (-1 + 5e-7, True)])
def test_columns_that_determine_each_other(correlation, expected):
    S = np.diag([1.0, 4.0, 2.0])
    S[0, 2] = S[2, 0] = correlation * math.sqrt(2)
    said = [one.message for one in findings.same_columns(S, NAMES, np.arange(len(S)))]
    text = "Each of age and score determines the other: the data cannot distinguish A → B from B → A."
    assert said == [text] * expected


def test_levels_of_one_variable_do_not_determine_each_other():
    """Only two of three levels occur, so their indicators determine each other; this is no finding."""
    S = np.array([[1.0, -1.0, 0.2], [-1.0, 1.0, -0.2], [0.2, -0.2, 1.0]])
    assert findings.same_columns(S, NAMES, np.array([0, 0, 1])) == []
    (found,) = findings.same_columns(S, NAMES, np.array([0, 2, 1]))
    assert found.message.startswith("Each of age and score determines the other")


def test_a_cap_is_reached_by_as_many_parents_and_not_by_fewer():
    graph = dag((0, 3), (1, 3), d=4)
    (found,) = findings.parent_cap_findings(graph, 2)
    assert found.message == "smoke: 2 parents, as many as max_parents allows; there may be more."
    assert found.advice == "Try -p max_parents=4."
    assert findings.parent_cap_findings(graph, 3) == []
    (found,) = findings.parent_cap_findings(dag((0, 3), (1, 3), (2, 3), (0, 2), (1, 2), d=4), 2)
    assert found.message.startswith("score, smoke: 2 parents")


class State:
    """What each silo found when it compared itself with the others."""

    def __init__(self, rows, figures):
        self.schema = Schema(NAMES, {f"s{k}": n for k, n in enumerate(rows)})
        self.figures = np.array(figures, float)


def of_one_figure(place, values, rules, rows=10**8, column=2):
    """Return the findings if the silos have this number of rows and the given `values` of one figure."""
    figures = np.zeros((len(values), len(rules), 2))
    figures[:, place, 0], figures[:, place, 1] = values, (0, 1, 3, *([0] * 9))[: len(values)]
    figures[int(np.argmax(values)), place, 1] = column
    return findings.silo_findings(State([rows] * len(values), figures), rules)


LEAST = [
    ("shift", findings.RULES, 0.1, "shifted silo", "site means"),
    ("weights", findings.RULES, 0.02, "silo with different weights", "weights differ"),
    ("outliers", findings.RULES, 0.003, "outliers", "outliers"),
    ("bend", findings.RULES, 0.1, "not linear", "not linear"),
    ("shift", findings.TABLE_RULES, 0.05, "shifted silo", "site shares"),
    ("weights", findings.TABLE_RULES, 0.01, "silo with different weights", "weights differ"),
]


@pytest.mark.parametrize(("figure", "rules", "least", "alone", "several"), LEAST)
def test_a_silo_disagrees_from_the_least_that_matters(figure, rules, least, alone, several):
    place = list(rules).index(figure)
    assert of_one_figure(place, [0, 0.99 * least, 0], rules) == []
    (found,) = of_one_figure(place, [0, 1.01 * least, 0], rules)
    assert (found.name, found.silos) == (alone, ("s1",))
    # If another silo deviates almost as much, none is named; the figure must be 1.5 times the next one.
    (found,) = of_one_figure(place, [1.2 * least, 1.2 * 1.52 * least, 0], rules)
    assert (found.name, found.silos) == (alone, ("s1",))
    (found,) = of_one_figure(place, [1.2 * least, 1.2 * 1.48 * least, 0.9 * least], rules)
    assert (found.name, found.silos) == (several, ("s0", "s1"))
    (found,) = of_one_figure(place, [1.2 * least], rules)
    assert (found.name, found.silos) == (several, ("s0",))


CHANCE = {
    ("shift", 10): lambda rows: math.sqrt(2 * math.log(8) / rows) / 2,
    ("shift", 2): lambda rows: math.sqrt(2 * math.log(8) / rows) / 4,
    ("weights", 2): lambda rows: math.log(8) / rows,
}


@pytest.mark.parametrize(
    ("figure", "rules", "least", "alone", "several"),
    [one for one in LEAST if one[0] in ("shift", "weights") and one[:2] != ("weights", findings.RULES)],
)
def test_a_silo_of_few_rows_must_be_five_times_as_far_off_as_by_chance(figure, rules, least, alone, several):
    place, chance = list(rules).index(figure), CHANCE[figure, len(rules)](50)
    assert 5 * chance > least
    assert of_one_figure(place, [0, 4.95 * chance, 0], rules, rows=50) == []
    (found,) = of_one_figure(place, [0, 5.05 * chance, 0], rules, rows=50)
    assert found.silos == ("s1",)


RULES_OF = {"numbers": findings.RULES, "tables": findings.TABLE_RULES}
SENTENCES = [
    (
        "numbers",
        "shift",
        0.7,
        "s1 is shifted: its mean of score is 0.7 standard deviations from the other silos' mean.",
    ),
    (
        "numbers",
        "weights",
        0.3,
        "s1 has different weights: the residual variance of score on its rows is 26 % smaller with weights fitted to "
        "these rows than with weights fitted to the rows of the others.",
    ),
    ("numbers", "outliers", 0.07, "s1: 5-20 % of the cells are outliers, most of them in score."),
    (
        "numbers",
        "bend",
        0.4,
        "s1: squares and cubes explain 40 % of the residual of score: not all effects are linear.",
    ),
    (
        "tables",
        "shift",
        0.2,
        "s1 is shifted: over 20 % of its rows would have to change their level of score for the shares to equal the "
        "other silos' shares.",
    ),
    (
        "tables",
        "weights",
        0.15,
        "s1 has different dependences: score depends differently on a neighbour (0.15 nats a row).",
    ),
]
OF_SEVERAL = {
    ("numbers", "shift"): "Means differ between the silos, most for score, by 0.7 standard deviations.",
    ("numbers", "weights"): "2 of 3 silos have different weights, most for score (s0, s1).",
    ("numbers", "outliers"): "2 of 3 silos: 5-20 % of the cells are outliers, most of them in score.",
    (
        "numbers",
        "bend",
    ): "2 of 3 silos: squares and cubes explain 40 % of the residual of score: not all effects are linear.",
    (
        "tables",
        "shift",
    ): "Shares of levels differ between the silos, most for score, by over 20 % of a silo's rows.",
    ("tables", "weights"): "2 of 3 silos have different dependences, most for score (s0, s1).",
}


@pytest.mark.parametrize(("kind", "figure", "value", "said"), SENTENCES)
def test_what_is_said_of_one_silo_and_of_several(kind, figure, value, said):
    place = list(RULES_OF[kind]).index(figure)
    (found,) = of_one_figure(place, [0, value, 0], RULES_OF[kind])
    assert found.message == said
    (found,) = of_one_figure(place, [0.9 * value, value, 0], RULES_OF[kind])
    assert found.message == OF_SEVERAL[kind, figure]


def test_a_lost_silo_leaves_the_figures_that_the_others_have_without_it():
    S = of_model(np.array([[0, 0.8, 0], [0, 0, 0.5], [0, 0, 0]]), np.array([1.0, 2, 0.5]))
    given = exact(S)
    given["b"][:, 1] += 2.0
    left = {silo: table for silo, table in given.items() if silo != "a"}
    structure = dag((0, 1), (1, 2))
    federation = federate(given, NAMES[:3])
    algorithm = registry.build(AlgorithmSpec("diagnosis", exchange.Diagnosis()))
    start = exchange.start(federation.schema, structure)
    found = last_of(algorithm, Losing(federation.schema, given, {"a": 1}), start).server
    expected = numbers_of(left, structure)
    assert found.rows == expected.rows == 400
    np.testing.assert_allclose(found.within, expected.within, rtol=1e-12)
    np.testing.assert_allclose(found.means, expected.means, rtol=1e-12)
    np.testing.assert_allclose(found.figures[1:], expected.figures, rtol=1e-9, atol=1e-12)
    assert np.isnan(found.figures[0]).all()


LEVELS = {"age": ("a", "b"), "dose": ("a", "b", "c"), "score": ("a", "b"), "smoke": ("a", "b")}


def dependent(n, rng, odd):
    """Codes of four columns: dose depends on smoke, by another rule in the odd silo, and score depends on age."""
    age, dose = rng.random(n) < 0.4, rng.integers(0, 3, n)
    score = np.where(rng.random(n) < 0.8, age, ~age)
    smoke = rng.random(n) < np.array([0.9, 0.5, 0.1] if odd else [0.1, 0.5, 0.9])[dose]
    return np.column_stack([age, dose, score, smoke]).astype(np.int64)


def dependence(own, rest):
    """The relative entropy of a silo's table given its margins, minus its expectation by chance, by scipy."""
    n, m, smooth = own.sum(), rest.sum(), rest + 1 / rest.size
    apart = entropy(own.ravel(), smooth.ravel())
    apart -= entropy(own.sum(0), smooth.sum(0)) + entropy(own.sum(1), smooth.sum(1))
    return apart - 0.5 * (own.shape[0] - 1) * (own.shape[1] - 1) * (1 / n + 1 / m)


@pytest.mark.parametrize("seed", range(3))
def test_figures_of_tables_are_those_of_the_rows_and_name_the_effect(seed):
    """The finding names the second column of a pair, and not the first pair, which does not deviate."""
    rng = np.random.default_rng(seed)
    given = {silo: dependent(n, rng, silo == "b") for silo, n in {"a": 300, "b": 500, "c": 900}.items()}
    schema = Schema(NAMES, {silo: len(table) for silo, table in given.items()}, "discrete", LEVELS)
    structure = dag((0, 2), (1, 3), d=4)
    algorithm = registry.build(AlgorithmSpec("diagnosis-tables", tables.TableDiagnosis()))
    server = last_of(algorithm, Losing(schema, given, {}), tables.start(schema, structure)).server

    def counts(rows, i, j):
        found = np.zeros((len(LEVELS[NAMES[i]]), len(LEVELS[NAMES[j]])))
        np.add.at(found, (rows[:, i], rows[:, j]), 1)
        return found

    for place, silo in enumerate(sorted(given)):
        rest = np.vstack([table for other, table in given.items() if other != silo])
        pairs = {j: dependence(counts(given[silo], i, j), counts(rest, i, j)) for i, j in ((0, 2), (1, 3))}
        column = max(pairs, key=pairs.get)
        assert server.figures[place, 1] == pytest.approx([pairs[column], column])
        shifts = []
        for v, name in enumerate(NAMES):
            p, q = (np.bincount(rows[:, v], minlength=len(LEVELS[name])) for rows in (given[silo], rest))
            n, m = p.sum(), q.sum()
            both = (p + q) / (n + m)
            chance = np.sqrt(2 / np.pi * both * (1 - both) * (1 / n + 1 / m)).sum()
            shifts.append(0.5 * (np.abs(p / n - q / m).sum() - chance))
        assert server.figures[place, 0] == pytest.approx([max(shifts), int(np.argmax(shifts))])
    assert server.figures[1, 1, 1] == 3
    (found,) = [
        one for one in findings.silo_findings(server, findings.TABLE_RULES) if one.name == "silo with different weights"
    ]
    assert found.message.startswith("b has different dependences: smoke depends differently on a neighbour (")


def test_few_rows_of_tables():
    """age has 1 free parameter, dose 2, score 2·1, smoke 3·1: eight, which need forty rows."""
    structure = dag((0, 2), (1, 3), d=4)
    for n, expected in ((39, True), (40, False)):
        rows = dependent(n, np.random.default_rng(0), False)
        schema = Schema(NAMES, {"s": n}, "discrete", LEVELS)
        algorithm = registry.build(AlgorithmSpec("diagnosis-tables", tables.TableDiagnosis()))
        server = last_of(algorithm, Losing(schema, {"s": rows}, {}), tables.start(schema, structure)).server
        said = {one.name: one.message for one in findings.table_fit_findings(server, structure)}
        assert ("few rows" in said) == expected
        if expected:
            text = (
                "The structure's tables have 8 free parameters, learned from 39 rows: many are estimated from few rows."
            )
            assert said["few rows"] == text


def half_high(n, empty, high):
    """Columns age, dose and score; half of age is high, and so many of the `empty` cells of score are in that half."""
    table = np.zeros((n, 3))
    table[:, 0] = np.where(np.arange(n) < n // 2, 1.0, -1.0)
    table[:, 1], table[:, 2] = np.tile([1.0, -1.0], n // 2), np.tile([1.0, 1, -1, -1], n // 4)
    table[:high, 2] = table[n // 2 : n // 2 + empty - high, 2] = np.nan
    return table


def said_of_gaps(*given, names=NAMES[:3]):
    tables_of = {f"s{k}": table for k, table in enumerate(given)}
    schema = with_gaps(Schema(names, {silo: len(table) for silo, table in tables_of.items()}), tables_of)
    algorithm = missingness.build(missingness.Missingness())
    return [one.message for one in missingness.findings(last_of(algorithm, Losing(schema, tables_of, {})).server)]


@pytest.mark.parametrize(
    ("n", "empty", "high", "expected"),
    [
        (20_000, 10_000, 5_470, 0),  # 0.094 standard deviations, 13 standard errors: significant, but small
        (20_000, 10_000, 5_530, 1),
        (400, 100, 71, 0),  # 0.42 standard deviations, 4.8 errors
        (400, 100, 73, 1),
    ],
)
def test_gaps_depend_on_a_column_if_that_is_sure_and_matters(n, empty, high, expected):
    text = "Values are not missing completely at random: cells are more often empty in score where age is high."
    assert said_of_gaps(half_high(n, empty, high)) == [text] * expected
    low = half_high(n, empty, empty - high)
    assert said_of_gaps(low) == [text.replace("high", "low")] * expected
    # Silos add up: two silos with half of the rows each give the same evidence as one.
    halves = [half_high(n, empty, high)[k::2] + 50 * k for k in range(2)]
    assert said_of_gaps(*halves) == [text] * expected


def test_the_gaps_of_three_columns_are_named_the_surest_first():
    rng = np.random.default_rng(0)
    names = tuple("abcdef")
    for columns, more in ((3, ""), (4, ", and 1 more columns"), (5, ", and 2 more columns")):
        table = rng.standard_normal((8000, 6))
        for k in range(columns):
            likely = 1 / (1 + np.exp(-0.25 * 1.8**k * table[:, 5] * (-1) ** k))
            table[rng.random(8000) < likely * 0.5, k] = np.nan
        order = list(range(columns))[::-1][:3]
        parts = "; ".join(f"{names[k]} where f is {'low' if k % 2 else 'high'}" for k in order)
        text = f"Values are not missing completely at random: cells are more often empty in {parts}{more}."
        assert said_of_gaps(table, names=names) == [text]
