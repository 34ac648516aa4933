"""The tables and figures of the five papers that `fedbnsl benchmark` can express: specs in `papers/`.

    python benchmarks/papers.py SPEC...        # runs papers/SPEC.yaml and writes results/papers-SPEC.json
    fedbnsl benchmark benchmarks/papers/SPEC.yaml --out DIR        # the same runs, with all tables and pictures

Pages: `topics/papers.md` has the verdict on every table and figure, with the figures of the papers.
"""

import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from fedbnsl.flows.benchmark.runner import run_benchmark
from fedbnsl.flows.benchmark.spec import read_spec

SPECS, RESULTS = (Path(__file__).parent / name for name in ("papers", "results"))
COLUMNS = {
    "shd": ("SHD", 1),
    "tpr": ("TPR", 2),
    "fdr": ("FDR", 2),
    "edges": ("edges", 1),
    "formula_megabytes": ("MB (formula)", 2),
}
"""column of `results.csv` -> the label and the digits of its mean and standard deviation"""


def spread(values: list[float], digits: int) -> str:
    """The mean ± the standard deviation."""
    sd = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.{digits}f} ± {sd:.{digits}f}"


def rows_of(found: Any) -> list[dict[str, Any]]:
    """A row for each data set and learner: means over the seeds, and how many of these ran."""
    rows = []
    for (data, run), group in found.groupby(["data", "algorithm"], sort=False):
        done = group[group["status"] == "ok"]
        row = {"data": data, "run": run, "seeds": f"{len(done)} of {len(group)}"}
        for column, (label, digits) in COLUMNS.items():
            values = done[column].dropna().tolist() if column in done else []
            row[label] = spread(values, digits) if values else ""
        rows.append(row | {"CPU s": f"{done['cpu'].mean():.2f}" if len(done) else ""})
    return rows


def main() -> None:
    """Run the named specs."""
    names = sys.argv[1:]
    if not names:
        print(__doc__)
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            found = run_benchmark(read_spec(SPECS / f"{name}.yaml"), Path(folder) / "out", workers=0).rows
        kept = [column for column in ("data", "algorithm", "seed", "status", *COLUMNS, "cpu") if column in found]
        rows, runs = rows_of(found), json.loads(found[kept].to_json(orient="records"))
        (RESULTS / f"papers-{name}.json").write_text(json.dumps({"rows": rows, "runs": runs}, indent=1) + "\n")
        for row in rows:
            print(row, flush=True)


if __name__ == "__main__":
    main()
