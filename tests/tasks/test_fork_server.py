"""What workers are forked with, so that no silo's first round waits for it."""

import subprocess
import sys

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
