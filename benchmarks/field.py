"""Public tables that packages ship, as a new user would give them to fedbnsl: what is read, found and claimed.

    python benchmarks/field.py [NAME...]        # writes results/field.json

Each data set of statsmodels and scikit-learn is dealt to three silos at random with `SEEDS`, or by a column, and
learned with all defaults. A row states how it was read, the findings, and the arrows into variables that nothing in a
table can cause (age, sex, birth, year, hour). None should be claimed: all must be doubted, and named by a finding.
"""

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn import datasets

from fedbnsl import learn
from fedbnsl.algorithms.diagnosis.columns import without_causes
from fedbnsl.algorithms.errors import BadInput

SEEDS = (0, 1, 2)
RESULTS = Path(__file__).parent / "results" / "field.json"
STATSMODELS = (
    *("anes96", "cancer", "ccard", "china_smoking", "co2", "committee", "copper", "cpunish", "danish_data", "elnino"),
    *("engel", "fair", "fertility", "grunfeld", "heart", "interest_inflation", "longley", "macrodata", "modechoice"),
    *("nile", "randhie", "scotland", "spector", "stackloss", "star98", "statecrime", "strikes", "sunspots"),
)
SKLEARN = ("iris", "wine", "breast_cancer", "diabetes", "linnerud")
BY = {"grunfeld": "firm"}
"""by data set, the column that names the silos"""


def tables() -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the name and the table of each data set."""
    for name in STATSMODELS:
        yield name, import_module(f"statsmodels.datasets.{name}").load_pandas().data
    for name in SKLEARN:
        found = getattr(datasets, f"load_{name}")(as_frame=True).frame
        yield name, found


def write(name: str, table: pd.DataFrame, folder: Path, seed: int) -> dict[str, Any]:
    """Write a table to `folder`, and return the options of reading it."""
    if name in BY:
        table.to_csv(folder / f"{name}.csv", index=False)
        return {"by": BY[name]}
    silos = np.random.default_rng(seed).integers(3, size=len(table)) if "year" not in map(str.lower, table) else None
    for k in range(3 if silos is not None else 1):
        own = table if silos is None else table[silos == k]
        own.to_csv(folder / f"silo-{k + 1}.csv", index=False)
    return {}


def row(name: str, table: pd.DataFrame, seed: int) -> dict[str, Any]:
    """How a data set is read and what is found."""
    with tempfile.TemporaryDirectory() as place:
        options = write(name, table, Path(place), seed)
        data = Path(place) / f"{name}.csv" if options else Path(place)
        begin = time.process_time()
        try:
            result = learn(data, **options).result
        except BadInput as error:
            return {"data": name, "seed": seed, "error": str(error).replace(place, "FOLDER")}
    roots, edges = without_causes(result.schema.variables, result.schema.levels), list(result.edges)
    into = [edge for edge in edges if edge.directed and edge.target in roots and edge.source != edge.target]
    impossible = [edge.text for edge in into]
    named = " ".join(one.message for one in result.diagnosed.findings)
    return {
        "data": name,
        "seed": seed,
        "rows": sum(result.schema.rows.values()),
        "kind": result.schema.kind,
        "variables": len(result.schema.variables),
        "excluded": result.schema.aside,
        "edges": len(edges),
        "directed": sum(edge.directed for edge in edges),
        "findings": [one.name for one in result.diagnosed.findings],
        "impossible": impossible,
        "claimed": [edge.text for edge in into if (edge.source, edge.target) not in result.doubted],
        "unnamed": [text for text in impossible if text.rpartition(" ")[2] not in named],
        "cpu": round(time.process_time() - begin, 1),
    }


def main() -> None:
    """Learn from the named data sets, or from all."""
    chosen = set(sys.argv[1:])
    rows = []
    for name, table in tables():
        for seed in SEEDS if not chosen or name in chosen else ():
            rows.append(row(name, table, seed))
            print(rows[-1], flush=True)
    if not chosen:
        RESULTS.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
