"""Score-based learners on published networks, 5000 rows in all: FedGES by silos and fusion, pooled and secure searches.

`python benchmarks/score.py` runs all tables, `--table NAME` one of them; each writes every single run to
results/score-NAME.json. Seeds 2 to 6; defaults were chosen on seeds from 100 on. A silo's rows are drawn from the
network's published tables (pgmpy's wheel). The seed determines the order of the columns and is also the seed of the
searches. CPU seconds are of all silos and the server, with compiled code already loaded.
"""

import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from measure import run_tables, show
from score_orders import ORDERS, PLAIN, AgainstOptimum, best_score, score_of, shuffled, small_sets

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import Traffic, rounds
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.score.settings import SearchSettings
from fedbnsl.data.federated import FederatedData, pool
from fedbnsl.data.networks.published import network
from fedbnsl.tasks.transport.in_process import InProcessFederation

SEEDS = range(2, 7)
ROWS = 5000
FUSIONS = {"C50": 0.5, "C25": 0.25, "UNION, guarded": 0.0}

# The published program on one data set: SMHD of C50, C25, UNION, and of one-shot GES (empty: not measured).
PUBLISHED: dict[tuple[str, int], tuple[int | str, ...]] = {
    ("child", 5): (10, 5, 5, 9),
    ("child", 10): (10, 10, 9, 11),
    ("child", 20): (13, 12, 12, 9),
    ("insurance", 5): (32, 27, 27, 34),
    ("insurance", 10): (36, 35, 33, 38),
    ("insurance", 20): (42, 36, "", 64),
    ("alarm", 5): (10, 11, 11, 14),
    ("alarm", 10): (10, 11, 14, 20),
    ("alarm", 20): (18, 15, 26, 90),
    ("hailfinder", 5): (59, "", "", 77),
    ("hailfinder", 10): (66, 74, "", 90),
    ("hailfinder", 20): (76, "", "", ""),
    ("win95pts", 5): (89, "", "", 123),
    ("win95pts", 10): (115, 103, "", 242),
    ("win95pts", 20): (140, "", "", 472),
}
# Torrijos et al. 2024, Table 2: mean edges of C50, C25, UNION, one-shot GES.
EDGES: dict[tuple[str, int], tuple[float, ...]] = {
    ("child", 5): (21.6, 21.8, 21.8, 21.6),
    ("child", 10): (20.0, 20.9, 23.0, 22.4),
    ("child", 20): (17.0, 18.0, 23.0, 25.9),
    ("insurance", 5): (37.5, 45.0, 45.0, 48.5),
    ("insurance", 10): (32.0, 43.0, 48.0, 57.4),
    ("insurance", 20): (29.0, 32.0, 54.0, 68.2),
    ("alarm", 5): (44.0, 48.5, 48.5, 55.0),
    ("alarm", 10): (42.0, 46.0, 53.0, 61.4),
    ("alarm", 20): (38.5, 44.0, 53.5, 90.8),
    ("hailfinder", 5): (62.0, 68.0, 68.0, 81.9),
    ("hailfinder", 10): (46.0, 59.0, 73.0, 84.1),
    ("hailfinder", 20): (35.0, 44.0, 58.7, 74.4),
    ("win95pts", 5): (108.0, 136.0, 136.0, 176.4),
    ("win95pts", 10): (87.0, 109.0, 150.0, 262.5),
    ("win95pts", 20): (70.0, 92.0, 150.0, 392.4),
}
# network: (required of the best pooled search: maximum SMHD; maximum CPU s)
ASKED: dict[str, tuple[float, float]] = {
    "child": (1, 0.5),
    "insurance": (20, 0),
    "alarm": (8, 1.5),
    "hailfinder": (59, 3),
    "win95pts": (40, 5),
    "andes": (165, 40),
}
GIGABYTES = {("andes", "boss")}
"""networks whose secure search is left out"""
LARGE = (("pigs", "ges"), ("link", "ges"))


@dataclass(frozen=True)
class Scored:
    """One run."""

    seed: int
    smhd: float
    shd_cpdag: float
    edges: float
    rounds: int
    megabytes: float
    cpu_seconds: float
    outcome: str


def learn(name: str, params: dict[str, Any], data: FederatedData, seed: int = 0) -> tuple[Structure, Scored]:
    """Learn from `data` inline, the search's own seed among its settings, and score against its truth."""
    if "seed" in registry.parameter_names(name):
        params = {"seed": seed, **params}
    algorithm = registry.build(registry.specify(name, params))
    data = pool(data) if registry.entry(name).pooled else data
    federation = InProcessFederation(data.schema, data.tables, seed=seed)
    traffic = Traffic()
    start = time.process_time()
    for last in rounds(algorithm, federation):
        traffic = traffic + last.traffic
    structure = algorithm.structure(last.server)
    cpu = time.process_time() - start
    assert data.truth is not None
    score = compare(structure, data.truth)
    return structure, Scored(
        seed=seed,
        smhd=float(score["smhd"] or 0),
        shd_cpdag=float(score["shd_cpdag"] or 0),
        edges=float(score["edges"] or 0),
        rounds=last.number,
        megabytes=(traffic.up + traffic.down) / 1e6,
        cpu_seconds=cpu,
        outcome=str(last.outcome),
    )


def over_seeds(name: str, params: dict[str, Any], make: Callable[[int], FederatedData]) -> list[Scored]:
    """Learn once a seed."""
    return [learn(name, params, make(seed), seed)[1] for seed in SEEDS]


def drawn(name: str, silos: int) -> Callable[[int], FederatedData]:
    """The maker of 5000 rows of a network, dealt to `silos` silos, with columns in an order by the seed."""
    return lambda seed: shuffled(network(name, silos, ROWS // silos, seed), seed)


def warm_up() -> None:
    """Have everything compiled."""
    for name in ("fed-ges", "ges-union", "ges", "boss", "secure-ges", "secure-boss"):
        learn(name, {}, network("child", 3, 200, 0))


def spread(runs: Sequence[Scored], field: str, digits: int = 1) -> str:
    """Mean ± sd of a figure."""
    values = [float(getattr(run, field)) for run in runs]
    sd = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.{digits}f} ± {sd:.{digits}f}"


def federated() -> None:
    """SMHD, edges and CPU seconds of FedGES and of one-shot GES, by network, silos and fusion."""
    rows, runs = [], {}
    for (name, silos), published in PUBLISHED.items():
        line: dict[str, Any] = {"network": name, "silos": silos}
        for place, (fusion, quota) in enumerate([*FUSIONS.items(), ("one-shot", -1.0)]):
            label = f"{name}, {silos}, {fusion}"
            if fusion == "one-shot":
                runs[label] = over_seeds("ges-union", {}, drawn(name, silos))
            else:
                runs[label] = over_seeds("fed-ges", {"quota": quota}, drawn(name, silos))
            line[fusion] = f"{spread(runs[label], 'smhd')} ({published[place]})"
            mean = statistics.mean(run.edges for run in runs[label])
            line[f"edges {fusion}"] = f"{mean:.1f} ({EDGES[name, silos][place]:.1f})"
            print(label, line[fusion], line[f"edges {fusion}"], file=sys.stderr, flush=True)
        line["C50: rounds"] = spread(runs[f"{name}, {silos}, C50"], "rounds")
        line["C50: CPU s"] = spread(runs[f"{name}, {silos}, C50"], "cpu_seconds", 2)
        rows.append(line)
    publish("fed", "SMHD (published program's figure), edges (Torrijos et al. 2024, Table 2)", rows, runs)


def pooled() -> None:
    """All rows in one place, and the same by secure sums over five silos: exact, exchanges, bytes."""
    rows, runs = [], {}
    for name, (smhd, seconds) in ASKED.items():
        for search in ("ges", "boss"):
            alone = [learn(search, {}, drawn(name, 5)(seed), seed) for seed in SEEDS]
            runs[f"{name}, {search}"] = scores = [score for _, score in alone]
            line = {"network": name, "search": search, "SMHD": spread(scores, "smhd"), "asked SMHD": f"≤ {smhd:g}"}
            line |= {"SHD of CPDAGs": spread(scores, "shd_cpdag"), "edges": spread(scores, "edges")}
            line |= {"CPU s": spread(scores, "cpu_seconds", 2), "asked CPU s": f"≤ {seconds:g}" if seconds else ""}
            if (name, search) not in GIGABYTES:
                both = [learn(f"secure-{search}", {}, drawn(name, 5)(seed), seed) for seed in SEEDS]
                runs[f"{name}, secure-{search}"] = secure = [score for _, score in both]
                same = sum(
                    np.array_equal(one[0].weights, other[0].weights) for one, other in zip(alone, both, strict=True)
                )
                line |= {"secure is the same": f"{same}/{len(both)}", "secure: exchanges": spread(secure, "rounds")}
                line |= {"secure: MB": spread(secure, "megabytes"), "secure: CPU s": spread(secure, "cpu_seconds", 2)}
            rows.append(line)
            publish("pooled", "Pooled searches, and the same ones over the summed counts of five silos", rows, runs)


def look_ahead() -> None:
    """Exchanges and bytes of the secure searches by how far they look ahead."""
    rows, runs = [], {}
    for name in ("child", "alarm", "win95pts"):
        for search in ("secure-ges", "secure-boss"):
            for ahead in (0, 1, 4, 8, 16) if search == "secure-ges" else (0, 1):
                label = f"{name}, {search}, lookahead = {ahead}"
                runs[label] = over_seeds(search, {"lookahead": ahead}, drawn(name, 5))
                line = {"run": label, "exchanges": spread(runs[label], "rounds"), "edges": spread(runs[label], "edges")}
                line |= {"MB": spread(runs[label], "megabytes", 2), "CPU s": spread(runs[label], "cpu_seconds", 2)}
                rows.append(line)
    publish("ahead", "Exchanges and bytes of the secure searches by moves looked ahead, five silos", rows, runs)


def large() -> None:
    """PIGS and LINK, one seed: whether they finish, in which time and memory."""
    rows, runs = [], {}
    for name, search in LARGE:
        label = f"{name}, {search}"
        runs[label] = [learn(search, {}, drawn(name, 5)(2), 2)[1]]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
        (one,) = runs[label]
        line = {"run": label, "SMHD": one.smhd, "SHD of CPDAGs": one.shd_cpdag, "edges": one.edges}
        line |= {"CPU s": round(one.cpu_seconds, 1), "peak GB so far": round(peak, 2), "asked": "≤ 900 s, ≤ 4 GB"}
        rows.append(line)
        publish("large", "Large networks, seed 2", rows, runs)


def optima() -> None:
    """BOSS against the best graph there is, d ≤ 11, by BDeu without a structure prior, over orders of the columns."""
    rows, runs = [], {}
    settings = SearchSettings(**PLAIN)
    for name, make in small_sets().items():
        best = best_score(make(), settings)
        for search in ("secure-boss", "secure-ges"):
            found = []
            for order in ORDERS:
                data = shuffled(make(), order)
                structure, _ = learn(search, PLAIN, data, order)
                found.append(AgainstOptimum(order, score_of(structure, data, settings), best))
            runs[f"{name}, {search}"] = found
        line: dict[str, Any] = {"data": name, "optimum": f"{best:.3f}"}
        for search in ("secure-boss", "secure-ges"):
            of = runs[f"{name}, {search}"]
            line[f"{search}: orders that reach it"] = f"{sum(run.reached for run in of)}/{len(of)}"
            line[f"{search}: greatest gap"] = f"{best - min(run.score for run in of):.3f}"
        rows.append(line)
    publish("optima", "Searches against exact optima, five orders of the columns", rows, runs)


def orders() -> None:
    """One data set per network with its columns in five orders, to measure the effect of their order."""
    rows, runs = [], {}
    for name in ("alarm", "hailfinder", "win95pts"):
        data = network(name, 5, ROWS // 5, 2)
        for search in ("ges", "boss"):
            both = [(learn(search, {}, shuffled(data, order), order), shuffled(data, order)) for order in ORDERS]
            runs[f"{name}, {search}"] = of = [scored for (_, scored), _ in both]
            scores = [score_of(structure, one, SearchSettings()) for (structure, _), one in both]
            line = {
                "network": name,
                "search": search,
                "SMHD": spread(of, "smhd"),
                "SHD of CPDAGs": spread(of, "shd_cpdag"),
            }
            line |= {"SMHD of each": ", ".join(f"{run.smhd:g}" for run in of), "edges": spread(of, "edges")}
            line |= {"BDeu": f"{statistics.mean(scores):.2f}", "range of BDeu": f"{max(scores) - min(scores):.3f}"}
            line |= {"CPU s": spread(of, "cpu_seconds", 2), "asked SMHD": f"≤ {ASKED[name][0]:g}"}
            rows.append(line)
    publish("orders", "Pooled searches on one data set, five orders of the columns and seeds", rows, runs)


def publish(name: str, title: str, rows: Sequence[dict[str, Any]], runs: dict[str, Any]) -> None:
    """Print the table with its title, and record it."""
    print(f"## {title} (`python benchmarks/score.py --table {name}`)")
    show(f"score-{name}", [dict.fromkeys(rows[0], "") | line for line in rows], runs)


TABLES: dict[str, Callable[[], None]] = {
    "fed": federated,
    "pooled": pooled,
    "ahead": look_ahead,
    "large": large,
    "optima": optima,
    "orders": orders,
}


if __name__ == "__main__":
    run_tables(TABLES, __doc__, __file__, warm_up)
