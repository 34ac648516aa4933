"""Folders of time series: the order of rows, gaps between them, and empty cells."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sqlalchemy import create_engine

from fedbnsl.algorithms.core.schema import Schema, check_lags
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.federated import FederatedData, pool, time_series
from fedbnsl.data.folder import query
from fedbnsl.data.folder.about import Declared, Reading
from fedbnsl.data.folder.folder import read_folder, read_schema, write_folder
from fedbnsl.data.folder.series import read_cut, read_series
from fedbnsl.tasks.silo.rows import describe_rows, read_rows
from fedbnsl.tasks.silo.service import SiloService
from fedbnsl.tasks.transport.described_schema import schema_from_descriptions
from fedbnsl.tasks.transport.in_process import InProcessTransport, in_process_roster


def read(tmp_path, text, step=None):
    (tmp_path / "a.csv").write_text(text)
    return read_series(tmp_path / "a.csv", Declared(step=step))


def complaint(tmp_path, text, step=None):
    with pytest.raises(BadInput) as caught:
        read(tmp_path, text, step)
    message = str(caught.value)
    assert "\n" not in message
    return message.replace(f"{tmp_path}/", "")


def test_interleaved_series_of_unequal_lengths_are_put_in_order(tmp_path):
    table = read(tmp_path, "x,Time,series,y\n1,1,b,9\n5,7,a,8\n2,2,b,7\n4,6,a,6\n3,3,b,5\n")
    assert table.variables == ("x", "y")
    assert table.values.tolist() == [[1, 9], [2, 7], [3, 5], [4, 6], [5, 8]]
    assert (table.stretches, table.step) == ((3, 2), 1)
    assert table.rows(Schema(("y", "x"), {"s": 5}, "time-series", stretches={"s": (3, 2)})).tolist()[0] == [9, 1]


def test_a_jump_of_several_steps_begins_a_stretch(tmp_path):
    table = read(tmp_path, "time,x\n0,1\n0.1,2\n0.2,3\n0.5,4\n0.6,5\n100.3,6\n")
    assert table.stretches == (3, 2, 1)
    assert table.step == pytest.approx(0.1)


def test_a_row_with_an_empty_cell_is_left_out_and_makes_a_gap(tmp_path):
    table = read(tmp_path, "time,x,y\n0,1,1\n1,2,2\n2,,3\n3,4,NA\n4,5,5\n5,6,nan\n6,7,7\n7,8,8\n")
    assert table.values[:, 0].tolist() == [1, 2, 5, 7, 8]
    assert table.stretches == (2, 1, 2)


def test_empty_cells_stay_for_a_learner_that_models_them_unless_a_column_has_labels(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text("time,x,y\n0,1,1\n1,2,2\n2,,3\n3,4,NA\n5,5,5\n6,6,nan\n")
    keeps = Declared(reading=Reading(series_gaps=True))
    table = read_series(path, keeps)
    assert (table.stretches, table.left_out, table.empty) == ((4, 2), 0, (1, 2))
    assert np.isnan(read_cut(path, (4, 2), keeps).values).sum() == 3
    with pytest.raises(BadInput, match=r"it has 6 rows, not 5 as when the run began"):
        read_cut(path, (5,), keeps)
    labelled = replace(keeps, levels={"y": ("1", "2", "3", "5")})
    assert read_series(path, labelled).stretches == (2, 1)
    path.write_text("time,x,y\n0,1,1\n1,,2\n2,1,3\n")
    with pytest.raises(BadInput, match=r"column 'x': constant, every cell that is not empty is 1.0"):
        read_series(path, keeps)


@pytest.mark.parametrize("levels", [{}, {"y": ("1", "2", "3", "5")}])
def test_an_empty_cell_is_named_if_empty_cells_are_refused(tmp_path, levels):
    path = tmp_path / "s.csv"
    path.write_text("time,x,y\n3,5,5\n1,2,2\n2,3,NA\n0,,1\n")
    refusing = Declared(reading=Reading(missing="refuse"), levels=levels)
    with pytest.raises(BadInput, match=r"s.csv: line 4, column 'y': the cell is empty, and --missing refuse") as caught:
        read_series(path, refusing)
    assert "\n" not in str(caught.value)
    with pytest.raises(BadInput, match=r"s.csv: line 4, column 'y': the cell is empty, and --missing refuse"):
        describe_rows("s", path, replace(refusing, kind="time-series"))
    path.write_text("time,x,y\n0,5,5\n1,2,2\n2,3,1\n")
    assert read_series(path, refusing).stretches == (3,)


def test_both_transports_count_the_empty_cells_of_series(tmp_path):
    (tmp_path / "a.csv").write_text("time,x,y\n0,1,1\n1,2,2\n2,,3\n3,4,NA\n4,5,5\n5,7,6\n")
    (tmp_path / "b.csv").write_text("time,y,x\n0,1,1\n1,2,2\n2,4,3\n9,,5\n")
    reading = Reading(series_gaps=True)
    schema, declared = read_folder(tmp_path, reading).schema, Declared(reading=reading)
    assert schema.empty == {"a": (1, 1), "b": (0, 1)}
    assert read_schema(tmp_path, reading) == schema
    services = {silo: SiloService(silo, tmp_path / f"{silo}.csv") for silo in "ab"}
    assert (
        schema_from_descriptions(in_process_roster(InProcessTransport(services), ("a", "b")), declared).schema == schema
    )


def test_the_notes_of_a_run_count_the_rows_left_out_of_each_silo(tmp_path):
    (tmp_path / "a.csv").write_text("time,x,y\n0,1,1\n1,2,2\n2,,3\n3,4,NA\n4,5,5\n5,7,6\n")
    (tmp_path / "b.csv").write_text("time,x,y\n0,1,1\n1,2,2\n2,4,3\n9,3,5\n")
    notes = (
        "a: 2 of 6 rows left out because of empty cells: each ends a stretch, and no window of rows crosses it",
    )  # the gap in the times of b loses no row
    assert read_folder(tmp_path).notes == notes
    services = {silo: SiloService(silo, tmp_path / f"{silo}.csv") for silo in "ab"}
    assert (
        schema_from_descriptions(in_process_roster(InProcessTransport(services), ("a", "b")), Declared()).notes == notes
    )


def test_without_times_consecutive_rows_of_a_series_have_consecutive_times(tmp_path):
    assert read(tmp_path, "x,y\n1,4\n2,5\n,6\n3,4\n4,5\n").stretches == (2, 2)
    table = read(tmp_path, "series,x\n1,1\n2,5\n1,2\n2,6\n1,\n1,3\n2,7\n")
    assert table.values[:, 0].tolist() == [1, 2, 3, 5, 6, 7]
    assert table.stretches == (2, 1, 3)


def test_times_may_be_dates(tmp_path):
    table = read(tmp_path, "time,x\n2024-02-28,1\n2024-03-01,3\n2024-02-29,2\n2024-03-04,4\n2024-03-05,5\n")
    assert table.values[:, 0].tolist() == [1, 2, 3, 4, 5]
    assert (table.stretches, table.step) == ((3, 2), 86400)
    frame = pd.DataFrame({"time": pd.date_range("2024-01-01", periods=4, freq="h"), "x": [1.0, 2, 4, 3]})
    frame.drop(index=2).to_parquet(tmp_path / "a.parquet")
    assert read_series(tmp_path / "a.parquet").stretches == (2, 1)
    frame.loc[3, "time"] += pd.Timedelta("30min")
    frame.to_parquet(tmp_path / "a.parquet")
    with pytest.raises(BadInput, match=r"row 4, column 'time': '2024-01-01 03:30:00' is 5400 after the previous time"):
        read_series(tmp_path / "a.parquet")


def test_times_that_are_written_rounded_are_regular(tmp_path):
    assert read(tmp_path, "time,x\n.333,1\n.667,2\n1,3\n1.333,4\n2,5\n10,6\n10.333,7\n").stretches == (4, 1, 2)


def test_the_step_that_about_declares_is_binding(tmp_path):
    assert read(tmp_path, "time,x\n0,1\n2,2\n4,3\n").stretches == (3,)
    assert complaint(tmp_path, "time,x\n0,1\n2,2\n4,3\n", step=1) == "a.csv: no two consecutive rows in any series"
    assert complaint(tmp_path, "time,x\n0,1\n2,2\n3,3\n", step=2).startswith(
        "a.csv: line 4, column 'time': '3' is 1 after the previous time, not a whole number of steps of 2; "
    )


NOT_SERIES = '; if these rows are not time series, declare {"kind": "continuous"} in about.json, or "mixed" with labels'
FAULTS = {
    "irregular": (
        "time,x\n0,1\n1,2\n\n2.5,3\n",
        f"line 5, column 'time': '2.5' is 1.5 after the previous time, not a whole number of steps of 1{NOT_SERIES}",
    ),
    "repeated": (
        "series,time,x\na,1,1\nb,1,2\na,2,3\nb,1,4\n",
        f"line 5, series 'b', column 'time': '1' is a duplicate in its series{NOT_SERIES}",
    ),
    "no time": ("time,x\n0,1\n,2\n2,5\n", "line 3, column 'time': the cell is empty"),
    "a word for a time": (
        "time,x\n0,1\nnoon,2\n2,5\n",
        "line 3, column 'time': 'noon' is neither a number nor a date such as 2020-01-31",
    ),
    "a word among dates": (
        "time,x\n2024-01-01,1\nnoon,2\n",
        "line 3, column 'time': 'noon' is not a date such as 2020-01-31 or 2020-01-31T12:00",
    ),
    "a row without a series": ("series,time,x\na,0,1\n,1,2\n", "line 3, column 'series': the cell is empty"),
    "a silo without a series": ("series,time,x\n,0,1\n,1,2\n", "line 2, column 'series': the cell is empty"),
    "a word for a number": (
        "time,x\n0,1\n1,abc\n",
        "line 3, column 'x': 'abc' is not a number; if the column has labels, declare its levels in about.json",
    ),
    "infinite": ("time,x\n0,1\n1,inf\n", "line 3, column 'x': 'inf' is not finite"),
    "empty cells everywhere": (
        "time,x,y\n0,1,2\n1,2,\n2,3,4\n3,,5\n",
        "no two consecutive rows are complete: 2 of 4 have an empty cell, the first in line 3, column 'y'",
    ),
    "no complete row": (
        "time,x\n0,\n1,\n",
        "no two consecutive rows are complete: 2 of 2 have an empty cell, the first in line 2, column 'x'",
    ),
    "series of one row": ("series,time,x\na,0,1\nb,0,2\n", "no two consecutive rows in any series"),
    "no rows": ("time,x\n", "no two consecutive rows in any series"),
    "constant": ("time,x\n0,1\n1,1\n", "column 'x': constant, every row is 1.0"),
    "two times": ("time,Time,x\n0,1,2\n1,2,3\n", "columns 'time' and 'Time': only one can be the time"),
    "no variable": ("series,time\n0,1\n1,2\n", "no column besides 'series', 'time'"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_a_series_is_one_line(tmp_path, fault):
    text, message = FAULTS[fault]
    assert complaint(tmp_path, text) == f"a.csv: {message}"


def test_a_column_time_makes_time_series(tmp_path):
    (tmp_path / "a.csv").write_text("time,x,y\n0,1,2\n1,3,4\n")
    (tmp_path / "b.csv").write_text("y,Time,x\n1,5,2\n4,6,3\n5,8,4\n")
    data = read_folder(tmp_path)
    expected = Schema(("x", "y"), {"a": 2, "b": 3}, "time-series", stretches={"a": (2,), "b": (2, 1)})
    assert data.schema == read_schema(tmp_path) == expected
    assert data.tables["b"].tolist() == [[2, 1], [3, 4], [4, 5]]
    assert pool(data).schema.stretches == {"pooled": (2, 2, 1)}


@pytest.mark.parametrize("about", [{"kind": "continuous"}, {"kind": "discrete"}])
def test_what_about_says_of_a_column_time_holds(tmp_path, about):
    (tmp_path / "a.csv").write_text("time,x\n0,1\n1,3\n")
    (tmp_path / "about.json").write_text(json.dumps(about))
    schema = read_schema(tmp_path)
    assert (schema.kind, schema.variables) == (about["kind"], ("time", "x"))


def test_a_column_series_alone_is_a_variable(tmp_path):
    (tmp_path / "a.csv").write_text("series,x\n0,1\n1,3\n")
    assert read_schema(tmp_path).variables == ("series", "x")
    (tmp_path / "about.json").write_text('{"kind": "time-series"}')
    with pytest.raises(BadInput, match="no two consecutive rows"):
        read_schema(tmp_path)


def test_silos_whose_steps_differ_are_refused_unless_about_says_the_step(tmp_path):
    (tmp_path / "a.csv").write_text("time,x\n0,1\n1,3\n2,2\n")
    (tmp_path / "b.csv").write_text("time,x\n0,1\n2,3\n4,5\n5,1\n")
    assert read_schema(tmp_path).stretches == {"a": (3,), "b": (1, 1, 2)}
    (tmp_path / "b.csv").write_text("time,x\n0,1\n2,3\n4,5\n")
    with pytest.raises(BadInput, match=r"b\.csv: its times are 2 apart, those of a\.csv 1; declare the common step"):
        read_schema(tmp_path)
    (tmp_path / "about.json").write_text('{"kind": "time-series", "step": 0}')
    with pytest.raises(BadInput, match="step: '0' is not a positive number"):
        read_schema(tmp_path)


@st.composite
def data_sets(draw):
    """Silos of several stretches, one of which has two rows; the first values of a column are all different."""
    d = draw(st.integers(1, 3))
    names = tuple(draw(st.permutations(["x", "ü 1", "t"])))[:d]
    tables, stretches = {}, {}
    for silo in draw(st.lists(st.sampled_from(["a", "silo 2", "10"]), min_size=1, max_size=3, unique=True)):
        lengths = draw(st.permutations([draw(st.integers(2, 5)), *draw(st.lists(st.integers(1, 4), max_size=3))]))
        numbers = st.floats(-1e12, 1e12, allow_nan=False).map(lambda number: number + 0.0)
        table = draw(arrays(np.float64, (sum(lengths), d), elements=numbers))
        table[0], table[1] = 1 / 3, -2e-300
        tables[silo], stretches[silo] = table, tuple(lengths)
    return FederatedData(time_series(tables, stretches, names), tables)


@given(data_sets(), st.sampled_from(["csv", "parquet"]))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_is_written_is_read_back(tmp_path_factory, data, form):
    folder = tmp_path_factory.mktemp("round") / "set"
    write_folder(folder, data, form)
    back = read_folder(folder)
    assert back.schema == data.schema == read_schema(folder)
    assert all(np.array_equal(back.tables[silo], table) for silo, table in data.tables.items())


@given(st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_order_of_the_rows_of_a_file_does_not_matter(tmp_path_factory, data):
    lengths = data.draw(st.lists(st.integers(2, 5), min_size=1, max_size=4))
    frame = pd.DataFrame(
        [(f"s{number}", 3 * time, number + time / 7) for number, n in enumerate(lengths) for time in range(n)],
        columns=["series", "time", "x"],
    )
    path = tmp_path_factory.mktemp("order") / "a.csv"
    shuffled = frame.iloc[data.draw(st.permutations(range(len(frame))))]
    shuffled.to_csv(path, index=False)
    table = read_series(path)
    first = list(dict.fromkeys(shuffled["series"]))
    expected = pd.concat([frame[frame["series"] == name] for name in first])
    assert table.values[:, 0].tolist() == expected["x"].tolist()
    assert table.stretches == tuple(lengths[int(name[1:])] for name in first)


def test_a_variable_that_would_be_read_as_the_time_is_not_written(tmp_path):
    tables = {"a": np.array([[1.0, 2.0], [3.0, 5.0]])}
    data = FederatedData(time_series(tables, {"a": (2,)}, ("x", "Time")), tables)
    with pytest.raises(BadInput, match="column 'Time': a variable of time series cannot have this name"):
        write_folder(tmp_path / "set", data)
    data = FederatedData(time_series(tables, {"a": (1, 1)}, ("x", "y")), tables)
    with pytest.raises(BadInput, match=r"a\.csv: no two consecutive rows in any series"):
        write_folder(tmp_path / "set", data)
    with pytest.raises(ValueError, match="stretches of"):
        FederatedData(time_series(tables, {"a": (3,)}, ("x", "y")), tables)


def test_a_silo_describes_its_stretches_and_reads_the_same_rows(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("time,x,y\n4,5,1\n0,1,2\n2,3,4\n6,,1\n8,3,3\n10,4,4\n")
    described = describe_rows("a", path)
    assert (described.stretches, described.step) == ((3, 2), 2)
    assert describe_rows("a", path, Declared("time-series", step=2.0)) == described
    schema = Schema(("y", "x"), {"a": 5}, "time-series", stretches={"a": (3, 2)})
    assert read_rows("a", path, schema).tolist() == [[2, 1], [4, 3], [1, 5], [3, 3], [4, 4]]
    path.write_text(path.read_text() + "12,1,1\n")
    with pytest.raises(BadInput, match="it has 6 complete rows, not 5 as when the run began"):
        read_rows("a", path, schema)


def test_lags_that_no_stretch_has_rows_for_are_refused_naming_the_silo():
    schema = Schema(("x",), {"a": 7, "b": 9}, "time-series", stretches={"a": (3, 4), "b": (9,)})
    check_lags(schema, 2)
    with pytest.raises(BadInput, match=r"silo a: fewer rows than lags \+ 2: .* has 4 rows, lags = 3 need at least 5"):
        check_lags(schema, 3)


def recorded():
    """Two series with a gap and empty cells, not in the order of their times."""
    rng = np.random.default_rng(5)
    made = pd.DataFrame({"series": ["b"] * 30 + ["a"] * 30, "time": [*range(20), *range(25, 35), *range(30)]})
    made["x"], made["y"] = rng.normal(size=(2, 60)) / 3
    made.loc[17, "y"] = np.nan
    return made.iloc[rng.permutation(60)].reset_index(drop=True)


def in_parts(path, made):
    path.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(len(made)), 4)):
        made.iloc[rows].to_parquet(path / f"part-{number}.parquet", index=False)
    return path


def as_query(folder, made):
    url = f"sqlite:///{folder / 'owner.db'}"
    made.to_sql("recordings", create_engine(url), index=False)
    (folder / "q.sql").write_text(f"-- {url}\nSELECT * FROM recordings;\n")
    return folder / "q.sql"


@pytest.mark.parametrize("gaps", [False, True])
def test_series_in_parts_and_of_a_query_are_those_of_one_file(tmp_path, gaps, monkeypatch):
    """The data are equal bit for bit, for any part and batch boundaries within a series."""
    monkeypatch.setattr(query, "MAX_QUERY_ROWS", 7)
    made, declared = recorded(), Declared(reading=Reading(series_gaps=gaps))
    made.to_csv(tmp_path / "a.csv", index=False)
    whole = read_series(tmp_path / "a.csv", declared)
    for path in (in_parts(tmp_path / "p", made), as_query(tmp_path, made)):
        other = read_series(path, declared)
        assert (other.variables, other.stretches, other.step) == (whole.variables, whole.stretches, whole.step)
        np.testing.assert_array_equal(other.values, whole.values)
        np.testing.assert_array_equal(read_cut(path, whole.stretches, declared).values, whole.values)


def test_an_error_in_a_part_names_the_part_and_its_row(tmp_path):
    made = recorded()
    made["time"] = made["time"].where(made.index != 40, made["time"][3])
    made["series"] = made["series"].where(made.index != 40, made["series"][3])
    with pytest.raises(
        BadInput, match=r"p/part-\d.parquet: row \d+, series '[ab]', column 'time': '.*' is a duplicate"
    ):
        read_series(in_parts(tmp_path / "p", made))
    made = recorded().astype({"x": object})
    made.loc[31, "x"] = "high"
    made["x"] = made["x"].astype(str)
    with pytest.raises(BadInput, match=r"o/part-2.parquet: row 2, column 'x': 'high' is not a"):
        read_series(in_parts(tmp_path / "o", made))


def columns_of_series(tmp_path):
    """Two silos with a column that only one has, and the true graph of all columns."""
    rng = np.random.default_rng(4)
    for silo, more in (("a", ()), ("b", ("extra",))):
        frame = pd.DataFrame(rng.normal(size=(12, 3 + len(more))), columns=["x", "y", "z", *more])
        frame.assign(time=np.arange(12)).to_csv(tmp_path / f"{silo}.csv", index=False)
    (tmp_path / "truth.csv").write_text("source,target,lag\nx,z,0\ny,z,0\nx,y,1\n")
    return tmp_path


@pytest.mark.parametrize("engine", ["inline", "workers"])
def test_excluded_columns_of_series_are_known(tmp_path, engine):
    """A truth with an excluded column was formerly refused, and a name that no silo has was accepted."""
    folder = columns_of_series(tmp_path)

    def schema(reading):
        if engine == "inline":
            return read_folder(folder, reading).schema
        services = {silo: SiloService(silo, folder / f"{silo}.csv") for silo in "ab"}
        return schema_from_descriptions(
            in_process_roster(InProcessTransport(services), ("a", "b")), Declared(reading=reading)
        ).schema

    found = schema(Reading(ignore=("z", "extra")))
    assert found.variables == ("x", "y")
    assert found.aside == dict.fromkeys(("z", "extra"), "left out by --ignore")
    assert schema(Reading(only=("x", "y"))) == schema(Reading(only=("x", "y", "time")))
    with pytest.raises(BadInput, match="--ignore: 'gone' is not a column of any silo"):
        schema(Reading(ignore=("extra", "gone")))
    with pytest.raises(BadInput, match="--only: 'gone' is not a column of the data"):
        schema(Reading(only=("x", "gone")))
    truth = read_folder(folder, Reading(ignore=("z", "extra"))).truth
    assert truth is not None
    assert (truth.adjacency.sum(), truth.lagged.astype(bool).sum()) == (0, 1)


def test_times_are_numbers_or_dates_with_one_time_zone_or_none(tmp_path):
    either = "is neither a number nor a date such as 2020-01-31"
    assert complaint(tmp_path, "time,x\n31/01/2020,1\n01/02/2020,2\n") == (
        f"a.csv: line 2, column 'time': '31/01/2020' {either}"
    )
    hours = "time,x\n2020-01-31T10:00Z,1\n2020-01-31T12:00+01:00,2\n2020-01-31 12:00Z,4\n"
    assert read(tmp_path, hours).stretches == (3,)
    mixed = hours.replace("12:00+01:00", "11:00")
    assert complaint(tmp_path, mixed) == (
        "a.csv: line 3, column 'time': '2020-01-31T11:00' has no time zone, but other times have one"
    )


def test_months_as_dates_are_refused_with_advice(tmp_path):
    dates = "time,x\n2020-01-01,1\n2020-02-01,2\n2020-03-01,4\n"
    assert "not a whole number of steps of 2.5056e+06; write months as 2020-01; " in complaint(tmp_path, dates)
    assert read(tmp_path, dates.replace("-01,", ",")).stretches == (3,)
    assert "write months" not in complaint(tmp_path, "time,x\n0,1\n1,2\n2.5,4\n")


@pytest.mark.parametrize("declared", [True, False])
def test_selected_columns_of_series_are_still_series(tmp_path, declared):
    """Formerly --only left out the times: rows became independent or, if declared, lost their order and gaps."""
    table = "time,series,x,y,z\n3,b,4,1,2\n0,b,1,5,3\n1,b,2,2,9\n2,b,3,8,1\n5,b,7,1,1\n0,a,1,2,3\n1,a,9,4,3\n"
    (tmp_path / "one.csv").write_text(table)
    if declared:
        (tmp_path / "about.json").write_text('{"kind": "time-series"}')
    data = read_folder(tmp_path, Reading(only=("x", "y")))
    schema = data.schema
    assert data.schema.kind == "time-series"
    assert data.schema.stretches == {"one": (4, 1, 2)}
    assert data.tables["one"][:, 0].tolist() == [1, 2, 3, 4, 7, 1, 9]
    assert list(data.schema.aside) == ["z"]
    services = {"one": SiloService("one", tmp_path / "one.csv")}
    declaration = Declared(kind="time-series" if declared else None, reading=Reading(only=("x", "y")))
    assert (
        schema_from_descriptions(in_process_roster(InProcessTransport(services), ("one",)), declaration).schema
        == schema
    )
    assert read_rows("one", tmp_path / "one.csv", schema, declaration).tolist() == data.tables["one"].tolist()


def test_times_at_some_silos_only_are_refused_until_declared(tmp_path):
    """Rows without times would otherwise be taken for a series in the order of the file."""
    (tmp_path / "a.csv").write_text("x,y\n1,2\n2,1\n3,3\n")
    (tmp_path / "b.csv").write_text("time,x,y\n0,1,2\n1,2,1\n2,3,3\n")
    with pytest.raises(BadInput, match=r"a\.csv has no column 'time', and b\.csv has one: write the times, or declare"):
        read_schema(tmp_path)
    (tmp_path / "about.json").write_text('{"kind": "time-series"}')
    assert read_schema(tmp_path).stretches == {"a": (3,), "b": (3,)}
