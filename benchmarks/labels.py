"""Labels as owners write them: published networks without declared levels, with their own labels and with others.

`python benchmarks/labels.py` runs all tables, `--table NAME` one of them. Each network is drawn for 5 silos of 2,000
rows and written as CSV files without `about.json`. In table "words", cells such as None and NA are labels of the
network; "renamed", the reference, has other words for them. In table "many", the networks have columns of more than 50
labels, which "set aside" leaves out. The learner is the default; distances are between classes (CPDAG), and a column
that is left out loses its edges. Seeds 2 to 6. In table "steep", a number has a steep effect on a label, with and
without empty cells; its seeds are 1000 to 1009, which were not used to choose anything.
"""

import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from measure import mean_and_sd, run_tables, show

from fedbnsl import learn
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.graphs.cpdag import cpdag
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.data.federated import FederatedData
from fedbnsl.data.folder.cells import MAX_LEVELS, MISSING
from fedbnsl.data.folder.folder import read_folder, write_folder
from fedbnsl.data.networks.published import network

SEEDS = range(2, 7)
SILOS, ROWS = 5, 2000
WORDS = ("child", "insurance", "hailfinder")
MANY = {"pathfinder": "SHD ≤ 254", "mildew": "", "barley": ""}


@dataclass(frozen=True)
class Ran:
    """One run: the distance to the class of the truth, missing cells, excluded columns, CPU seconds."""

    seed: int
    shd: float
    empty: int
    excluded: int
    cpu_seconds: float


def renamed(data: FederatedData) -> FederatedData:
    """`data` with other words for labels that may mark missing values."""
    levels = {
        name: tuple(f"is {label}" if label.lower() in MISSING else label for label in labels)
        for name, labels in data.schema.levels.items()
    }
    return replace(data, schema=replace(data.schema, levels=levels))


def as_files(data: FederatedData) -> FederatedData:
    """`data` as it is read from text files without declarations."""
    with tempfile.TemporaryDirectory() as folder:
        write_folder(Path(folder) / "data", replace(data, truth=None))
        (Path(folder) / "data" / "about.json").unlink()
        return read_folder(Path(folder) / "data")


def ran(data: FederatedData, truth: Structure, seed: int) -> Ran:
    """Learn from `data` by default, and compare with `truth`."""
    start = time.process_time()
    structure = learn(data, seed=seed, parameters=False, diagnose=False).result.structure
    cpu = time.process_time() - start
    directed = structure if structure.kind == "cpdag" else _class_of(structure)
    found = np.zeros((len(truth.variables), len(truth.variables)))
    places = [truth.variables.index(name) for name in directed.variables]
    found[np.ix_(places, places)] = directed.weights
    shd = compare(Structure(truth.variables, found, "cpdag"), _class_of(truth))["shd"]
    assert shd is not None
    empty = sum(map(sum, data.schema.empty.values()))
    return Ran(seed, shd, empty, len(data.schema.aside), cpu)


def _class_of(structure: Structure) -> Structure:
    return Structure(structure.variables, cpdag(structure.adjacency) * 1.0, "cpdag")


def row(label: str, runs: list[Ran], asked: str = "") -> dict[str, Any]:
    """A row of a table: mean ± sd of each figure over the runs."""
    figures = {
        "SHD": ("shd", 1),
        "missing cells": ("empty", 0),
        "columns set aside": ("excluded", 1),
        "CPU s": ("cpu_seconds", 1),
    }
    spread = {
        title: mean_and_sd([float(getattr(run, name)) for run in runs], digits)
        for title, (name, digits) in figures.items()
    }
    return {"run": label, "seeds": len(runs), **spread, "asked": asked}


def drawn(name: str, seed: int) -> tuple[FederatedData, Structure]:
    """A network's rows in all silos, and its graph."""
    data = network(name, SILOS, ROWS, seed)
    assert data.truth is not None
    return data, data.truth


def words() -> None:
    """Labels that also mark missing values."""
    rows, runs = [], {}
    for name in WORDS:
        for label, change in (("its own labels", lambda data: data), ("renamed labels", renamed)):
            measured = [
                ran(as_files(change(data)), truth, seed) for seed in SEEDS for data, truth in [drawn(name, seed)]
            ]
            runs[f"{name}: {label}"] = measured
            rows.append(row(f"{name}: {label}", measured, "as renamed" * (change is not renamed)))
    show("labels-words", rows, runs)


def many() -> None:
    """Columns of more than 50 labels."""
    rows, runs = [], {}
    for name, asked in MANY.items():
        kept, without = [], []
        for seed in SEEDS:
            data, truth = drawn(name, seed)
            kept.append(ran(as_files(data), truth, seed))
            without.append(ran(as_files(_few(data)), truth, seed))
        for label, measured in ((name, kept), (f"{name}: set aside", without)):
            runs[label] = measured
            rows.append(row(label, measured, asked * (measured is kept)))
    show("labels-many", rows, runs)


STEEP_SEEDS, STEEP_ROWS = range(1000, 1010), 6000
STEEP_EDGES = {("region", "x"), ("x", "y"), ("y", "sick")}


def steep_tables(seed: int, slope: float, empty: float) -> dict[str, pd.DataFrame]:
    """Three unequal silos of region → x → y → sick, P(sick) = logistic(`slope`·y), with a share of `empty` cells."""
    rng, n = np.random.default_rng(seed), STEEP_ROWS
    region = rng.integers(4, size=n)
    x = 2 * rng.normal(size=4)[region] + rng.normal(size=n)
    y = 0.9 * x + rng.normal(size=n)
    sick = rng.random(n) < 1 / (1 + np.exp(np.clip(-slope * (y - y.mean()), -50, 50)))
    frame = pd.DataFrame(
        {"sick": np.where(sick, "yes", "no"), "y": y, "region": np.array([*"nesw"])[region], "x": x}
    ).mask(rng.random((n, 4)) < empty)
    return {f"silo {i}": frame.iloc[rows] for i, rows in enumerate(np.split(np.arange(n), (2500, 4500)))}


@dataclass(frozen=True)
class RanSteep:
    """One run: whether region and sick are joined, the strength of that edge, and wrong pairs of the skeleton."""

    seed: int
    joined: bool
    strength: float
    wrong: int
    disagreeing: int
    """edges of the graph with a strength below ½, and pairs without an edge with a strength above"""


def ran_steep(seed: int, slope: float, empty: float) -> RanSteep:
    """Learn from a table with a steep slope by default, with its resamples."""
    found = learn(steep_tables(seed, slope, empty), seed=seed, parameters=False, diagnose=False).result
    names, graph = found.structure.variables, found.structure.adjacency
    assert found.confidence is not None
    strength = found.confidence.strengths.strength
    joined, strong = graph | graph.T, np.maximum(strength, strength.T)
    true = np.zeros_like(joined)
    for one, other in STEEP_EDGES:
        true[names.index(one), names.index(other)] = true[names.index(other), names.index(one)] = True
    pair = names.index("region"), names.index("sick")
    return RanSteep(
        seed,
        bool(joined[pair]),
        float(strong[pair]),
        int(np.triu(joined != true).sum()),
        int(np.triu(joined != (strong > 0.5), 1).sum()),
    )


def steep() -> None:
    """A label that depends on a number by a steep curve."""
    rows, runs = [], {}
    for slope in (2.0, 8.0, 40.0):
        for empty in (0.0, 0.05):
            label = f"slope {slope:g}" + f", {100 * empty:.0f} % of the cells empty" * (empty > 0)
            runs[label] = [ran_steep(seed, slope, empty) for seed in STEEP_SEEDS]
            rows.append(
                {
                    "data": label,
                    "seeds": len(runs[label]),
                    "edge region – sick": sum(one.joined for one in runs[label]),
                    "its greatest strength": max(one.strength for one in runs[label]),
                    "skeleton SHD": mean_and_sd([one.wrong for one in runs[label]], 1),
                    "strengths that contradict the graph": sum(one.disagreeing for one in runs[label]),
                    "asked": "no edge in 10 of 10",
                }
            )
    show("labels-steep", rows, runs)


def _few(data: FederatedData) -> FederatedData:
    """`data` without the columns of more than `MAX_LEVELS` labels."""
    schema = data.schema
    few = [v for v, name in enumerate(schema.variables) if len(schema.levels[name]) <= MAX_LEVELS]
    names = tuple(schema.variables[v] for v in few)
    levels = {name: schema.levels[name] for name in names}
    tables = {silo: table[:, few] for silo, table in data.tables.items()}
    return replace(data, schema=replace(schema, variables=names, levels=levels), tables=tables, truth=None)


if __name__ == "__main__":
    run_tables({"words": words, "many": many, "steep": steep}, __doc__, __file__)
