"""Inside the block, linear algebra uses one thread, also in libraries that were loaded earlier or later."""

import json
import os
import subprocess
import sys

PROGRAM = """
import json
from threadpoolctl import threadpool_info
from fedbnsl.tasks.silo.service import on_one_thread

def threads():
    import scipy.linalg
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

seen = {}
for block in ("first", "second"):
    with on_one_thread():
        seen[block] = threads()
    seen[f"after the {block}"] = threads()
print(json.dumps(seen))
"""


def test_one_thread_within_the_block_and_as_many_as_before_after_it():
    of_two = os.environ | {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    told = subprocess.run([sys.executable, "-c", PROGRAM], env=of_two, check=True, capture_output=True, text=True)
    seen = json.loads(told.stdout)
    assert len(seen["first"]) > 1, "NumPy and SciPy have a library each"
    assert set(seen["first"]) == set(seen["second"]) == {1}
    assert set(seen["after the first"]) == set(seen["after the second"]) == {min(2, os.cpu_count() or 1)}
