"""The nonlinear learners on perceptrons over ER graphs with d edges: accuracy, bytes, CPU seconds on one thread.

`python benchmarks/nonlinear.py` runs all tables, `--table NAME` one of them: the settings of Ng & Zhang 2022, Figures
4 and 5. Seeds 2 to 11, fewer where one run takes minutes; the defaults were chosen on seeds from 100 on.
"""

from collections.abc import Callable, Sequence

import numpy as np
from measure import over_seeds, row, run_tables, show

from fedbnsl.data.federated import FederatedData, deal_rows, pool
from fedbnsl.data.generators.nonlinear import nonlinear

SEEDS = range(2, 12)
FEW = range(2, 4)
Maker = Callable[[int], FederatedData]


def even(variables: int, silos: int, rows: int) -> Maker:
    """The maker of data whose `rows`, in all, are dealt evenly."""
    return lambda seed: nonlinear(variables, silos, rows // silos, seed)


def uneven(variables: int, silos: int, rows: int) -> Maker:
    """The maker of data in which each silo has half as many rows as the one before, and the last has the rest."""

    def make(seed: int) -> FederatedData:
        cuts = [rows - rows // 2**k for k in range(1, silos)]
        parts = np.split(np.arange(rows), cuts)
        whole = pool(nonlinear(variables, 1, rows, seed))
        return deal_rows(whole, {f"silo-{k}": part for k, part in enumerate(parts, 1)}, {})

    return make


def table(title: str, make: Maker, seeds: dict[str, Sequence[int]], asked: str) -> None:
    """Run and show one table: the algorithms in `seeds`, each over its own."""
    runs = {name: over_seeds(name, {}, make, of) for name, of in seeds.items()}
    rows = [row(name, of, asked if name == "notears-mlp-admm" else "") for name, of in runs.items()]
    show(title, rows, runs)


BASELINES = ("notears-mlp-voting", "notears-mlp-best", "notears-mlp")
NOT_BEST = ("notears-mlp-voting", "notears-mlp")
"""without the one that takes as long as voting and needs the truth"""


def beside(others: Sequence[int], names: Sequence[str] = BASELINES) -> dict[str, Sequence[int]]:
    """The seeds of the federated learner, and those of the learners it is compared with."""
    return {"notears-mlp-admm": SEEDS} | dict.fromkeys(names, others)


ASKED = "SHD ≤ 8 in ≤ 5 CPU s (published program: 41-44 CPU s)"
TABLES: dict[str, Callable[[], None]] = {
    "d10": lambda: table("mlp-d10", even(10, 2, 512), beside(SEEDS), ASKED),
    "d10-uneven": lambda: table("mlp-d10-uneven", uneven(10, 4, 512), {"notears-mlp-admm": SEEDS}, ""),
    "d20-60-rows": lambda: table("mlp-d20-60-rows", even(20, 10, 60), {"notears-mlp-admm": SEEDS}, ""),
    "d20": lambda: table("mlp-d20", even(20, 10, 512), beside(FEW, NOT_BEST), ""),
    "d50": lambda: table("mlp-d50", even(50, 16, 512), {"notears-mlp-admm": FEW}, "≤ 300 CPU s"),
}


if __name__ == "__main__":
    run_tables(TABLES, __doc__, __file__)
