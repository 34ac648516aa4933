"""Errors in files, options or the environment give one line and exit code 2, and nothing is written."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedbnsl.algorithms.errors import INVALID, STOPPED, BadInput
from fedbnsl.flows.api import learn
from fedbnsl.flows.cli.main import main

ROWS = "a,b,c\n1,2,3\n2,1,5\n3,5,1\n4,4,4\n"
LEARN = ["learn", "data", "--engine", "inline"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data").mkdir()
    for silo in ("one", "two"):
        (tmp_path / "data" / f"{silo}.csv").write_text(ROWS)
    return tmp_path / "data"


def refused(capsys, words):
    """The one-line error of the command `words`."""
    with pytest.raises(SystemExit) as leaving:
        main([str(word) for word in words])
    said = capsys.readouterr()
    assert (leaving.value.code, said.out) == (2, "")
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1, said.err
    said.err.encode()
    return said.err


def listing(path):
    return sorted(os.listdir(os.fsencode(path)))


WRONG = {
    "seed": ([*LEARN, "--seed", 2**64], "seed is '18446744073709551616'"),
    "seed of prepare": (["prepare", "homogeneous", "new", "--seed", 2**64], "seed is '18446744073709551616'"),
    "smoothing": ([*LEARN, "--smoothing", "inf"], "smoothing is 'inf': input should be a finite number"),
    "epsilon": ([*LEARN, "--epsilon", "inf"], "epsilon is 'inf'"),
    "delta": ([*LEARN, "--delta", "nan"], "delta is 'nan'"),
    "budget": ([*LEARN, "--budget", "inf"], "budget is 'inf'"),
    "patience": ([*LEARN, "--silo-patience", "nan"], "silo_patience is 'nan'"),
    "resamples": ([*LEARN, "--bootstrap", "99999999999999999999"], "bootstrap is '99999999999999999999'"),
    "rounds": (
        [*LEARN, "-a", "fed-sparse", "-p", "rounds=99999999999999999999"],
        "parameter rounds of fed-sparse is '99999999999999999999': it must be a whole number of no more than",
    ),
    "rounds without end": ([*LEARN, "-a", "fed-sparse", "-p", "rounds=1e400"], "rounds of fed-sparse is '1e400'"),
    "name": ([*LEARN, "--name", "two\nlines"], r"name is 'two\nlines'"),
    "out": ([*LEARN, "--out", "x" * 300], "File name too long; choose another folder with --out"),
    "out in a file": ([*LEARN, "--out", "data/one.csv/run"], "Not a directory"),
    "interval": (["serve", "data", "--interval", "1e-9"], "--interval is 1e-09: it must be from 1 second"),
    "no interval": (["serve", "data", "--interval", "nan"], "--interval is nan"),
    "endless interval": (["serve", "data", "--interval", "inf"], "--interval is inf"),
    "cron": (["serve", "data", "--cron", ""], "--cron '' must be a schedule"),
    "two schedules": (["serve", "data", "--cron", "", "--interval", "5"], "give one"),
    "folder": (["learn", os.fsdecode(b"d\xff")], "'d\\udcff' is a path that is not UTF-8 text"),
    "out in bytes": ([*LEARN, "--out", os.fsdecode(b"d\xff")], "'d\\udcff' is a path that is not UTF-8 text"),
    "folder with too long a name": (["learn", "x" * 300], "File name too long"),
    "a new folder with too long a name": (["prepare", "homogeneous", "x" * 300], "File name too long"),
    "a graph with too long a name": (["evaluate", "data/one.csv", "x" * 300], "File name too long"),
    "track": (["track", "data"], "MLflow has the complete run"),
    "resume": (["learn", "--resume", "data"], "no interrupted run to resume"),
}


@pytest.mark.parametrize(("words", "said"), WRONG.values(), ids=WRONG)
def test_an_option(capsys, folder, tmp_path, words, said):
    assert said in refused(capsys, words)
    assert listing(tmp_path) == [b"data"]
    assert listing(folder) == [b"one.csv", b"two.csv"]


NAMES = {
    "not UTF-8": (b"\xff.csv", r"'\udcff' cannot name a silo"),
    "a line break": (b"a\nb.csv", r"'a\nb' cannot name a silo"),
    "a colon": (b"a:b.csv", "'a:b' cannot name a silo"),
    "a backslash": (b"a\\b.parquet", r"'a\\b' cannot name a silo"),
    "a space before": (b" a.csv", "' a' cannot name a silo"),
}


@pytest.mark.parametrize(("name", "said"), NAMES.values(), ids=NAMES)
def test_the_name_of_a_file(capsys, folder, name, said):
    with open(os.path.join(os.fsencode(folder), name), "w") as file:
        file.write(ROWS)
    assert said in refused(capsys, LEARN)
    assert listing(folder) == sorted([name, b"one.csv", b"two.csv"])


def a_link_to_nothing(path):
    path.symlink_to("/nowhere")


def a_link_to_itself(path):
    path.symlink_to(path.name)


def a_socket(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)


ENTRIES = {
    "a link to nothing": (a_link_to_nothing, "is a link to '/nowhere', which does not exist"),
    "a link to itself": (a_link_to_itself, "is a broken link"),
    "a pipe": (os.mkfifo, "is a named pipe, not a file"),
    "a folder": (os.mkdir, "is a folder, not a file"),
    "a socket": (a_socket, "is a socket, not a file"),
}


@pytest.mark.parametrize("name", ["three.csv", "three.parquet", "three.sql", "truth.csv", "about.json"])
@pytest.mark.parametrize(("make", "said"), ENTRIES.values(), ids=ENTRIES)
def test_what_is_no_file(capsys, folder, monkeypatch, make, said, name):
    monkeypatch.chdir(folder)
    make(folder / name)
    assert f"'{name}' {said}" in refused(capsys, ["learn", ".", "--engine", "inline"])


CONTENTS = {
    "nested deeply": ("about.json", '{"a":' * 100_000 + "1" + "}" * 100_000, "about.json: nested too deeply"),
    "a number without end": ("about.json", '{"step": ' + "9" * 5000 + "}", "about.json: not valid JSON"),
    "tiny numbers": ("two.csv", ROWS.replace("5", "5e-200"), None),
    "a tiny column": ("two.csv", "a,b,c\n1,2e-200,3\n2,1e-200,5\n3,5e-200,1\n4,4e-200,4\n", "column 'b': its numbers"),
    "a huge number": ("two.csv", ROWS.replace("5,1", "5e200,1"), "column 'b': its numbers exceed 1e+70"),
}


@pytest.mark.parametrize(("name", "content", "said"), [one for one in CONTENTS.values() if one[2]])
def test_what_a_file_says(capsys, folder, tmp_path, name, content, said):
    (folder / name).write_text(content)
    assert said in refused(capsys, LEARN)
    assert listing(tmp_path) == [b"data"]


def test_numbers_some_of_which_are_tiny_are_numbers(capsys, folder):
    name, content, _ = CONTENTS["tiny numbers"]
    (folder / name).write_text(content)
    with pytest.raises(SystemExit) as leaving:
        main([*LEARN, "--no-diagnose"])
    assert leaving.value.code == 0, capsys.readouterr().err


def test_a_private_run_tells_nothing_of_sizes(capsys, folder):
    (folder / "two.csv").write_text(CONTENTS["a huge number"][1])
    (folder / "about.json").write_text('{"kind": "continuous"}')
    with pytest.raises(SystemExit):
        main([*LEARN, "--epsilon", "1", "-a", "secure-sum"])
    said = capsys.readouterr().err
    assert "8 rows are too few for this budget" in said
    assert "e+70" not in said
    assert "5e+200" not in said


def test_series_of_a_size_nobody_can_compute_with(capsys, folder):
    for silo in ("one", "two"):
        (folder / f"{silo}.csv").write_text("time,a,b\n1,1e200,1\n2,3e200,2\n3,2e200,4\n4,5e200,1\n5,1e200,2\n")
    assert "column 'a': its numbers exceed 1e+70" in refused(capsys, LEARN)


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/api", "nonsense", "http://", "http://127.0.0.1:99999/api"])
def test_a_wrong_address_of_prefect_does_not_stop_a_command(capsys, tmp_path, url):
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings({PREFECT_API_URL: url}), pytest.raises(SystemExit) as leaving:
        main(["prepare", "homogeneous", "made", "--variables", "3", "--rows", "5", "--silos", "2"])
    (said,) = capsys.readouterr().err.splitlines()
    assert leaving.value.code == 0
    assert said.startswith(f"note: Prefect at {url} does not answer: ")
    assert said.endswith("the data set is made without Prefect")
    assert (tmp_path / "made" / "silo-1.csv").exists()


def frame(**columns):
    return pd.DataFrame({"x": [1.0, 2.0, 4.0], "y": [2.0, 1.0, 5.0], **columns})


IN_MEMORY = {
    "a row of numbers": ({"h1": np.ones(3)}, r"silo 'h1' is an array of shape \(3,\): give one of rows and columns"),
    "a list": ({"h1": [[1, 2], [3, 4]]}, "silo 'h1' is a list: give a DataFrame"),
    "a number for a name": ({1: frame()}, "'1' cannot name a silo: it is a int, not text"),
    "cells of all kinds": ({"h1": frame(z=[1, "a", [2]])}, "silo 'h1': cannot be read as a table"),
    "a name with a line break": ({"a\nb": frame()}, r"'a\\nb' cannot name a silo"),
}


@pytest.mark.parametrize(("data", "said"), IN_MEMORY.values(), ids=IN_MEMORY)
def test_tables_in_memory(data, said):
    with pytest.raises(BadInput, match=said):
        learn(data)


def test_a_folder_for_results_is_tried_before_anything_is_learned(folder, tmp_path, monkeypatch):
    from fedbnsl.flows.api import learning

    monkeypatch.setattr(learning, "run_inline", lambda *arguments, **options: pytest.fail("it was learned first"))
    with pytest.raises(BadInput, match="results cannot be written there"):
        learn(folder, out=tmp_path / ("x" * 300))


def test_an_error_that_nobody_foresaw_is_one_line_with_a_private_log(capsys, tmp_path, monkeypatch, folder):
    from fedbnsl.flows import start

    def broken(*_):
        raise ZeroDivisionError("17.25 by zero\nand more")

    monkeypatch.setenv("FEDBNSL_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(start, "precheck", broken)
    with pytest.raises(SystemExit) as leaving:
        main(LEARN)
    (said,) = capsys.readouterr().err.splitlines()
    assert leaving.value.code == 1
    line, log = said.split("; its log is ")
    assert line == "error: unexpected ZeroDivisionError: 17.25 by zero"
    assert "in broken" in Path(log).read_text()
    assert Path(log).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("words", "code"), [(["learn", "nowhere"], INVALID), (["--version"], INVALID), (["algorithms"], INVALID)]
)
def test_where_nothing_can_be_written_the_exit_code_says_so(words, code):
    """As if the log of a scheduled command were on a full disk: `/dev/full` refuses every byte."""
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "fedbnsl.flows.cli.main", *words]
        assert subprocess.run(command, stdout=full, stderr=full, check=False).returncode == code


def test_output_on_a_full_disk_is_one_line():
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "fedbnsl.flows.cli.main", "algorithms"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (INVALID, "error: the output cannot be written: No space left on device\n")


def test_a_machine_without_a_folder_for_temporary_files_is_one_line(folder):
    """No file may have any byte, as on a machine whose disk is full."""
    full = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); from fedbnsl.flows.cli.main import main"
    command = [sys.executable, "-B", "-c", f"{full}; main({['learn', str(folder), '--out', 'out']})"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder.parent)
    assert done.returncode == INVALID, done.stderr
    assert done.stderr.startswith("error: No usable temporary directory found")
    assert done.stderr.count("\n") == 1


def test_an_interrupt_during_the_import_ends_in_one_word():
    """Each of the first modules interrupts its own import, as a signal may."""
    interrupt = """
import sys
class Interrupt:
    def find_spec(self, name, path, target=None):
        if name == sys.argv[1]: raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupt())
from fedbnsl.flows.cli.program import program
program()
"""
    for module in ("fedbnsl.flows.cli.main", "typer", "typer.core", "fedbnsl.algorithms.errors"):
        command = [sys.executable, "-c", interrupt, module]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (STOPPED, "", "stopped\n"), module
