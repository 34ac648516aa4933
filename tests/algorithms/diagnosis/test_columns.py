"""Findings about columns: skewed columns, derived columns, and columns with impossible causes."""

import numpy as np
import pytest

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.diagnosis.columns import (
    derived_findings,
    impossible_cause_findings,
    skewed_findings,
    suggested_option,
)
from fedbnsl.algorithms.graphs.structure import Structure

NAMES = ("age", "dose", "total")


@pytest.mark.parametrize(
    ("skewed", "option"),
    [
        ({"dose": "log"}, "'dose=log'"),
        (dict.fromkeys(NAMES, "log"), "log"),
        ({"age": "log", "dose": "normal-scores"}, "'age=log,dose=normal-scores'"),
    ],
)
def test_the_option_names_the_columns_unless_it_is_for_all(skewed, option):
    schema = Schema(NAMES, {"s": 9}, skewed=skewed)
    assert suggested_option(schema) == option
    (finding,) = skewed_findings(schema, 1.0)
    assert finding.advice == f"Learn again with --transform {option}."
    assert skewed_findings(Schema(NAMES, {"s": 9}), 1.0) == []


def test_skewed_columns_are_reported_if_a_transform_gains_enough():
    """A transform must gain at least .02 nats per row and 6 nats in all."""
    for rows, least in ((1000, 0.02), (100, 0.06)):
        schema = Schema(NAMES, {"s": rows}, skewed={"dose": "log"})
        assert skewed_findings(schema, 0.98 * least) == []
        assert "dose is far from symmetric" in skewed_findings(schema, 1.02 * least)[0].message


def test_many_columns_have_one_option_for_all():
    names = tuple(f"x{k}" for k in range(30))
    assert suggested_option(Schema(names, {"s": 9}, skewed=dict.fromkeys(names[:13], "log"))) == "normal-scores"
    assert suggested_option(Schema(("a,b", "c"), {"s": 9}, skewed={"a,b": "log"})) == "normal-scores"


def test_derived_columns_are_named_with_their_formula():
    (finding,) = derived_findings(Schema(NAMES, {"s": 9}, derived={"total": "the sum of age and dose"}))
    assert finding.message.startswith("total is the sum of age and dose: ")
    assert finding.advice == "Learn again with --ignore total."


def test_arrows_into_age_are_impossible_and_undirected_edges_can_be_directed():
    weights = np.zeros((3, 3))
    weights[1, 0] = 1.0
    (finding,) = impossible_cause_findings(Structure(NAMES, weights))
    assert finding.message == "dose → age: nothing in a table can cause age."
    assert finding.advice == "Learn again with --no-parents age."
    (finding,) = impossible_cause_findings(Structure(NAMES, weights), {"dose": ("female", "Male"), "total": ("m", "x")})
    assert finding.advice == "Learn again with --no-parents age,dose.", (
        "all that can have no cause, not only its effects"
    )
    assert finding.message == "dose → age: nothing in a table can cause age. The same is true of dose."
    weights[0, 1] = 1.0
    (finding,) = impossible_cause_findings(Structure(NAMES, weights, "cpdag"))
    assert (finding.name, finding.advice) == ("known direction", "Learn again with --no-parents age.")
    assert finding.message.startswith("age — dose: nothing in a table can cause age")
    assert impossible_cause_findings(Structure(NAMES, weights, "cpdag"), {"dose": ("m", "f")}) == [], "neither is known"
    assert impossible_cause_findings(Structure(NAMES, weights * 0)) == []
