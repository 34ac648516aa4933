"""The registry of metrics."""

import numpy as np
import pytest

from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.tracking.metrics import METRICS, PLACES


def compared(lagged):
    """All metrics of a comparison."""
    structure = Structure(("a", "b"), np.array([[0.0, 1.0], [0.0, 0.0]]), lagged=np.ones((1, 2, 2)) if lagged else None)
    return set(compare(structure, structure))


def test_every_figure_of_a_comparison_is_declared_and_nothing_else():
    declared = {one.name for one in METRICS.values() if one.table in ("score", "count")}
    assert compared(lagged=True) == declared - {"mse_consensus", "mse_personal"}
    assert compared(lagged=False) == {one for one in compared(lagged=True) if not one.startswith("lagged_")}


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_a_declaration_is_complete(metric):
    places = metric.places.split()
    assert set(places) <= set(PLACES)
    assert bool(metric.label) == bool(metric.table)
    assert metric.heading or not {"tile", "lenient", "silos", "headline", "benchmark", "picture"} & set(places)
    assert metric.best or metric.name == "epsilon" or not {"benchmark", "picture"} & set(places)  # ε is a choice
    assert metric.best in (None, "least", "greatest")


def test_every_place_shows_a_metric():
    assert {place for metric in METRICS.values() for place in metric.places.split()} == set(PLACES)
