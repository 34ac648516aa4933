"""Rows as time series by a named time column, by quarters and months, or by years and their parts."""

import numpy as np
import pandas as pd
import pytest

from fedbnsl import learn
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.about import Reading
from fedbnsl.data.folder.dates import periods_of
from fedbnsl.data.folder.folder import read_folder


@pytest.fixture
def quarters(tmp_path):
    """Two silos of 40 quarters, in any order of rows, one of which lacks a quarter."""
    rng = np.random.default_rng(1)
    for silo in "ab":
        year, quarter = np.repeat(np.arange(1990.0, 2000.0), 4), np.tile(np.arange(1.0, 5.0), 10)
        frame = pd.DataFrame(
            {"year": year, "quarter": quarter, "gdp": rng.normal(size=40), "rate": rng.normal(size=40)}
        )
        frame["label"] = [f"{y:.0f}Q{q:.0f}" for y, q in zip(year, quarter, strict=True)]
        rows = [k for k in rng.permutation(40) if silo == "a" or k != 17]
        frame.iloc[rows].to_csv(tmp_path / f"{silo}.csv", index=False)
    return tmp_path


@pytest.mark.parametrize(("time", "ignore"), [(("label",), ("year", "quarter")), (("year", "quarter"), ("label",))])
def test_quarters_are_one_step_apart_and_a_missing_one_is_a_gap(quarters, time, ignore):
    data = read_folder(quarters, Reading(ignore=ignore, time=time))
    assert data.schema.kind == "time-series"
    assert data.schema.variables == ("gdp", "rate")
    assert data.schema.stretches == {"a": (40,), "b": (17, 22)}
    first = pd.read_csv(quarters / "a.csv").sort_values("label")
    np.testing.assert_allclose(data.tables["a"][:, 0], first["gdp"])


def test_labels_of_quarters_are_set_aside_with_the_option(quarters):
    schema = read_folder(quarters).schema
    assert schema.aside["label"].startswith("quarters or months: --time label reads the rows as time series")


def test_a_run_learns_from_them_and_with_an_epsilon_it_is_refused(quarters):
    learned = learn(quarters, "secure-sum", time="year,quarter", ignore="label", parameters=False)
    assert learned.result.structure.lags >= 1
    with pytest.raises(BadInput, match=r"^time cannot be used with an ε, as times are data"):
        learn(quarters, "secure-sum", epsilon=2.0, time="label")
    with pytest.raises(BadInput, match="'gdp' is named neither like a quarter nor like a month"):
        learn(quarters, time="year,gdp")
    with pytest.raises(BadInput, match="'gone'"):
        learn(quarters, time="gone")


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["2001Q4", "2002 Q1"], [8008.0, 8009.0]),
        (["1999-12", "2000-01"], [24000.0, 24001.0]),
        (["2001Q4", "2001-12"], None),
        (["1999-13"], None),
        ([], None),
    ],
)
def test_periods(cells, numbers):
    found = periods_of(cells)
    assert numbers is None if found is None else found.tolist() == numbers
