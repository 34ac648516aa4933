"""How often the check of first rows refuses good names, and how often it notices that names are missing.

    python benchmarks/headers.py [--data FOLDER] [--seeds 10]

The tables are those of the recipes of `prepare`, counts, and a questionnaire; with `--data`, also the .csv and .csv.gz
files in FOLDER. Names are good if they are the table's own, numbers, shuffled numbers, years, codes, or wavelengths.
Names are missing if a row of the table is the first one; repeated names are noticed, too.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from measure import show
from missing_codes import clean

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.check import distinct_names
from fedbnsl.data.folder.text import EXAMINED_ROWS, header_fault

Cells = list[list[str]]
STARTS = 20
"""number of rows of a table that are first in turn"""


def tables(rng: np.random.Generator, seed: int) -> Iterator[tuple[str, pd.DataFrame]]:
    """The generated tables with the names of their kinds, and those of labels also as whole numbers."""
    for kind, frames in clean(rng, seed).items():
        for frame in frames.values():
            yield kind, frame
            if kind == "discrete":
                yield "discrete, coded", frame.apply(lambda column: pd.factorize(column)[0])


def recorded_tables(folder: Path) -> Iterator[tuple[str, pd.DataFrame]]:
    """The tables of real data in `folder`."""
    for file in sorted((*folder.rglob("*.csv"), *folder.rglob("*.csv.gz"))):
        yield "real", pd.read_csv(file, nrows=1000, low_memory=False)


def good_names(frame: pd.DataFrame, rng: np.random.Generator) -> Iterator[list[str]]:
    """Names that a table may have."""
    d = frame.shape[1]
    yield [str(name) for name in frame.columns]
    yield [str(k) for k in range(d)]
    yield [str(k + 1) for k in rng.permutation(d)]
    yield [str(2000 + k) for k in range(d)]
    yield [str(k) for k in rng.choice(90_000, d, replace=False) + 10_000]
    yield [f"{400 + 1.5 * k}" for k in range(d)]


def noticed(names: list[str], rows: Cells) -> bool:
    """Whether reading a table with these names is an error."""
    if header_fault(names, rows):
        return True
    try:
        distinct_names("first row", names, lambda name: True)
    except BadInput:
        return True
    return False


def main() -> None:
    """Print the shares by kind of table."""
    options = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    options.add_argument("--data", type=Path)
    options.add_argument("--seeds", type=int, default=10)
    given = options.parse_args()
    counts: dict[str, np.ndarray] = {}
    for seed in range(2, 2 + given.seeds):
        rng = np.random.default_rng(seed)
        every = [*tables(rng, seed), *(recorded_tables(given.data) if given.data and seed == 2 else ())]
        for kind, frame in every:
            cells: Cells = [[*map(str, row)] for row in frame.astype(object).fillna("").itertuples(index=False)]
            total = counts.setdefault(kind, np.zeros(4, np.int64))
            for names in good_names(frame, rng):
                total += (noticed(names, cells[:EXAMINED_ROWS]), 1, 0, 0)
            for first in rng.choice(len(cells), min(STARTS, len(cells)), replace=False):
                below = cells[:first] + cells[first + 1 :]
                total += (0, 0, noticed(cells[first], below[:EXAMINED_ROWS]), 1)
    rows = [
        {
            "tables": kind,
            "good names": int(good),
            "refused": int(refused),
            "first rows without names": int(missing),
            "noticed": f"{100 * found / missing:.0f} %",
        }
        for kind, (refused, good, found, missing) in counts.items()
    ]
    show("headers", rows, {})


if __name__ == "__main__":
    main()
