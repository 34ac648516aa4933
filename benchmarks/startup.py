"""Waiting times of a user: to the first line, the first round and the result, and for the small commands.

`python benchmarks/startup.py [--clone]`, on an idle machine, shows medians of five runs in separate processes:
wall-clock time, and CPU time of all processes. "Warm" runs use existing databases, and "fresh" ones create them; both
use existing compiled code. `--clone` also measures `make learn` in a new clone of this repository, with packages in the
installer's cache. `--against PROGRAM` compares with the `fedbnsl` of another version instead, in alternation: the least
CPU seconds of five runs each, which other work on the machine changes little.
"""

import argparse
import math
import os
import resource
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from measure import show
from orchestration import command, timed

RUNS = 5
ASKED = {
    "learn, warm": "first round 6, whole 12",
    "learn, fresh databases": "whole 10",
    "learn -a fed-sparse, warm": "first round 6, whole 12",
    "learn --engine inline": "1.5",
    "algorithms": "0.4",
    "--help": "0.25",
    "evaluate": "1",
    "make learn": "35",
}
"""seconds that the project asks for"""
ROOT = Path(__file__).resolve().parents[1]


def median(name: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The line of the table for `runs` of one command."""
    line: dict[str, Any] = {"command": name, "asked": ASKED.get(name, "")}
    for figure in ("first line", "first round", "wall", "cpu"):
        known = [run[figure] for run in runs if run.get(figure) is not None]
        line[f"{figure} s"] = round(statistics.median(known), 2) if known else ""
    return line


def runs_of_learn(home: Path, *words: str, fresh: bool = False) -> list[dict[str, Any]]:
    """The times of five runs on the example, and before them one that is not counted."""
    found = []
    for turn in range(RUNS + 1):
        place = home / f"{'-'.join(words)}-{turn if fresh else 'warm'}"
        place.mkdir(exist_ok=True)
        found.append(timed(place, "learn", str(home / "example"), "--out", str(place / f"out-{turn}"), *words))
    return found[1:]


def small(home: Path, *words: str) -> list[dict[str, Any]]:
    """The times of five runs of a small command."""
    return [timed(home, *words) for _ in range(RUNS + 1)][1:]


def clone(home: Path) -> dict[str, Any]:
    """The times of `make learn` in a clone, once."""
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(home / "clone")], check=True)
    before, start = os.times(), time.perf_counter()
    surroundings = os.environ | {"PREFECT_HOME": str(home / "clone-prefect")}
    subprocess.run(["make", "learn"], cwd=home / "clone", env=surroundings, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return {"wall": time.perf_counter() - start, "cpu": cpu}


def compare(home: Path, other: str) -> None:
    """The least CPU seconds of small commands by this version and by the program `other`, in alternation."""
    lines = []
    for words in (("--help",), ("algorithms",), ("inspect", "example"), ("learn", "example", "--engine", "inline")):
        least = {"before": math.inf, "now": math.inf}
        for turn in range(RUNS + 1):
            for version, program in (("before", other), ("now", command()[0])):
                out = ("--out", f"{version}-{turn}") if words[0] == "learn" else ()
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                subprocess.run([program, *words, *out], cwd=home, check=True, capture_output=True)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                least[version] = min(least[version], spent)
        lines.append({"command": f"`{' '.join(words)}`"} | {f"{name}, CPU s": f"{s:.2f}" for name, s in least.items()})
    show("startup-imports", lines, {})


def main() -> None:
    """Time all of them and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clone", action="store_true", help="also `make learn` in a new clone")
    parser.add_argument("--against", metavar="PROGRAM", help="compare small commands with this other `fedbnsl`")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary)
        words = ("--variables", "20", "--silos", "8", "--rows", "5000", "--seed", "2")
        subprocess.run(command("prepare", "homogeneous", str(home / "example"), *words), check=True)
        if asked.against:
            compare(home, asked.against)
            return
        lines = [
            median("learn, warm", runs_of_learn(home)),
            median("learn, fresh databases", runs_of_learn(home, fresh=True)),
            median("learn -a fed-sparse, warm", runs_of_learn(home, "-a", "fed-sparse")),
            median("learn --engine inline", runs_of_learn(home, "--engine", "inline")),
        ]
        structure = next(home.glob("*/out-1/structure.csv"))
        lines += [median(name, small(home, name)) for name in ("algorithms", "--help")]
        lines.append(median("evaluate", small(home, "evaluate", str(structure), str(home / "example" / "truth.csv"))))
        if asked.clone:
            lines.append(median("make learn", [clone(home)]))
    show("startup", lines, {})


if __name__ == "__main__":
    main()
