"""Recorded series assigned to silos whole, by owner or in consecutive pieces; no row gets a wrong neighbour."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.folder import read_folder, write_folder
from fedbnsl.data.recordings.series import series
from fedbnsl.data.splitting.partition import split_table

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data"
needs_fmri = pytest.mark.skipif(not (SHARED / "fmri_9subjects").is_dir(), reason="the real data sets are not here")
needs_dream4 = pytest.mark.skipif(not (SHARED / "dream4").is_dir(), reason="the real data sets are not here")


@pytest.fixture
def table(tmp_path):
    """A function that writes a long table of series a, b, c of 4, 3 and 2 rows, interleaved."""

    def write(**columns):
        rows = [(name, time) for time in range(4) for name, n in (("b", 3), ("a", 4), ("c", 2)) if time < n]
        frame = pd.DataFrame(rows, columns=["series", "Time"])
        frame["x"], frame["y"] = np.arange(len(rows)) ** 1.5, np.cos(np.arange(len(rows)))
        frame.assign(**columns).to_csv(tmp_path / "long.csv", index=False)
        return tmp_path / "long.csv"

    return write


def test_series_are_dealt_whole_in_their_order(table):
    data = series(table(), silos=2)
    assert data.schema.stretches == {"silo-1": (3, 4), "silo-2": (2,)}
    assert series(table()).schema.stretches == {"silo-1": (3,), "silo-2": (4,), "silo-3": (2,)}
    assert data.schema.variables == ("x", "y")
    assert data.about["parameters"] == {"table": "long.csv", "series": "series", "time": "Time", "silos": 2}


def test_an_owner_has_the_series_that_are_its_own(table):
    data = series(table(who=["Wien", "Graz", "Graz"] * 2 + ["Wien"] * 3), by="who")
    assert data.schema.stretches == {"Graz": (2, 2), "Wien": (3, 2)}
    assert data.schema.variables == ("x", "y")


@given(st.lists(st.integers(5, 9), min_size=1, max_size=4), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_the_pieces_of_one_series_are_consecutive_and_keep_its_gaps(tmp_path_factory, lengths, silos):
    assume(sum(lengths) >= 3 * silos)
    times = np.concatenate([np.arange(n) + 100 * k for k, n in enumerate(lengths)])
    path = tmp_path_factory.mktemp("one") / "one.csv"
    pd.DataFrame({"time": times, "x": times + 0.5}).to_csv(path, index=False)
    data = series(path, silos=silos)
    found = np.concatenate([data.tables[silo][:, 0] - 0.5 for silo in data.schema.silos])
    assert found.tolist() == times.tolist()
    sizes = data.schema.rows.values()
    assert max(sizes) - min(sizes) <= 1
    for silo, stretches in data.schema.stretches.items():
        inside = np.split(data.tables[silo][:, 0], np.cumsum(stretches)[:-1])
        assert all((np.diff(part) == 1).all() for part in inside)
        assert all(b[0] - a[-1] > 1 for a, b in pairwise(inside))


def test_too_few_rows_of_one_series_for_the_silos_are_refused(tmp_path):
    (tmp_path / "one.csv").write_text("x\n1\n2\n3\n")
    with pytest.raises(BadInput, match=r"one\.csv has one series of 3 rows, too few for 2 silos"):
        series(tmp_path / "one.csv", silos=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"silos": 4}, "has 3 series, too few for 4 silos"),
        ({"silos": 0}, "silos: give a number of 1 or more, or by, not both"),
        ({"silos": 2, "by": "series"}, "silos: give a number of 1 or more, or by, not both"),
        ({"by": "who"}, "long.csv: column 'who' is missing; available: series, Time, x, y"),
        ({"time": "when"}, "long.csv: column 'when' is missing"),
        ({"truth": Path("no.json")}, "no.json: cannot be read: No such file"),
    ],
)
def test_what_cannot_be_dealt_is_said(table, options, message):
    with pytest.raises(BadInput) as caught:
        series(table(), **options)
    assert message in str(caught.value)


def test_a_silo_that_cannot_be_learned_from_is_named(table):
    with pytest.raises(BadInput, match=r"long\.csv: silo 'silo-2': column 'y': constant"):
        series(table(y=[1, 2, 3, 4, 2, 6, 7, 2, 2]))
    with pytest.raises(BadInput, match=r"long\.csv: silo 'p': no two consecutive complete rows"):
        series(table(who=list("pqqqqqqqq")), by="who")


def test_a_graph_of_what_drives_what_comes_as_json(table, tmp_path):
    path = tmp_path / "truth.json"
    path.write_text('{"nodes": ["x", "y"], "edges": [["x", "y"], ["y", "x"]]}')
    truth = series(table(), truth=path).truth
    assert truth.weights.tolist() == [[0, 1], [1, 0]]
    path.write_text('{"edges": [["x", "y"]]}')
    truth = series(table(), truth=path).truth
    assert truth.weights.tolist() == [[0, 1], [0, 0]]
    assert truth.lagged is None
    for content, message in [
        ('{"edges": [["x", "z"]]}', "edge 1: 'z' is not a column of the data"),
        ('{"edges": [["x", "x"]]}', "edge 1: an edge from 'x' to itself"),
        ('{"edges": ["xy"]}', "edge 1: 'xy' is not a pair of names"),
        ("[]", "not a JSON object with a list of 'edges'"),
        ("{", "not JSON: "),
    ]:
        path.write_text(content)
        with pytest.raises(BadInput) as caught:
            series(table(), truth=path)
        assert message in str(caught.value)
    (tmp_path / "t.csv").write_text("source,target,lag\nx,y,1\n")
    assert series(table(), truth=tmp_path / "t.csv").truth.lagged.tolist() == [[[0, 1], [0, 0]]]


def test_rows_of_time_series_are_not_split_one_by_one(table, tmp_path):
    with pytest.raises(BadInput, match="deal whole series with `prepare series`"):
        split_table(table(series=list("bacbacbaa")), 0, silos=2)
    assert len(split_table(table(series=[1.5] * 8 + [2]), 0, silos=1, kind="continuous").schema.variables) == 4
    write_folder(tmp_path / "set", series(table()))
    with pytest.raises(BadInput, match="deal whole series"):
        split_table(tmp_path / "set" / "silo-1.csv", 0, silos=2)


@needs_fmri
def test_the_scans_of_nine_people(tmp_path):
    data = series(SHARED / "fmri_9subjects" / "fmri_9roi.csv.gz", time="t", by="subject")
    assert len(data.schema.silos) == 9
    assert set(data.schema.stretches.values()) == {(160,)}
    assert data.tables["sub001"][1, 0] == 8751.7723
    write_folder(tmp_path / "set", data)
    assert read_folder(tmp_path / "set").schema == data.schema


@needs_dream4
@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_perturbations_of_dream4(tmp_path, number):
    stem = SHARED / "dream4" / f"insilico_size100_{number}"
    data = series(Path(f"{stem}_timeseries.csv.gz"), silos=5, truth=Path(f"{stem}_truth.json"))
    assert set(data.schema.stretches.values()) == {(21, 21)}
    assert (len(data.schema.silos), len(data.schema.variables)) == (5, 100)
    assert (data.truth.weights != 0).sum() == {1: 176, 2: 249, 3: 195}[number]
    assert not data.truth.acyclic
    write_folder(tmp_path / "set", data)
    back = read_folder(tmp_path / "set")
    assert back.schema == data.schema
    assert np.array_equal(back.truth.weights, data.truth.weights)


def test_every_series_is_standardised_by_itself(table):
    path = table(y=[1.0, 10.0, 7.0, 2.0, None, 7.0, 3.0, 30.0, 20.0])  # b: 1 2 3; a: 10, a gap, 30 20; c: 7 7
    data = series(path, silos=1, standardise=True)
    far = 1.5**0.5
    assert data.schema.stretches == {"silo-1": (3, 1, 2, 2)}
    assert data.tables["silo-1"][:, 1] == pytest.approx([-far, 0, far, -far, far, 0, 0, 0], abs=1e-12)
    assert data.about["parameters"]["standardise"] is True
    with pytest.raises(BadInput, match="column 'y': constant"):
        series(table(y=[1.0, 2.0, 1.0] * 2 + [1.0, 2.0, 2.0]), silos=1, standardise=True)
