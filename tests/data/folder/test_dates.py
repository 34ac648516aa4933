"""Columns of dates: left out with a hint at the option, or days since the first date of all silos."""

import numpy as np
import pandas as pd
import pytest

from fedbnsl import learn
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder import batches
from fedbnsl.data.folder.about import Reading
from fedbnsl.data.folder.dates import days_since, first_dates
from fedbnsl.data.folder.folder import read_folder

DAYS = Reading(dates="days")


@pytest.mark.parametrize(
    ("cells", "orders"),
    [
        (["2020-01-31", "2020-2-3"], ["ymd"]),
        (["31.01.2020", "3.2.20"], ["dmy"]),
        (["01/31/2020"], ["mdy"]),
        (["01/02/2020"], ["dmy", "mdy"]),
        (["2020-13-01"], []),
        (["2020-01-31 12:00", "2020-01-31T06:00:30"], ["ymd"]),
        (["2020-01-31", "31/01/2020"], []),
        (["2020-01-31T12:00Z", "2020-01-31 12:00+01:00", "2020-01-31T12:00:00.5-0930"], ["ymd"]),
        (["2020-01-31 garbage"], []),
        (["13.2.4-rc1", "13.2.5"], []),
        (["2020-01-31+01:00"], []),
    ],
)
def test_the_orders_of_day_month_and_year(cells, orders):
    assert [order for order, _ in first_dates(cells, report=False)] == orders
    assert all(first == "" for _, first in first_dates(cells, report=False))


def test_days_count_from_the_first_date_with_the_time_of_day():
    days = days_since(["2020-03-01", "2020-02-28 12:00", "", "x"], ("ymd", "2020-02-28"))
    np.testing.assert_array_equal(days, [2.0, 0.5, np.nan, np.nan])
    assert days_since(["1.1.68", "1.1.70"], ("dmy", "2000-01-01")).tolist() == [24837.0, -10957.0]
    assert days_since(["1.1.69", "31.12.68"], ("dmy", "1969-01-01")).tolist() == [0.0, 36524.0]


def test_times_with_a_time_zone_are_compared_in_utc():
    """The same moment in three time zones; without a time zone, a time counts as it is written."""
    cells = ["2020-03-01T12:00Z", "2020-03-01T21:00+09:00", "2020-03-01 06:30 -0530", "2020-03-01 12:00"]
    np.testing.assert_array_equal(days_since(cells, ("ymd", "2020-03-01")), 0.5)
    assert days_since(["2020-03-01T01:00+02"], ("ymd", "2020-03-01")).tolist() == [-1 / 24]


def test_versions_of_a_program_are_labels(tmp_path):
    """They begin like dates; before, such a column was set aside as dates."""
    for silo, seed in (("a", 1), ("b", 2)):
        rng = np.random.default_rng(seed)
        firmware = rng.choice(["13.2.4-rc1", "13.2.5"], 60)
        frame = pd.DataFrame({"firmware": firmware, "fails": np.where(rng.random(60) < 0.3, "yes", "no")})
        frame.to_csv(tmp_path / f"{silo}.csv", index=False)
    assert read_folder(tmp_path).schema.levels["firmware"] == ("13.2.4-rc1", "13.2.5")


@pytest.fixture(params=["in memory", "in passes"])
def study(request, tmp_path, monkeypatch):
    """Two silos whose dates of admission start on different days, one of them with gaps."""
    if request.param == "in passes":
        monkeypatch.setattr(batches, "IN_MEMORY_BYTES", 0)
        monkeypatch.setattr(batches, "MAX_BATCH_ROWS", 20)
        monkeypatch.setattr(batches, "MIN_BATCH_ROWS", 20)
    rng = np.random.default_rng(2)
    for silo, first in (("a", "2021-03-05"), ("b", "2020-12-24")):
        day = rng.permutation(80)
        admitted = pd.Series(pd.Timestamp(first) + pd.to_timedelta(day, "D")).dt.strftime("%Y-%m-%d")
        admitted[3] = "" if silo == "a" else admitted[3]
        frame = pd.DataFrame({"admitted": admitted, "pressure": (0.1 * day + rng.normal(size=80)).round(3)})
        frame.to_csv(tmp_path / f"{silo}.csv", index=False)
    return tmp_path


def test_dates_are_set_aside_with_the_option_named(study):
    assert read_folder(study).schema.aside["admitted"].startswith("dates: --dates days reads them as days")


def test_days_have_one_origin_for_all_silos(study):
    data = read_folder(study, DAYS)
    assert data.schema.dates == {"admitted": ("ymd", "2020-12-24")}
    assert data.schema.kind == "continuous"
    tables = {
        silo: table if isinstance(table, np.ndarray) else np.concatenate([*table])
        for silo, table in data.tables.items()
    }
    assert np.nanmin(tables["a"][:, 0]) in (71.0, 72.0)  # its first date may be the empty cell
    assert np.nanmin(tables["b"][:, 0]) == 0
    assert np.isnan(tables["a"][3, 0])


def test_rows_without_empty_cells_keep_the_origin(study):
    schema = read_folder(study, Reading(dates="days", missing="complete-rows")).schema
    assert schema.dates == {"admitted": ("ymd", "2020-12-24")}
    assert schema.rows == {"a": 79, "b": 80}


def test_days_are_learned_from(study):
    learned = learn(study, "secure-boss", dates="days", parameters=False)
    assert learned.result.structure.adjacency.any()
    with pytest.raises(BadInput, match="dates='days' cannot be used with an ε"):
        learn(study, "secure-sum", epsilon=2.0, dates="days")


def test_dates_that_may_be_read_in_two_ways_are_refused(tmp_path):
    for silo in "ab":
        cells = [f"{1 + k % 12:02d}/{1 + k // 12:02d}/2020,{k}.5" for k in range(60)]
        (tmp_path / f"{silo}.csv").write_text("day,x\n" + "\n".join(cells))
    with pytest.raises(BadInput, match="column 'day': in its dates either number may be the day"):
        read_folder(tmp_path, DAYS)
    (tmp_path / "b.csv").write_text("day,x\n" + "\n".join(f"{13 + k % 12}/05/2020,{k}.5" for k in range(60)))
    assert read_folder(tmp_path, DAYS).schema.dates["day"] == ("dmy", "2020-01-01")
    (tmp_path / "a.csv").write_text("day,x\n" + "\n".join(f"05/{13 + k % 12}/2020,{k}.5" for k in range(60)))
    with pytest.raises(BadInput, match="column 'day': its dates are not of one form"):
        read_folder(tmp_path, DAYS)


def test_dates_with_the_year_first_agree_with_those_of_another_silo_with_the_day_first(tmp_path):
    (tmp_path / "a.csv").write_text("day,x\n" + "\n".join(f"{1 + k % 28}.02.2020,{k}.5" for k in range(60)))
    (tmp_path / "b.csv").write_text("day,x\n" + "\n".join(f"2020-01-{10 + k % 20},{k}.5" for k in range(60)))
    data = read_folder(tmp_path, DAYS)
    assert data.schema.dates["day"] == ("dmy", "2020-01-10")
    tables = {
        silo: np.concatenate([*table]) if not isinstance(table, np.ndarray) else table
        for silo, table in data.tables.items()
    }
    assert tables["a"][:3, 0].tolist() == [22, 23, 24]
    assert tables["b"][:3, 0].tolist() == [0, 1, 2]
