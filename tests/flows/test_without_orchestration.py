"""Without the extra `orchestration`, the package learns in this process, and what needs Prefect is one line."""

import re
import subprocess
import sys

PROGRAM = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("prefect", "mlflow", "dask", "distributed"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
"""
PYTHON = """
from fedbnsl import learn, load, prepare
found = learn(prepare("homogeneous", variables=4, silos=3, rows=100))
found.save(sys.argv[1])
assert load(sys.argv[1]).metrics["edges"] == found.metrics["edges"]
try:
    learn("data", engine="prefect")
except Exception as error:
    print(error)
"""
COMMAND = """
from fedbnsl.flows.cli.main import main
main(sys.argv[1:])
"""


ONE_LINE = r"the package (prefect|dask) is not installed: pip install 'fedbnsl\[orchestration\]'"


def run(program, folder, *words):
    command = [sys.executable, "-c", PROGRAM + program, *map(str, words)]
    done = subprocess.run(command, check=False, cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_a_researcher_learns_saves_and_loads(tmp_path):
    assert run(COMMAND, tmp_path, "prepare", "homogeneous", "data", "--variables", "4", "--silos", "3")[0] == 0
    code, out, err = run(PYTHON, tmp_path, tmp_path / "run")
    assert code == 0, err
    assert re.fullmatch(ONE_LINE, out.splitlines()[-1])


def test_the_command_line_says_what_to_install(tmp_path):
    assert run(COMMAND, tmp_path, "prepare", "homogeneous", "data", "--variables", "4", "--silos", "3")[0] == 0
    code, out, err = run(COMMAND, tmp_path, "learn", "data")
    assert (code, out) == (2, "")
    assert re.fullmatch(f"error: {ONE_LINE}", err.splitlines()[-1])
    assert "Traceback" not in err
