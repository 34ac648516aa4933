"""Skewed columns: monotone distortions of linear data, and tables with counts, amounts with many zeros, lognormals.

`python benchmarks/skewed.py` runs all tables, `--table NAME` one of them. Ten seeds from 1000 on; bounds were chosen on
seeds below 100. Columns are shuffled, and the silos are of unequal size.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from measure import mean_and_sd, run_tables, show
from real import Setting, dealt, draw

from fedbnsl import learn
from fedbnsl.algorithms.core.schema import FloatArray
from fedbnsl.algorithms.diagnosis.columns import SKEWED
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.data.federated import FederatedData, silo_names
from fedbnsl.data.generators.random_graphs import random_dag

SEEDS = range(1000, 1010)
DISTORTIONS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "exp": np.exp,
    "cubes": lambda z: z**3,
    "none": lambda z: z,
}
KINDS = {
    "counts": ("label", "number", "count"),
    "amounts and lognormals": ("label", "number", "amount", "lognormal"),
    "all": ("label", "number", "count", "amount", "lognormal"),
}
"""the kinds of columns of a mixed table, which take turns"""


def distorted(seed: int, distortion: str) -> FederatedData:
    """Linear Gaussian data, d = 20, 40 edges, 4,000 rows in 8 silos, of which every column is distorted."""
    data = draw(Setting(20, 40, rows=4000, silos=8), seed)
    scale = np.concatenate([*data.tables.values()]).std(axis=0)
    tables = {silo: DISTORTIONS[distortion](table / scale) for silo, table in data.tables.items()}
    return replace(data, tables=tables)


def mixed_tables(seed: int, kinds: Sequence[str]) -> tuple[dict[str, Any], Structure]:
    """The silos' DataFrames with columns of these `kinds`, d = 12, 17 edges, 6,000 rows in 6 silos, and the true graph.

    Effects are linear on a scale of its own for each kind: ln x of lognormals, ln(1 + x) of amounts, √(x + 3/8) of
    counts; a label adds to its children's means by level. Counts are Poisson variables, and amounts are 0 where they
    would be negative.
    """
    import pandas as pd

    rng, d, n = np.random.default_rng(seed), 12, 6000
    dag = random_dag(d, 17, rng, "ER")
    order = np.argsort([len(_ancestors(dag, j)) for j in range(d)], kind="stable")
    roles = [kinds[k % len(kinds)] for k in rng.permutation(d)]
    scale, columns = np.zeros((n, d)), {}
    for j in order:
        strength = rng.uniform(0.6, 1.2, d) * rng.choice([-1.0, 1.0], d) * dag[:, j]
        eta = scale @ strength
        scale[:, j], columns[j] = _drawn(roles[j], eta, rng)
        scale[:, j] = (scale[:, j] - scale[:, j].mean()) / scale[:, j].std()
    names = tuple(f"v{place:02d}" for place in rng.permutation(d))
    frame = pd.DataFrame({names[j]: columns[j] for j in rng.permutation(d)})
    ends = np.cumsum([len(part) for part in dealt(np.zeros((n, 1)), 6, rng)])
    silos = dict(zip(silo_names(6), np.split(np.arange(n), ends[:-1]), strict=True))
    return {silo: frame.iloc[rows] for silo, rows in silos.items()}, Structure(names, dag.astype(np.float64))


def _ancestors(dag: FloatArray, j: int) -> set[int]:
    found: set[int] = set()
    for parent in np.flatnonzero(dag[:, j]):
        found |= {int(parent), *_ancestors(dag, int(parent))}
    return found


def _drawn(kind: str, eta: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, Any]:
    """The values of a column on the scale of its effects, and as the table has them."""
    if kind == "label":
        level = (eta[:, None] * np.array([-1.0, 0.0, 1.0]) + rng.gumbel(size=(len(eta), 3))).argmax(axis=1)
        return level.astype(np.float64), np.array(["low", "mid", "high"], dtype=object)[level]
    if kind == "count":
        counts = rng.poisson(np.maximum(0.9 * eta / max(eta.std(), 1.0) + 2.0, 0.2) ** 2)
        return np.sqrt(counts + 3 / 8), counts
    z = eta + rng.normal(size=len(eta))
    if kind == "lognormal":
        return z, np.exp(z)
    if kind == "amount":
        amounts = np.expm1(np.maximum(z / max(float(z.std()), 1.0) + 0.5, 0.0) * 2)
        return np.log1p(amounts), amounts
    return z, z


@dataclass(frozen=True)
class Ran:
    """One run: the distances to the truth, the transforms, and what the diagnosis advises."""

    seed: int
    shd_cpdag: float
    shd_skeleton: float
    transforms: str
    advice: str


def ran(data: Any, truth: Structure, seed: int, **options: Any) -> Ran:
    """Learn by default with these `options` and compare with the truth."""
    result = learn(data, seed=seed, parameters=False, **options).result
    scores = compare(result.structure, truth.reordered(result.structure.variables))
    advice = [one.advice for one in result.diagnosed.findings if one.name == SKEWED]
    return Ran(
        seed,
        float(scores["shd_cpdag"] or 0),
        float(scores["shd_skeleton"] or 0),
        ",".join(f"{name}={one}" for name, one in result.schema.transforms.items()),
        "".join(advice),
    )


def advised(first: Ran) -> str:
    """The value of --transform that the diagnosis of a run advises."""
    return first.advice.partition("--transform ")[2].rstrip(".").strip("'") or "none"


def line(label: str, runs: Sequence[Ran], asked: str) -> dict[str, Any]:
    """The row of a table."""
    return {
        "data": label,
        "seeds": len(runs),
        "CPDAG SHD": mean_and_sd([run.shd_cpdag for run in runs], 1),
        "skeleton SHD": mean_and_sd([run.shd_skeleton for run in runs], 1),
        "a transform advised": f"{sum(bool(run.advice) for run in runs)}/{len(runs)}",
        "asked": asked,
    }


def distortions() -> None:
    """Monotone distortions."""
    rows, runs = [], {}
    for distortion in DISTORTIONS:
        made = {seed: distorted(seed, distortion) for seed in SEEDS}
        plain = [ran(data, data.truth, seed) for seed, data in made.items()]  # type: ignore[arg-type]
        scored = [ran(data, data.truth, seed, transform="normal-scores") for seed, data in made.items()]  # type: ignore[arg-type]
        followed = [
            ran(data, data.truth, seed, transform=advised(first))  # type: ignore[arg-type]
            for (seed, data), first in zip(made.items(), plain, strict=True)
        ]
        asked = "skeleton ≤ 5" * (distortion != "none")
        for label, found, goal in (
            (distortion, plain, ""),
            (f"{distortion}, normal-scores", scored, asked),
            (f"{distortion}, as advised", followed, asked),
        ):
            runs[label] = found
            rows.append(line(label, found, goal))
    show("skewed-distortions", rows, runs)


def tables() -> None:
    """Mixed tables with counts, amounts and lognormals."""
    rows, runs = [], {}
    for name, kinds in KINDS.items():
        made = {seed: mixed_tables(seed, kinds) for seed in SEEDS}
        plain = [ran(*made[seed], seed) for seed in SEEDS]
        followed = [ran(*made[seed], seed, transform=advised(first)) for seed, first in zip(SEEDS, plain, strict=True)]
        scored = [ran(*made[seed], seed, transform="normal-scores") for seed in SEEDS]
        for label, found, goal in (
            (name, plain, "≤ 2" * (name == "counts")),
            (f"{name}, as advised", followed, "≤ 2"),
            (f"{name}, normal-scores", scored, ""),
        ):
            runs[label] = found
            rows.append(line(label, found, goal))
    show("skewed-tables", rows, runs)


if __name__ == "__main__":
    run_tables({"distortions": distortions, "tables": tables}, __doc__, __file__)
