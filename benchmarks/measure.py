"""Run an algorithm over several seeds in this process and report accuracy, traffic and CPU seconds, mean and sd."""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import FederatedAlgorithm, Round, Traffic, rounds
from fedbnsl.algorithms.core.spec import Entry
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.data.federated import FederatedData, pool
from fedbnsl.tasks.transport.in_process import InProcessFederation

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Measured:
    """One run: accuracy against the truth, rounds, bytes and CPU seconds of this process, data preparation left out."""

    seed: int
    shd: float
    tpr: float
    fdr: float
    edges: float
    rounds: int
    formula_megabytes: float
    real_megabytes: float
    cpu_seconds: float
    converged: bool
    acyclic: bool


@dataclass(frozen=True)
class Learned:
    """The result of one run: its last round, the structure, the bytes of all rounds, and its CPU seconds."""

    entry: Entry
    algorithm: FederatedAlgorithm[Any, Any, Any, Any]
    last: Round[Any]
    structure: Structure
    traffic: Traffic
    cpu_seconds: float


def run(name: str, params: dict[str, Any], data: FederatedData, seed: int = 0) -> Learned:
    """Learn from `data` inline; baselines that see all rows get them in one silo."""
    entry = registry.entry(name)
    algorithm = registry.build(registry.specify(name, params))
    data = pool(data) if entry.pooled else data
    federation = InProcessFederation(data.schema, data.tables, seed)
    traffic = Traffic()
    start = time.process_time()
    for last in rounds(algorithm, federation):
        traffic = traffic + last.traffic
    structure = algorithm.structure(last.server)
    return Learned(entry, algorithm, last, structure, traffic, time.process_time() - start)


def learn(name: str, params: dict[str, Any], data: FederatedData, seed: int = 0) -> tuple[Structure, Measured]:
    """Learn from `data` inline and score against its truth."""
    learned = run(name, params, data, seed)
    algorithm, last, structure, traffic = learned.algorithm, learned.last, learned.structure, learned.traffic
    structures = [structure]
    if algorithm.local_structures is not None and not learned.entry.vote:
        structures = list(algorithm.local_structures(last.server).values())
    assert data.truth is not None
    scores = [compare(one, data.truth) for one in structures]
    if learned.entry.needs_truth:
        scores = [min(scores, key=lambda score: score["shd"] or 0)]
    return structure, Measured(
        seed=seed,
        shd=_mean(scores, "shd"),
        tpr=_mean(scores, "tpr"),
        fdr=_mean(scores, "fdr"),
        edges=_mean(scores, "edges"),
        rounds=last.number,
        formula_megabytes=traffic.formula / 1e6,
        real_megabytes=(traffic.up + traffic.down) / 1e6,
        cpu_seconds=learned.cpu_seconds,
        converged=last.outcome == "converged",
        acyclic=structure.acyclic,
    )


def over_seeds(
    name: str, params: dict[str, Any], make: Callable[[int], FederatedData], seeds: Sequence[int]
) -> list[Measured]:
    """Learn once a seed from `make(seed)`, on one BLAS thread; the compiled code is warmed up first."""
    with threadpool_limits(1):
        few = {"rounds": 3} if "rounds" in registry.parameter_names(name) else {}
        learn(name, params | few, make(seeds[0]), 0)
        return [learn(name, params, make(seed), seed)[1] for seed in seeds]


def mean_and_sd(values: Sequence[float], digits: int) -> str:
    """The mean of `values` ± their standard deviation."""
    sd = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.{digits}f} ± {sd:.{digits}f}"


def row(label: str, runs: Sequence[Measured], asked: str = "") -> dict[str, Any]:
    """A table row: mean ± sd of each figure over the runs."""

    def spread(field: str, digits: int) -> str:
        return mean_and_sd([float(getattr(run, field)) for run in runs], digits)

    return {
        "run": label,
        "seeds": len(runs),
        "SHD": spread("shd", 2),
        "TPR": spread("tpr", 3),
        "FDR": spread("fdr", 3),
        "rounds": spread("rounds", 0),
        "MB (formula)": spread("formula_megabytes", 2),
        "MB (real)": spread("real_megabytes", 2),
        "CPU s": spread("cpu_seconds", 2),
        "converged": f"{sum(run.converged for run in runs)}/{len(runs)}",
        "acyclic": f"{sum(run.acyclic for run in runs)}/{len(runs)}",
        "peak MB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "asked": asked,
    }


def show(title: str, rows: Sequence[dict[str, Any]], runs: Mapping[str, Sequence[Any]]) -> None:
    """Print `rows` as a Markdown table and write them, with every single run, to results/<title>.json."""
    columns = list(rows[0])
    print(f"\n### {title}\n")
    print("| " + " | ".join(columns) + " |")
    print("|" + " --- |" * len(columns))
    for line in rows:
        print("| " + " | ".join(str(line[column]) for column in columns) + " |")
    RESULTS.mkdir(exist_ok=True)
    written = {"rows": rows, "runs": {label: [asdict(run) for run in of] for label, of in runs.items()}}
    (RESULTS / f"{title}.json").write_text(json.dumps(written, indent=1) + "\n")


def run_tables(
    tables: dict[str, Callable[[], None]], about: str | None, script: str, before: Callable[[], None] = lambda: None
) -> None:
    """Run the one of `tables` that the command line asks for, after `before`; else each in a process of its own."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--table", choices=tables)
    chosen = parser.parse_args().table
    if chosen:
        with threadpool_limits(1):
            before()
            tables[chosen]()
        return
    for name in tables:
        subprocess.run([sys.executable, script, "--table", name], check=True)


def _mean(scores: Sequence[dict[str, Any]], key: str) -> float:
    return float(np.mean([score[key] if score[key] is not None else np.nan for score in scores]))
