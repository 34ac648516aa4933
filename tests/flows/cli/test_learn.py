"""`fedbnsl learn` with output for programs, and without output."""

import json

import pytest

from fedbnsl.flows.engines.inline import run_inline

from .test_main import run

WORDS = ("-a", "notears-admm", "-p", "rounds=2", "--engine", "inline", "--name", "mine")


def test_one_json_document_and_nothing_else(capsys, example, tmp_path):
    code, out, err = run(capsys, "learn", example, *WORDS, "--json")
    said = json.loads(out)
    assert code == 0
    assert said["folder"] == str(tmp_path / "runs" / "mine")
    assert said["metrics"] == json.loads((tmp_path / "runs" / "mine" / "metrics.json").read_text())
    assert said["files"]["report.html"] == str(tmp_path / "runs" / "mine" / "report.html")
    assert (said["privacy"], said["mlflow"], said["outcome"]) == (None, None, "out of rounds")
    assert "mine: starting" in err


def test_the_document_has_the_budget_that_was_spent(capsys, example):
    words = ("-a", "secure-sum", "--epsilon", "40", "--delta", "1e-6", "-p", "colluders=0", "--engine", "inline")
    code, out, err = run(capsys, "learn", example, *words, "--json", "--quiet")
    assert (code, err) == (0, "")
    spent = json.loads(out)["privacy"]
    assert spent["delta"] == 1e-6
    assert 0 < spent["epsilon"] <= 40
    assert spent["all_runs"] >= spent["epsilon"]


def test_quiet_is_silent_and_writes_everything(capsys, example, tmp_path):
    assert run(capsys, "learn", example, *WORDS, "--quiet") == (0, "", "")
    assert (tmp_path / "runs" / "mine" / "report.html").exists()


@pytest.mark.parametrize("way", ["--json", "--quiet"])
def test_how_the_data_were_read_is_not_printed_then(capsys, tmp_path, way):
    folder = tmp_path / "odd"
    folder.mkdir()
    for silo in ("a", "b"):
        (folder / f"{silo}.csv").write_text(
            "id,x,y\n" + "".join(f"{silo}{k},{k % 7 + k / 99},{k * k % 11 + k / 9}\n" for k in range(30))
        )
    assert "excluded: id" in run(capsys, "learn", folder, *WORDS)[1]
    code, out, err = run(capsys, "learn", folder, *WORDS[:-1], "again", way)
    assert code == 0, err
    assert out == "" or json.loads(out)["name"] == "again"


def test_what_is_wrong_is_said_all_the_same(capsys, example):
    code, out, err = run(capsys, "learn", example, "-a", "magic", "--json", "--quiet")
    assert (code, out) == (2, "")
    assert err.startswith("error: unknown algorithm 'magic'")


def test_a_run_that_lost_a_silo_is_a_document_and_exit_code_3(capsys, example, monkeypatch):
    from dataclasses import replace

    from fedbnsl.flows import start

    def lost(*given, **options):
        return replace(run_inline(*given, **options), outcome="silo lost", lost=("silo-1",))

    monkeypatch.setattr(start, "run_inline", lost)
    code, out, err = run(capsys, "learn", example, *WORDS, "--json", "--quiet")
    assert code == 3
    assert json.loads(out)["outcome"] == "silo lost"
    assert "silo-1 did not respond" in err


def test_a_wrong_parameter_is_refused_before_the_data_are_read(capsys):
    code, _, err = run(capsys, "learn", "no_such_folder", "-a", "fed-sparse", "-p", "gamma=2", "--engine", "inline")
    assert (code, err) == (2, "error: parameter gamma is 2.0: it must be above 0 and at most 1\n")
    code, _, err = run(capsys, "learn", "no_such_folder", "-p", "gama=2", "--engine", "inline")
    assert (code, err) == (2, "error: unknown setting 'gama', which no algorithm has: did you mean gamma?\n")
