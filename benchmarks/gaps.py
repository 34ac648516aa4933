"""Empty cells: `auto` on tables with gaps, compared with dropping incomplete rows and with "empty" as a level.

`python benchmarks/gaps.py` runs all tables, `--table NAME` one of them. Columns are in a random order, silos differ in
size and, where they hold numbers, in their means. Gaps are made by `data/generators/amputate.py`: MCAR empties cells at
random; MAR empties cells of half of the columns depending on the values of the others. Distances are between classes
(CPDAG), or between skeletons if the line says so: to the truth, and to the result for the same data without gaps. Seeds
2 to 6; defaults were chosen on seeds from 31 on.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from measure import mean_and_sd, run_tables, show
from real import Setting, draw

from fedbnsl import learn
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.graphs.cpdag import cpdag
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.data.federated import FederatedData, discrete
from fedbnsl.data.generators.amputate import Mechanism, amputate
from fedbnsl.data.generators.mixed import mixed
from fedbnsl.data.networks.published import network

SEEDS = range(2, 7)
CASES: tuple[tuple[Mechanism, float], ...] = (("mcar", 0.1), ("mcar", 0.3), ("mar", 0.2))


@dataclass(frozen=True)
class Ran:
    """One run: distances to the truth and to the result without gaps, of skeletons and classes, and what it took."""

    seed: int
    skeleton: float
    shd: float
    skeleton_of_complete: float
    shd_of_complete: float
    exchanges: int
    megabytes: float
    cpu_seconds: float


def class_of(structure: Structure) -> Structure:
    """The class of a structure, a DAG or a class already."""
    return (
        structure
        if structure.kind == "cpdag"
        else Structure(structure.variables, cpdag(structure.adjacency) * 1.0, "cpdag")
    )


def ran(data: FederatedData, seed: int, complete: Structure | None) -> tuple[Ran, Structure]:
    """Learn from `data` by default; compare with the truth, and with what was learned from `complete` data."""
    start = time.process_time()
    result = learn(data, seed=seed, parameters=False, diagnose=False).result
    cpu = time.process_time() - start
    found = class_of(result.structure)
    assert data.truth is not None
    scores = compare(found, class_of(data.truth))
    same = compare(found, complete or found)
    metrics = result.metrics
    return Ran(
        seed,
        scores["shd_skeleton"],
        scores["shd"],
        same["shd_skeleton"],
        same["shd"],
        int(metrics["rounds"] or 0) + int(metrics["filling_exchanges"] or 0),
        (int(metrics["bytes_up"] or 0) + int(metrics["bytes_down"] or 0) + int(metrics["filling_bytes"] or 0)) / 1e6,
        cpu,
    ), found


def complete_rows(data: FederatedData) -> FederatedData:
    """The rows without an empty cell; silos that keep fewer than two are left out."""
    discrete_data = data.schema.kind == "discrete"
    kept = {silo: t[~((t < 0) if discrete_data else np.isnan(t)).any(axis=1)] for silo, t in data.tables.items()}
    kept = {silo: table for silo, table in kept.items() if len(table) > 1}
    schema = replace(data.schema, rows={silo: len(table) for silo, table in kept.items()}, empty={})
    return replace(data, schema=schema, tables=kept)


def as_a_level(data: FederatedData) -> FederatedData:
    """Discrete data in which "empty" is one more level of each column that has gaps."""
    gaps = np.array(list(data.schema.empty.values())).any(axis=0)
    levels = {
        name: (*labels, "empty") if gaps[v] else labels
        for v, (name, labels) in enumerate((name, data.schema.levels[name]) for name in data.schema.variables)
    }
    last = np.array([len(levels[name]) - 1 for name in data.schema.variables])
    tables = {silo: np.where(table < 0, last, table) for silo, table in data.tables.items()}
    return replace(data, schema=discrete(tables, data.schema.variables, levels), tables=tables)


def shuffled(data: FederatedData, seed: int) -> FederatedData:
    """`data` with its columns in a random order."""
    order = np.random.default_rng(seed).permutation(len(data.schema.variables))
    names = tuple(data.schema.variables[v] for v in order)
    assert data.truth is not None
    truth = Structure(names, data.truth.weights[np.ix_(order, order)], data.truth.kind)
    tables = {silo: table[:, order] for silo, table in data.tables.items()}
    return replace(data, schema=replace(data.schema, variables=names), tables=tables, truth=truth)


Ways = dict[str, Callable[[FederatedData], FederatedData]]
ROWS: Ways = {"complete rows only": complete_rows}
LEVELS: Ways = {**ROWS, "empty as a level": as_a_level}


def table(title: str, make: Callable[[int], FederatedData], others: Ways, asked: Sequence[str]) -> None:
    """Run and show `auto` on the data that `make` gives, without gaps and with each kind of them, and the `others`."""
    lines: dict[str, list[Ran]] = {"complete": []}
    for seed in SEEDS:
        whole = make(seed)
        run, complete = ran(whole, seed, None)
        lines["complete"].append(run)
        for mechanism, share in CASES:
            holed = amputate(whole, mechanism, share, np.random.default_rng((seed, 1)))
            label = f"{mechanism.upper()} {100 * share:.0f} %"
            lines.setdefault(label, []).append(ran(holed, seed, complete)[0])
            for name, other in others.items():
                changed = other(holed)
                if sum(changed.schema.rows.values()) > len(changed.schema.variables):
                    lines.setdefault(f"{label}: {name}", []).append(ran(changed, seed, complete)[0])
    required = dict(zip([label for label in lines if ":" not in label][1:], asked, strict=True))
    show(title, [row(label, runs, required.get(label, "")) for label, runs in lines.items()], lines)


def row(label: str, runs: Sequence[Ran], asked: str) -> dict[str, Any]:
    """One line of the table, means and standard deviations."""

    def of(name: str, digits: int = 1) -> str:
        return mean_and_sd([float(asdict(one)[name]) for one in runs], digits)

    return {
        "gaps": label,
        "seeds": len(runs),
        "skeleton to truth": of("skeleton"),
        "CPDAG to truth": of("shd"),
        "skeleton to complete": of("skeleton_of_complete"),
        "CPDAG to complete": of("shd_of_complete"),
        "asked": asked,
        "exchanges": of("exchanges", 0),
        "MB": of("megabytes", 2),
        "CPU s": of("cpu_seconds", 2),
    }


def gaussian() -> None:
    """D = 20, 2d edges, error variances from .5 to 4, other units and means in each silo."""
    setting = Setting(20, 40, rows=5000, silos=5, variances=(0.5, 4.0), scale="units", site_means=3.0)
    asked = [f"CPDAG to complete ≤ {most}; ≤ 30 exchanges" for most in (3, 3, 12)]
    table("gaps-gaussian", lambda seed: draw(setting, seed), ROWS, asked)


def alarm() -> None:
    """ALARM, 5 silos of 1,000 rows."""
    table(
        "gaps-alarm",
        lambda seed: shuffled(network("alarm", 5, 1000, seed), seed),
        LEVELS,
        [f"skeleton to truth ≤ {most}" for most in (8, 12, 13)],
    )


def mixed_tables() -> None:
    """D = 20, half of them labels, additive effects, d and 2d edges."""
    asked = ["", "CPDAG to truth ≤ 1 above complete", ""]
    for density in (1, 2):
        table(f"gaps-mixed-{density}d", partial(mixed_rows, density * 20), ROWS, asked)


def mixed_rows(edges: int, seed: int) -> FederatedData:
    """5 unequal silos of 1,000 mixed rows on average."""
    return mixed(20, 5, 1000, seed, edges)


if __name__ == "__main__":
    run_tables({"gaussian": gaussian, "alarm": alarm, "mixed": mixed_tables}, __doc__, __file__)
