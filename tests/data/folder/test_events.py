"""Reading event sequences: types over all silos, windows of devices, and one line for each fault."""

import json
import re

import numpy as np
import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.federated import pool
from fedbnsl.data.folder.about import Declared, Reading
from fedbnsl.data.folder.folder import read_folder, write_folder
from fedbnsl.data.generators.events import events, linked_events
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.flows.cli.inspect import show_folder
from fedbnsl.flows.options.learn import LearnOptions
from fedbnsl.tasks.silo.rows import describe_rows
from fedbnsl.tasks.silo.service import SiloService
from fedbnsl.tasks.transport.described_schema import schema_from_descriptions
from fedbnsl.tasks.transport.in_process import InProcessTransport, in_process_roster

GOOD = "time,event,device\n3,b,x\n1,a,x\n2,a,y\n7,b,y\n"


def study(folder, first=GOOD, second="Time,Event\n5,c\n6,a\n", **about):
    folder.mkdir(exist_ok=True)
    (folder / "one.csv").write_text(first)
    (folder / "two.csv").write_text(second)
    (folder / "about.json").write_text(json.dumps({"kind": "events", **about}))
    return folder


def test_types_are_those_of_all_silos_and_a_device_is_observed_from_first_to_last_event(tmp_path):
    data = read_folder(study(tmp_path))
    assert data.schema.variables == ("a", "b", "c")
    assert data.schema.rows == {"one": 4, "two": 2}
    assert data.tables["one"].tolist() == [[0, 1, 0, 1, 3], [0, 3, 1, 1, 3], [1, 2, 0, 2, 7], [1, 7, 1, 2, 7]]
    assert data.tables["two"][:, 2].tolist() == [2, 0]


@pytest.mark.parametrize("only", [("time",), ("event", "device"), ("Time", "neighbours")])
def test_selected_columns_leave_out_none_of_events(tmp_path, only):
    plain, selected = (read_folder(study(tmp_path), reading=Reading(only=names)) for names in ((), only))
    assert selected.schema.variables == plain.schema.variables
    assert all((selected.tables[silo] == plain.tables[silo]).all() for silo in ("one", "two"))


@pytest.mark.parametrize("name", ["c", "ward"])
def test_a_selected_column_that_is_none_of_events_is_refused(tmp_path, name):
    with pytest.raises(BadInput, match=rf"one.csv: --only: '{name}' is not a column; it selects columns, not types"):
        read_folder(study(tmp_path), reading=Reading(only=("time", name)))


def test_a_declared_window_and_dates(tmp_path):
    days = "time,event\n2020-01-01,a\n2020-01-02,b\n"
    data = read_folder(study(tmp_path, days, days, window=["2020-01-01", "2020-01-11"]))
    assert np.ptp(data.tables["one"][:, 1]) == 86400
    assert (data.tables["one"][:, 4] - data.tables["one"][:, 3] == 864000).all()


def test_events_at_both_ends_of_the_window_are_in_it(tmp_path):
    ends = "time,event\n0,a\n4,b\n10,a\n"
    data = read_folder(study(tmp_path, ends, ends, window=[0, 10]))
    assert data.tables["one"][:, 1].tolist() == [0, 4, 10]
    assert data.tables["one"][:, 3:].tolist() == [[0, 10]] * 3


@pytest.mark.parametrize(
    ("text", "about", "message"),
    [
        ("time,event\n1,a\nsoon,b\n", {}, r"one.csv: line 3, column 'time': 'soon'"),
        ("time,event\n1,a\n2,\n", {}, r"one.csv: line 3, column 'event'"),
        ("time,event\n1,a\n,b\n", {}, r"one.csv: line 3, column 'time'"),
        ("time,kind\n1,a\n2,b\n", {}, "one.csv: no column 'event'"),
        ("time,event,size\n1,a,3\n2,b,4\n", {}, "one.csv: column 'size'"),
        ("time,event\n1,a\n20,b\n", {"window": [0, 10]}, r"one.csv: line 3, column 'time': '20' is outside"),
        ("time,event\n1,a\n20,b\n", {"window": [5, 30]}, r"one.csv: line 2, column 'time': '1' is outside"),
        ("time,event\n1,a\n2,b\n", {"window": [9, 3]}, r"window \[9, 3\]"),
        ("time,event,neighbours\n1,a,x\n2,b,y\n", {}, "one.csv: column 'neighbours' needs a column 'device'"),
        ("time,event,device\n1,a,x\n1,b,x\n2,a,y\n", {}, "one.csv: each device has all its events at one time"),
        (
            "time,event\n2020-01-01,a\n2020-01-02,b\n",
            {},
            "two.csv: its times are numbers or months, and those of .*one.csv are",
        ),
    ],
)
def test_a_fault_is_one_line_with_its_place(tmp_path, text, about, message):
    with pytest.raises(BadInput, match=message) as refused:
        read_folder(study(tmp_path, text, **about))
    assert "\n" not in str(refused.value)


def test_neighbours_of_a_device_are_those_of_all_its_rows(tmp_path):
    linked = "time,event,device,Neighbours\n3,b,x,y; z\n1,a,x,\n2,a,y,x\n7,b,y,quiet\n5,a,z,z\n6,a,z,\n"
    folder = study(tmp_path / "linked", linked)
    data = read_folder(folder)
    links = [tuple(row) for row in data.tables["one"][:, [0, 5, 6]].tolist()]
    assert links == [(0, 1, 2)] * 2 + [(1, 0, 3)] * 2 + [(2, -1, -1)] * 2
    assert data.tables["two"].shape == (2, 5)
    note = "one: links between devices (column 'neighbours') have an effect with -p hops=1 or more"
    assert data.notes == (note,)
    parts = {silo: describe_rows(silo, folder / f"{silo}.csv", Declared(kind="events")) for silo in ("one", "two")}
    assert [one.linked for one in parts.values()] == [True, False]
    whole = pool(data).tables["pooled"]
    assert whole[:, [0, 5, 6]].tolist()[-2:] == [[4, -1, -1]] * 2
    (folder / "two.csv").write_text(linked)
    assert pool(read_folder(folder)).tables["pooled"][6:, [0, 5, 6]].tolist()[:3] == [[4, 5, 6], [4, 5, 6], [5, 4, 7]]


def test_links_are_written_and_read_back(tmp_path):
    data = linked_events(4, 2, 300, 4, 2, 0.5)
    write_folder(tmp_path / "drawn", data)
    again = read_folder(tmp_path / "drawn")
    for silo, table in data.tables.items():
        np.testing.assert_array_equal(again.tables[silo][:, :5], table[:, :5])
        assert [set(row) for row in again.tables[silo][:, 5:]] == [set(row) for row in table[:, 5:]]


def test_numbers_and_dates_as_times_are_refused_in_a_federation(tmp_path):
    """Formerly, the numbers of one silo were seconds in the other."""
    days = "time,event\n2020-01-01,a\n2020-01-02,b\n"
    folder, declared = study(tmp_path, days), Declared(kind="events")
    services = {silo: SiloService(silo, folder / f"{silo}.csv") for silo in ("one", "two")}
    with pytest.raises(BadInput, match=r"silo two: its times are numbers or months, and those of silo one are dates"):
        schema_from_descriptions(in_process_roster(InProcessTransport(services), ("one", "two")), declared)
    months = "time,event\n2020-01,a\n2020-03,b\n"
    assert np.ptp(read_folder(study(tmp_path, months, months)).tables["two"][:, 1]) == 2
    with pytest.raises(BadInput, match=r"one.csv: its times are numbers or months, and those of .*two.csv are dates"):
        read_folder(study(tmp_path, months, days))


def test_the_column_of_times_may_be_named(tmp_path):
    other = "seen,event,time\n3,b,x\n1,a,x\n2,a,y\n"
    with pytest.raises(BadInput, match=r"one.csv: column 'seen': a table of events has time"):
        read_folder(study(tmp_path, other, other))
    named = Reading(time=("seen",), ignore=("time",))
    assert read_folder(study(tmp_path, other, other), named).tables["one"][:, 1].tolist() == [1, 2, 3]
    for time, message in (("gone",), "column 'gone' is missing"), (("seen", "time"), "--time: events have one column"):
        with pytest.raises(BadInput, match=f"one.csv: {message}"):
            read_folder(study(tmp_path, other, other), Reading(time=time))


def test_types_that_differ_in_capitals_are_in_a_note(tmp_path):
    data = read_folder(study(tmp_path, GOOD, "time,event\n5,C\n6,A\n7,c\n"))
    assert data.notes == (
        "types that differ only in capitals or spaces are different types: A, a",
        "types that differ only in capitals or spaces are different types: C, c",
    )


def test_excluded_columns_of_events_are_known(tmp_path):
    sized = "time,event,device,size\n3,b,x,1\n1,a,x,2\n"
    folder = study(tmp_path, sized)
    assert read_folder(folder, Reading(ignore=("size",))).schema.aside == {"size": "left out by --ignore"}
    described = describe_rows("one", folder / "one.csv", Declared(kind="events", reading=Reading(ignore=("size",))))
    assert described.excluded == ("size",)
    with pytest.raises(BadInput, match="--ignore: 'gone' is not a column of any silo"):
        read_folder(folder, Reading(ignore=("size", "gone")))


def test_undeclared_events_are_recognised(tmp_path):
    folder = study(tmp_path)
    (folder / "about.json").unlink()
    with pytest.raises(BadInput, match="its columns device, event, time suggest event sequences: declare"):
        read_folder(folder)


def test_a_drawn_data_set_reads_back_exactly(tmp_path):
    data = events(4, 2, 200, 6, 1)
    write_folder(tmp_path / "drawn", data)
    again = read_folder(tmp_path / "drawn")
    assert again.schema.variables == data.schema.variables
    for silo, table in data.tables.items():
        np.testing.assert_array_equal(again.tables[silo][:, 1:], table[:, 1:])
    assert (again.truth.weights == data.truth.weights).all()
    assert homogeneous(3, 1, 20, 1).schema.table_columns == ("x1", "x2", "x3")


def test_inspect_lists_the_types(tmp_path, capsys):
    show_folder(study(tmp_path), LearnOptions())
    shown = capsys.readouterr().out
    assert "events data, 3 variables" in shown
    assert re.search(r"^a +events *$", shown, re.MULTILINE)
