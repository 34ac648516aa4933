"""The report of a run on time series."""

from dataclasses import replace
from html import unescape

import numpy as np
import pytest

from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters.networks import linear_network
from fedbnsl.tracking.report.report import report_html
from fedbnsl.tracking.report.sections import warnings
from fedbnsl.tracking.result import stability_warning
from tests.tracking.report.test_report import parsed


def part(html, title):
    page = unescape(html)
    return page[page.index(f"<h2>{title}") :].partition("</section>")[0]


@pytest.mark.parametrize("radius", [1.0, 1.07])
def test_a_model_that_explodes_is_a_warning(over_time, radius):
    loud = replace(over_time, metrics=over_time.metrics | {"spectral_radius": radius})
    (said,) = warnings(loud)
    assert said == stability_warning(loud)
    assert f"the spectral radius is {radius:.3f}" in said
    assert warnings(over_time) == []


def test_a_silo_whose_own_structure_explodes_is_named(over_time):
    loud = replace(over_time.structure, lagged=2 * over_time.structure.lagged)
    (said,) = warnings(replace(over_time, local_structures={"north": over_time.structure, "south": loud}))
    assert said == "Unstable: the spectral radius of the silo's own model is not below 1 at south."


def test_levels_taken_for_effects_and_useless_forecasts_are_warnings(over_time):
    before, off_zero = over_time.parameters.network, np.array([0.0, -90.0, 1.0])  # the standard deviations are 2
    network = linear_network(before.structure, before.intercepts, before.variances, off_zero, before.spreads)
    high = replace(over_time, parameters=replace(over_time.parameters, network=network))
    (said,) = warnings(high)
    assert said.startswith("Not centred: the mean of b is 45 standard deviations from zero.")
    for subtracted in ({"params": {"center": True}}, {"params": {"center_series": True}}, {"algorithm": "var"}):
        assert warnings(replace(high, **subtracted)) == []
    (said,) = warnings(replace(over_time, metrics=over_time.metrics | {"forecast_mse": 4.5}))
    assert "no better than the persistence forecast" in said


def test_a_truth_without_times_is_held_against_edges_at_any_lag(over_time):
    truth = Structure(("a", "b", "c"), np.array([[0, 1, 1], [1, 0, 0], [0, 0, 0.0]]))
    html = report_html(replace(over_time, truth=truth))
    any_lag = part(html, "Edges at any lag")
    assert any_lag.count("✓ correct") == 2
    assert "✓" not in part(html, "Edges within one time step") + part(html, "Edges across time")
    parsed(html)


def test_without_a_truth_and_without_a_model(over_time, cyclic):
    html = report_html(replace(over_time, truth=None, metrics={}, silo_scores={}, parameters=cyclic.parameters))
    assert "<h2>Forecasts" not in html
    assert "The true graph is not known, so there is no comparison." in html
    parsed(html)
