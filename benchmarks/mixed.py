"""Mixed tables with d = 20 and d = 50: half of the columns are labels; 5 silos differ in size and means.

`python benchmarks/mixed.py` runs all tables, `--table NAME` one of them. Seeds 2 to 11; defaults were chosen on seeds
from 100 on. "lh" means additive effects, "clg" effects with a slope for each level, and "by configuration" effects that
also have an intercept for each configuration (`data/generators/mixed.py`). Graphs have d and 2d expected edges, and
columns are in random order. The choice of `auto` is compared with the tests of `fed-pc`, and with BDeu on numbers cut
at the quartiles of each silo.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import mean

import numpy as np
from measure import Measured, over_seeds, row, run_tables, show

from fedbnsl.algorithms.choose import choices
from fedbnsl.data.defaults import Effects
from fedbnsl.data.federated import FederatedData, discrete
from fedbnsl.data.generators.mixed import mixed

SEEDS = range(2, 12)
CASES: dict[str, tuple[Effects, int, float]] = {
    "lh d": ("additive", 1, 2.5),
    "lh 2d": ("additive", 2, 2.5),
    "clg d": ("slopes", 1, 2.5),
    "clg 2d": ("slopes", 2, 7.0),
    "by configuration, d": ("configurations", 1, math.inf),
    "by configuration, 2d": ("configurations", 2, math.inf),
}
"""of each case: effects, expected edges a variable, and the mean SHD to the CPDAG that is asked for"""


def maker(variables: int, effects: Effects, density: int, rows: int = 1000) -> Callable[[int], FederatedData]:
    """The maker of 5 silos of `rows` rows on average."""
    return lambda seed: mixed(variables, 5, rows, seed, density * variables, effects)


def in_bins(data: FederatedData) -> FederatedData:
    """`data` with every column of numbers as four labels, cut at the quartiles of the silo."""
    tables = {}
    for silo, table in data.tables.items():
        codes = table.copy()
        for j in np.flatnonzero(~data.schema.discrete):
            codes[:, j] = np.searchsorted(np.quantile(table[:, j], (0.25, 0.5, 0.75)), table[:, j])
        tables[silo] = codes.astype(np.int64)
    levels = {name: data.schema.levels.get(name, ("q1", "q2", "q3", "q4")) for name in data.schema.variables}
    return replace(data, schema=discrete(tables, data.schema.variables, levels), tables=tables)


def table(title: str, variables: int, *, others: bool) -> None:
    """Run and show the choice of `auto` on every case, and the `others`."""
    rows, runs = [], {}

    def add(label: str, measured: Sequence[Measured], asked: str = "") -> None:
        runs[label] = measured
        rows.append(row(label, measured, asked))

    for case, (effects, density, most) in CASES.items():
        make = maker(variables, effects, density)
        choice = choices(make(SEEDS[0]).schema, private=False)[0]
        add(
            f"{case}: {choice.name}",
            over_seeds(choice.name, dict(choice.params), make, SEEDS),
            f"SHD ≤ {most:g}" * (most < math.inf),
        )
        if others:
            for name in ("boss", "fed-pc"):
                add(f"{case}: {name}", over_seeds(name, {}, make, SEEDS), "as secure-boss" * (name == "boss"))
            binned = over_seeds("boss", {}, lambda seed, make=make: in_bins(make(seed)), SEEDS)  # type: ignore[misc]
            add(f"{case}: boss, 4 bins", binned)
    show(title, rows, runs)


def d20() -> None:
    """D = 20."""
    table("mixed-d20", 20, others=True)


def d50() -> None:
    """D = 50: CPU seconds."""
    table("mixed-d50", 50, others=False)


def private() -> None:
    """D = 20, additive effects, d edges, 25,000 rows in all: accuracy by ε."""
    make, rows, runs = maker(20, "additive", 1, 5000), [], {}
    for epsilon in (0.5, 1.0, 2.0, 5.0, 10.0, 50.0, 0.0):
        params = {"epsilon": epsilon} | ({"insecure_seed": 1} if epsilon else {})
        label = f"secure-sum, ε = {epsilon:g}" if epsilon else "secure-sum, exact"
        runs[label] = over_seeds("secure-sum", params, make, SEEDS)
        rows.append(row(label, runs[label]))
        print(label, mean(run.shd for run in runs[label]))
    show("mixed-private", rows, runs)


if __name__ == "__main__":
    run_tables({"d20": d20, "d50": d50, "private": private}, __doc__, __file__)
