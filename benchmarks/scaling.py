"""CPU seconds, bytes and memory against the numbers of variables, rows, silos and edges, and the required figures.

`python benchmarks/scaling.py required [NAME ...]` measures the cases with a requirement, or those whose names begin
with NAME. `curves [LEARNER ...]` measures six learners and two pooled ones for growing sizes, fits exponents and draws
`docs/pictures/scaling.png`. `profile NAME [SECONDS]` prints the functions in which a case spends its time; SECONDS
limits it to the first CPU seconds.
"""

import contextlib
import cProfile
import json
import os
import pstats
import signal
import sys
import time
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"

from scaling_cases import ALONE, MAKERS, REQUIRED, SMALL, Case, measure, ours, run_apart  # noqa: E402 (threads first)

RESULTS = Path(__file__).parent / "results"
PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "scaling.png"
LEARNERS = {
    "secure-linear": "numbers",
    "fed-sparse": "numbers",
    "notears-admm": "numbers",
    "secure-ges": "labels",
    "secure-boss": "labels",
    "fed-pc": "labels",
    "notears": "numbers",
    "pgmpy hill climbing": "labels",
}
POOLED = ("notears", "pgmpy hill climbing")
BASE = {"d": 20, "n": 10_000, "silos": 4, "edges": 40}
AXES: dict[str, tuple[int, ...]] = {
    "d": (10, 20, 40, 80),
    "n": (1000, 10_000, 100_000),
    "silos": (2, 8, 32, 64),
    "edges": (10, 20, 40),
}
SLOW_SECONDS = 5
"""CPU seconds of a run of a curve, after which larger sizes are left out"""
LEAST_SECONDS = 0.02
"""minimum CPU seconds of a run that is used to estimate growth"""
FIGURES = {"seconds": "CPU s", "megabytes": "MB sent", "memory": "MB of memory"}


def curve_case(learner: str, axis: str, size: int) -> Case:
    """The base case of `learner` with another `size` along `axis`; with d, edges grow as 2d."""
    sizes = BASE | {axis: size} | ({"edges": 2 * size} if axis == "d" else {})
    options: dict[str, Any] = {} if learner in POOLED else {**ALONE, "secure": True}
    return Case(
        f"{learner} {axis} {size}",
        LEARNERS[learner],
        {
            "variables": sizes["d"],
            "silos": sizes["silos"],
            "rows": sizes["n"] // sizes["silos"],
            "edges": sizes["edges"],
        },
        learner,
        options or dict(ALONE),
    )


def required(names: list[str]) -> None:
    """Measure the cases with a requirement, keep the figures of the others, and write the table."""
    path = RESULTS / "scaling-required.json"
    known = {row["case"]: row for row in recorded(path)}
    for case in REQUIRED:
        if names and not any(case.name.lower().startswith(name.lower()) for name in names):
            continue
        found = run_apart(Path(__file__), ("--case", case.name))
        known[case.name] = {"case": case.name} | (
            line(case, found) if isinstance(found, dict) else {"CPU s": found, "required": bounds(case), "met": "no"}
        )
        print(known[case.name], flush=True)
        rows = [known[one.name] for one in REQUIRED if one.name in known]
        path.write_text(json.dumps({"rows": rows}, indent=1) + "\n", encoding="utf-8")


def recorded(path: Path) -> list[dict[str, Any]]:
    """The rows of an earlier measurement."""
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []
    return rows


def line(case: Case, found: dict[str, Any]) -> dict[str, Any]:
    """The row of the table: each figure beside what is required."""
    seconds = found["seconds"]
    learner = found["learner"] + " without its sums" * case.without_solves
    measured = (seconds, found["megabytes"], found["memory"])
    met = all(bound is None or value <= bound for value, bound in zip(measured, case.required, strict=True))
    return {
        "learner": learner,
        "CPU s": f"{seconds:.2f}" if seconds < 10 else f"{seconds:.0f}",
        "MB sent": f"{found['megabytes']:.3g}",
        "MB of memory": f"{found['memory']:.0f}",
        "SHD": found["shd"],
        "required": bounds(case),
        "met": "yes" if met else "no",
    }


def bounds(case: Case) -> str:
    """What is required of a case."""
    units = ("s", "MB sent", "MB of memory")
    given = zip(case.required, units, strict=True)
    return ", ".join(f"≤ {bound:g} {unit}" for bound, unit in given if bound is not None)


def curves(names: list[str]) -> None:
    """Measure the curves of all learners, or of those named, keep those of the others, fit exponents, and draw."""
    path = RESULTS / "scaling-curves.json"
    runs: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["runs"] if path.exists() else []
    for learner in names or LEARNERS:
        found = run_apart(Path(__file__), ("--curves", learner))
        if isinstance(found, str):
            print(f"{learner}: {found}", flush=True)
            continue
        runs = [run for run in runs if run["learner"] != learner] + found["runs"]
        rows = [exponents(one, runs) for one in LEARNERS if any(run["learner"] == one for run in runs)]
        path.write_text(json.dumps({"rows": rows, "runs": runs}, indent=1) + "\n", encoding="utf-8")
        print(exponents(learner, runs), flush=True)
    draw(runs)


def curves_of(learner: str) -> dict[str, Any]:
    """The runs along each size, from small to large, in this process; the memory is the most until then."""
    runs: list[dict[str, Any]] = []
    for axis, sizes in AXES.items():
        for size in sizes if not (learner in POOLED and axis == "silos") else ():
            found = measure(curve_case(learner, axis, size))
            runs.append({"learner": learner, "axis": axis, "size": size, **found})
            if found["seconds"] > SLOW_SECONDS:
                break
    return {"runs": runs}


def exponents(learner: str, runs: list[dict[str, Any]]) -> dict[str, str]:
    """By size and figure, the exponent of a power law: the least-squares slope of the logarithms."""
    row = {"learner": f"{learner} (pooled)" if learner in POOLED else learner}
    for axis in AXES:
        own = [run for run in runs if (run["learner"], run["axis"]) == (learner, axis)]
        for figure in ("seconds", "megabytes"):
            floor = LEAST_SECONDS if figure == "seconds" else 0.0
            points = [(run["size"], run[figure]) for run in own if run[figure] > floor]
            known = len(points) > 2 and not (learner in POOLED and figure == "megabytes")
            row[f"{FIGURES[figure]}, {axis}"] = f"{round(slope(points), 1) + 0.0:.1f}" if known else ""
    largest = max((run["memory"] for run in runs if run["learner"] == learner), default=0.0)
    return row | {"most MB of memory": f"{largest:.0f}"}


def slope(points: list[tuple[float, float]]) -> float:
    """The slope of log y on log x."""
    import numpy as np

    x, y = np.log(np.array(points)).T
    return float(np.polyfit(x, y, 1)[0])


def draw(runs: list[dict[str, Any]]) -> None:
    """Small multiples: a row for each figure, a column for each size, a line for each learner."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 7.5), layout="constrained")
    axes = figure.subplots(len(FIGURES), len(AXES), sharex="col", sharey="row")
    for i, (name, label) in enumerate(FIGURES.items()):
        for j, (axis, sizes) in enumerate(AXES.items()):
            for k, learner in enumerate(LEARNERS):
                if all(run["learner"] != learner for run in runs):
                    continue
                own = [run for run in runs if (run["learner"], run["axis"]) == (learner, axis) and run[name] > 0]
                own = [] if learner in POOLED and name == "megabytes" else own
                style = "--" if learner in POOLED else "-"
                x, y = [run["size"] for run in own], [run[name] for run in own]
                axes[i][j].plot(x, y, style, marker="o", markersize=3, color=f"C{k}", label=learner)
            axes[i][j].set(xscale="log", yscale="log")
            axes[i][j].set_xticks(sizes, map(str, sizes), rotation=30)
            axes[i][j].set_xticks([], minor=True)
            axes[i][j].grid(True, which="major", alpha=0.3)
        axes[i][0].set_ylabel(label)
    titles = {"d": "variables", "n": "rows", "silos": "silos", "edges": "edges, 20 variables"}
    for j, axis in enumerate(AXES):
        axes[-1][j].set_xlabel(titles[axis])
    handles, names = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(PICTURE, dpi=110, metadata={"Software": None})


class ProfileEnds(BaseException):
    """Raised when the CPU seconds of a profile are over; no error handler may catch it."""


def profile(name: str, limit: float) -> None:
    """Print the functions with the greatest own time in the first seconds of a case, and their shares."""
    case = case_of(name)
    data = MAKERS[case.data](**case.sizes)
    ours(case, MAKERS[case.data](**SMALL[case.data]))

    def end(*_: object) -> None:
        raise ProfileEnds

    signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, limit)
    profiler = cProfile.Profile(time.process_time)
    with contextlib.suppress(ProfileEnds):
        profiler.runcall(ours, case, data)
    signal.setitimer(signal.ITIMER_PROF, 0)
    stats = pstats.Stats(profiler)
    total = stats.total_tt  # type: ignore[attr-defined]
    own = sorted(stats.stats.items(), key=lambda item: -item[1][2])[:10]  # type: ignore[attr-defined]
    for (file, number, function), (_, calls, seconds, cumulative, _) in own:
        where = f"{'/'.join(Path(file).parts[-2:])}:{number} {function}"
        print(f"{seconds / total:6.1%} {seconds:8.2f} s ({cumulative:8.2f} s with callees) {calls:>9} calls  {where}")


def case_of(name: str) -> Case:
    """The case of this name."""
    return next(case for case in REQUIRED if case.name == name)


def main() -> None:
    """Run the command."""
    command, *words = sys.argv[1:] or [""]
    if command == "--case":
        print(json.dumps(measure(case_of(words[0]))))
    elif command == "--curves":
        print(json.dumps(curves_of(words[0])))
    elif command == "required":
        required(words)
    elif command == "curves":
        curves(words)
    elif command == "profile":
        profile(words[0], float(words[1]) if len(words) > 1 else 300.0)
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
