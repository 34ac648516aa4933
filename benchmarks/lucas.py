"""Causal feature selection on LUCAS: the target is predicted from its learned Markov blanket.

Source: Wang, Ma & Wang 2023, §7.5, Table 2.

The features are learned from 2000 rows of LUCAS0 over K silos, and a linear regression on these features is fitted to
all rows. It is tested on 10,000 rows each of LUCAS0, 1 and 2; from one to the next, more variables are manipulated.
Levels are coded -1 and 1, as in the paper's figures. Seeds 2 to 11. `python benchmarks/lucas.py` writes
results/lucas.json.
"""

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from measure import RESULTS
from threadpoolctl import threadpool_limits

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.graphs.markov_blanket import markov_blanket
from fedbnsl.data.federated import FederatedData, pool
from fedbnsl.data.networks.lucas import TARGET, lucas
from fedbnsl.tasks.transport.in_process import InProcessFederation

SEEDS = range(2, 12)
SILOS = (2, 4, 8)
ROWS, TEST_ROWS = 2000, 10_000
ALL, TRUE = "all features", "the true blanket"
WANTED = ("fed-pc", "pc-voting", "pc-cit-voting", "rfcd", "notears-admm", "secure-ges", "fed-ges")
PAPER = {
    ("all features", 2): ("11", "0.423", "0.642", "0.631"),
    ("fed-pc", 2): ("4", "0.445", "0.608", "0.574"),
    ("pc-voting", 2): ("4", "0.445", "0.608", "0.574"),
    ("pc-cit-voting", 2): ("3", "0.457", "0.631", "0.589"),
    ("notears-admm", 2): ("3", "0.457", "0.631", "0.589"),
    ("rfcd", 2): ("4", "0.435", "0.656", "0.646"),
    ("all features", 4): ("11", "0.423", "0.642", "0.631"),
    ("fed-pc", 4): ("4", "0.445", "0.608", "0.574"),
    ("pc-voting", 4): ("4", "0.445", "0.608", "0.574"),
    ("pc-cit-voting", 4): ("3", "0.457", "0.631", "0.589"),
    ("notears-admm", 4): ("4", "0.435", "0.656", "0.646"),
    ("rfcd", 4): ("3", "0.457", "0.631", "0.589"),
    ("all features", 8): ("11", "0.423", "0.642", "0.631"),
    ("fed-pc", 8): ("4", "0.445", "0.608", "0.574"),
    ("pc-voting", 8): ("3", "0.457", "0.631", "0.589"),
    ("pc-cit-voting", 8): ("3", "0.457", "0.631", "0.589"),
    ("notears-admm", 8): ("6", "0.443", "0.628", "0.635"),
    ("rfcd", 8): ("2", "0.480", "0.616", "0.590"),
}
"""features, training MSE, MSE on LUCAS1 and on LUCAS2 in the paper's Table 2"""


@dataclass(frozen=True)
class Trial:
    """One seed: the features that were chosen, and the mean squared errors of the regression on them."""

    seed: int
    features: tuple[str, ...]
    exact: bool
    """whether they are the true Markov blanket"""
    train: float
    lucas0: float
    lucas1: float
    lucas2: float


def blanket(name: str, data: FederatedData) -> tuple[str, ...]:
    """The Markov blanket of the target in what `name` learns from `data`."""
    if name == ALL:
        return tuple(one for one in data.schema.variables if one != TARGET)
    if name == TRUE:
        assert data.truth is not None
        return markov_blanket(data.truth, TARGET).all
    params = {"center": True} if "center" in registry.parameter_names(name) else {}
    if "discrete" not in registry.entry(name).kinds:
        schema = replace(data.schema, kind="continuous", levels={})
        data = FederatedData(schema, {silo: table.astype(np.float64) for silo, table in data.tables.items()})
    algorithm = registry.build(registry.specify(name, params))
    *_, last = rounds(algorithm, InProcessFederation(data.schema, data.tables))
    return markov_blanket(algorithm.structure(last.server), TARGET).all


def trial(name: str, silos: int, seed: int, tests: Sequence[np.ndarray]) -> Trial:
    """Choose features on LUCAS0 over `silos`, regress on them, and test."""
    data = lucas("0", silos, ROWS // silos, seed)
    chosen = blanket(name, data)
    names = data.schema.variables
    columns = [names.index(one) for one in names if one in chosen]
    train = next(iter(pool(data).tables.values()))
    fitted = np.linalg.lstsq(design(train, columns), signs(train[:, names.index(TARGET)]), rcond=None)[0]
    errors = [
        float(np.mean((design(codes, columns) @ fitted - signs(codes[:, names.index(TARGET)])) ** 2))
        for codes in (train, *tests)
    ]
    return Trial(seed, chosen, chosen == blanket(TRUE, data), *errors)


def signs(codes: np.ndarray) -> np.ndarray:
    """The levels 0 and 1 as -1 and 1."""
    return 2.0 * codes - 1


def design(codes: np.ndarray, columns: Sequence[int]) -> np.ndarray:
    """The chosen columns beside a constant."""
    return np.column_stack([np.ones(len(codes)), signs(codes[:, columns])])


def line(name: str, silos: int, trials: Sequence[Trial]) -> list[str]:
    """A row of the table: means over the trials, with the standard deviation where errors are."""

    def spread(field: str) -> str:
        values = [getattr(one, field) for one in trials]
        return f"{statistics.mean(values):.3f} ± {statistics.stdev(values):.3f}"

    paper = PAPER.get((name, silos), ("–",) * 4)
    return [
        str(silos),
        name,
        f"{statistics.mean(len(one.features) for one in trials):.1f}",
        f"{sum(one.exact for one in trials)}/{len(trials)}",
        *(spread(field) for field in ("train", "lucas0", "lucas1", "lucas2")),
        ", ".join(paper),
    ]


def main() -> None:
    """Run and write the table."""
    names = [ALL, TRUE, *(name for name in WANTED if name in registry.ALGORITHMS)]
    header = ["K", "features by", "features", "exact", "train", "LUCAS0", "LUCAS1", "LUCAS2", "paper"]
    lines, written = [], {}
    tests = {
        seed: [next(iter(lucas(version, 1, TEST_ROWS, seed + 1000).tables.values())) for version in ("0", "1", "2")]
        for seed in SEEDS
    }
    with threadpool_limits(1):
        for silos in SILOS:
            for name in names:
                trials = [trial(name, silos, seed, tests[seed]) for seed in SEEDS]
                lines.append(line(name, silos, trials))
                written[f"{name}, K = {silos}"] = [vars(one) for one in trials]
                print(" | ".join(lines[-1]), flush=True)
    rows = [dict(zip(header, cells, strict=True)) for cells in lines]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "lucas.json").write_text(json.dumps({"rows": rows, "runs": written}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
