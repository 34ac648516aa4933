"""A silo of 50 columns in a Parquet file that does not fit into memory, together with a small silo.

`python benchmarks/large.py [--table shared|series] [--rows N] [--seed N] [--scratch FOLDER]` makes the file, 8 GB for
20,000,000 rows, measures each step in a process of its own, and removes the file again.
"""

import argparse
import json
import os
from pathlib import Path

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

from functools import partial

from large_series import series
from large_silo import large, shared
from measure import RESULTS


def main() -> None:
    """Measure, print the table and write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000_000, help="rows of the large silo")
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--scratch", type=Path, help="folder for the files")
    parser.add_argument(
        "--table", choices=("large", "shared", "series"), default="large", help="shared: by several processes"
    )
    parser.add_argument("--passes", action="store_true", help="series: without those in memory, whose lines stay")
    asked = parser.parse_args()
    makers = {"large": large, "shared": shared, "series": partial(series, passes=asked.passes)}
    lines = makers[asked.table](asked.rows, asked.seed, asked.scratch)
    if asked.passes:
        recorded = json.loads((RESULTS / "large-series.json").read_text(encoding="utf-8"))["rows"]
        lines += [line for line in recorded if line["read"] == "in memory"]
    print(f"\n### {asked.table}: {asked.rows:,} rows, seed {asked.seed}\n")
    for cells in ([*lines[0]], ["---"] * len(lines[0]), *([*line.values()] for line in lines)):
        print(f"| {' | '.join(cells)} |")
    RESULTS.mkdir(exist_ok=True)
    name = "large" if asked.table == "large" else f"large-{asked.table}"
    content = lines if asked.table == "large" else {"rows": lines, "runs": {}}
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
