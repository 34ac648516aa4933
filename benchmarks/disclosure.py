"""What disclosure control hides and what it costs: published models with it, without it, and with suppressed cells.

`python benchmarks/disclosure.py` prints one table and writes results/disclosure.json. Seeds 2 to 6. `fed-pc` learns a
model with its tables. The model is judged by the mean log-likelihood of held-out rows: 10,000 drawn ones, or a fifth of
each hospital. The attack undoes the smoothing (`estimated_counts`). The heart disease data are the rows of the four
hospitals that are complete in seven columns, with numbers as they are (mixed) or in terciles (labels).
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from heart import DATA
from measure import mean_and_sd, show
from threadpoolctl import threadpool_limits

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import Algorithm, rounds
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.graphs.cpdag import dag_extension
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters import mixed_families, tables
from fedbnsl.algorithms.parameters.networks import Network
from fedbnsl.algorithms.privacy.disclosure_control import MIN_COUNT, estimated_counts
from fedbnsl.algorithms.statistics.count_tables import CountLimits, limited_counts
from fedbnsl.data.federated import FederatedData
from fedbnsl.data.networks.lucas import lucas
from fedbnsl.data.networks.published import network
from fedbnsl.tasks.transport.in_process import InProcessFederation

SEEDS = range(2, 7)
TEST_ROWS, TEST_SEED = 10_000, 1000
ESS = 1.0
COLUMNS = ("age", "sex", "cp", "restecg", "thalach", "exang", "num")
NUMBERS = ("age", "thalach")
CASES = {
    "exact counts": (1, False),
    "small cells blank": (1, True),
    "owners' cells = 5": (5, False),
    "both": (5, True),
}
"""smallest count that leaves a silo, and whether the model is published without small cells"""


@dataclass(frozen=True)
class Trial:
    """One model: its structure compared with the truth and with exact counts, its fit, and the recovered counts."""

    seed: int
    shd: float | None
    shd_skeleton: float | None
    moved: float
    """pairs that differ from the skeleton of exact counts"""
    likelihood: float
    small: int
    """cells of 1 or 2 rows in the families of the model"""
    recovered: int


Data = tuple[FederatedData, np.ndarray]
"""the silos, and the rows for the test"""


def limited(algorithm: Algorithm, cells: int) -> Algorithm:
    """`algorithm` at silos whose owners suppress counts below `cells`."""

    def local_solve(state: Any, message: Any) -> Any:
        with limited_counts(CountLimits(cells)):
            return algorithm.local_solve(state, message)

    return replace(algorithm, local_solve=local_solve)


def learned(data: FederatedData, seed: int, cells: int) -> Structure:
    """The structure over silos whose owners suppress counts below `cells`; publication comes after it."""
    learner = limited(registry.build(registry.specify("fed-pc")), cells)
    *_, last = rounds(learner, InProcessFederation(data.schema, data.tables, seed))
    return learner.structure(last.server)


def trial(
    data: FederatedData, test: np.ndarray, seed: int, cells: int, structures: dict[int, Structure], *, blank: bool
) -> Trial:
    """The trial of one case; `structures` by smallest count that leaves a silo."""
    federation, structure = InProcessFederation(data.schema, data.tables, seed), structures[cells]
    dag = dag_extension(structure).dag
    assert dag is not None
    family = mixed_families if data.schema.kind == "mixed" else tables
    step = "mixed-families" if data.schema.kind == "mixed" else "family-tables"
    settings = registry.entry(step).config(ESS)
    algorithm = limited(registry.build(AlgorithmSpec(step, settings)), cells)
    *_, last = rounds(algorithm, federation, (0, family.start(data.schema, dag)))
    model = family.network(last.server, ESS, blank=blank)
    scores = compare(structure, data.truth) if data.truth else {}
    small, recovered = attacked(model, np.vstack(list(data.tables.values())))
    return Trial(
        seed=seed,
        shd=scores.get("shd_cpdag"),
        shd_skeleton=scores.get("shd_skeleton"),
        moved=float(compare(structure, structures[1])["shd_skeleton"] or 0),
        likelihood=float(model.log_likelihood(test).mean()),
        small=small,
        recovered=recovered,
    )


def attacked(model: Network, rows: np.ndarray) -> tuple[int, int]:
    """The cells of 1 or 2 rows in the tables of `model`, and how many of them the attack gets right."""
    places, found = model.place, estimated_counts(model.tables, ESS, len(rows))
    small = recovered = 0
    for name, estimate in found.items():
        codes = rows[:, [places[one] for one in (*model.parents[name], name)]].astype(np.int64)
        cells = np.ravel_multi_index(tuple(codes.T), estimate.shape)
        counts = np.bincount(cells, minlength=estimate.size).reshape(estimate.shape)
        tiny = (counts >= 1) & (counts < MIN_COUNT)
        small += int(tiny.sum())
        recovered += int((tiny & (np.abs(estimate - counts) < 0.25)).sum())
    return small, recovered


def drawn(name: str) -> Callable[[int], Data]:
    """A published network: 5 silos of 1,000 rows."""
    return lambda seed: (network(name, 5, 1000, seed), rows_of(network(name, 1, TEST_ROWS, seed + TEST_SEED)))


def lucas_rows(seed: int) -> Data:
    """LUCAS0: 4 silos of 500 rows."""
    return lucas("0", 4, 500, seed), rows_of(lucas("0", 1, TEST_ROWS, seed + TEST_SEED))


def rows_of(data: FederatedData) -> np.ndarray:
    """All rows, as numbers and codes."""
    return np.vstack(list(data.tables.values()))


def hospitals(*, mixed: bool) -> Callable[[int], Data]:
    """The hospitals without a fifth of their rows, and the removed rows."""
    table = pd.read_csv(DATA / "heart_disease" / "heart_disease_4sites.csv.gz", dtype=str)
    table = table[["site", *COLUMNS]].dropna().reset_index(drop=True)
    levels, columns = {}, {}
    for name in COLUMNS:
        if name in NUMBERS and mixed:
            columns[name] = table[name].astype(float)
            continue
        labels = pd.qcut(table[name].astype(float), 3).cat.codes.astype(str) if name in NUMBERS else table[name]
        levels[name] = tuple(sorted(labels.unique()))
        columns[name] = labels.map(levels[name].index).astype(float)
    codes, sites = np.column_stack([columns[name] for name in COLUMNS]), table["site"].to_numpy()

    def split(seed: int) -> Data:
        held_out = np.zeros(len(codes), bool)
        for site in np.unique(sites):
            rows = np.flatnonzero(sites == site)
            held_out[np.random.default_rng(seed).permutation(rows)[: len(rows) // 5]] = True
        silos = {str(site): codes[(sites == site) & ~held_out] for site in np.unique(sites)}
        if not mixed:
            silos = {site: rows.astype(np.int16) for site, rows in silos.items()}
        schema = Schema(
            COLUMNS, {site: len(rows) for site, rows in silos.items()}, "mixed" if mixed else "discrete", levels
        )
        return FederatedData(schema, silos, None, {}), codes[held_out]

    return split


SETS: dict[str, Callable[[int], Data]] = {
    "ALARM": drawn("alarm"),
    "HEPAR2": drawn("hepar2"),
    "LUCAS": lucas_rows,
    "heart disease, labels": hospitals(mixed=False),
    "heart disease, mixed": hospitals(mixed=True),
}


def main() -> None:
    """Run every case on every data set."""
    rows, runs = [], {}
    for name, make in SETS.items():
        trials: dict[str, list[Trial]] = {case: [] for case in CASES}
        for seed in SEEDS:
            data, test = make(seed)
            allowed = {cells for cells, _ in CASES.values() if cells == 1 or data.schema.kind != "mixed"}
            structures = {cells: learned(data, seed, cells) for cells in sorted(allowed)}
            for case, (cells, blank) in CASES.items():
                if cells in allowed:
                    trials[case].append(trial(data, test, seed, cells, structures, blank=blank))
        for case, each in trials.items():
            rows.append({"data": name, "published": case, **(figures(each) if each else REFUSED)})
            runs[f"{name}, {case}"] = each
    show("disclosure", rows, runs)


REFUSED = {
    "SHD (CPDAG)": "–",
    "SHD (skeleton)": "–",
    "pairs moved": "refused",
    "log-likelihood a row": "–",
    "counts of 1-2, mean": "–",
    "most recovered": "–",
}
"""second moments of mixed rows include counts, which a policy with `cells` refuses"""


def figures(trials: list[Trial]) -> dict[str, str]:
    """The figures of one case over all seeds."""

    def spread(values: list[float | None], digits: int = 1) -> str:
        known = [value for value in values if value is not None]
        return mean_and_sd(known, digits) if known else "–"

    return {
        "SHD (CPDAG)": spread([one.shd for one in trials]),
        "SHD (skeleton)": spread([one.shd_skeleton for one in trials]),
        "pairs moved": f"{statistics.mean(one.moved for one in trials):.1f}",
        "log-likelihood a row": spread([one.likelihood for one in trials], 3),
        "counts of 1-2, mean": f"{statistics.mean(one.small for one in trials):.0f}",
        "most recovered": str(max(one.recovered for one in trials)),
    }


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
