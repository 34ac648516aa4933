"""Advice and errors in Python use Python's keywords instead of command-line options."""

import re

import numpy as np
import pandas as pd
import pytest

from fedbnsl.algorithms.diagnosis import columns, findings, series_findings
from fedbnsl.flows.api.learning import learn
from fedbnsl.flows.options.in_python import advice_in_python, keywords
from fedbnsl.flows.options.learn import LearnOptions

OF_MODULES = {
    f"{module.__name__.rsplit('.', 1)[-1]}.{name}": value
    for module in (columns, findings, series_findings)
    for name, value in vars(module).items()
    if isinstance(value, str) and re.search(r"(?<![\w-])(--[a-z]|-p )", value) and "\n" not in value
}


@pytest.mark.parametrize(
    ("advice", "python"),
    [
        ("Learn again with --detrend.", "Learn again with detrend=True."),
        ("Learn again with --no-parents age,sex.", "Learn again with no_parents='age,sex'."),
        ("Learn again with --transform a=log,b=cube-root.", "Learn again with transform='a=log,b=cube-root'."),
        (
            "Learn again with --algorithm secure-boss -p weights=own -p segments=2, which adds up scores.",
            "Learn again with algorithm='secure-boss', weights='own', segments=2, which adds up scores.",
        ),
        (
            "Rely on the strengths of --bootstrap 30, or add rows.",
            "Rely on the strengths of bootstrap=30, or add rows.",
        ),
        ("Use --algorithm auto or secure-linear: they", "Use algorithm='auto' or secure-linear: they"),
        (
            "again with --detrend --deseasonalise 24 --silos a,b. The",
            "again with detrend=True, deseasonalise=24, silos='a,b'. The",
        ),
        ("Learn again with --difference: random walks", "Learn again with difference=True: random walks"),
    ],
)
def test_advice_is_a_call_in_python(advice, python):
    assert advice_in_python(advice) == python


@pytest.mark.parametrize("name", OF_MODULES)
def test_every_advice_has_keywords_of_learn(name):
    said = advice_in_python(OF_MODULES[name])
    assert not re.search(r"(?<![\w-])(--|-p )", said)
    used = re.findall(r"(\w+)=(?:'[^']*'|\d+|True)", said)
    assert used
    assert {*used} <= {*LearnOptions.model_fields, "weights", "segments"}


def test_there_are_advices_to_try():
    assert len(OF_MODULES) > 5
    assert keywords()["held_out"] == "held_out"
    assert keywords()["required"] == "required_arcs"


def test_a_notebook_shows_advice_that_can_be_typed(rendered):
    rng = np.random.default_rng(3)
    tables = []
    for rows in (300, 500):
        step = np.arange(rows)
        x = rng.normal(size=rows) + 0.02 * step
        y = 0.8 * x + rng.normal(size=rows) + 0.03 * step
        tables.append(pd.DataFrame({"x": x, "y": y}))
    series = {"kind": "time-series"}
    found = learn(tables, "secure-linear", about=series)
    html = found._repr_html_()
    assert "detrend=True" in html
    assert "--detrend" not in html
    again = learn(tables, "secure-linear", about=series, detrend=True)
    assert "trend" not in {one.name for one in again.result.diagnosed.findings}
