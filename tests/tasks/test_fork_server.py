"""How workers start: with the modules of a silo's first round, and without the script that started them."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from importlib import import_module
from fedbnsl.tasks.fork_server import PRELOADED

for module in PRELOADED:
    import_module(module)
before = set(sys.modules)
from fedbnsl import learn, prepare

learn(prepare("homogeneous", variables=4, silos=2, rows=60), "fed-sparse", rounds=3)
late = {name.partition(".")[0] for name in set(sys.modules) - before}
print(*sorted(late & {"numba", "cffi", "llvmlite", "pandas", "pyarrow"}), sep=",")
print(*sorted(name for name in set(sys.modules) - before if name.startswith("scipy.optimize")), sep=",")
"""


def test_they_have_imported_what_a_first_round_needs():
    told = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)
    assert told.stdout.splitlines()[-2:] == ["", ""]


SCRIPT = """
import os
from pathlib import Path

print("the script", flush=True)
from fedbnsl.tasks.transport.cluster import embedded_cluster, hosted_silos

with embedded_cluster({"a": Path("a.csv"), "b": Path("b.csv")}, 2) as client:
    print(*sorted(hosted_silos(client)))
    os.kill(next(iter(client.cluster.workers.values())).pid, 9)  # its successor is no script either
    client.cluster.sync(client.cluster._correct_state)
    while len(hosted_silos(client)) < 2:
        pass
"""


@pytest.mark.slow
def test_a_script_is_not_run_again_by_its_workers(tmp_path):
    """The script has no `if __name__ == "__main__"`, like most scripts and all notebook cells."""
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("x,y\n" + "1.5,2.5\n2.5,1.0\n" * 20)
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"], check=False, capture_output=True, text=True, cwd=tmp_path, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["the script", "a b"]


def test_workers_import_nothing_from_the_working_directory(tmp_path):
    """A folder or a program of the user may have the name of a module."""
    study, program = tmp_path / "study", tmp_path / "bin" / "script.py"
    for folder in (study, program.parent):
        folder.mkdir()
    for name in "ab":
        (study / f"{name}.csv").write_text("x,y\n" + "1.5,2.5\n2.5,1.0\n" * 20)
    (study / "statistics.py").write_text("raise RuntimeError('the user's own program')")
    (study / "fedbnsl" / "tasks").mkdir(parents=True)
    program.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, program], check=False, capture_output=True, text=True, cwd=study, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["the script", "a b"]
