"""False alarms of the diagnoses on clean data, and how many faults they notice: `python benchmarks/alarms.py`.

1,000 clean linear data sets of 5 to 20 columns, 2 to 12 silos of unequal size and 60 to 1,000 rows a silo on average,
with errors of all kinds; and 100 data sets with each fault that a rule is for. A rule raises a finding if its figure
exceeds the value of 1 in units of its own threshold. The curve of hits against false alarms (ROC) varies that value;
`docs/pictures/diagnosis-roc.png` shows it.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from measure import show
from real import NOISES, SCALES, Setting, draw

from fedbnsl import learn
from fedbnsl.algorithms.diagnosis import findings
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.data.federated import FederatedData

CLEAN_RUNS, FAULTY_RUNS = 1000, 100
PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "diagnosis-roc.png"
Fault = Callable[[FederatedData, np.random.Generator], FederatedData]


def clean(seed: int) -> Setting:
    """A random setting in which a linear model holds and silos differ in size only."""
    rng = np.random.default_rng(10_000 + seed)
    d, silos = int(rng.choice([5, 8, 12, 20])), int(rng.choice([2, 3, 5, 8, 12]))
    return Setting(
        d,
        min(int(d * rng.choice([1, 1.5, 2, 3])), d * (d - 1) // 2),
        rows=int(silos * rng.choice([60, 150, 400, 1000])),
        silos=silos,
        noise=str(rng.choice([name for name in NOISES if name != "t3"])),
        scale=str(rng.choice([*SCALES])),
        variances=(1.0, 1.0) if rng.random() < 0.5 else (0.3, 3.0),
    )


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


FAULTS: dict[str, Fault] = {"shift": shifted, "weights": other_weights, "outliers": bad_cells, "bend": bent}
"""of each rule, the fault that it is for"""
NAMES = {
    "shift": ("shifted silo", "site means"),
    "weights": ("silo with different weights", "weights differ"),
    "outliers": ("outliers",),
    "bend": (findings.NOT_LINEAR,),
}
"""the findings of each rule"""


class Recorder:
    """The findings of a run by name, and the largest excess of each rule."""

    def __init__(self, data: FederatedData) -> None:
        """Learn from `data` by default and record."""
        self.excess = dict.fromkeys(findings.RULES, 0.0)
        original = findings.silo_findings

        def record(server: findings.Compared, rules: dict[str, findings.Rule]) -> list[findings.Finding]:
            self.excess |= {name: float(own.max()) for name, own in findings.excesses(server, rules).items()}
            return original(server, rules)

        findings.silo_findings = record  # type: ignore[assignment]
        try:
            result = learn(data, seed=0, parameters=False, bootstrap=0).result
        finally:
            findings.silo_findings = original
        self.names = {one.name for one in result.diagnosed.findings} - {"few rows"}
        self.structure: Structure = result.structure


def main(clean_runs: int = CLEAN_RUNS, faulty_runs: int = FAULTY_RUNS) -> None:
    """Run all, print the table, and draw the curves."""
    sound = [Recorder(draw(clean(seed), 20_000 + seed)) for seed in range(clean_runs)]
    rows, curves = [], {}
    for rule, fault in FAULTS.items():
        faulty = [
            Recorder(fault(draw(clean(seed), 20_000 + seed), np.random.default_rng(30_000 + seed)))
            for seed in range(clean_runs, clean_runs + faulty_runs)
        ]
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


def roc(false: np.ndarray, hits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The shares of clean and of faulty runs above each threshold, from the largest figure to the least."""
    thresholds = np.unique(np.concatenate([false, hits, [np.inf]]))[::-1]
    return tuple((own[:, None] >= thresholds).mean(axis=0) for own in (false, hits))  # type: ignore[return-value]


def area(false: np.ndarray, hits: np.ndarray) -> float:
    """The area under the curve."""
    return float(np.trapezoid(hits, false))


def picture(curves: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    """Draw the curves, with a logarithmic axis of false alarms."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4))
    axes = figure.add_subplot()
    for (rule, (false, hits)), line in zip(curves.items(), ("-", "--", "-.", ":"), strict=True):
        axes.step(np.maximum(false, 1e-3), hits, line, where="post", label=rule)
    axes.axvline(0.01, color="0.7", linewidth=0.8)
    axes.set(xscale="log", xlim=(1e-3, 1), ylim=(0, 1.02), xlabel="share of clean runs", ylabel="share of faulty runs")
    axes.legend(loc="lower right", frameon=False)
    figure.tight_layout()
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=120)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
