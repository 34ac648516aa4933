"""Interventional data: drawn data, the nine conditions of Sachs et al., the package `gies`, and unknown targets.

`python benchmarks/experiments.py` runs all tables, `--table NAME` one of them. Drawn data are those of `prepare
interventions`: six silos that differ in size and offsets, four of which intervene on one or two variables each. Columns
are in random order; there are 3/2 edges per variable and ten seeds from 1000 on. SHD is between the learned class and
the true interventional class. The graphs of gies are frozen in `tests/references/gies_graphs.json`, with their
provenance.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from measure import mean_and_sd, run, run_tables, show
from numpy.typing import NDArray

import fedbnsl
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.graphs.cpdag import cpdag, dag_extension
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.score.experiment_scores import number_scores, total_score
from fedbnsl.algorithms.score.settings import TargetRows
from fedbnsl.algorithms.statistics.moments import about_means, pooled_packing
from fedbnsl.data.defaults import Experiment
from fedbnsl.data.federated import FederatedData
from fedbnsl.data.generators.interventions import interventions
from fedbnsl.data.networks.sachs import sachs

SEEDS, FALSE_ALARM_SEEDS = range(1000, 1010), range(1000, 1040)
KINDS: tuple[tuple[Experiment, float, str], ...] = (
    ("randomised", 0.2, "randomised"),
    ("soft", 0.2, "soft"),
    ("inhibiting", 0.2, "inhibiting, a fifth of the effects"),
    ("inhibiting", 0.5, "inhibiting, half of the effects"),
)
LEARNERS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("secure-linear", "secure-linear", {}),
    ("secure-linear, left-out", "secure-linear", {"target_rows": "left-out"}),
    ("secure-boss", "secure-boss", {}),
    ("secure-ges", "secure-ges", {}),
    ("secure-ges, refined", "secure-ges", {"refine": True}),
)
REFERENCE = Path(__file__).parent.parent / "tests" / "references" / "gies_graphs.json"
SACHS_TARGETS = {
    "cd3cd28_aktinhib": "Akt",
    "cd3cd28_g0076": "PKC",
    "cd3cd28_psitect": "PIP2",
    "cd3cd28_u0126": "Mek",
    "cd3cd28_ly": "PIP3",
    "pma": "PKC",
    "b2camp": "PKA",
}
"""the known targets of the conditions, inhibited or activated"""


@dataclass(frozen=True)
class Found:
    """One run: its distance from the true interventional class, the seconds and the bytes that it took."""

    seed: int
    shd: int
    edges: int
    cpu_seconds: float
    megabytes: float


def distance(graph: NDArray[np.bool_], truth: NDArray[np.bool_]) -> int:
    """The number of pairs of variables that are joined differently."""
    differ = graph != truth
    return int(np.triu(differ | differ.T).sum())


def true_class(data: FederatedData) -> NDArray[np.bool_]:
    """The interventional class of the truth, `[d, d]`."""
    assert data.truth is not None
    return cpdag(data.truth.adjacency, data.schema.prior.separated)


def shuffled(data: FederatedData, seed: int) -> FederatedData:
    """`data` with its columns in a random order."""
    assert data.truth is not None
    names = data.schema.variables
    order = np.random.default_rng([seed, 1]).permutation(len(names))
    turned = tuple(names[v] for v in order)
    tables = {silo: table[:, order] for silo, table in data.tables.items()}
    schema = replace(data.schema, variables=turned)
    return replace(data, schema=schema, tables=tables, truth=data.truth.reordered(turned))


def drawn() -> None:
    """Every learner on drawn data."""
    rows, runs = [], {}
    for experiment, strength, words in KINDS:
        for d in (8, 14, 20):
            for n, asked in ((1000, "SHD ≤ .5"), (5000, "SHD ≤ .2")):
                for label, name, params in LEARNERS:
                    found = []
                    for seed in SEEDS:
                        data = interventions(
                            d, 6, n, seed, experiment, targeted_silos=4, edges=3 * d // 2, strength=strength
                        )
                        data = shuffled(data, seed)
                        learned = run(name, params, data, seed)
                        graph = learned.structure.adjacency
                        sent = (learned.traffic.up + learned.traffic.down) / 1e6
                        edges = int(np.triu(graph | graph.T).sum())
                        found.append(Found(seed, distance(graph, true_class(data)), edges, learned.cpu_seconds, sent))
                    case = f"{words}, d = {d}, n = {n:,}"
                    runs[f"{case}: {label}"] = found
                    rows.append(
                        {
                            "experiment": case,
                            "learner": label,
                            "SHD": mean_and_sd([one.shd for one in found], 2),
                            "right": f"{sum(one.shd == 0 for one in found)} of {len(found)}",
                            "CPU s": mean_and_sd([one.cpu_seconds for one in found], 2),
                            "MB": mean_and_sd([one.megabytes for one in found], 3),
                            "asked": asked if label == "secure-linear" else "",
                        }
                    )
    show("experiments-drawn", rows, runs)


def changed(data: FederatedData, experiment: Experiment) -> set[tuple[str, str]]:
    """The silos and variables whose mechanism changes; inhibiting a variable without causes changes none."""
    assert data.truth is not None
    caused = dict(zip(data.truth.variables, data.truth.adjacency.any(axis=0), strict=True))
    each = ((silo, name) for silo, (own,) in data.schema.targets.items() for name in own)
    return {(silo, name) for silo, name in each if experiment != "inhibiting" or caused[name]}


def unknown(data: FederatedData, seed: int) -> tuple[set[tuple[str, str]], NDArray[np.bool_]]:
    """The targets that are found without being given, by silo, and the graph learned with them, `[d, d]`."""
    found = fedbnsl.learn(data, algorithm="secure-linear", targets="unknown", seed=seed, engine="inline", bootstrap=0)
    assert found.result.found_targets is not None
    pairs = {(one.condition, one.variable) for one in found.result.found_targets.changes}
    return pairs, found.result.structure.adjacency


def f1(found: set[tuple[str, str]], truth: set[tuple[str, str]]) -> float:
    """The harmonic mean of precision and recall; 1 for two empty sets."""
    return 2 * len(found & truth) / (len(found) + len(truth)) if found or truth else 1.0


def unknown_targets() -> None:
    """Targets that are found, and the graph with them beside that with the true targets and without any."""
    rows = []
    for experiment, strength, words in KINDS:
        for d in (8, 14, 20):
            for n in (1000, 5000):
                scores, distances, errors = [], [], 0
                for seed in SEEDS:
                    data = interventions(
                        d, 6, n, seed, experiment, targeted_silos=4, edges=3 * d // 2, strength=strength
                    )
                    data = shuffled(data, seed)
                    found, graph = unknown(data, seed)
                    true = changed(data, experiment)
                    scores.append(f1(found, true))
                    errors += len(found - true)
                    plain = replace(data, schema=replace(data.schema, targets={}))
                    others = [run("secure-linear", {}, one, seed).structure.adjacency for one in (data, plain)]
                    distances.append([distance(one, true_class(data)) for one in (graph, *others)])
                by_targets = [mean_and_sd([one[k] for one in distances], 2) for k in range(3)]
                rows.append(
                    {
                        "experiment": f"{words}, d = {d}, n = {n:,}",
                        "F1 of the targets": mean_and_sd(scores, 2),
                        "all right": f"{sum(one == 1 for one in scores)} of {len(scores)}",
                        "false targets": str(errors),
                        "SHD, targets found": by_targets[0],
                        "SHD, targets given": by_targets[1],
                        "SHD, without targets": by_targets[2],
                        "asked": "F1 ≥ .9" if n == 5000 else "",
                    }
                )
                print(rows[-1], flush=True)
    show("experiments-unknown", rows, {})


def false_targets() -> None:
    """How many runs find a target although no experiment was made: silos of unequal sizes with other offsets."""
    rows = []
    for d, n in ((8, 300), (8, 1000), (8, 5000)):
        alarms = 0
        for seed in FALSE_ALARM_SEEDS:
            data = shuffled(interventions(d, 6, n, seed, "soft", targeted_silos=0, edges=3 * d // 2), seed)
            alarms += bool(unknown(data, seed)[0])
        share = f"{alarms} of {len(FALSE_ALARM_SEEDS)}"
        rows.append({"no experiments": f"d = {d}, n = {n:,}", "runs with targets": share, "asked": "≤ 5 %"})
        print(rows[-1], flush=True)
    show("experiments-false-targets", rows, {})


def sachs_conditions() -> None:
    """The nine conditions of Sachs et al. as silos, logarithms, against the network of 17 edges."""
    data = sachs(1, 0, by_condition=True, truth="17", transform="log")
    assert data.truth is not None
    truth, rows = data.truth.adjacency, []
    with_targets = replace(data.schema, targets={silo: ((name,),) for silo, name in SACHS_TARGETS.items()})
    cases: Sequence[tuple[str, str, dict[str, Any], Schema]] = (
        ("secure-linear, no targets", "secure-linear", {}, data.schema),
        *((label, name, params, with_targets) for label, name, params in LEARNERS),
        ("secure-boss, left-out", "secure-boss", {"target_rows": "left-out"}, with_targets),
        ("secure-ges, left-out", "secure-ges", {"target_rows": "left-out"}, with_targets),
    )
    for label, name, params, schema in cases:
        graph = run(name, params, replace(data, schema=schema)).structure.adjacency
        joined, directed = (graph | graph.T) & (truth | truth.T), graph & ~graph.T
        rows.append(
            {
                "learner": label,
                "edges": int(np.triu(graph | graph.T).sum()),
                "of the skeleton": int(np.triu(joined).sum()),
                "right directions": int((directed & truth).sum()),
                "wrong directions": int((directed & truth.T).sum()),
                "SHD": distance(graph, truth),
                "asked": "SHD ≤ 11, 7 of 9 directions" if label == "secure-linear" else "",
            }
        )
    show("experiments-sachs", rows, {})


def score_of(data: FederatedData, dag: NDArray[np.bool_], target_rows: TargetRows) -> float:
    """The Gaussian BIC of `dag` `[d, d]` on the rows that count for each variable, up to a constant of the data."""
    d, experiments = len(dag), data.schema.experiments
    moments = np.zeros((experiments.n_sums, pooled_packing(d).length))
    for silo, table in data.tables.items():
        own = pooled_packing(d).pack(rows=len(table) - 1.0, sums=np.zeros(d), products=about_means(table)[1])
        moments += np.outer(experiments.used[silo][:, 0], own)
    return total_score(dag, number_scores(moments, experiments.group, target_rows, float(np.log(d))))


def against_gies() -> None:
    """The score and the distance of each learner's class and of that of gies, in the frozen cases."""
    rows = []
    for case in json.loads(REFERENCE.read_text(encoding="utf-8"))["cases"]:
        arguments = {name: value for name, value in case.items() if name not in ("sum", "score", "graph")}
        data = interventions(**arguments, targeted_silos=4)
        d = len(data.schema.variables)
        theirs = np.zeros((d, d), np.bool_)
        theirs[tuple(np.array(case["graph"]).T)] = True
        ours = run("secure-linear", {"target_rows": "left-out"}, data).structure.adjacency
        own = run("secure-linear", {}, data).structure.adjacency
        gain = score_of(data, member(data, ours), "left-out") - score_of(data, member(data, theirs), "left-out")
        truth = true_class(data)
        rows.append(
            {
                "case": f"{case['experiment']}, d = {d}, n = {case['rows']:,}, seed {case['seed']}",
                "score above gies": f"{gain:.1f}",
                "SHD, left-out": distance(ours, truth),
                "SHD": distance(own, truth),
                "SHD of gies": distance(theirs, truth),
                "asked": "score ≥ 0",
            }
        )
    show("experiments-gies", rows, {})


def member(data: FederatedData, graph: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """A DAG of the class `graph`."""
    dag = dag_extension(Structure(data.schema.variables, graph.astype(np.float64), "cpdag")).dag
    assert dag is not None
    return dag


if __name__ == "__main__":
    tables = {"drawn": drawn, "sachs": sachs_conditions, "gies": against_gies}
    run_tables({**tables, "unknown": unknown_targets, "false": false_targets}, __doc__, __file__)
