"""Settings chosen by `fedbnsl tune` without a truth, compared with the best of the candidates by SHD.

For each data set, the candidates run on all rows as well; the SHD of the class of each is compared with the truth.
The requirement is that in 8 of 10 data sets the SHD of the chosen candidate is within 1 of the best. Columns are
shuffled; the silos have 5, 10, 25 and 60 % of the rows and their own offsets. Writes `results/tune.json`.

    .venv/bin/python benchmarks/tune.py [--draws 20] [--first 1000]
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from fit import SHARES
from measure import RESULTS

from fedbnsl import learn
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.data.federated import FederatedData, continuous
from fedbnsl.data.generators.discrete import discrete


def numbers(seed: int, d: int, n: int) -> FederatedData:
    """A linear model with two edges per variable on average, standardised errors, weights from .2 to 1."""
    rng = np.random.default_rng(seed)
    upper, order = np.triu(rng.random((d, d)) < 4 / (d - 1), 1), rng.permutation(d)
    dag = upper[np.ix_(order, order)]
    weights = dag * rng.uniform(0.2, 1.0, (d, d)) * rng.choice([-1, 1], (d, d))
    mixing, names = np.linalg.inv(np.eye(d) - weights), tuple(f"x{k:02d}" for k in range(d))
    spread = rng.uniform(0.5, 2.0, d)
    tables = {
        f"silo-{k}": (rng.normal(size=(round(n * share), d)) * spread) @ mixing + 3 * rng.normal(size=d)
        for k, share in enumerate(SHARES)
    }
    return FederatedData(continuous(tables, names), tables, Structure(names, weights), {}, {})


def labels(seed: int) -> FederatedData:
    """A random network of twelve labels, its columns shuffled."""
    data = discrete(12, 4, 500, seed, degree=3.0)
    order = np.random.default_rng(seed).permutation(12)
    names = tuple(data.schema.variables[v] for v in order)
    tables = {silo: rows[:, order] for silo, rows in data.tables.items()}
    assert data.truth is not None
    schema = replace(data.schema, variables=names, levels={name: data.schema.levels[name] for name in names})
    return replace(data, schema=schema, tables=tables, truth=data.truth.reordered(names))


ALPHAS = (".001", ".01", ".05")
CASES: dict[str, tuple[Callable[[int], FederatedData], str, str, tuple[str, ...], str]] = {
    "numbers, d = 10, 500 rows": (lambda seed: numbers(seed, 10, 500), "fed-pc", "alpha", ALPHAS, "held-out"),
    "numbers, d = 20, 2,000 rows": (lambda seed: numbers(seed, 20, 2000), "fed-pc", "alpha", ALPHAS, "held-out"),
    "numbers, d = 20, 2,000 rows, stars": (lambda seed: numbers(seed, 20, 2000), "fed-pc", "alpha", ALPHAS, "stars"),
    "labels, d = 12, 2,000 rows": (labels, "fed-pc", "alpha", ALPHAS, "stars"),
}


def measured(name: str, draws: int, first: int) -> dict[str, str]:
    """The row of the table for one kind of data."""
    draw, algorithm, setting, values, by = CASES[name]
    common: dict[str, Any] = {"parameters": False, "diagnose": False, "bootstrap": 0}
    behind, best, chosen, exchanges, start = [], [], [], [], time.process_time()
    for seed in range(first, first + draws):
        data = draw(seed)
        shd = [learn(data, algorithm, **{setting: float(value)}, **common).metrics["shd_cpdag"] for value in values]
        result = learn(data, algorithm, tune=f"{setting}={','.join(values)}", tune_by=by, **common).result
        assert result.tuning is not None
        behind.append(shd[result.tuning.chosen] - min(shd))
        best.append(min(shd))
        chosen.append(values[result.tuning.chosen])
        exchanges.append(result.tuning.exchanges)
    return {
        "data": name,
        "learner": algorithm,
        "candidates": f"{setting} {', '.join(values)}",
        "by": by,
        "within 1 SHD of the best": f"{sum(one <= 1 for one in behind)} of {draws}",
        "asked": f"{round(0.8 * draws)} of {draws}",
        "SHD above the best, mean": f"{np.mean(behind):.1f}",
        "SHD of the best": f"{np.mean(best):.1f}",
        "chosen": ", ".join(f"{value}: {chosen.count(value)}" for value in values if value in chosen),
        "exchanges": f"{np.mean(exchanges):.0f}",
        "CPU s": f"{(time.process_time() - start) / draws:.1f}",
    }


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--first", type=int, default=1000)
    given, rows = parser.parse_args(), []
    for name in CASES:
        rows.append(measured(name, given.draws, given.first))
        print("  ".join(rows[-1].values()), flush=True)
    if given.first >= 1000:
        content = json.dumps({"rows": rows}, indent=1, ensure_ascii=False)
        (RESULTS / "tune.json").write_text(content + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
