"""Rows as time series by a named time column, by quarters and months, or by years and their parts."""

import re

import numpy as np
import pandas as pd
import pytest

from fedbnsl import learn
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.federated import continuous
from fedbnsl.data.folder.about import Reading
from fedbnsl.data.folder.dates import periods_of, time_unit
from fedbnsl.data.folder.folder import read_folder
from fedbnsl.data.folder.suggestions import suggestions


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
    with pytest.raises(BadInput, match="time year,gdp: by their names, these columns are not year and quarter"):
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


def hourly(tmp_path, columns, gap=()):
    """A silo of 60 hours from 28 February 2023 on, with these `columns` of times, in any order of rows."""
    rng = np.random.default_rng(2)
    hours = pd.date_range("2023-02-28 05:00", periods=60, freq="h").delete(list(gap))
    known = {
        "obs_year": hours.year,
        "mo": hours.month,
        "day": hours.day,
        "doy": hours.dayofyear,
        "hr": hours.hour,
        "date": hours.strftime("%Y-%m-%d"),
    }
    frame = pd.DataFrame({name: known[name] for name in columns} | {"x": rng.normal(size=len(hours))})
    frame.sample(frac=1, random_state=1).to_csv(tmp_path / "a.csv", index=False)
    return tmp_path, frame


@pytest.mark.parametrize(
    "columns",
    [("obs_year", "mo", "day", "hr"), ("day", "hr", "mo", "obs_year"), ("obs_year", "doy", "hr"), ("date", "hr")],
)
def test_the_parts_of_times_in_several_columns_are_read_together(tmp_path, columns):
    folder, frame = hourly(tmp_path, columns, gap=[20, 21])
    data = read_folder(folder, Reading(time=columns))
    assert data.schema.variables == ("x",)
    assert data.schema.stretches == {"a": (20, 38)}
    np.testing.assert_allclose(data.tables["a"][:, 0], frame["x"])


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ({"mo": 13}, "line 4, column 'mo': '13' is not a valid month, a whole number from 1 to 12"),
        ({"hr": 24}, "line 4, column 'hr': '24' is not a valid hour, a whole number from 0 to 23"),
        ({"day": 1.5}, "line 4, column 'day': '1.5' is not a valid day, a whole number from 1 to 31"),
        ({"day": ""}, "line 4, column 'day': the cell is empty"),
        ({"day": 30}, "column 'obs_year,mo,day,hr': '2023-02-30T"),
    ],
)
def test_a_wrong_part_of_a_time_is_named(tmp_path, cell, message):
    folder, _ = hourly(tmp_path, ("obs_year", "mo", "day", "hr"))
    frame = pd.read_csv(folder / "a.csv", dtype=str)
    frame.loc[2, "mo"] = "2"
    for name, value in cell.items():
        frame.loc[2, name] = str(value)
    frame.to_csv(folder / "a.csv", index=False)
    with pytest.raises(BadInput, match=re.escape(message)):
        read_folder(folder, Reading(time=("obs_year", "mo", "day", "hr")))


@pytest.mark.parametrize("columns", [("obs_year", "day"), ("obs_year", "mo", "hr"), ("mo", "hr"), ("obs_year", "x")])
def test_parts_that_leave_one_out_are_no_times(tmp_path, columns):
    folder, _ = hourly(tmp_path, ("obs_year", "mo", "day", "hr"))
    with pytest.raises(BadInput, match="by their names, these columns are not year and quarter"):
        read_folder(folder, Reading(time=columns))


def test_the_parts_of_rising_times_are_suggested_together(tmp_path):
    columns = ("obs_year", "mo", "day", "hr")
    _, frame = hourly(tmp_path, columns)
    table = frame[[*columns, "x"]].to_numpy(float)
    (line,) = (one for one in suggestions(continuous({"a": table}, (*columns, "x")), {"a": table}) if "--time" in one)
    assert "--time obs_year,mo,day,hr reads them" in line
    shuffled = np.random.default_rng(3).permutation(table)
    assert not any(
        "--time" in one for one in suggestions(continuous({"a": shuffled}, (*columns, "x")), {"a": shuffled})
    )


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("Year", "year"),
        ("obs_month", "month"),
        ("hour_of_day", "hour"),
        ("day_of_month", "day"),
        ("day_of_year", "day of the year"),
        ("day_of_week", None),
        ("yearly", None),
        ("x", None),
    ],
)
def test_units_by_name(name, unit):
    assert time_unit(name) == unit
