"""Overhead of Prefect, Dask and MLflow: CPU per task run and time to the first output, with equal results.

`python benchmarks/orchestration.py`: d = 20, 8 silos of 5000 rows. Every run is a command in a fresh process with empty
databases, so the measured time is the whole waiting time of a user. CPU seconds are those of the whole process tree.
"""

import csv
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from measure import show

P = 8
# with these settings the run uses all its rounds, whose cost is measured here
SLOWLY = ("-p", "fix_order=false", "-p", "tolerance=1e-12")


def command(*words: str) -> list[str]:
    """The command line program with `words`."""
    return [str(Path(sys.executable).with_name("fedbnsl")), *words]


def timed(home: Path, *words: str) -> dict[str, Any]:
    """Run the program; return wall seconds, seconds to its first line and to its first round, and CPU seconds."""
    environment = os.environ | {"PREFECT_HOME": str(home / "prefect"), "MLFLOW_TRACKING_URI": f"sqlite:///{home}/m.db"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    program = subprocess.Popen(
        command(*words), cwd=home, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    first_line = first_round = None
    assert program.stdout is not None
    for line in program.stdout:
        now = time.perf_counter() - start
        first_line = first_line or now
        first_round = first_round or (now if "round 1" in line else None)
    if code := program.wait():
        raise SystemExit(f"`fedbnsl {' '.join(words)}` ended with exit code {code}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "wall": time.perf_counter() - start,
        "first line": first_line,
        "first round": first_round,
        "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
    }


def main() -> None:
    """Run inline and through Prefect, twice each, and compare."""
    lines = []
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary)
        subprocess.run(command("prepare", "homogeneous", str(home / "data"), "--seed", "2"), check=True)
        structures = set()
        runs: dict[tuple[str, int], list[dict[str, Any]]] = {}
        rounds = 0
        for limit in (20, 60):
            for engine in ("inline", "prefect"):
                for turn in range(2):
                    out = home / f"{engine}-{limit}-{turn}"
                    fresh = home / f"home-{engine}-{limit}-{turn}"
                    fresh.mkdir()
                    words = (
                        "learn",
                        str(home / "data"),
                        "--algorithm",
                        "fed-sparse",
                        "--engine",
                        engine,
                        "--out",
                        str(out),
                        "-p",
                        f"rounds={limit}",
                        *SLOWLY,
                    )
                    runs.setdefault((engine, limit), []).append(timed(fresh, *words))
                    structures.add((limit, (out / "structure.csv").read_text()))
                    with (out / "rounds.csv").open() as file:
                        rounds = len(list(csv.reader(file))) - 1
                    assert rounds == limit, f"{engine} ended after {rounds} rounds"
    median = {key: statistics.median(run["cpu"] for run in of) for key, of in runs.items()}
    extra = (median["prefect", 60] - median["prefect", 20]) - (median["inline", 60] - median["inline", 20])
    for (engine, limit), of in runs.items():
        figures = {name: [round(run[name], 1) if run[name] else None for run in of] for name in of[0]}
        lines.append(
            {"engine": engine, "rounds": limit, **{f"{name} s": str(value) for name, value in figures.items()}}
        )
    show("orchestration", lines, {})
    print(f"\nCPU of all processes per task run beyond the inline run: {1000 * extra / (40 * (P + 3)):.1f} ms")
    print(f"structures: {'the same bit for bit' if len(structures) == 2 else json.dumps(sorted(structures))}")


if __name__ == "__main__":
    main()
