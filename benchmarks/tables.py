"""Tables as owners have them: larger than memory.

`python benchmarks/tables.py --table large` writes results/tables-large.md and results/tables-large.json.
"""

import argparse
import json
import os
from collections.abc import Callable
from datetime import date
from pathlib import Path

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

from large_silo import large
from measure import RESULTS

Lines = list[dict[str, str]]


def large_table(asked: argparse.Namespace) -> Lines:
    """Return the table of a silo larger than memory."""
    return large(asked.rows, asked.seed, asked.scratch)


TABLES: dict[str, tuple[Callable[[argparse.Namespace], Lines], str]] = {
    "large": (large_table, "A silo of 50 columns in a Parquet file larger than memory is to hold, beside a small one."),
}
"""name -> what makes the table, and what stands above it"""


def main() -> None:
    """Make the tables asked for, print them and write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", choices=TABLES, action="append", help="one or more; default: all")
    parser.add_argument("--rows", type=int, default=20_000_000, help="rows of the large silo")
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument(
        "--scratch", type=Path, help="folder for files that are removed again; 8 GB for 20,000,000 rows"
    )
    asked = parser.parse_args()
    for name in asked.table or TABLES:
        make, said = TABLES[name]
        lines = make(asked)
        write(name, said, lines, asked)


def write(name: str, said: str, lines: Lines, asked: argparse.Namespace) -> None:
    """Write a table as Markdown and JSON."""
    header = list(lines[0])
    rows = [header, ["---"] * len(header), *(list(line.values()) for line in lines)]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
    how = f"`python benchmarks/tables.py --table {name}`, {asked.rows:,} rows, seed {asked.seed}"
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"tables-{name}.md").write_text(
        f"### {name}\n\n{said} {how}, {date.today():%d %B %Y}.\n\n{table}\n", encoding="utf-8"
    )
    (RESULTS / f"tables-{name}.json").write_text(json.dumps(lines, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
