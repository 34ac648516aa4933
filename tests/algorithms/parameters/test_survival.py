"""The piecewise-exponential node of a survival outcome: its fit, its intervals, and the selection of its parents."""

import json
from dataclasses import replace
from itertools import combinations
from math import log
from pathlib import Path

import numpy as np
import pytest

from fedbnsl.algorithms.core.protocol import Replies
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.parameters import survival
from fedbnsl.algorithms.parameters.survival import TIMES, Survival, exposures, limits_of, node, start
from fedbnsl.algorithms.parameters.survival_node import SurvivalNode
from fedbnsl.algorithms.privacy.disclosure_control import MIN_COUNT
from tests.references.lifelines_cox import CASES, TERMS, draw

FROZEN = json.loads((Path(__file__).parents[2] / "references" / "lifelines_cox.json").read_text())["cases"]
DOSES = ("none", "some", "much")


def schema_of(tables, names=("age", "dose", "pressure"), levels=None):
    levels = {"dose": DOSES} if levels is None else levels
    rows = {silo: len(table) for silo, table in tables.items()}
    return Schema((*names, "days", "died"), rows, "mixed", levels | {"died": ("0", "1")})


def finished(tables, candidates=("age", "dose", "pressure"), required=None, schema=None, lose=None):
    """The final state over the silos; after round `lose`, only the first two silos reply."""
    schema = schema or schema_of(tables)
    algorithm, server = survival.build(Survival()), start(schema, "death", ("days", "died"), candidates, required)
    silos = {name: algorithm.open_silo(table, schema, name, None) for name, table in tables.items()}
    for number in range(algorithm.max_rounds):
        names = sorted(silos)[: 2 if lose is not None and number >= lose else None]
        total = sum(survival.part(silos[name], algorithm.broadcast(server)) for name in names)
        server = algorithm.aggregate(server, Replies(tuple(names), total=total))
        if algorithm.converged(server):
            return server
    raise AssertionError("no convergence")


def coefficients(found):
    return np.array([one.coefficient for one in found.terms])


def poisson(tables, limits, coded):
    """Coefficients and covariance of the pooled Poisson regression of intervals, with a constant by silo and interval.

    Each row is split at the `limits`, and the logarithm of the time in an interval is the offset.
    """
    designs, events, offsets = [], [], []
    strata = len(tables) * len(limits)
    for p, table in enumerate(tables.values()):
        begins = np.append(0.0, limits[:-1])
        for row, x in zip(table, coded(table), strict=True):
            for j in np.flatnonzero(begins < row[-2]):
                constant = np.zeros(strata)
                constant[p * len(limits) + j] = 1.0
                designs.append(np.append(constant, x))
                events.append(float(row[-1] == 1 and row[-2] <= limits[j]))
                offsets.append(log(min(row[-2], limits[j]) - begins[j]))
    X, y, offset = np.array(designs), np.array(events), np.array(offsets)
    used = X[y == 1].any(axis=0) | (np.arange(X.shape[1]) >= strata)
    kept = ~X[:, ~used].any(axis=1)
    X, y, offset = X[kept][:, used], y[kept], offset[kept]
    b = np.append(np.full(used.sum() - X[:, used[:strata].sum() :].shape[1], -6.0), np.zeros(used[strata:].sum()))
    for _ in range(60):
        mean = np.exp(X @ b + offset)
        hessian = (X * mean[:, None]).T @ X
        step = np.linalg.solve(hessian, X.T @ (y - mean))
        b += np.clip(step, -2, 2)
    q = used[strata:].sum()
    return b[-q:], np.linalg.inv(hessian)[-q:, -q:]


def dosed(table):
    return np.column_stack([table[:, 0], table[:, 1] == 1, table[:, 1] == 2, table[:, 2]])


@pytest.mark.parametrize("censored", [0.3, 0.7])
def test_the_sums_over_silos_give_the_pooled_poisson_regression(censored):
    tables = {silo: table[:150] for silo, table in draw(5, censored).items()}
    server = finished(tables)
    found = node(server)
    b, covariance = poisson(tables, np.array(found.limits), dosed)
    np.testing.assert_allclose(coefficients(found), b, atol=1e-6)
    np.testing.assert_allclose(found.covariance, covariance, atol=1e-6)
    np.testing.assert_allclose(found.errors, np.sqrt(np.diag(covariance)), atol=1e-6)
    assert [one.name for one in found.terms] == list(TERMS)


def test_an_event_at_a_limit_is_in_the_interval_that_ends_there():
    tables = {silo: table[:150] for silo, table in draw(5, 0.3).items()}
    for table in tables.values():
        table[:, 3] = TIMES[np.searchsorted(TIMES, table[:, 3])]
    found = node(finished(tables))
    assert all(np.isin(found.limits[:-1], np.vstack(list(tables.values()))[:, 3]))
    b, _ = poisson(tables, np.array(found.limits), dosed)
    np.testing.assert_allclose(coefficients(found), b, atol=1e-6)


@pytest.mark.parametrize("frozen", FROZEN, ids=lambda one: f"{one['seed']}, {one['censored']}")
def test_ten_intervals_are_near_the_stratified_cox_regression_of_lifelines(frozen):
    arguments = {name: frozen[name] for name in ("seed", "censored")}
    assert arguments in CASES
    tables = draw(**arguments)
    assert np.vstack(list(tables.values())).sum() == pytest.approx(frozen["sum"], abs=1e-5)
    found = node(finished(tables))
    assert len(found.limits) == 10
    np.testing.assert_allclose(coefficients(found), frozen["log_hazard_ratios"], atol=0.02)
    np.testing.assert_allclose(found.errors, frozen["errors"], rtol=0.03)


def test_the_hazards_are_events_over_the_exposure_at_the_means():
    tables = draw(1, 0.3)
    found, rows = node(finished(tables)), np.vstack(list(tables.values()))
    x = dosed(rows)
    centre = np.array([one.centre for one in found.terms])
    np.testing.assert_allclose(centre, x.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose([one.spread for one in found.terms], x.std(axis=0), rtol=1e-7)
    limits = np.array(found.limits)
    exposure = exposures(rows[:, -2], limits) * np.exp((x - centre) @ coefficients(found))[:, None]
    ended = np.histogram(rows[rows[:, -1] == 1, -2], np.append(0, limits))[0]
    np.testing.assert_allclose(found.hazards, ended / exposure.sum(axis=0), rtol=1e-9)
    assert (np.abs(np.array(found.interval_events) - ended) <= 1.5).all()
    assert all(one % 3 == 0 for one in (*found.interval_events, found.events))
    assert (found.rows, found.silos) == (len(rows), 3)
    assert abs(found.events - rows[:, -1].sum()) <= 1.5
    assert limits[-1] >= rows[:, -2].max()


@pytest.mark.parametrize("events", [2 * MIN_COUNT, 7, 20, 60, 1000])
def test_no_interval_has_fewer_events_than_may_be_published(events):
    rng = np.random.default_rng(events)
    ended = np.bincount(np.searchsorted(TIMES, rng.exponential(500, events)), minlength=len(TIMES) + 1)
    rows = ended + np.bincount(np.searchsorted(TIMES, rng.exponential(900, 50)), minlength=len(TIMES) + 1)
    limits = limits_of(ended, rows)
    inside = [
        ended[(low < TIMES[-1]) & in_cells(low, high)].sum()
        for low, high in zip([0, *limits[:-1]], limits, strict=True)
    ]
    assert min(inside) >= MIN_COUNT
    assert sum(inside) == events
    assert len(limits) == min(10, len(limits))
    if events == 1000:
        assert len(limits) == 10
        assert max(inside) - min(inside) < 60


def in_cells(low, high):
    """The cells of the grid whose times are above `low` and at most `high`."""
    ends = np.append(TIMES, np.inf)
    return (ends > low) & (ends <= high)


def test_times_at_a_limit_belong_to_the_interval_that_ends_there():
    np.testing.assert_array_equal(exposures(np.array([2.0, 3.0, 9.0]), np.array([2.0, 5.0])), [[2, 0], [2, 1], [2, 3]])
    limits = limits_of(*(np.bincount([100] * 10 + [300] * 10, minlength=len(TIMES) + 1),) * 2)
    assert limits.tolist() == [TIMES[100], TIMES[300]]


def selection(seed, censored, d=8, n=1200):
    """Tables of `d` numbers and labels that depend on each other, three of which are parents of the outcome."""
    rng = np.random.default_rng(seed)
    x = np.zeros((n, d))
    for j in range(d):
        value = 0.6 * x[:, max(j - 1, 0)] * (j > 0) + rng.normal(size=n)
        x[:, j] = np.digitize(value, [-0.5, 0.7]) if j % 3 == 2 else value
    parents = rng.choice(d, 3, replace=False)
    silo = np.arange(n) % 3
    linear = x[:, parents] @ np.array([0.6, -0.5, 0.55]) + 0.3 * silo
    times = 300 * (rng.exponential(size=n) * np.exp(-linear)) ** (1 / 1.3)
    ends = rng.exponential(size=n) * np.quantile(times, 1 - censored)
    table = np.column_stack([x, np.minimum(times, ends), times <= ends])
    tables = {name: table[silo == p] for p, name in enumerate("abc")}
    names = tuple(f"x{j}" for j in range(d))
    levels = {name: DOSES for j, name in enumerate(names) if j % 3 == 2}
    return tables, schema_of(tables, names, levels), names, {names[j] for j in parents}


def test_the_selected_parents_are_the_true_ones():
    right = 0
    for seed in range(12):
        tables, schema, names, true = selection(seed, 0.3 if seed % 2 else 0.6)
        right += set(node(finished(tables, names, (), schema)).parents) == true
    assert right >= 10


def bic(tables, schema, candidates):
    """The likelihood of all `candidates` as parents, minus the penalty of the BIC."""
    server = finished(tables, candidates, None, schema)
    return server.likelihood - 0.5 * np.count_nonzero(server.request.coefficients) * log(server.events)


def test_no_further_and_no_fewer_parents_improve_the_exact_bic():
    tables, schema, names, _ = selection(3, 0.5)
    found = set(node(finished(tables, names, (), schema)).parents)
    best = bic(tables, schema, found)
    for other in names:
        assert bic(tables, schema, found ^ {other}) < best


def test_required_parents_stay_and_others_are_no_candidates():
    tables, schema, names, true = selection(2, 0.3)
    irrelevant = next(name for name in names if name not in true)
    found = node(finished(tables, names, (irrelevant,), schema))
    assert set(found.parents) == {*true, irrelevant}
    assert abs(next(one for one in found.terms if one.variable == irrelevant).coefficient) < 0.1
    gone = sorted(true)[0]
    assert gone not in node(finished(tables, [name for name in names if name != gone], (), schema)).parents


def test_without_a_choice_all_candidates_are_parents():
    tables, schema, names, _ = selection(1, 0.3)
    assert node(finished(tables, names[:4], None, schema)).parents == names[:4]


def test_an_outcome_without_causes_has_no_parents_and_one_hazard_by_interval():
    tables = draw(2, 0.3)
    rng = np.random.default_rng(0)
    for table in tables.values():
        table[:, :3] = rng.permutation(table[:, :3])
    found = node(finished(tables, required=()))
    assert (found.parents, found.terms) == ((), ())
    assert found.curves()[0] == ""


def test_a_column_that_others_determine_changes_nothing():
    tables = {silo: np.insert(table, 3, 2 * table[:, 0] + 1, axis=1) for silo, table in draw(3, 0.3).items()}
    schema = schema_of(tables, ("age", "dose", "pressure", "years"))
    found = node(finished(tables, ("age", "dose", "pressure", "years"), None, schema))
    plain = node(finished(draw(3, 0.3)))
    assert [one.variable for one in found.terms] == ["age", "dose", "dose", "pressure"]
    np.testing.assert_allclose(coefficients(found), coefficients(plain), atol=1e-5)


def test_a_level_without_events_has_no_coefficient():
    tables = draw(3, 0.3)
    for table in tables.values():
        table[table[:, 1] == 2, -1] = 0
    found = node(finished(tables))
    assert [one.name for one in found.terms] == ["age", "dose=some", "pressure"]


def test_a_first_level_without_events_is_merged_with_the_largest_level():
    tables = draw(3, 0.3)
    for table in tables.values():
        table[table[:, 1] == 0, -1] = 0
    assert [one.name for one in node(finished(tables)).terms] == ["age", "dose=much", "pressure"]


def test_rows_with_an_empty_cell_are_left_out():
    tables = draw(4, 0.3)
    holes = {silo: table.copy() for silo, table in tables.items()}
    for table in holes.values():
        table[::7, 0], table[1::11, 1], table[2::13, 3], table[3::17, 4] = np.nan, -1, np.nan, np.nan
    complete = {
        silo: table[~(np.isnan(table) | (table < 0) & (np.arange(5) == 1)).any(axis=1)] for silo, table in holes.items()
    }
    found, expected = node(finished(holes)), node(finished(complete))
    np.testing.assert_allclose(coefficients(found), coefficients(expected), atol=1e-9)
    assert found.rows == sum(map(len, complete.values()))


def test_the_mean_and_unit_of_a_column_do_not_matter():
    tables = {silo: table.copy() for silo, table in draw(0, 0.7).items()}
    plain = node(finished(tables))
    for table in tables.values():
        table[:, 0] = 2000 + 25 * table[:, 0]
        table[:, 3] *= 2.0**5
    found = node(finished(tables))
    np.testing.assert_allclose(coefficients(found)[0] * 25, coefficients(plain)[0], atol=1e-7)
    np.testing.assert_allclose(coefficients(found)[1:], coefficients(plain)[1:], atol=1e-7)


def test_strong_effects_converge():
    rng = np.random.default_rng(0)
    tables = {}
    for silo in "ab":
        x = rng.normal(size=(400, 3)) * [1, 3, 1]
        times = rng.exponential(size=400) * np.exp(-x @ [4.0, 2.0, 0.0]) * 100
        tables[silo] = np.column_stack([x, np.clip(times, 1e-5, 1e6), np.ones(400)])
    schema = schema_of(tables, levels={})
    found = node(finished(tables, required=(), schema=schema))
    assert set(found.parents) == {"age", "dose"}
    b, _ = poisson({s: t[:400] for s, t in tables.items()}, np.array(found.limits), lambda table: table[:, :2])
    np.testing.assert_allclose(coefficients(found), b, atol=1e-6)


def test_the_fit_goes_on_without_a_lost_silo():
    tables = draw(1, 0.3)
    server = finished(tables, lose=3)
    limits = server.request.limits
    two = {silo: tables[silo] for silo in ("a", "b")}
    b, _ = poisson(two, limits, dosed)
    np.testing.assert_allclose(server.request.coefficients, b, atol=1e-5)
    assert node(server).silos == 2


def test_a_fall_of_the_likelihood_halves_the_step():
    tables = draw(1, 0.3)
    schema, algorithm = schema_of(tables), survival.build(Survival())
    server = start(schema, "death", ("days", "died"), ("age", "dose", "pressure"))
    silos = {name: algorithm.open_silo(table, schema, name, None) for name, table in tables.items()}

    def after(server):
        total = sum(survival.part(silos[name], server.request) for name in sorted(silos))
        return algorithm.aggregate(server, Replies(tuple(sorted(silos)), total=total))

    server = after(after(server))
    assert not server.accepted.any()
    far = 40 * server.request.coefficients
    halved = after(replace(server, request=replace(server.request, coefficients=far)))
    np.testing.assert_allclose(halved.request.coefficients, far / 2)
    assert not halved.accepted.any()


@pytest.mark.parametrize("events", [0, 2 * MIN_COUNT - 1])
def test_too_few_events_are_a_reason_for_no_node(events):
    tables = draw(0, 0.3)
    for table in tables.values():
        table[:, -1] = 0
    tables["b"][:events, -1] = 1
    assert "fewer than 6 rows" in node(finished(tables))


def test_times_beyond_the_grid_are_a_reason_for_no_node():
    tables = draw(0, 0.3)
    tables["a"][0, -2] = 2 * TIMES[-1]
    assert "use a larger unit" in node(finished(tables))


def test_a_fit_that_did_not_end_is_no_node():
    server = finished(draw(0, 0.3))
    assert node(replace(server, hazard_sums=np.empty(0))) == "the fit did not converge"


# The node.


@pytest.fixture(scope="module")
def fitted() -> SurvivalNode:
    return node(finished(draw(0, 0.3)))


def test_a_risk_is_that_of_the_constant_hazards(fitted):
    until = 0.5 * (fitted.limits[3] + fitted.limits[4])
    lengths = np.diff([0, *fitted.limits[:4], until])
    x = np.array([1.5, 0, 1, -0.5]) - [one.centre for one in fitted.terms]
    scale = np.exp(x @ coefficients(fitted))
    expected = 1 - np.exp(-lengths @ fitted.hazards[:5] * scale)
    columns = {"age": np.array([1.5]), "dose": np.array([2.0]), "pressure": np.array([-0.5])}
    value, (low, high) = fitted.risk(until, columns)
    assert value == pytest.approx(expected)
    assert low < value < high
    assert high - low < 0.2
    two = {name: np.append(column, 0.0) for name, column in columns.items()}
    other, _ = fitted.risk(until, {name: np.zeros(1) for name in columns})
    assert fitted.risk(until, two, np.array([3.0, 1.0]))[0] == pytest.approx(0.75 * value + 0.25 * other)


def test_the_interval_of_a_risk_is_that_of_coefficients_and_hazards(fitted):
    columns = {"age": np.zeros(1), "dose": np.zeros(1), "pressure": np.zeros(1)}
    value, (low, high) = fitted.risk(fitted.limits[4], columns)
    x = -np.array([one.centre for one in fitted.terms])
    parts = fitted.cumulative_parts(fitted.limits[4])
    relative = (parts**2 / np.maximum(fitted.interval_events, 1)).sum() / parts.sum() ** 2
    error = np.sqrt(relative + x @ np.array(fitted.covariance) @ x)  # of the logarithm of the cumulative hazard
    ends = 1 - (1 - value) ** np.exp([-1.96 * error, 1.96 * error])
    np.testing.assert_allclose([low, high], ends, atol=0.012)
    alone = replace(fitted, terms=(), covariance=(), parents=())
    value, (low, high) = alone.risk(fitted.limits[4], {})
    ends = 1 - (1 - value) ** np.exp([-1.96 * np.sqrt(relative), 1.96 * np.sqrt(relative)])
    np.testing.assert_allclose([low, high], ends, atol=0.003)


@pytest.mark.parametrize("until", [0.0, -1.0, 1e9])
def test_no_risk_is_given_outside_of_the_follow_up(fitted, until):
    with pytest.raises(BadInput, match="follow-up ended at"):
        fitted.cumulative_parts(until)


def test_hazard_ratios_compare_any_two_values(fitted):
    b, covariance = coefficients(fitted), np.array(fitted.covariance)
    change, error = fitted.contrast("dose", ("some", "much"))
    assert change == pytest.approx(b[2] - b[1])
    assert error == pytest.approx(np.sqrt(covariance[1, 1] + covariance[2, 2] - 2 * covariance[1, 2]))
    assert fitted.contrast("age", (1.0, 3.0))[0] == pytest.approx(2 * b[0])
    one = fitted.hazard_ratio(0)
    assert one.value == pytest.approx(np.exp(b[0]))
    np.testing.assert_allclose(
        one.interval, np.exp(b[0] + np.array([-1.959964, 1.959964]) * fitted.errors[0]), rtol=1e-6
    )
    with pytest.raises(BadInput, match="no label 'lots'"):
        fitted.contrast("dose", ("some", "lots"))
    with pytest.raises(BadInput, match="'old' is not a number"):
        fitted.contrast("age", (1.0, "old"))


def test_the_p_value_of_labels_is_that_of_all_their_levels(fitted):
    from scipy.stats import chi2

    b, covariance = coefficients(fitted)[1:3], np.array(fitted.covariance)[1:3, 1:3]
    assert fitted.p_value("dose") == pytest.approx(chi2.sf(b @ np.linalg.inv(covariance) @ b, 2))
    assert fitted.p_value("nothing") == 1.0


def test_curves_fall_and_are_ordered_by_the_hazard(fitted):
    parent, curves = fitted.curves()
    assert parent == min(fitted.parents, key=fitted.p_value)
    by_dose = replace(fitted, terms=fitted.terms[1:3], covariance=tuple(row[1:3] for row in fitted.covariance[1:3]))
    parent, curves = by_dose.curves()
    assert (parent, [one.label for one in curves]) == ("dose", list(DOSES))
    for one, other in combinations([one.free for one in curves], 2):
        assert (one > other).all()
    assert all((np.diff(one.free) < 0).all() for one in curves)
    none = by_dose.risk(fitted.limits[2], {"dose": np.zeros(1)})[0]
    assert 1 - curves[0].free[2] == pytest.approx(none)
    value, (low, high) = by_dose.risk(fitted.limits[2], {"dose": np.zeros(1)})
    np.testing.assert_allclose([1 - curves[0].high[2], 1 - curves[0].low[2]], [low, high], atol=0.012)
    assert low < value < high


def test_repeated_rows_in_clusters_count_once():
    """With each row five times, parents, intervals and curves are those of the rows once."""
    once = draw(12, 0.3)
    repeated = {silo: np.repeat(rows, 5, axis=0) for silo, rows in once.items()}
    clustered = replace(schema_of(repeated), independent_share=0.2)
    found = node(finished(repeated, required=(), schema=clustered))
    expected, naive = (node(finished(tables, required=())) for tables in (once, repeated))
    assert found.parents == expected.parents
    assert found.events == pytest.approx(5 * expected.events, rel=0.02)
    np.testing.assert_allclose(coefficients(found), coefficients(expected), atol=0.01)
    np.testing.assert_allclose(found.errors, expected.errors, rtol=0.02)
    assert (naive.errors < 0.5 * expected.errors).all()
    widths = [np.mean([curve.high - curve.low for curve in one.curves()[1]]) for one in (found, expected, naive)]
    assert widths[0] == pytest.approx(widths[1], rel=0.05)
    assert widths[2] < 0.6 * widths[1]
    row = {"age": np.zeros(1), "dose": np.zeros(1), "pressure": np.zeros(1)}
    risks = [np.diff(one.risk(expected.limits[3], row)[1]) for one in (found, expected)]
    assert risks[0] == pytest.approx(risks[1], rel=0.1)
    weak = {silo: np.repeat(rows[:25], 5, axis=0) for silo, rows in once.items()}
    sizes = [
        len(node(finished(weak, required=(), schema=replace(schema_of(weak), independent_share=share))).parents)
        for share in (0.2, 1.0)
    ]
    assert sizes[0] < sizes[1]
