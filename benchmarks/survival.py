"""Survival outcomes: the selection of their parents, the coverage of hazard ratios, and the cost beside a pooled peer.

selection: drawn networks of 10 and 20 variables, a third of them labels of three levels, with two to five parents of
the outcome (log hazard ratios of .3 to .8), 4,000 rows at four silos whose means and hazards differ, 30 and 70 %
censored. The F1 of the parents that a run selects is set beside what a run finds that reads the columns as a number and
a label: the variables that its graph joins to the time, and to the event. Writes `results/survival-selection.json`.

coverage: the 95 % intervals of four coefficients at four silos of 150 to 950 rows; the hazards rise (Weibull) and
differ between silos. Writes `results/survival-coverage.json`.

cost: CPU seconds of all processes and bytes of the exchanges on one outcome, masked, with d candidates, beside Cox
regression of the same pooled rows by lifelines, which must be installed. Writes `results/survival-cost.json`.

    .venv/bin/python benchmarks/survival.py [--table selection|coverage|cost]
"""

import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from measure import run_tables, show
from numpy.typing import NDArray

from fedbnsl import learn
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.parameters import survival
from fedbnsl.algorithms.parameters.survival_node import LEVEL_QUANTILE, SurvivalNode
from fedbnsl.tasks.transport.in_process import InProcessFederation

SEEDS = range(2, 12)
FIRST_DRAW, DRAWS = 1000, 1000
SILOS = {"a": 150, "b": 300, "c": 600, "d": 950}
WEIGHTS = np.array([0.5, 0.3, 0.8, -0.4])
LEVELS = ("low", "middle", "high")
Tables = dict[str, NDArray[np.float64]]


def censored_times(
    linear: NDArray[np.float64], shape: float, share: float, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Weibull times with these log hazards, exponentially censored so that about a `share` are, and their events."""
    times = 300 * (rng.exponential(size=len(linear)) * np.exp(-linear)) ** (1 / shape)
    ends = rng.exponential(size=len(linear))
    low, high = -20.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if (ends * np.exp(middle) < times).mean() > share else (low, middle)
    ends = ends * np.exp(low)
    return np.minimum(times, ends), times <= ends


def network(d: int, share: float, seed: int, rows: int = 4000) -> tuple[pd.DataFrame, set[str]]:
    """Rows of a drawn network with a column of silos and a survival outcome, and the parents of the outcome."""
    rng = np.random.default_rng(seed)
    weights = np.triu(rng.random((d, d)) < 2 / d, 1) * rng.choice([-1, 1], (d, d)) * rng.uniform(0.5, 1.0, (d, d))
    silo, x = np.arange(rows) % 4, np.zeros((rows, d))
    for j in range(d):
        value = x @ weights[:, j] + rng.normal(size=rows) + 0.3 * (silo - 1.5)
        x[:, j] = np.digitize(value, np.quantile(value, (0.3, 0.75))) if j % 3 == 2 else value
    parents = rng.choice(d, rng.integers(2, 6), replace=False)
    effects = rng.choice([-1, 1], len(parents)) * rng.uniform(0.3, 0.8, len(parents))
    times, events = censored_times(x[:, parents] @ effects + 0.4 * silo, 1.5, share, rng)
    frame = pd.DataFrame({f"x{j}": x[:, j] for j in range(d)})
    for j in range(2, d, 3):
        frame[f"x{j}"] = np.array(LEVELS)[x[:, j].astype(int)]
    frame["days"], frame["died"], frame["silo"] = times, np.where(events, "1", "0"), np.array(list("abcd"))[silo]
    return frame, {f"x{j}" for j in parents}


def joined(found: set[str], true: set[str]) -> NDArray[np.float64]:
    """The numbers of correct, extra and missing parents."""
    return np.array([len(found & true), len(found - true), len(true - found)], dtype=float)


def f1(counts: NDArray[np.float64]) -> str:
    """The F1 of all parents together, from the numbers of correct, extra and missing ones."""
    return f"{2 * counts[0] / max(2 * counts[0] + counts[1] + counts[2], 1):.3f}"


def selection() -> None:
    """Measure, print and write the selection of parents."""
    rows, quick = [], {"bootstrap": 0, "parameters": False, "diagnose": False}
    for d in (10, 20):
        for share in (0.3, 0.7):
            counts, seconds = np.zeros((3, 3)), 0.0
            for seed in SEEDS:
                frame, true = network(d, share, seed)
                begin = time.process_time()
                with_outcome = learn(frame, by="silo", about={"survival": {"death": ["days", "died"]}}, **quick).result
                seconds += time.process_time() - begin
                (one,) = with_outcome.survival
                assert one.node is not None
                counts[0] += joined(set(one.node.parents), true)
                plain = learn(frame, by="silo", **quick).result.structure
                edges = plain.adjacency | plain.adjacency.T
                for k, name in enumerate(("days", "died"), start=1):
                    place = plain.variables.index(name)
                    near = {plain.variables[i] for i in np.flatnonzero(edges[place])} - {"days", "died"}
                    counts[k] += joined(near, true)
            rows.append(
                {
                    "variables": str(d),
                    "censored": f"{100 * share:.0f} %",
                    "F1 of the parents": f1(counts[0]),
                    "asked": "at least .9",
                    "correct, extra, missing": ", ".join(f"{one:.0f}" for one in counts[0]),
                    "F1 if the time is read as a number": f1(counts[1]),
                    "F1 if the event is read as a label": f1(counts[2]),
                    "CPU s of a run": f"{seconds / len(SEEDS):.2f}",
                }
            )
    show("survival-selection", rows, {})


def drawn(seed: int, share: float) -> Tables:
    """The tables of four silos: age, dose, pressure, days, died; hazards rise and differ between silos."""
    rng, tables = np.random.default_rng(seed), {}
    for number, (silo, n) in enumerate(SILOS.items()):
        age, dose = rng.normal(0.2 * number, 1, n), rng.choice(3, n, p=(0.5, 0.3, 0.2))
        pressure = 0.5 * age + rng.normal(size=n)
        linear = np.column_stack([age, dose == 1, dose == 2, pressure]) @ WEIGHTS + 0.3 * number
        times, events = censored_times(linear, 1.4, share, rng)
        tables[silo] = np.column_stack([age, dose, pressure, times, events]).astype(np.float64)
    return tables


def fitted(
    schema: Schema, tables: Tables, candidates: tuple[str, ...], required: tuple[str, ...] | None
) -> SurvivalNode:
    """The node of the outcome."""
    start = survival.start(schema, "death", ("days", "died"), candidates, required)
    algorithm = survival.build(survival.Survival())
    *_, last = rounds(algorithm, InProcessFederation(schema, tables), (0, start))
    found = survival.node(last.server)
    assert isinstance(found, SurvivalNode), found
    return found


def coverage() -> None:
    """Measure, print and write the coverage of the intervals of hazard ratios."""
    names = ("age", "dose", "pressure")
    schema = Schema((*names, "days", "died"), SILOS, "mixed", {"dose": LEVELS, "died": ("0", "1")})
    rows = []
    for share in (0.3, 0.7):
        values, errors = [], []
        for seed in range(FIRST_DRAW, FIRST_DRAW + DRAWS):
            found = fitted(schema, drawn(seed, share), names, None)
            values.append([one.coefficient for one in found.terms])
            errors.append(found.errors)
        off = np.array(values) - WEIGHTS
        covered = np.abs(off) <= LEVEL_QUANTILE * np.array(errors)
        for k, term in enumerate(("age", "dose = middle", "dose = high", "pressure")):
            rows.append(
                {
                    "censored": f"{100 * share:.0f} %",
                    "term": term,
                    "true hazard ratio": f"{np.exp(WEIGHTS[k]):.2f}",
                    "draws": str(DRAWS),
                    "coverage": f"{100 * covered[:, k].mean():.1f} %",
                    "asked": "93 to 97 %",
                    "bias / standard deviation": f"{off[:, k].mean() / off[:, k].std():+.2f}",
                }
            )
    show("survival-coverage", rows, {})


def cost() -> None:
    """Measure, print and write CPU seconds and bytes beside Cox regression of the pooled rows."""
    from lifelines import CoxPHFitter

    rows = []
    learn(
        network(10, 0.3, 2)[0].drop(columns=["days", "died"]), by="silo", secure=True, bootstrap=0
    )  # compiles and imports
    for d in (10, 20, 50):
        frame, _ = network(d, 0.3, 2)
        with tempfile.TemporaryDirectory() as folder:
            for silo, own in frame.groupby("silo"):
                own.drop(columns="silo").to_csv(Path(folder) / f"{silo}.csv", index=False)
            about = '{"survival": {"death": ["days", "died"]}}'
            (Path(folder) / "about.json").write_text(about)
            seconds, sent = [], 0
            for ignore in ({}, {"ignore": "days,died"}):
                begin = time.process_time()
                found = learn(folder, secure=True, bootstrap=0, parameters=False, diagnose=False, **ignore).result
                seconds.append(time.process_time() - begin)
                sent += sum(one.bytes_sent for one in found.survival)
        coded = pd.get_dummies(frame.drop(columns=["silo", "died"]), drop_first=True, dtype=float)
        coded["died"], coded["silo"] = frame["died"].astype(int), frame["silo"]
        begin = time.process_time()
        CoxPHFitter().fit(coded, "days", "died", strata=["silo"])
        pooled = time.process_time() - begin
        rows.append(
            {
                "candidates": str(d),
                "rows": f"{len(frame):,}",
                "CPU s of a run": f"{seconds[0]:.2f}",
                "CPU s without the outcome": f"{seconds[1]:.2f}",
                "MB for the outcome, four silos, both ways": f"{sent / 1e6:.2f}",
                "CPU s of one pooled Cox regression of all candidates": f"{pooled:.2f}",
            }
        )
    show("survival-cost", rows, {})


if __name__ == "__main__":
    run_tables({"selection": selection, "coverage": coverage, "cost": cost}, __doc__, __file__)
