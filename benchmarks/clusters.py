"""False edges and coverage of intervals if rows have clusters, with and without `--cluster`.

Three silos of 100 patients with five rows each have their own means, and every column has an intraclass correlation of
.5 (see `results/effects.md`). Writes `results/clusters-edges.json` and `results/clusters-coverage.json`.

    .venv/bin/python benchmarks/clusters.py [--seeds 20] [--draws 1000]
"""

import argparse
import time

import numpy as np
import pandas as pd
from measure import show
from numpy.typing import NDArray

from fedbnsl import learn
from fedbnsl.algorithms.core.protocol import Replies, SumServer
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.effects import adjusted_regressions
from fedbnsl.algorithms.effects.adjusted_regressions import Question, answers, open_silo, part
from fedbnsl.algorithms.effects.linear import Estimate
from fedbnsl.algorithms.statistics import design_effect
from fedbnsl.algorithms.statistics.design_effect import ClusteredRows

FIRST_SEED = 2000
SILOS, PATIENTS, VISITS, COLUMNS, SHARE = ("a", "b", "c"), 100, 5, 8, 0.5
NAMES = tuple(f"x{j}" for j in range(COLUMNS))
LEARNERS = {
    "numbers": ("auto", "secure-boss", "fed-pc"),
    "labels": ("auto", "fed-pc"),
    "mixed": ("auto", "fed-pc"),
}


def clusters() -> NDArray[np.int64]:
    """The patient of each row of a silo."""
    return np.repeat(np.arange(PATIENTS), VISITS)


def errors(rng: np.random.Generator, columns: int, share: float = SHARE) -> NDArray[np.float64]:
    """The errors of a silo's rows, with this `share` of the variance between patients."""
    common = rng.normal(size=(PATIENTS, columns))[clusters()]
    return np.asarray(np.sqrt(share) * common + np.sqrt(1 - share) * rng.normal(size=common.shape))


def tables(kind: str, seed: int, share: float) -> dict[str, pd.DataFrame]:
    """Independent columns of numbers, labels or both, with the patient of each row."""
    rng, found = np.random.default_rng(seed), {}
    for number, silo in enumerate(SILOS):
        frame = pd.DataFrame(errors(rng, COLUMNS, share), columns=NAMES)
        for name in {"numbers": (), "labels": NAMES, "mixed": NAMES[:4]}[kind]:
            frame[name] = np.array(["low", "mid", "top"])[np.digitize(frame[name], (-0.5, 0.5))]
        numbers = frame.select_dtypes("number").columns
        frame[numbers] = (frame[numbers] + number) * 10.0 ** (np.arange(len(numbers)) % 3)
        found[silo] = frame.assign(patient=clusters()).sample(frac=1, random_state=seed)
    return found


def false_edges(kind: str, learner: str, share: float, seeds: int) -> dict[str, object]:
    """The mean numbers of edges of the three ways to learn, and the cost of clusters."""
    options = {"bootstrap": 0, "diagnose": learner == "auto", "parameters": False}
    edges: dict[str, list[int]] = {"all rows": [], "one row a patient": [], "--cluster": []}
    seconds, sent, effects = [], [], []
    for seed in range(FIRST_SEED, FIRST_SEED + seeds):
        data = tables(kind, seed, share)
        once = {silo: frame.groupby("patient").head(1) for silo, frame in data.items()}
        start = time.process_time()
        runs = {"--cluster": learn(data, learner, cluster="patient", **options).result}
        seconds.append(time.process_time() - start)
        runs["all rows"] = learn(data, learner, ignore=("patient",), **options).result
        runs["one row a patient"] = learn(once, learner, ignore=("patient",), **options).result
        sent.append(runs["--cluster"].metrics["cluster_bytes"] or 0)
        effects.append(runs["--cluster"].metrics["design_effect"] or 0)
        for way, run in runs.items():
            graph = run.structure.adjacency
            edges[way].append(int(np.triu(graph | graph.T).sum()))
    return {
        "columns": kind,
        "learner": learner,
        "rows": "repeated" if share == 1 else "five a patient",
        "seeds": seeds,
        **{way: f"{np.mean(found):.2f}" for way, found in edges.items()},
        "asked": "as with one row a patient",
        "design effect": f"{np.mean(effects):.2f}",
        "kB for the clusters": f"{np.mean(sent) / 1000:.1f}",
        "CPU s": f"{np.mean(seconds):.2f}",
    }


def drawn(rng: np.random.Generator, treatment: str, *, labels: bool) -> dict[str, ClusteredRows]:
    """By silo, rows of z, x and y; the treatment x differs between rows, or only between patients."""
    found = {}
    for number, silo in enumerate(SILOS):
        E = errors(rng, 3)
        x = 0.7 * E[:, 0] + E[:, 1] if treatment == "rows" else rng.normal(size=PATIENTS)[clusters()]
        y = 0.5 * x + 0.4 * E[:, 0] + E[:, 2] + number
        found[silo] = ClusteredRows(np.column_stack([E[:, 0], x, (y > number) * 1.0 if labels else y]), clusters())
    return found


def estimate(rows: dict[str, ClusteredRows], *, labels: bool, clustered: bool) -> tuple[Estimate, float]:
    """The effect of x on y given z, and the design effect of the rows."""
    levels = {"y": ("no", "yes")} if labels else {}
    sizes = {silo: len(one.clusters) for silo, one in rows.items()}
    schema = Schema(("z", "x", "y"), sizes, "mixed" if labels else "continuous", levels)
    question = Question(1, (0,), (0.0, 1.0))
    server = adjusted_regressions.start(schema, 2, [question], clustered=clustered)
    silos = [open_silo(one, schema, silo, np.random.default_rng(0)) for silo, one in rows.items()]
    while not server.newton.finished.all():
        total = sum(part(silo, server.request) for silo in silos)
        server = adjusted_regressions.aggregate(server, Replies(schema.silos, total=total))
    (found,) = answers(server, [question])
    assert isinstance(found, Estimate)
    total = sum(design_effect.part(one, schema) for one in rows.values())
    return found, design_effect.design_effect(SumServer(schema, total), sum(sizes.values()))


def coverage(treatment: str, draws: int, *, labels: bool) -> dict[str, object]:
    """The coverage of the intervals of independent rows, of the design effect, and of the sandwich."""
    rng, ends = np.random.default_rng(FIRST_SEED), dict[str, list[tuple[float, float]]]()
    values = []
    for _ in range(draws):
        rows = drawn(rng, treatment, labels=labels)
        (naive, effect), (robust, _) = (estimate(rows, labels=labels, clustered=one) for one in (False, True))
        assert naive.interval is not None
        assert robust.interval is not None
        values.append(naive.value)
        if not labels:  # the model of a mixed run gives no interval of a total effect
            half = (naive.interval[1] - naive.value) * np.sqrt(effect)
            ends.setdefault("model", []).append((naive.value - half, naive.value + half))
        ends.setdefault("all rows", []).append(naive.interval)
        ends.setdefault("rows", []).append(robust.interval)
    truth = np.mean(values) if labels else 0.5
    covered = {way: np.mean([low <= truth <= high for low, high in own]) for way, own in ends.items()}
    return {
        "outcome": "label" if labels else "number",
        "x differs between": treatment,
        "draws": draws,
        **{way: f"{100 * covered[way]:.1f} %" if way in covered else "" for way in ("all rows", "model", "rows")},
        "asked": "93 to 97 %",
    }


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", choices=("edges", "coverage", "both"), default="both")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--draws", type=int, default=1000)
    options = parser.parse_args()
    if options.table != "coverage":
        edges(options.seeds)
    if options.table != "edges":
        outcomes = [(treatment, labels) for labels in (False, True) for treatment in ("rows", "patients")]
        show("clusters-coverage", [coverage(one, options.draws, labels=labels) for one, labels in outcomes], {})


def edges(seeds: int) -> None:
    """Measure and write the false edges."""
    cases = [(kind, learner) for kind, learners in LEARNERS.items() for learner in learners]
    for kind, learner in cases:
        false_edges(kind, learner, SHARE, 1)  # loads compiled code
    rows = [false_edges(*case, share, seeds) for share in (SHARE, 1.0) for case in cases]
    show("clusters-edges", rows, {})


if __name__ == "__main__":
    main()
