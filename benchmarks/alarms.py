"""False alarms of the diagnoses on clean data, and the share of faults they find: `python benchmarks/alarms.py`.

A linear model holds in the 1,000 clean data sets. They have 5 to 20 columns and 2 to 12 silos of unequal size, with 60
to 1,000 rows a silo on average. Errors are of all kinds; columns are as drawn, standardised or in other units. A
quarter have site offsets, for which the findings "site means" and "shifted silo" are correct; a tenth are tables with
labels, numbers and counts. For each rule there are 100 data sets with the fault that it detects. A rule raises a
finding if its figure, divided by its threshold, exceeds 1. The curve of hits against false alarms (ROC) varies that
value; `docs/pictures/diagnosis-roc.png` shows it. The second table has the curved and distorted data sets of
`additive.py` and `skewed.py`. Seeds are from 3000 on, which were not used to choose any rule.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import additive
import numpy as np
from measure import show
from real import NOISES, SCALES, Setting, draw
from skewed import distorted, mixed_tables

from fedbnsl import learn
from fedbnsl.algorithms.diagnosis import columns, findings
from fedbnsl.data.federated import FederatedData

CLEAN_RUNS, FAULTY_RUNS, CURVED_RUNS, FIRST = 1000, 100, 10, 3000
PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "diagnosis-roc.png"
Fault = Callable[[FederatedData, np.random.Generator], FederatedData]


def clean(seed: int) -> Setting:
    """A random setting in which a linear model holds and silos differ in size and offsets only."""
    rng = np.random.default_rng((10_000, seed))
    d, silos = int(rng.choice([5, 8, 12, 20])), int(rng.choice([2, 3, 5, 8, 12]))
    return Setting(
        d,
        min(int(d * rng.choice([1, 1.5, 2, 3])), d * (d - 1) // 2),
        rows=int(silos * rng.choice([60, 150, 400, 1000])),
        silos=silos,
        noise=str(rng.choice([*NOISES])),
        scale=str(rng.choice([*SCALES])),
        variances=(1.0, 1.0) if rng.random() < 0.5 else (0.3, 3.0),
        site_means=2.0 if rng.random() < 0.25 else 0.0,
    )


MIXED = ("label", "number"), ("label", "number", "count")
"""the kinds of columns of clean mixed tables"""


def clean_data(seed: int) -> tuple[Any, bool]:
    """The data of a clean setting, every tenth a mixed table, and whether silos have offsets."""
    if seed % 10 == 0:
        return mixed_tables(seed, MIXED[seed // 10 % 2])[0], False
    setting = clean(seed)
    return draw(setting, seed), bool(setting.site_means)


def of_one_silo(data: FederatedData, rng: np.random.Generator, change: Callable[..., np.ndarray]) -> FederatedData:
    """The data with the table of one silo changed."""
    silo = str(rng.choice(data.schema.silos))
    return replace(data, tables={**data.tables, silo: change(np.asarray(data.tables[silo]))})


def shifted(data: FederatedData, rng: np.random.Generator) -> FederatedData:
    """One column of one silo is shifted by a standard deviation."""
    j = int(rng.integers(len(data.schema.variables)))
    return of_one_silo(data, rng, lambda X: X + (np.arange(X.shape[1]) == j) * X[:, j].std())


def other_weights(data: FederatedData, rng: np.random.Generator) -> FederatedData:
    """In one silo, half of a parent's standard deviation, in units of the child, is added to the child."""
    assert data.truth is not None
    i, j = rng.permutation(np.argwhere(data.truth.adjacency))[0]
    own = np.arange(len(data.schema.variables)) == j
    return of_one_silo(data, rng, lambda X: X + own * (0.7 * X[:, [i]] * X[:, j].std() / X[:, i].std()))


def bad_cells(data: FederatedData, rng: np.random.Generator) -> FederatedData:
    """One cell in a hundred is 15 standard deviations too large, in one silo."""
    return of_one_silo(data, rng, lambda X: X + 15 * X.std(axis=0) * (rng.random(X.shape) < 0.01))


def bent(data: FederatedData, rng: np.random.Generator) -> FederatedData:
    """The effect of one edge is tanh(2z) instead of linear, in all silos."""
    assert data.truth is not None
    i, j = rng.permutation(np.argwhere(data.truth.adjacency))[0]
    weight, own = data.truth.weights[i, j], np.arange(len(data.schema.variables)) == j
    tables = {}
    for silo, table in data.tables.items():
        X = np.asarray(table)
        z = (X[:, [i]] - X[:, i].mean()) / X[:, i].std()
        tables[silo] = X + own * np.sign(weight) * X[:, j].std() * (1.5 * np.tanh(2 * z) - z)
    return replace(data, tables=tables)


def exponentiated(data: FederatedData, rng: np.random.Generator) -> FederatedData:
    """Every column is the exponential of what it was, in standard deviations from -5 to 5."""
    every = np.concatenate([*map(np.asarray, data.tables.values())])
    middle, scale = every.mean(axis=0), every.std(axis=0)
    tables = {silo: np.exp(np.clip((np.asarray(X) - middle) / scale, -5, 5)) for silo, X in data.tables.items()}
    return replace(data, tables=tables)


FAULTS: dict[str, Fault] = {
    "shift": shifted,
    "weights": other_weights,
    "outliers": bad_cells,
    "bend": bent,
    "skewed columns": exponentiated,
}
"""for each rule, the fault that it detects"""
NAMES = {
    "shift": ("shifted silo", "site means"),
    "weights": findings.WEIGHTS_DIFFER,
    "outliers": (findings.OUTLIERS,),
    "bend": (findings.NOT_LINEAR,),
    "skewed columns": (columns.SKEWED,),
}
"""the findings of each rule"""


@dataclass(frozen=True)
class Recorded:
    """The false findings of a run by name, and the largest excess of each rule."""

    names: frozenset[str]
    excess: Mapping[str, float]


def record(data: Any, *, offsets: bool = False) -> Recorded:
    """Learn from `data` by default and record; for silos with `offsets`, findings on different means are true."""
    excess = dict.fromkeys(NAMES, 0.0)
    of_silos, of_transform = findings.silo_findings, columns.transform_excess

    def silo_findings(server: findings.Compared, rules: Mapping[str, findings.Rule]) -> list[findings.Finding]:
        excess.update({name: float(own.max()) for name, own in findings.excesses(server, rules).items()})
        return of_silos(server, rules)

    def transform_excess(schema: Any, gain: float) -> float:
        excess[columns.SKEWED] = of_transform(schema, gain)
        return excess[columns.SKEWED]

    findings.silo_findings, columns.transform_excess = silo_findings, transform_excess
    try:
        result = learn(data, seed=0, parameters=False, bootstrap=0).result
    finally:
        findings.silo_findings, columns.transform_excess = of_silos, of_transform
    true = {"few rows", *(NAMES["shift"] if offsets else ())}
    if offsets:
        excess["shift"] = 0.0
    return Recorded(frozenset(one.name for one in result.diagnosed.findings) - true, excess)


def main(clean_runs: int = CLEAN_RUNS, faulty_runs: int = FAULTY_RUNS, curved_runs: int = CURVED_RUNS) -> None:
    """Run all, print the tables, and draw the curves."""
    sound = []
    for seed in range(FIRST, FIRST + clean_runs):
        data, offsets = clean_data(seed)
        sound.append(record(data, offsets=offsets))
    rows, curves = [], {}
    for rule, fault in FAULTS.items():
        faulty = []
        for seed in range(FIRST + clean_runs, FIRST + clean_runs + faulty_runs):
            data = draw(replace(clean(seed), site_means=0.0), seed)
            faulty.append(record(fault(data, np.random.default_rng((30_000, seed)))))
        false, hits = ([one.excess[rule] for one in runs] for runs in (sound, faulty))
        curves[rule] = roc(np.array(false), np.array(hits))
        reported = set(NAMES[rule])
        rows.append(
            {
                "rule": rule,
                "clean runs": clean_runs,
                "false alarms": sum(bool(one.names & reported) for one in sound),
                "asked": f"≤ {clean_runs // 100}",
                "faults noticed": f"{sum(share > 1 for share in hits)} of {faulty_runs}",
                "area under the curve": round(area(*curves[rule]), 3),
            }
        )
    known = {name for names in NAMES.values() for name in names}
    others = {name: sum(name in one.names for one in sound) for one in sound for name in one.names - known}
    others["any"] = sum(bool(one.names) for one in sound)
    for name, number in sorted(others.items()):
        asked = f"≤ {clean_runs // (20 if name == 'any' else 100)}"
        row = {"rule": name, "clean runs": clean_runs, "false alarms": number, "asked": asked}
        rows.append(row | {"faults noticed": "–", "area under the curve": "–"})
    show("alarms", rows, {})
    picture(curves)
    show("alarms-curves", list(curved_rows(curved_runs)), {})


def curved_rows(runs: int) -> list[dict[str, Any]]:
    """How often a linear run on curved, distorted and linear data sets of d = 20 reports it."""
    seeds = range(FIRST, FIRST + runs)
    sets: dict[str, tuple[Callable[[int], FederatedData], str]] = {}
    for effect, standardised in (("tanh", 0), ("tanh", 1), ("quadratic", 0), ("linear + quadratic", 0), ("linear", 0)):
        setting = additive.Setting(effect, "", standardised=bool(standardised))
        label = effect + ", standardised" * standardised
        sets[label] = partial(additive.draw, setting), findings.NOT_LINEAR
    for distortion in ("exp", "cubes", "none"):
        sets[f"distortion: {distortion}"] = partial(distorted, distortion=distortion), columns.SKEWED
    rows = []
    for label, (make, name) in sets.items():
        found = 0
        for seed in seeds:
            diagnosed = learn(make(seed), "secure-linear", seed=seed, parameters=False).result.diagnosed
            found += name in {one.name for one in diagnosed.findings}
        asked = "0" if label in ("linear", "distortion: none") else f"≥ {9 * runs // 10}"
        rows.append({"data": label, "finding": name, "runs": runs, "found": found, "asked": asked})
    return rows


def roc(false: np.ndarray, hits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The shares of clean and of faulty runs above each threshold, from the largest figure to the least."""
    thresholds = np.unique(np.concatenate([false, hits, [np.inf]]))[::-1]
    return (false[:, None] >= thresholds).mean(axis=0), (hits[:, None] >= thresholds).mean(axis=0)


def area(false: np.ndarray, hits: np.ndarray) -> float:
    """The area under the curve."""
    return float(np.trapezoid(hits, false))


def picture(curves: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    """Draw the curves, with a logarithmic axis of false alarms."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4))
    axes = figure.add_subplot()
    lines: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
    for (rule, (false, hits)), line in zip(curves.items(), lines, strict=True):
        axes.step(np.maximum(false, 1e-3), hits, linestyle=line, where="post", label=rule)
    axes.axvline(0.01, color="0.7", linewidth=0.8)
    axes.set(xscale="log", xlim=(1e-3, 1), ylim=(0, 1.02), xlabel="share of clean runs", ylabel="share of faulty runs")
    axes.legend(loc="lower right", frameon=False)
    figure.tight_layout()
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=120)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
