"""CPU seconds of `learn` in this process, on one thread: run it with two versions in turn to compare them.

`python benchmarks/speed.py [NAME ...]` runs all cases or the named ones `REPEATS` times, after one run that is not
measured.
"""

import os
import sys
import time
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"

from fedbnsl import learn, prepare  # noqa: E402 (the number of threads is read when numpy is imported)

REPEATS = 9
DATA: dict[str, dict[str, Any]] = {
    "er50": {"kind": "homogeneous", "variables": 50, "silos": 8, "rows": 2000, "seed": 3, "edges": 100},
    "er100": {"kind": "homogeneous", "variables": 100, "silos": 8, "rows": 2000, "seed": 4, "edges": 200},
    "discrete40": {"kind": "discrete", "variables": 40, "silos": 8, "rows": 1000, "seed": 3},
    "discrete15": {"kind": "discrete", "variables": 15, "silos": 4, "rows": 500, "seed": 3},
    "hidden": {"kind": "discrete", "variables": 20, "silos": 4, "rows": 1000, "seed": 3, "latent": 2},
}
SEEDED = {"insecure_seed": 1}
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "fed-sparse": ("er50", "fed-sparse", {}),
    "fed-sparse d100": ("er100", "fed-sparse", {}),
    "fed-sparse paper": ("er50", "fed-sparse", {"preset": "paper", "rounds": 40}),
    "fed-sparse masked": ("er50", "fed-sparse", {"secure": True, "rounds": 20}),
    "notears-admm": ("er50", "notears-admm", {}),
    "fed-frank-wolfe": ("er50", "fed-frank-wolfe", {"rounds": 15}),
    "secure-sum": ("er100", "secure-sum", {"epsilon": 5.0, **SEEDED}),
    "dp-fed-sparse": ("er50", "dp-fed-sparse", {"epsilon": 10.0, **SEEDED}),
    "dp-covariance": ("er50", "dp-covariance", {"epsilon": 10.0, **SEEDED}),
    "fed-pc": ("discrete40", "fed-pc", {}),
    "fed-fci": ("hidden", "fed-fci", {}),
    "fed-ges": ("discrete40", "fed-ges", {}),
    "secure-ges": ("discrete40", "secure-ges", {}),
    "secure-boss": ("discrete40", "secure-boss", {}),
    "rfcd": ("discrete15", "rfcd", {}),
}


def seconds(data: Any, algorithm: str, options: dict[str, Any]) -> float:
    """The CPU seconds of one run."""
    begun = time.process_time()
    learn(data, algorithm, **options)
    return time.process_time() - begun


def main() -> None:
    """Print the least seconds of each case."""
    for name in sys.argv[1:] or CASES:
        data, algorithm, options = CASES[name]
        made = prepare(**DATA[data])
        seconds(made, algorithm, options)
        print(f"{name:20} {min(seconds(made, algorithm, options) for _ in range(REPEATS)):8.3f} CPU s", flush=True)


if __name__ == "__main__":
    main()
