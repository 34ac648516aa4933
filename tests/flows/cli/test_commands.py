import json
import resource
import subprocess
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from fedbnsl.flows.cli import learn as terminal
from fedbnsl.flows.cli.main import COMMANDS
from tests.flows.commands import run

ROWS = "a,b,c\n1,2,3\n2,1,5\n3,5,1\n4,4,4\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data").mkdir()
    for silo in ("one", "two"):
        (tmp_path / "data" / f"{silo}.csv").write_text(ROWS)
    return tmp_path / "data"


BAD = {
    "missing column": ("a,b\n1,2\n2,1\n", ["two.csv", "'c'", "missing"]),
    "non-numeric cell": (ROWS.replace("5,1", "x,1"), ["two.csv", "line 4", "'b'", "'x'", "not a number"]),
    "NaN": (ROWS.replace("5,1", "nan,1"), ["two.csv", "line 4", "'b'", "empty", "--missing refuse"]),
    "empty cell": (ROWS.replace("5,1", ",1"), ["two.csv", "line 4", "'b'", "empty"]),
    "infinite cell": (ROWS.replace("5,1", "inf,1"), ["two.csv", "line 4", "'b'", "'inf' is not finite"]),
    "no rows": ("a,b,c\n", ["two.csv", "no rows"]),
    "silos that disagree": (ROWS.replace("c", "d"), ["two.csv", "'c'"]),
}


@pytest.mark.parametrize("engine", ["inline", "prefect"])
@pytest.mark.parametrize(("content", "said"), BAD.values(), ids=BAD)
def test_bad_data_is_one_line_and_nothing_is_written(capsys, folder, tmp_path, content, said, engine):
    (folder / "two.csv").write_text(content)
    code, out, err = run(capsys, "learn", folder, "--engine", engine, "--out", tmp_path / "out", "--missing", "refuse")
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert all(word in err for word in said), err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]
    assert sorted(path.name for path in folder.iterdir()) == ["one.csv", "two.csv"]


WRONG = {
    "no such folder": (["learn", "nowhere"], "nowhere: no such folder"),
    "no folder": (["learn"], "no data:"),
    "unknown algorithm": (["learn", "data", "-a", "magic"], "unknown algorithm 'magic'"),
    "a step of other runs": (["learn", "data", "-a", "family-tables"], "family-tables' is an internal step of runs"),
    "unknown parameter": (
        ["learn", "data", "-a", "fed-sparse", "-p", "rho9=1"],
        "unknown parameter 'rho9' of fed-sparse",
    ),
    "value of a parameter": (["learn", "data", "-a", "fed-sparse", "-p", "l1=much"], "l1 of fed-sparse is 'much'"),
    "form of a parameter": (["learn", "data", "-p", "l1"], "-p l1: a parameter is given as KEY=VALUE"),
    "seed": (["learn", "data", "--seed", "-1"], "seed is '-1'"),
    "name": (["learn", "data", "--name", "a/b"], "name is 'a/b'"),
    "engine": (["learn", "data", "--engine", "warp"], "--engine is 'warp'"),
    "output folder in use": (["learn", "data", "--out", "data"], "data: already exists"),
    "cyclic truth": (["learn", "cyclic"], "truth has the cycle a -> b -> a"),
    "resume of nothing": (["learn", "--resume", "data"], "data: no interrupted run to resume"),
    "unknown option": (["learn", "data", "--speed", "9"], "No such option: --speed"),
    "unknown command": (["forget"], "No such command 'forget'"),
    "option without number": (["prepare", "homogeneous", "new", "--silos", "some"], "some"),
    "silos": (["prepare", "homogeneous", "new", "--silos", "0"], "silos is '0'"),
    "graph": (["prepare", "heterogeneous", "new", "--graph", "XY"], "graph is 'XY'"),
    "folder in use": (["prepare", "homogeneous", "data"], "data: already exists"),
    "network": (["prepare", "network", "new", "--network", "chain"], "network: 'chain' is not one of"),
    "table": (["prepare", "split", "new", "--table", "none.csv", "--silos", "2"], "none.csv: no such file"),
    "sizes": (["prepare", "split", "new", "--table", "data/one.csv", "--sizes", "1,x"], "sizes.1 is 'x'"),
    "two schedules": (["serve", "data", "--cron", "* * * * *", "--interval", "5"], "give one"),
    "schedule": (["serve", "data", "--cron", "soon"], "--cron 'soon' must be a schedule"),
    "structure": (["evaluate", "none.csv", "cyclic/truth.csv"], "none.csv: no such file"),
}


@pytest.mark.parametrize(("words", "said"), WRONG.values(), ids=WRONG)
def test_a_mistake_is_one_line_and_nothing_is_written(capsys, folder, tmp_path, words, said):
    (tmp_path / "cyclic").mkdir()
    (tmp_path / "cyclic" / "one.csv").write_text(ROWS)
    (tmp_path / "cyclic" / "truth.csv").write_text("source,target\na,b\nb,a\n")
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert said in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cyclic", "data"]


def test_no_traceback_and_exit_code_2_as_a_program(folder):
    (folder / "two.csv").write_text("a,b,c\n")
    command = [sys.executable, "-m", "fedbnsl.flows.cli.main", "learn", str(folder), "--engine", "inline"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "two.csv: no rows" in done.stderr


def test_help_takes_less_than_a_second_of_cpu():
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "fedbnsl.flows.cli.main", "--help"], check=False, capture_output=True, text=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0
    assert "learn" in done.stdout
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1


def test_prepare_then_learn_inline_then_evaluate(capsys, tmp_path):
    options = ["--variables", 5, "--silos", 3, "--rows", 200, "--seed", 1]
    code, out, _ = run(capsys, "prepare", "homogeneous", "example", *options)
    assert code == 0
    assert "3 silos, 600 rows, 5 variables" in out
    code, out, err = run(capsys, "learn", "example", "-a", "notears-admm", "--engine", "inline", "--name", "first")
    assert code == 0
    assert "→" in out
    assert "shd" in out
    assert f"report: {tmp_path / 'runs' / 'first' / 'report.html'}" in out
    assert "first: starting" in err
    metrics = json.loads((tmp_path / "runs" / "first" / "metrics.json").read_text())
    code, out, _ = run(capsys, "evaluate", "runs/first/structure.csv", "example/truth.csv", "--json")
    assert code == 0
    assert json.loads(out)["shd"] == metrics["shd"]
    assert metrics["epsilon"] is None


def test_a_folder_of_plain_csvs_just_works(capsys, tmp_path):
    (tmp_path / "mine").mkdir()
    import numpy as np

    rng = np.random.default_rng(0)
    for silo in ("north", "south"):
        x = rng.normal(size=100)
        rows = "".join(f"{a},{b}\n" for a, b in zip(x, 2 * x + rng.normal(size=100), strict=True))
        (tmp_path / "mine" / f"{silo}.csv").write_text("dose,effect\n" + rows)
    code, out, _ = run(capsys, "learn", "mine", "--engine", "inline", "--name", "mine", "-v")
    assert code == 0
    assert "The true graph is not known, so there is no comparison." in out
    assert json.loads((tmp_path / "runs" / "mine" / "metrics.json").read_text())["shd"] is None


def test_a_cyclic_truth_is_compared_with_if_asked(capsys, folder):
    (folder / "truth.csv").write_text("source,target\na,b\nb,a\n")
    words = ["learn", folder, "--engine", "inline", "--name", "cyclic", "--allow-cyclic-truth"]
    code, out, _ = run(capsys, *words)
    assert code == 0
    assert "shd" in out


def test_algorithms_say_what_leaves_a_silo(capsys):
    code, out, _ = run(capsys, "algorithms", "--json")
    listed = json.loads(out)
    assert code == 0
    assert all(entry["leaves"] and entry["summary"] and entry["source"] for entry in listed.values())
    code, out, _ = run(capsys, "algorithms")
    assert code == 0
    assert all(name in out for name in listed)


@pytest.mark.parametrize("kind", ["heterogeneous", "sachs", "network", "split"])
def test_every_kind_of_data_can_be_prepared(capsys, folder, tmp_path, kind):
    options = {
        "heterogeneous": ["--variables", 5, "--silos", 2, "--rows", 20],
        "sachs": ["--by-condition", "--truth", "17"],
        "network": ["--network", "ecoli70", "--silos", 2, "--rows", 20],
        "split": ["--table", folder / "one.csv", "--sizes", "2,2"],
    }
    code, out, err = run(capsys, "prepare", kind, tmp_path / kind, *options[kind])
    assert code == 0, err
    assert "silos" in out
    assert list((tmp_path / kind).glob("*.csv"))


def test_gaps_are_made_in_a_folder_and_written_as_parquet_on_request(capsys, monkeypatch, folder, tmp_path):
    from fedbnsl.data.folder.folder import read_folder

    written = []
    # Another test may have started a server.
    monkeypatch.setattr("fedbnsl.flows.servers.processes.standing_server", nullcontext)
    monkeypatch.setattr("fedbnsl.flows.start.write_folder", lambda *given: written.append(given))
    options = ["--from", folder, "--mechanism", "mnar", "--share", "0.4", "--seed", 3, "--form", "parquet"]
    code, _, err = run(capsys, "prepare", "amputate", tmp_path / "gaps", *options)
    assert code == 0, err
    ((out, data, form),) = written
    assert (out, form) == (tmp_path / "gaps", "parquet")
    assert data.schema.gaps
    assert data.schema.rows == read_folder(folder).schema.rows
    assert data.about["amputated"] == {"mechanism": "mnar", "share": 0.4, "seed": 3}


def test_help_loads_neither_numbers_nor_servers():
    slow = ("numpy", "scipy", "numba", "pandas", "prefect", "mlflow", "dask", "fedbnsl.algorithms.registry")
    program = (
        "import sys\n"
        "from fedbnsl.flows.cli.main import COMMANDS, app, command\n"
        f"def loaded(*more): return [name for name in {slow!r} + more if name in sys.modules]\n"
        "print(loaded('pydantic'))\n"
        "for name in COMMANDS: command(name)\n"
        "print(loaded())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["[]", "[]"]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_its_page(capsys, name):
    code, out, _ = run(capsys, name, "--help")
    assert code == 0
    assert f"Usage: fedbnsl {name}" in out
    code, out, _ = run(capsys, "--help")
    assert name in out


def test_a_run_that_lost_a_silo_leaves_with_a_code_of_its_own(capsys, monkeypatch, tmp_path):
    outcomes = ["silo lost", "converged"]

    def learned(settings, **how):
        result = SimpleNamespace(outcome=outcomes.pop(0), lost=("lab",), notes=())
        return SimpleNamespace(folder=tmp_path, result=result)

    monkeypatch.setattr(terminal, "learn_and_show", learned)
    monkeypatch.setattr("fedbnsl.flows.terminal.summary.show_result", lambda finished, details: None)
    said = f"error: lab did not respond and the run stopped; to continue: fedbnsl learn --resume {tmp_path}\n"
    assert run(capsys, "learn", tmp_path) == (3, "", said)
    assert run(capsys, "learn", tmp_path) == (0, "", "")
