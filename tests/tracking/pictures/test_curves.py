"""Adjusted curves of a survival outcome: a point at the end of each interval, and a curve for each level."""

import numpy as np
import pytest

from fedbnsl.algorithms.parameters.survival_node import SurvivalNode, Term
from fedbnsl.tracking.pictures.curves import draw_curves

NODE = SurvivalNode(
    outcome="death",
    time="days",
    event="died",
    parents=("dose", "age"),
    levels={"dose": ("none", "$much$")},
    terms=(Term("dose", "$much$", 0.7, 0.4, 0.49), Term("age", "", 0.1, 60.0, 10.0)),
    covariance=((0.01, 0.0), (0.0, 0.04)),
    limits=(100.0, 300.0),
    hazards=(0.001, 0.002),
    interval_events=(30, 33),
    events=63,
    rows=200,
    silos=3,
)


def test_each_level_has_a_curve_with_a_point_at_each_limit():
    (axes,) = draw_curves(NODE, "title").axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["dose = none", "dose = $much$"]
    for line, step in zip(axes.lines, (-0.4, 0.6), strict=True):
        assert line.get_xdata().tolist() == [0, 100, 300]
        expected = np.exp(-np.array([0, 0.1, 0.5]) * np.exp(0.7 * step))
        np.testing.assert_allclose(line.get_ydata(), expected)
    assert axes.get_xlabel() == "days"
    assert axes.get_ylabel() == "probability of no death"


@pytest.mark.parametrize(
    ("terms", "labels"),
    [(NODE.terms[1:], ["age = 50", "age = 60", "age = 70"]), ((), ["all rows"])],
)
def test_numbers_have_three_curves_and_no_parent_has_one(terms, labels):
    from dataclasses import replace

    node = replace(NODE, terms=terms, covariance=((0.04,),) if terms else ())
    (axes,) = draw_curves(node).axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == labels
