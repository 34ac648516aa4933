"""What commands do not import: the laws that keep them quick."""

import subprocess
import sys

import pytest

from fedbnsl.flows.api import prepare

NEVER = (
    *(
        "scipy.stats",
        "scipy.optimize",
        "scipy.signal",
        "scipy.sparse.csgraph",
        "pandas",
        "sklearn",
        "networkx",
    ),
    *("matplotlib.pyplot", "prefect", "dask", "distributed", "mlflow", "sqlalchemy", "fastapi", "asyncio"),
    *("pyarrow.compute", "cryptography.x509", "IPython"),
)
"""modules that an inline run of a small table of numbers has no use for"""
WITHOUT_A_RUN = ("numba", "matplotlib", "PIL")
"""modules that a command without a run has no use for either"""
SLOW = ("numpy", "scipy", "pydantic", "pyarrow", "fedbnsl.algorithms.registry", *WITHOUT_A_RUN, *NEVER)
"""modules that the list of commands has no use for"""
PROGRAM = """
import sys
from fedbnsl.flows.cli.main import main
try:
    main(sys.argv[2:])
except SystemExit as left:
    print(left.code, *(name for name in sys.argv[1].split() if name in sys.modules), file=sys.stderr)
"""


def imported(modules, *words):
    """The exit code of a command and those of `modules` that it imported."""
    program = [sys.executable, "-c", PROGRAM, " ".join(modules), *map(str, words)]
    done = subprocess.run(program, check=True, capture_output=True, text=True)
    code, *names = done.stderr.splitlines()[-1].split()
    return int(code), names


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("lean") / "example"
    prepare("homogeneous", where, variables=6, silos=3, rows=200)
    return where


def test_an_inline_run_imports_what_it_uses(folder, tmp_path):
    assert imported(NEVER, "learn", folder, "--engine", "inline", "--out", tmp_path / "run") == (0, [])


def test_a_run_of_a_folder_in_python_needs_no_frames(folder):
    script = (
        "import sys; from fedbnsl import learn; learn(sys.argv[2], 'auto');"
        "print(*set(sys.argv[1].split()) & set(sys.modules))"
    )
    words = [sys.executable, "-c", script, " ".join(NEVER), str(folder)]
    assert subprocess.run(words, check=True, capture_output=True, text=True).stdout.split() == []


def test_help_imports_no_library_of_numbers():
    assert imported(SLOW, "--help") == (0, [])


@pytest.mark.parametrize("command", [("inspect",), ("algorithms",), ("algorithms", "fed-sparse"), ("choose",)])
def test_commands_without_a_run_compile_and_draw_nothing(folder, command):
    words = (*command, folder) if command[0] in ("inspect", "choose") else command
    assert imported((*NEVER, *WITHOUT_A_RUN), *words) == (0, [])


def test_a_comparison_of_two_files_imports_no_learner_and_no_run(folder):
    others = ("fedbnsl.flows.job.run", "fedbnsl.flows.api.learned", "fedbnsl.tasks.silo.policy", "scipy.special")
    truth = folder / "truth.csv"
    assert imported((*NEVER, *WITHOUT_A_RUN, *others), "evaluate", truth, truth) == (0, [])
