"""Only one process works in a run's folder; remains of a killed one are removed; results can always be written."""

import os
import signal
import subprocess
import sys

import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.flows.engines.resuming import LOCK, Started, resume_settings, run_lock, write_started
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.flows.start import check_out

HOLDING = """
import sys, time
from pathlib import Path
from fedbnsl.flows.engines.resuming import run_lock
with run_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_run_that_is_still_going_is_left_alone_and_the_lock_dies_with_its_process(tmp_path):
    holder = subprocess.Popen([sys.executable, "-c", HOLDING, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(BadInput, match=f"^{tmp_path}: the run is already in progress"), run_lock(tmp_path):
            pass
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    assert (tmp_path / LOCK).exists()
    with run_lock(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_is_still_going_cannot_be_resumed(tmp_path):
    started = Started(LearnSettings(data="data"), "run", "sqlite:///none.db", "", {})
    write_started(tmp_path, started)
    assert resume_settings(tmp_path).resume
    with run_lock(tmp_path), pytest.raises(BadInput, match="the run is already in progress"):
        resume_settings(tmp_path)


def test_a_folder_that_is_made_for_nothing_goes_again(tmp_path):
    with pytest.raises(KeyError), run_lock(tmp_path / "new"):
        raise KeyError
    assert not (tmp_path / "new").exists()
    with run_lock(tmp_path / "new"):
        (tmp_path / "new" / "structure.csv").write_text("")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["structure.csv"]


def test_what_a_killed_run_left_is_removed(tmp_path):
    run = tmp_path / "r[1]"
    left, kept = "0123456789abcdef" * 2, ["checkpoint.bin", "started.json", ".results-of-mine"]
    (run / f".results-{left}").mkdir(parents=True)
    (run / f".results-{left}" / "metrics.json").write_text("")
    (run / ".checkpoint.bin-4711").write_text("")
    (tmp_path / f".r[1]-{left}").mkdir()
    (tmp_path / f".r1-{left}").mkdir()
    for name in kept:
        (run / name).write_text("")
    with run_lock(run):
        assert sorted(path.name for path in run.iterdir()) == sorted([*kept, LOCK])
    assert sorted(path.name for path in tmp_path.iterdir()) == [f".r1-{left}", "r[1]"]


def test_a_folder_with_nothing_but_leftovers_is_empty(tmp_path):
    (tmp_path / "run" / f".results-{'a' * 32}").mkdir(parents=True)
    check_out(tmp_path / "run")
    (tmp_path / "run" / "structure.csv").write_text("")
    with pytest.raises(BadInput, match="already exists"):
        check_out(tmp_path / "run")


UNFIT = {
    "a name too long": ("x" * 300, "File name too long"),
    "a path too long": ("/".join(["x" * 200] * 25), "File name too long"),
    "a name that just leaves no room for files": ("/".join(["x" * 199] * 20)[:4000], "File name too long"),
    "in a file": ("file/run", "Not a directory"),
    "a zero byte": ("a\0b", "null byte"),
    "in a place for no files": ("/proc/run", "No such file or directory"),
}


@pytest.mark.parametrize(("out", "said"), UNFIT.values(), ids=UNFIT)
def test_results_that_could_not_be_written_are_refused_before_anything(tmp_path, out, said):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match=said):
        check_out(tmp_path / out)
    assert os.listdir(tmp_path) == ["file"]


def test_checking_leaves_no_trace(tmp_path):
    check_out(tmp_path / "runs" / "one")
    assert list(tmp_path.iterdir()) == []
    check_out(tmp_path)
