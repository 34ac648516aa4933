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
        "numba",
        "pandas",
        "sklearn",
        "networkx",
    ),
    *("matplotlib.pyplot", "prefect", "dask", "distributed", "mlflow", "sqlalchemy", "fastapi", "asyncio"),
    *("numpy.f2py", "numpy.testing", "pyarrow.compute", "cryptography.x509", "IPython", "networkx"),
)
"""modules that an inline run of a small table of numbers has no use for"""
PICTURES = ("matplotlib", "PIL")
SLOW = ("numpy", "scipy", "pydantic", "pyarrow", "fedbnsl.algorithms.registry", *PICTURES, *NEVER)
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


def test_help_imports_no_library_of_numbers():
    assert imported(SLOW, "--help") == (0, [])


@pytest.mark.parametrize("command", [("inspect",), ("algorithms",), ("algorithms", "fed-sparse"), ("choose",)])
def test_commands_that_draw_nothing_import_no_pictures(folder, command):
    words = (*command, folder) if command[0] in ("inspect", "choose") else command
    assert imported((*NEVER, *PICTURES), *words) == (0, [])


def test_pictures_and_special_functions_are_whole_afterwards():
    program = (
        "from fedbnsl.flows.cli.lean_imports import import_leanly\n"
        "import_leanly(); import_leanly()\n"
        "import numpy, scipy.special, matplotlib.figure, matplotlib.artist, sys\n"
        "print(sum(type(one).__name__ == 'LeanImports' for one in sys.meta_path), 'f2py' in dir(numpy))\n"
        "print(matplotlib.artist.kwdoc(matplotlib.figure.Figure) != '', scipy.special.erf(0.0))\n"
        "figure = matplotlib.figure.Figure(); figure.set(figwidth=3.0); print(figure.get_figwidth())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["1", "True", "True", "0.0", "3.0"]
