"""How often missing-value codes are suggested: in clean data (false alarms) and where they were planted (found).

    python benchmarks/missing_codes.py [--data FOLDER] [--seeds 20] [--first 1000]

FOLDER has tables as .csv.gz files, which are real data without such codes. Generated data come from the recipes of
`prepare`, three unequal silos with shuffled columns; codes are planted in a share of the cells of some of them.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from fedbnsl import prepare
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.missing_codes import missing_codes
from fedbnsl.flows.api.learning import tables_in_memory

RECIPES = ("homogeneous", "heterogeneous", "mixed", "discrete", "nonlinear")
SHARE = 0.03
ROWS = (40, 130, 330)


def clean(rng: np.random.Generator, seed: int) -> dict[str, dict[str, pd.DataFrame]]:
    """Tables by data set and silo: of the recipes, of counts, and of a questionnaire with ages and sizes."""
    found = {}
    for recipe in RECIPES:
        data = prepare(recipe, variables=8, silos=3, rows=3 * max(ROWS), seed=seed)
        frames = {}
        for (silo, table), rows in zip(data.tables.items(), ROWS, strict=True):
            frame = pd.DataFrame(table[:rows], columns=data.schema.variables)
            for name, levels in data.schema.levels.items():
                frame[name] = [f"l{levels[int(code)]}" for code in frame[name]]
            frames[silo] = frame[rng.permutation(frame.columns)]
        found[recipe] = frames
    found["counts"] = {
        f"s{n}": pd.DataFrame(rng.poisson((0.5, 1, 2, 4, 9, 30), (n, 6)), columns=list("abcdef")) for n in ROWS
    }
    found["ages"] = {f"s{n}": questionnaire(rng, n) for n in ROWS}
    return found


def questionnaire(rng: np.random.Generator, rows: int) -> pd.DataFrame:
    """Whole numbers and fractions as people report them."""
    return pd.DataFrame(
        {
            "age": np.clip(rng.normal(55, 18, rows).round(), 18, 99),
            "score": rng.integers(1, 6, rows),
            "visits": rng.poisson(3, rows),
            "weight": rng.normal(75, 13, rows).round(1),
            "income": np.exp(rng.normal(7.5, 0.8, rows)).round(),
            "change": rng.normal(0, 4, rows).round(),
            "smokes": rng.choice(["no", "yes"], rows),
        }
    )


def planted(
    frames: dict[str, pd.DataFrame], rng: np.random.Generator
) -> tuple[dict[str, pd.DataFrame], set[tuple[str, str]]]:
    """The questionnaires with codes in `SHARE` of the cells, and the codes by column."""
    codes = {"age": 999, "score": 9, "visits": -9, "weight": 999, "income": -99, "smokes": "unknown"}
    found = {}
    for silo, frame in frames.items():
        frame = frame.astype({"smokes": object})
        for name, code in codes.items():
            frame.loc[rng.random(len(frame)) < SHARE, name] = code
        found[silo] = frame
    return found, {(name, str(code)) for name, code in codes.items()}


def suggested(frames: dict[str, pd.DataFrame]) -> tuple[set[tuple[str, str]], int]:
    """The suggested codes by column, and the number of columns."""
    data = tables_in_memory(frames)
    return {(one.column, one.cell) for one in missing_codes(data.schema, data.tables)}, len(data.schema.variables)


def main() -> None:
    """Print the false alarms per column of clean data, and the share of planted codes that are found."""
    options = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    options.add_argument("--data", type=Path)
    options.add_argument("--seeds", type=int, default=20)
    options.add_argument("--first", type=int, default=1000)
    given = options.parse_args()
    alarms: dict[str, list[int]] = {}
    hits, expected, extra = 0, 0, 0
    for seed in range(given.first, given.first + given.seeds):
        rng = np.random.default_rng(seed)
        sets = clean(rng, seed)
        for name, frames in sets.items():
            found, columns = suggested(frames)
            total = alarms.setdefault(name, [0, 0])
            total[0], total[1] = total[0] + len(found), total[1] + columns
        found, codes = planted(sets["ages"], rng)
        shown, _ = suggested(found)
        hits, expected, extra = hits + len(shown & codes), expected + len(codes), extra + len(shown - codes)
    for file in sorted(given.data.rglob("*.csv.gz")) if given.data else []:
        frame = pd.read_csv(file)
        try:
            found, columns = suggested({"all": frame})
        except BadInput as error:
            print(f"{file.name}: {error}")
            continue
        print(f"{file.relative_to(given.data)}: {len(found)} in {columns} columns {sorted(found) or ''}")
        total = alarms.setdefault("real", [0, 0])
        total[0], total[1] = total[0] + len(found), total[1] + columns
    for name, (false, columns) in alarms.items():
        print(f"clean {name}: {false} suggestions in {columns} columns")
    print(f"planted: {hits} of {expected} codes found, {extra} other suggestions")


if __name__ == "__main__":
    main()
