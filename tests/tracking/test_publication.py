"""The publication gate: what is published of exact figures, by their kind."""

from dataclasses import fields

import numpy as np
import pytest

from fedbnsl.algorithms.diagnosis.implied import BicGains, FisherC, Fit
from fedbnsl.algorithms.events.hawkes import intensities_of
from fedbnsl.algorithms.graphs.edges import EdgeFigures
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.tracking.publication import Kind, PublicationGate, rounded
from fedbnsl.tracking.result import RunResult

PASS_THE_GATE = {
    *("structure", "rounds", "metrics", "parameters", "fit", "edge_figures", "held_out", "tuning", "found_targets"),
}
REST_ON_OTHER_RULES = {
    "diagnosed": "texts with classes of shares (`diagnosis/findings.py`)",
    "basis": "texts with three digits",
    "local_structures": "weights, and no counts",
    "silo_scores": "comparisons of graphs",
    "refit": "errors of synthetic data, which have true weights",
    "confidence": "shares of graphs",
    "graph_posterior": "shares of graphs, and weights of models",
    "survival": "coefficients and hazards of models; counts of events on the grid, at least three in each interval",
    "changes": "differences of published models",
    "privacy": "the ledger",
    "disclosed": "sizes of messages; the smallest count is left out of the file",
    "schema": "public facts",
    "notes": "public facts",
    "unresampled": "an error of silos or of the learner, without a count",
    "not_identified": "public facts",
    "about": "public facts",
}
OF_NO_ROWS = {
    *("name", "algorithm", "params", "seed", "engine", "dataset", "asked", "bootstrap", "register", "small_cells"),
    *("truth", "outcome", "lost", "averaged", "secure", "ended"),
}
KEYS = ("a", "b", 0), ("b", "c", 1)
BLANK, KEEP, PRIVATE = (PublicationGate(choice, 300) for choice in ("blank", "keep", None))


def test_each_part_of_a_result_is_declared():
    """A new part fails here until its author decides whether it passes the gate."""
    declared = [*PASS_THE_GATE, *REST_ON_OTHER_RULES, *OF_NO_ROWS]
    assert sorted(declared) == sorted(one.name for one in fields(RunResult))


def test_figures_keep_three_digits_and_p_values_of_labels_the_power_of_ten_above():
    figures = {KEYS[0]: EdgeFigures(log_likelihood=3.14159)}
    p = {KEYS[0]: 0.0123456, KEYS[1]: 0.0}
    exact = {KEYS[0]: EdgeFigures(3.14, largest_p_value=0.0123), KEYS[1]: EdgeFigures(largest_p_value=0.0)}
    assert BLANK.edge_figures(figures, p, labels=False) == exact
    assert KEEP.edge_figures(figures, p, labels=True) == PRIVATE.edge_figures(figures, p, labels=True) == exact
    bound = BLANK.edge_figures(figures, p, labels=True)
    assert bound[KEYS[0]].largest_p_value == pytest.approx(0.1)
    assert bound[KEYS[1]].largest_p_value == pytest.approx(1e-300)


@pytest.mark.parametrize(("p", "bound"), [(1e-4, 1e-4), (1.01e-4, 1e-3), (0.9, 1.0)])
def test_the_bound_is_never_below_the_p_value(p, bound):
    assert BLANK.edge_figures({}, {KEYS[0]: p}, labels=True)[KEYS[0]].largest_p_value == pytest.approx(bound)


def test_all_numbers_in_a_value_are_rounded_and_nothing_else():
    fit = Fit(implied=12345, fisher=FisherC(1234.5678, 12345, 0.123456), bic=BicGains(-0.00123456, None, 2.5))
    assert rounded(fit) == Fit(implied=12345, fisher=FisherC(1230.0, 12345, 0.123), bic=BicGains(-0.00123, None, 2.5))
    assert rounded({"a": (1.23456, "1.23456", None)}, Kind.LIKELIHOOD) == {"a": (1.235, "1.23456", None)}


def test_a_measure_that_nobody_declared_is_a_statistic():
    exact = {"edges": 12345.0, "new": 0.123456, "held_out_log_likelihood": -12.34567, "rounds": 12345, "fit": "1.23456"}
    published = {"edges": 12345.0, "new": 0.123, "held_out_log_likelihood": -12.35, "rounds": 12345, "fit": "1.23456"}
    assert BLANK.measures(exact) == KEEP.measures(exact) == published
    assert PRIVATE.measures(exact) == exact


@pytest.mark.parametrize("rows", [30, 100, 297, 300, 5000])
def test_a_published_share_stands_for_three_counts_or_more(rows):
    published = PublicationGate("blank", rows).shares(np.arange(rows + 1) / rows)
    for share in np.unique(published)[1:-1]:
        assert (published == share).sum() >= 3
    assert np.abs(published - np.arange(rows + 1) / rows).max() <= max(0.005, 1.5 / rows) + 1e-4


def process(counts, base, excitation, delay=2.0, time=1000.0):
    names = tuple("abcd"[: len(counts)])
    return intensities_of(
        names, *(np.array(one, float) for one in (base, excitation)), delay, np.array(counts, float), time
    )


def test_rates_are_those_of_rounded_numbers_of_events():
    """10 events, 7 of them caused: not 0.0031 of 0.01 a unit of time, but 3 of 9 or 12 events."""
    exact = process([900, 10], [0.9, 0.0031], [[0.0, 0.0069], [0.0, 0.0]])
    found = BLANK.intensities(exact)
    assert found.events[0] == 900
    assert found.events[1] in (9, 12)
    assert found.base.tolist() == [0.9, 0.003]
    assert found.background.tolist() == [1.0, rounded(3 / found.events[1])]
    assert found.excitation[0, 1] == rounded(6 / 900)
    assert KEEP.intensities(exact) is PRIVATE.intensities(exact) is exact


@pytest.mark.parametrize("rare", [1, 2])
def test_nothing_is_published_of_a_rare_type_but_its_edges(rare):
    """The other numbers are equal whether the type has one event or two; the weights of its edges are positive."""
    exact = process(
        [900 - rare, 60, rare],
        [0.9 + rare / 10000, 0.03, rare / 1000],
        [[0.0, 0.033, 0.5 * rare / 900], [0.0, 0.0, 0.0], [0.0, 30.0 / rare, 0.25]],
        delay=2.0001 + rare * 1e-5,
    )
    found = BLANK.intensities(exact)
    np.testing.assert_array_equal(found.events, [900, 60, np.nan])
    np.testing.assert_array_equal(found.base, [0.9, 0.03, np.nan])
    np.testing.assert_array_equal(found.background, [1.0, 0.5, np.nan])
    np.testing.assert_array_equal(found.excitation, [[0, 0.0333, 0.000556], [0, 0, 0], [0, 10.0, np.nan]])
    assert found.delay == 2.0
    weights = exact.excitation * (1 - np.eye(3))
    structure = BLANK.structure(Structure(exact.variables, weights), exact)
    assert ((structure.weights > 0) == (weights > 0)).all()
    assert np.isfinite(structure.weights).all()
