"""The default without options on realistic data: different means, units and errors, dense graphs, few rows.

`python benchmarks/real.py` runs all tables, `--table NAME` one of them. Columns are shuffled; the silos differ in size,
some five times as large as others. There are 40,000 rows in all over 8 silos unless a line says otherwise. Seeds 2 to 6
(2 to 11 for the diagnoses); the rules were chosen on seeds from 100 on. CPU seconds are those of silos and coordinator,
with compiled code already loaded and without the exchanges after the rounds. `--table tables` reads real tables from
the folder in the environment variable FEDBNSL_DATA.
"""

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from measure import mean_and_sd, run_tables, show

from fedbnsl import learn
from fedbnsl.algorithms.core.schema import FloatArray
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.graphs.cpdag import cpdag
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.data.federated import FederatedData, continuous, discrete, silo_names
from fedbnsl.data.generators.random_graphs import random_dag, random_weights

SEEDS = range(2, 7)
NAMED = range(2, 12)
FEW, MANY = 1000, range(2, 22)
"""with at most this number of rows, figures vary much between seeds, so this number of seeds is used"""
LARGE = 500
"""with at least this number of variables, two seeds are enough"""
DATA = Path(os.environ.get("FEDBNSL_DATA", Path(__file__).parents[2] / "shared" / "data"))
NOISES: dict[str, Callable[[np.random.Generator, tuple[int, int]], FloatArray]] = {
    "normal": lambda rng, size: rng.normal(size=size),
    "exponential": lambda rng, size: rng.exponential(size=size) - 1.0,
    "gumbel": lambda rng, size: (rng.gumbel(size=size) - np.euler_gamma) * np.sqrt(6) / np.pi,
    "uniform": lambda rng, size: rng.uniform(-np.sqrt(3), np.sqrt(3), size=size),
    "laplace": lambda rng, size: rng.laplace(size=size) / np.sqrt(2),
    "t3": lambda rng, size: rng.standard_t(3, size=size) / np.sqrt(3),
}
Scale = Callable[[np.random.Generator, FloatArray], FloatArray]


@dataclass(frozen=True)
class Setting:
    """What to draw: a linear model over a random graph, and what is done to its columns and silos."""

    variables: int
    edges: int
    graph: str = "ER"
    rows: int = 40_000
    silos: int = 8
    noise: str = "normal"
    variances: tuple[float, float] = (1.0, 1.0)
    scale: str = "as drawn"
    weights: tuple[float, float] = (0.5, 2.0)
    """least and greatest absolute weight"""
    corrupted: str = "none"
    """what is done to one cell in a hundred"""
    site_means: float = 0.0
    means: float = 0.0
    hubs: str = "effects"
    """scale-free graphs: whether variables with many edges are their effects or their causes"""
    slopes: float = 0.0
    """the standard deviation by which each weight differs between the silos"""


def standardised(rng: np.random.Generator, X: FloatArray) -> FloatArray:
    """Columns of mean 0 and variance 1."""
    return np.asarray((X - X.mean(axis=0)) / X.std(axis=0))


def in_a_hundredth(change: Scale) -> Scale:
    """`change` of one cell in a hundred."""
    return lambda rng, X: np.where(rng.random(X.shape) < 0.01, change(rng, X), X)


CORRUPTIONS: dict[str, Scale] = {
    "none": lambda rng, X: X,
    "30 sd": in_a_hundredth(lambda rng, X: X + 30 * X.std(axis=0) * rng.choice([-1.0, 1.0], X.shape)),
    "× 1000": in_a_hundredth(lambda rng, X: 1000 * X),
    "+ N(0, 20²)": in_a_hundredth(lambda rng, X: X + 20 * rng.normal(size=X.shape)),
}
SCALES: dict[str, Scale] = {
    "as drawn": lambda rng, X: X,
    "standardised": standardised,
    "units": lambda rng, X: X * 10.0 ** rng.uniform(-1, 1, X.shape[1]),
}


def draw(setting: Setting, seed: int) -> FederatedData:
    """The silos of `setting`, of sizes that differ, with their columns in a random order."""
    rng, d = np.random.default_rng(seed), setting.variables
    dag = random_dag(d, setting.edges, rng, setting.graph)  # type: ignore[arg-type]
    dag = dag.T if setting.hubs == "causes" else dag
    weights = dag * rng.uniform(*setting.weights, (d, d)) * rng.choice([-1.0, 1.0], (d, d))
    errors = NOISES[setting.noise](rng, (setting.rows, d)) * np.sqrt(rng.uniform(*setting.variances, d))
    X = SCALES[setting.scale](rng, errors @ np.linalg.inv(np.eye(d) - weights))
    X = X + rng.uniform(-setting.means, setting.means, d)
    tables = dict(zip(silo_names(setting.silos), dealt(X, setting.silos, rng), strict=True))
    if setting.slopes:
        sources = {silo: table @ (np.eye(d) - weights) for silo, table in tables.items()}
        own = {silo: weights + setting.slopes * dag * rng.normal(size=(d, d)) for silo in tables}
        tables = {silo: rows @ np.linalg.inv(np.eye(d) - own[silo]) for silo, rows in sources.items()}
    tables = {silo: table + setting.site_means * rng.normal(size=d) for silo, table in tables.items()}
    tables = {silo: CORRUPTIONS[setting.corrupted](rng, table) for silo, table in tables.items()}
    names = tuple(f"v{place:03d}" for place in rng.permutation(d))
    return FederatedData(continuous(tables, names), tables, Structure(names, weights))


def dealt(X: FloatArray, silos: int, rng: np.random.Generator) -> list[FloatArray]:
    """The rows of X dealt to silos whose sizes differ, each of six rows or more."""
    parts = rng.dirichlet(np.full(silos, 4.0)) * (len(X) - 6 * silos)
    ends = np.cumsum(np.floor(parts).astype(int) + 6)[:-1]
    return np.split(X, ends)


@dataclass(frozen=True)
class Ran:
    """One run: its directed edges, its distance from the truth, and its cost."""

    seed: int
    equal: bool
    shd: float
    shd_cpdag: float
    directed: int
    undirected: int
    cpu_seconds: float
    megabytes: float


def ran(data: FederatedData, seed: int, algorithm: str = "auto", **options: Any) -> Ran:
    """Learn from `data` by default and compare with the truth, edge by edge and class by class."""
    start = time.process_time()
    learned = learn(data, algorithm, **({"seed": seed, "parameters": False, "diagnose": False} | options))
    cpu = time.process_time() - start
    found, truth = learned.result.structure, data.truth
    assert truth is not None
    true, graph = truth.adjacency, found.adjacency
    differ = (graph != true) | (graph.T != true.T)
    in_class = cpdag(true)
    open_pairs = np.triu(in_class & in_class.T)
    return Ran(
        seed=seed,
        equal=learned.result.basis[0].startswith("The data support errors of equal variance"),
        shd=float(np.triu(differ).sum()),
        shd_cpdag=float(compare(found, truth)["shd_cpdag"] or 0),
        directed=int((open_pairs & (graph ^ graph.T)).sum()),
        undirected=int(open_pairs.sum()),
        cpu_seconds=cpu,
        megabytes=float(learned.metrics["bytes_up"] or 0) / 1e6 + float(learned.metrics["bytes_down"] or 0) / 1e6,
    )


def over_seeds(setting: Setting, algorithm: str = "auto", seeds: Sequence[int] = SEEDS, **options: Any) -> list[Ran]:
    """Learn once a seed; compiled code is warmed up first."""
    ran(draw(replace(setting, variables=20, edges=20, rows=2000), 1), 1, algorithm, **options)
    return [ran(draw(setting, seed), seed, algorithm, **options) for seed in seeds]


def seeds_of(setting: Setting) -> range:
    """The seeds that a line of a table takes: more where rows are few, fewer where a run takes a minute."""
    if setting.rows <= FEW:
        return MANY
    return SEEDS[:2] if setting.variables >= LARGE else SEEDS


def line(label: str, runs: Sequence[Ran], asked: str) -> dict[str, Any]:
    """The row of a table."""
    directed, undirected = sum(run.directed for run in runs), sum(run.undirected for run in runs)
    return {
        "data": label,
        "seeds": len(runs),
        "equal variances claimed": f"{sum(run.equal for run in runs)}/{len(runs)}",
        "CPDAG SHD": mean_and_sd([run.shd_cpdag for run in runs], 1),
        "DAG SHD": mean_and_sd([run.shd for run in runs], 1),
        "directed of the class's undirected": f"{directed}/{undirected}",
        "MB": mean_and_sd([run.megabytes for run in runs], 2),
        "CPU s": mean_and_sd([run.cpu_seconds for run in runs], 2),
        "asked": asked,
    }


def table(title: str, settings: Mapping[str, tuple[Setting, str]], algorithms: Sequence[str] = ("auto",)) -> None:
    """Run and show one table."""
    runs, rows = {}, []
    for label, (setting, asked) in settings.items():
        for algorithm in algorithms:
            named = label if len(algorithms) == 1 else f"{label}, {algorithm}"
            runs[named] = over_seeds(setting, algorithm, seeds_of(setting))
            rows.append(line(named, runs[named], asked))
    show(title, rows, runs)


def equal() -> None:
    """Errors of equal variance: sparse and dense graphs, site means, few rows."""
    er = {f"ER d=20, {m} edges": (Setting(20, m), asked) for m, asked in ((20, "DAG SHD 0"), (40, "≤ .5"))}
    means = {
        "the second, site means sd 2": (Setting(20, 40, site_means=2.0), "≤ 1 above centred"),
        "the second, means U(-5, 5)": (Setting(20, 40, means=5.0), "≤ 1 above centred"),
    }
    dense = {
        f"{graph} d={d}, {4 * d} edges": (Setting(d, 4 * d, "ER" if graph == "ER" else "SF"), "≤ 1")
        for d in (20, 50)
        for graph in ("ER", "BA")
    }
    few = {
        f"ER d=20, 20 edges, {n} rows, 10 silos": (Setting(20, 20, rows=n, silos=10), asked)
        for n, asked in ((60, "≤ 2"), (150, "≤ 1"))
    }
    table("real-equal", {**er, **means, **dense, **few})


def free() -> None:
    """Errors of different variances, standardised columns, different units: only the class is identified."""
    kinds: dict[str, dict[str, Any]] = {
        "variances U(.1, 10)": {"variances": (0.1, 10.0)},
        "standardised": {"scale": "standardised"},
        "units 10^U(-1, 1)": {"scale": "units"},
    }
    sizes = {(20, 20): "CPDAG SHD ≤ .5", (20, 40): "≤ 1", (50, 100): "≤ 3.5"}
    settings = {
        f"{kind}, ER d={d}, {m} edges": (Setting(d, m, **given), asked)
        for kind, given in kinds.items()
        for (d, m), asked in sizes.items()
    }
    table("real-free", settings)


def bent() -> None:
    """Standardised columns with errors that are not Gaussian: every direction is identified."""
    settings = {
        f"{noise}, ER d=20, {m} edges": (
            Setting(20, m, noise=noise, scale="standardised"),
            "DAG SHD ≤ 1.5; lingam ≤ .5",
        )
        for noise in NOISES
        if noise not in ("normal", "t3")
        for m in (20, 40)
    }
    table("real-bent", settings, ("auto", "secure-lingam"))


def speed() -> None:
    """CPU seconds of the default by size: equal variances, and standardised columns."""
    asked = {20: "≤ .3 CPU s", 100: "≤ 5", 500: "≤ 60"}
    settings = {f"as drawn, ER d={d}, {d} edges": (Setting(d, d), of) for d, of in asked.items()}
    settings |= {
        f"standardised, ER d={d}, {d} edges": (Setting(d, d, scale="standardised"), "") for d in (20, 100, 200)
    }
    table("real-speed", settings)


FAULTS = ("none", "shifted", "other weights", "1 % outlier cells")


def faulty(fault: str, seed: int) -> tuple[FederatedData, str]:
    """Silos of which one is wrong in one way, and its name."""
    data = draw(Setting(20, 20), seed)
    rng = np.random.default_rng((seed, 1))
    silo = str(rng.choice(data.schema.silos))
    X = data.tables[silo].copy()
    if fault == "shifted":
        X += rng.normal(size=X.shape[1])
    elif fault == "other weights":
        assert data.truth is not None
        other = random_weights(data.truth.adjacency, rng)
        X = rng.normal(size=X.shape) @ np.linalg.inv(np.eye(X.shape[1]) - other)
    elif fault != "none":
        wrong = rng.random(X.shape) < 0.01
        X = np.where(wrong, X + 10 * X.std(axis=0) * rng.choice([-1.0, 1.0], X.shape), X)
    return FederatedData(data.schema, {**data.tables, silo: X}, data.truth), silo


@dataclass(frozen=True)
class Diagnosed:
    """The diagnoses of one run."""

    seed: int
    silo: str
    named: tuple[str, ...]
    findings: tuple[str, ...]


def diagnosed(fault: str, seed: int) -> Diagnosed:
    """Learn by default and return which silos the findings name."""
    data, silo = faulty(fault, seed)
    findings = learn(data, seed=seed, parameters=False).result.diagnosed.findings
    named = sorted({name for one in findings for name in one.silos})
    return Diagnosed(seed, silo, tuple(named), tuple(one.message for one in findings))


def silos() -> None:
    """How often the deviating silo, and no other, is named."""
    runs = {fault: [diagnosed(fault, seed) for seed in NAMED] for fault in FAULTS}
    rows = [
        {
            "one silo": fault,
            "runs": len(of),
            "it alone is named": sum(one.named == (one.silo,) for one in of),
            "it is named": sum(one.silo in one.named for one in of),
            "no silo is named": sum(not one.named for one in of),
            "asked": "no finding" if fault == "none" else "named in ≥ 9 of 10",
        }
        for fault, of in runs.items()
    ]
    show("real-silos", rows, runs)


FRESH = range(1000, 1010)
"""seeds that were not used to choose rules"""


def weak() -> None:
    """Weak effects: weights of .1 to .5, with errors of equal variance."""
    runs, rows = {}, []
    for n, asked in ((4000, "≤ 2.5 (BOSS 6.7)"), (40_000, "≤ .5 (BOSS 4.7)")):
        label = f"weights .1-.5, ER d=20, 40 edges, {n:,} rows"
        runs[label] = over_seeds(Setting(20, 40, rows=n, weights=(0.1, 0.5)), seeds=FRESH)
        rows.append(line(label, runs[label], asked))
    show("real-weak", rows, runs)


def cells() -> None:
    """One bad cell in a hundred, kept and set aside, and clean data with heavy tails, whose results must stay good."""
    runs, rows = {}, []
    bad = {name: Setting(20, 40, rows=4000, corrupted=name) for name in CORRUPTIONS if name != "none"}
    scaled = Setting(20, 40, rows=4000, corrupted="+ N(0, 20²)", scale="units")
    heavy = {f"clean, {noise}": Setting(20, 40, rows=4000, noise=noise) for noise in ("t3", "exponential", "laplace")}
    for name, setting in (bad | {"+ N(0, 20²), units 10^U(-1, 1)": scaled} | heavy).items():
        for outliers in ("keep", "set-aside"):
            label = f"{name}, --outliers {outliers}"
            runs[label] = over_seeds(setting, seeds=FRESH, outliers=outliers)
            asked = "" if outliers == "keep" else "no loss" if "clean" in name else "≤ 2"
            rows.append(line(label, runs[label], asked))
    show("real-cells", rows, runs)


def slopes() -> None:
    """Weights that differ between the silos: the default, which follows its diagnosis, and the silos' own scores."""
    runs, rows = {}, []
    for sd, asked in ((0.0, "as before"), (0.1, "≤ 2"), (0.3, "≤ 4")):
        for algorithm, options in (("auto", {"diagnose": True}), ("secure-boss", {"weights": "own"})):
            label = f"sd {sd:g} between silos, {algorithm}"
            runs[label] = over_seeds(Setting(20, 40, rows=4000, slopes=sd), algorithm, FRESH, **options)
            rows.append(line(label, runs[label], f"CPDAG {asked}"))
    show("real-slopes", rows, runs)


def hubs() -> None:
    """Scale-free graphs of standardised columns, whose hubs are effects or causes."""
    runs, rows = {}, []
    for which in ("effects", "causes"):
        label = f"d=50, 100 edges, hubs are {which}"
        runs[label] = over_seeds(Setting(50, 100, "SF", rows=4000, scale="standardised", hubs=which), seeds=FRESH)
        rows.append(line(label, runs[label], "CPDAG ≤ 5"))
    show("real-hubs", rows, runs)


def private() -> None:
    """The same difficulties with an ε, by `secure-sum` with seeded noise."""
    hard = Setting(20, 40, rows=4000)
    settings = {
        "weights .5-2": hard,
        "weights .5-2, 40,000 rows": replace(hard, rows=40_000),
        "weights .1-.5": replace(hard, weights=(0.1, 0.5)),
        "weights .1-.5, 40,000 rows": replace(hard, weights=(0.1, 0.5), rows=40_000),
        "slopes vary by .3": replace(hard, slopes=0.3),
        "one cell in a hundred + N(0, 20²)": replace(hard, corrupted="+ N(0, 20²)"),
        "standardised": replace(hard, scale="standardised"),
        "t3 errors": replace(hard, noise="t3"),
    }
    runs, rows = {}, []
    for name, setting in settings.items():
        for epsilon in (1.0, 10.0):
            label = f"{name}, ε = {epsilon:g}"
            runs[label] = over_seeds(setting, "secure-sum", FRESH, epsilon=epsilon, insecure_seed=1)
            rows.append({key: value for key, value in line(label, runs[label], "").items() if key not in PUBLIC_ONLY})
    show("real-private", rows, runs)


PUBLIC_ONLY = ("equal variances claimed", "asked", "directed of the class's undirected")
"""columns that are left out for private runs, which always assume equal error variances"""


def truth_of(path: Path, names: Sequence[str]) -> Structure:
    """The graph of a truth file."""
    told, place = json.loads(path.read_text()), {name: v for v, name in enumerate(names)}
    weights = np.zeros((len(names), len(names)))
    for cause, effect in told["edges"]:
        weights[place[cause], place[effect]] = 1.0
    return Structure(tuple(names), weights)


def sachs() -> FederatedData:
    """The nine conditions of Sachs et al. as silos, raw."""
    frame = pd.read_csv(DATA / "sachs" / "sachs_continuous_7466.csv.gz")
    names = tuple(column for column in frame.columns if column != "condition")
    tables = {str(name): part[list(names)].to_numpy(float) for name, part in frame.groupby("condition")}
    truth = truth_of(DATA / "sachs" / "truth_17_bnlearn.json", names)
    return FederatedData(continuous(tables, names), tables, truth)


def syntren(number: int) -> FederatedData:
    """500 rows of simulated gene expression over five silos, raw."""
    frame = pd.read_csv(DATA / "syntren_p20" / f"syntren_{number}.csv.gz")
    names = tuple(map(str, frame.columns))
    tables = dict(zip(silo_names(5), np.array_split(frame.to_numpy(float), 5), strict=True))
    truth = truth_of(DATA / "syntren_p20" / f"syntren_{number}_truth.json", names)
    return FederatedData(continuous(tables, names), tables, truth)


def telecom(seconds: float = 300.0, silos: int = 8) -> FederatedData:
    """Which of 18 alarms rang in each window of a device, a window a row, devices dealt to silos."""
    alarms = pd.read_csv(DATA / "telecom_alarm" / "18V_55N_Wireless_alarms.csv.gz")
    alarms["window"] = (alarms["start_timestamp"] // seconds).astype(int)
    rang = pd.crosstab([alarms["device_id"], alarms["window"]], alarms["alarm_id"]).clip(upper=1)
    names = tuple(f"A{kind}" for kind in rang.columns)
    device = rang.index.get_level_values(0).to_numpy() % silos
    tables = {name: rang.to_numpy(np.int64)[device == k] for k, name in enumerate(silo_names(silos))}
    truth = truth_of(DATA / "telecom_alarm" / "18V_55N_Wireless_truth.json", names)
    levels = dict.fromkeys(names, ("0", "1"))
    return FederatedData(discrete(tables, names, levels), tables, truth)


@dataclass(frozen=True)
class Real:
    """One run on a real table."""

    name: str
    algorithm: str
    edges: float
    shd_skeleton: float
    shd_cpdag: float
    empty: float
    findings: str


def real(name: str, data: FederatedData) -> Real:
    """Learn from `data` by default and say what came out."""
    learned = learn(data, parameters=False)
    assert data.truth is not None
    score, none = learned.metrics, Structure(data.truth.variables, np.zeros_like(data.truth.weights))
    return Real(
        name,
        learned.result.algorithm,
        float(score["edges"] or 0),
        float(score["shd_skeleton"] or 0),
        float(score["shd_cpdag"] or 0),
        float(compare(none, data.truth)["shd_cpdag"] or 0),
        ", ".join(one.name for one in learned.result.diagnosed.findings),
    )


def tables() -> None:
    """Real tables: what the default finds, beside the graph without edges, and what the diagnoses say of it."""
    given = {"Sachs, 9 conditions": sachs(), "telecom, 18 alarms": telecom()}
    given |= {f"SynTReN {number}": syntren(number) for number in range(1, 6)}
    runs = {name: [real(name, data)] for name, data in given.items()}
    show("real-tables", [vars(one) for (one,) in runs.values()], runs)


TABLES: dict[str, Callable[[], None]] = {
    "equal": equal,
    "free": free,
    "bent": bent,
    "silos": silos,
    "weak": weak,
    "slopes": slopes,
    "cells": cells,
    "hubs": hubs,
    "private": private,
    "speed": speed,
    "tables": tables,
}

if __name__ == "__main__":
    run_tables(TABLES, __doc__, __file__)
