"""Files in the formats of two benchmarks, written by the test: NetSim's .mat and DREAM4's .tsv."""

import numpy as np
import pytest
from scipy.io import savemat

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.recordings.series import series


@pytest.fixture
def netsim(tmp_path):
    """A function: the path of three subjects' 20 times of 4 nodes, with other arrays as asked for."""
    rng = np.random.default_rng(0)
    held = {"ts": rng.normal(size=(60, 4)), "Nsubjects": 3, "Ntimepoints": 20, "Nnodes": 4}
    held["net"] = np.zeros((3, 4, 4))
    held["net"][:, range(4), range(4)] = -1
    held["net"][:, 0, 1] = 0.2, 0.4, 0.6
    held["net"][:, 2, 3] = 0.3

    def write(**other):
        arrays = {name: value for name, value in {**held, **other}.items() if value is not None}
        savemat(tmp_path / "sim.mat", arrays)
        return tmp_path / "sim.mat", held["ts"]

    return write


def test_a_netsim_file_has_a_series_for_every_subject_and_their_mean_network(netsim):
    path, ts = netsim()
    data = series(path)
    assert data.schema.variables == ("x1", "x2", "x3", "x4")
    assert data.schema.stretches == {"silo-1": (20,), "silo-2": (20,), "silo-3": (20,)}
    assert np.array_equal(data.tables["silo-2"], ts[20:40])
    expected = np.zeros((4, 4))
    expected[0, 1], expected[2, 3] = 0.4, 0.3
    np.testing.assert_allclose(data.truth.weights, expected)
    assert data.truth.lagged is None
    assert series(path, silos=2).schema.stretches == {"silo-1": (20, 20), "silo-2": (20,)}
    assert series(netsim(net=None)[0]).truth is None


def test_a_missing_value_of_a_netsim_file_makes_a_gap(netsim):
    _, ts = netsim()
    holed = ts.copy()
    holed[25, 1] = np.nan
    assert series(netsim(ts=holed)[0]).schema.stretches["silo-2"] == (5, 14)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"ts": None}, "array 'ts' is missing; available: Nsubjects, Ntimepoints, Nnodes, net"),
        ({"ts": np.zeros((2, 2, 2))}, "array 'ts': float64 of shape (2, 2, 2), not 2-D real numbers"),
        ({"Nsubjects": 4}, "array 'ts': 60 rows, not 4 subjects of 20 times"),
        ({"Nsubjects": 2.5}, "array 'Nsubjects': not an integer of 1 or more"),
        ({"net": np.zeros((3, 4, 5))}, "array 'net': (3, 4, 5) numbers, not (3, 4, 4) that are finite"),
        ({"ts": np.full((60, 4), np.inf)}, "array 'ts': row 1, column 1: inf is not finite"),
    ],
)
def test_a_fault_of_a_netsim_file(netsim, other, message):
    with pytest.raises(BadInput) as caught:
        series(netsim(**other)[0])
    assert str(caught.value).endswith(f"sim.mat: {message}")


def test_a_file_that_is_no_matlab_file(tmp_path):
    (tmp_path / "sim.mat").write_bytes(b"nothing of the kind" * 20)
    with pytest.raises(BadInput, match=r"sim\.mat: not a readable MATLAB file"):
        series(tmp_path / "sim.mat")
    with pytest.raises(BadInput, match=r"none\.mat: no such file"):
        series(tmp_path / "none.mat")
    with pytest.raises(BadInput, match=r"time: .*sim\.mat is a \.mat file"):
        series(tmp_path / "sim.mat", time="t")


CHALLENGE = '"Time"\t"G1"\t"G2"\n\n0\t.5\t.25\n50\t.6\t.2\n100\t.7\t.4\n\n0\t.1\t.2\n50\t.3\t.1\n'


@pytest.mark.parametrize("text", [CHALLENGE, CHALLENGE.replace("\n\n", "\n"), CHALLENGE.replace("\n", "\r\n") + "\n\n"])
def test_a_challenge_file_has_blank_lines_between_its_series(tmp_path, text):
    (tmp_path / "d.tsv").write_bytes(text.encode())
    data = series(tmp_path / "d.tsv")
    assert data.schema.variables == ("G1", "G2")
    assert data.schema.stretches == {"silo-1": (3,), "silo-2": (2,)}
    assert data.tables["silo-2"].tolist() == [[0.1, 0.2], [0.3, 0.1]]


def test_a_time_that_is_repeated_begins_another_series(tmp_path):
    (tmp_path / "d.tsv").write_text("Time\tG1\tG2\n0\t1\t4\n50\t2\t6\n50\t3\t5\n100\t4\t7\n")
    data = series(tmp_path / "d.tsv")
    assert data.schema.stretches == {"silo-1": (2,), "silo-2": (2,)}
    assert data.tables["silo-2"].tolist() == [[3, 5], [4, 7]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Time\tG1\n0\t1\n50\n", "line 3: 1 cells, but the header names 2 columns"),
        ("Time\tG1\n0\t1\n\n50\tlow\n", "line 4, column 'G1': 'low' is not a number"),
        ("T\tG1\n0\t1\n", "line 1: column 'Time' is missing; available: T, G1"),
        ("Time\tG1\n\n", "no rows"),
        ("\n", "the file is empty"),
        ("Time\tG1\n0\t1\n50\t2\n120\t3\n", "line 4, series '1', column 'Time': '120' is 70 after the previous time"),
    ],
)
def test_a_fault_of_a_challenge_file(tmp_path, text, message):
    (tmp_path / "d.tsv").write_text(text)
    with pytest.raises(BadInput) as caught:
        series(tmp_path / "d.tsv")
    assert str(caught.value).startswith(f"{tmp_path / 'd.tsv'}: {message}")
