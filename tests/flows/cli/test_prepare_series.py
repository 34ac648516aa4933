"""Time series from the command line and the forms, and the schema that silos have in common."""

import json
from pathlib import Path

import numpy as np
import pytest

from fedbnsl import learn, load
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.about import declarations
from fedbnsl.data.folder.folder import read_folder, read_schema, silo_files, write_folder
from fedbnsl.data.generators.dynamic import dynamic
from fedbnsl.flows.options.prepare import recipe
from fedbnsl.tasks.silo.rows import DescribedSeries
from fedbnsl.tasks.silo.service import SiloService
from fedbnsl.tasks.transport.described_schema import schema_from_descriptions
from fedbnsl.tasks.transport.in_process import InProcessTransport, in_process_roster
from tests.flows.commands import run


@pytest.fixture
def long(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"{who},{t},{len(who) * t % 5},{t % 3}" for who in ("ann", "bertha") for t in range(8)]
    Path("long.csv").write_text("who,t,x,y\n" + "\n".join(rows) + "\n")


def test_dynamic_data_from_the_command_line(capsys, long):
    words = ["--variables", 5, "--silos", 3, "--rows", 20, "--lags", 2, "--series", 2, "--heterogeneity", 0.05]
    code, out, err = run(capsys, "prepare", "dynamic", "made", *words, "--seed", 1)
    assert code == 0, err
    assert out.startswith("made: 3 silos, 72 rows, 5 variables, 10 true edges within a time step, ")
    data = read_folder(Path("made"))
    options = {"variables": 5, "silos": 3, "rows": 20, "lags": 2, "series": 2, "heterogeneity": 0.05, "seed": 1}
    same = recipe("dynamic", **options).build()
    assert data.schema == same.schema
    assert (data.truth.lagged == same.truth.lagged).all()
    assert json.loads(Path("made/about.json").read_text())["parameters"]["decay"] == 1.5


def test_recorded_series_from_the_command_line(capsys, long):
    code, out, err = run(capsys, "prepare", "series", "made", "--table", "long.csv", "--by", "who", "--time", "t")
    assert (code, out) == (0, "made: 2 silos, 16 rows, 2 variables, no truth\n"), err
    assert read_schema(Path("made")).stretches == {"ann": (8,), "bertha": (8,)}


WRONG = {
    "rows": (["dynamic", "new", "--rows", 1], "rows is '1'"),
    "lags": (["dynamic", "new", "--lags", 0], "lags is '0'"),
    "both": (
        ["dynamic", "new", "--own-structures", "--heterogeneity", 1],
        "heterogeneity: must be 0 with own structures",
    ),
    "column": (["series", "new", "--table", "long.csv", "--by", "subject"], "long.csv: column 'subject' is missing"),
    "words": (["series", "new", "--table", "long.csv", "--time", "t"], "line 2, column 'who': 'ann' is not a number"),
    "repeated": (
        ["series", "new", "--table", "long.csv", "--by", "who", "--time", "y"],
        "long.csv: line 5, column 'y': '0' is a duplicate in its series",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_mistake_is_one_line_and_nothing_is_written(capsys, long, case):
    words, said = WRONG[case]
    code, out, err = run(capsys, "prepare", *words)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert said in err
    assert not Path("new").exists()


def test_an_algorithm_that_takes_no_time_series_says_so(capsys, long):
    run(capsys, "prepare", "dynamic", "made", "--variables", 4, "--silos", 2, "--rows", 20)
    code, _, err = run(capsys, "learn", "made", "--algorithm", "notears-admm", "--engine", "inline")
    assert code == 2
    assert "notears-admm learns from continuous data, and made is time-series" in err


def described(folder, about=None):
    services = {silo: SiloService(silo, path) for silo, path in silo_files(folder).items()}
    return schema_from_descriptions(
        in_process_roster(InProcessTransport(services), tuple(services)), declarations(about or {})
    ).schema


def test_silos_describe_what_the_folder_holds(capsys, long):
    run(capsys, "prepare", "dynamic", "made", "--variables", 4, "--silos", 2, "--rows", 20, "--series", 3)
    assert described(Path("made")) == read_schema(Path("made"))
    assert described(Path("made"), {"kind": "time-series"}) == read_schema(Path("made"))
    one = DescribedSeries("a", ("x",), (3, 2), 0.5)
    assert wire.decode(DescribedSeries, wire.encode(one)) == one


def test_silos_that_disagree_on_time_are_refused(long):
    Path("made").mkdir()
    Path("made/a.csv").write_text("time,x\n0,1\n1,2\n2,4\n")
    Path("made/b.csv").write_text("time,x\n0,1\n2,2\n4,4\n")
    with pytest.raises(BadInput, match="silo b: its times are 2 apart, those of silo a 1"):
        described(Path("made"))
    Path("made/b.csv").write_text("x\n1\n2\n4\n")
    with pytest.raises(BadInput, match="silos a and b disagree: only the first has a column 'time'"):
        described(Path("made"))
    assert described(Path("made"), {"kind": "time-series"}).stretches == {"a": (3,), "b": (3,)}


@pytest.mark.slow(60)
def test_the_flow_makes_time_series(long, monkeypatch):
    from fedbnsl.flows.prepare import prepare

    prepare({"kind": "dynamic", "variables": 3, "silos": 2, "rows": 10}, "made")
    assert read_schema(Path("made")).stretches == {"silo-1": (11,), "silo-2": (11,)}


def test_states_are_written_with_their_levels_and_read_again(tmp_path, capsys):
    folder = tmp_path / "data"
    run(capsys, "prepare", "dynamic", folder, "--labels", 2, "--variables", 5, "--silos", 2, "--rows", 200)
    drawn = dynamic(5, 2, 200, 0, labels=2)
    read = read_folder(folder)
    assert read.schema == drawn.schema
    for silo, table in drawn.tables.items():
        np.testing.assert_array_equal(read.tables[silo], table)
    column = next(iter(drawn.schema.levels))
    for words, said in (
        (
            ["--algorithm", "var"],
            f"var learns from series of numbers, and column '{column}' of data has labels: use secu",
        ),
        (["--epsilon", "1"], f"column '{column}': no algorithm learns from series with labels with an ε"),
    ):
        code, _, error = run(capsys, "learn", folder, "--out", tmp_path / "out", "--engine", "inline", *words)
        assert (code, said in error, error.count("\n")) == (2, True, 1)
    path = folder / "silo-1.csv"
    lines = path.read_text().splitlines()
    place = lines[0].split(",").index(column)
    cells = lines[3].split(",")
    cells[place] = "wild"
    path.write_text("\n".join([*lines[:3], ",".join(cells), *lines[4:]]))
    with pytest.raises(BadInput, match=f"line 4, column '{column}': 'wild' is not one of the declared levels"):
        read_folder(folder)


def test_a_state_may_be_constant_at_a_silo(tmp_path):
    data = dynamic(3, 2, 80, 0, labels=3)
    data.tables["silo-1"][:, 0] = 0
    write_folder(tmp_path / "data", data)
    np.testing.assert_array_equal(read_folder(tmp_path / "data").tables["silo-1"], data.tables["silo-1"])


def test_auto_learns_from_states_and_says_how_they_enter(tmp_path):
    result = learn(dynamic(5, 2, 300, 1, degree=2.0, labels=2), bootstrap=2).result
    assert result.algorithm == "secure-boss"
    assert any("labels are indicators of their levels" in line for line in result.basis)
    assert result.metrics["lags"] == 1
    assert result.parameters.how.startswith(
        "regressions, tables and logistic regressions on the same and earlier times"
    )
    assert result.metrics["forecast_mse"] < result.metrics["persistence_mse"]
    assert result.metrics["forecast_wrong"] < result.metrics["persistence_wrong"]
    assert result.confidence.strengths.structures == 2
    counted = learn(dynamic(5, 2, 300, 1, degree=2.0, labels=5), bootstrap=0).result
    assert any("labels are counted" in line for line in counted.basis)
    assert counted.metrics["forecast_mse"] is None
    assert counted.metrics["forecast_wrong"] < counted.metrics["persistence_wrong"]


@pytest.mark.slow
def test_a_run_on_states_is_saved_loaded_and_asked(tmp_path):
    """The class of the graph has lags and undirected edges, which the file of its edges must hold, too."""
    data = dynamic(4, 2, 400, 5, labels=2)
    found = learn(data, bootstrap=0, secure=True)
    again = load(found.save(tmp_path / "run"))
    structure = found.result.structure
    assert again.result.structure.kind == structure.kind
    assert (again.result.structure.lagged == structure.lagged).all()
    state, (one, other, *_) = next(iter(data.schema.levels.items()))
    answers = [run.query(f"P({state} | {state}[t-1]={one})", seed=1).as_json() for run in (found, again)]
    assert answers[0] == answers[1]
    drawn = again.simulate(3000, seed=2)[state]
    rows = np.concatenate(list(data.tables.values()))[:, data.schema.variables.index(state)]
    assert (drawn == one).mean() == pytest.approx((rows == 0).mean(), abs=0.08)
    assert other in set(drawn)
    report = (tmp_path / "run" / "report.html").read_text("utf-8")
    assert "Forecasts one step ahead" in report
    assert "share of labels that are not forecast correctly" in " ".join(report.split())
