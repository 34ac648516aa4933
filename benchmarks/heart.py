"""The four hospitals of the UCI heart disease data as they are: words, gaps, and one site without cholesterol.

`python benchmarks/heart.py` reads the data from the folder in the environment variable FEDBNSL_DATA. It measures
`fedbnsl learn` in a separate process, including start and imports, with compiled code already built.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd
from measure import RESULTS

DATA = Path(os.environ.get("FEDBNSL_DATA", Path(__file__).parents[2] / "shared" / "data"))
TIMES = 3


def hospitals(folder: Path) -> Path:
    """`folder` with a file for each hospital."""
    folder.mkdir()
    for site, rows in pd.read_csv(DATA / "heart_disease" / "heart_disease_4sites.csv.gz", dtype=str).groupby("site"):
        rows.drop(columns="site").to_csv(folder / f"{site}.csv", index=False)
    return folder


def learned(folder: Path, out: Path, *options: str) -> tuple[float, pd.DataFrame]:
    """The seconds that learning took, and the edges."""
    command = [str(Path(sys.executable).with_name("fedbnsl")), "learn", str(folder), "--engine", "inline"]
    start = time.perf_counter()
    subprocess.run([*command, "--out", str(out), *options], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start, pd.read_csv(out / "structure.csv")


def main() -> None:
    """Time the default, and show the strength of each edge."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = hospitals(Path(scratch) / "heart")
        learned(folder, Path(scratch) / "warm")
        seconds = [learned(folder, Path(scratch) / f"run-{n}")[0] for n in range(TIMES)]
        _, edges = learned(folder, Path(scratch) / "sure", "--bootstrap", "100")
    print(f"\n### heart disease\n\nseconds: {', '.join(f'{one:.1f}' for one in seconds)} (asked: 10)\n")
    columns = list(edges.columns)
    print(f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}")
    for cells in edges.itertuples(index=False):
        print("| " + " | ".join(f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in cells) + " |")
    written = {"seconds": seconds, "edges": json.loads(edges.to_json(orient="records"))}
    (RESULTS / "heart.json").write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
