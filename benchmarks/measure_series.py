"""Run learners of time series over several seeds and score W and A separately, as means over the silos."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from measure import Learned, mean_and_sd, run, show
from threadpoolctl import threadpool_limits

from fedbnsl import learn
from fedbnsl.algorithms import registry
from fedbnsl.algorithms.choose import AUTO
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.statistics.moments import Units, units_of
from fedbnsl.data.federated import FederatedData
from fedbnsl.flows.job.job import Job
from fedbnsl.flows.job.truth_scores import Metrics, score_run
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.tasks.transport.in_process import InProcessFederation

SEEDS = range(2, 12)
Maker = Callable[[int], FederatedData]


@dataclass(frozen=True)
class Cell:
    """One row of a table: an algorithm on some data, with the paper's figure and the required one."""

    label: str
    name: str
    make: Maker
    params: dict[str, Any] = field(default_factory=dict)
    paper: str = ""
    asked: str = ""
    seeds: Sequence[int] = SEEDS


@dataclass(frozen=True)
class SeriesRun:
    """One run: W and A against the truth, or each silo's own truth; rounds, bytes and CPU seconds."""

    seed: int
    shd: float
    tpr: float
    fdr: float
    true_edges: float
    lagged_shd: float
    lagged_tpr: float
    lagged_fdr: float
    lagged_true_edges: float
    auroc: float
    aupr: float
    rounds: int
    megabytes: float
    cpu_seconds: float
    converged: bool


SCORES = ("shd", "tpr", "fdr", "true_edges")


def learn_series(name: str, params: dict[str, Any], data: FederatedData, seed: int = 0) -> SeriesRun:
    """Learn from `data` and score as the command line does."""
    learned = run(name, params, data, seed)
    found = scores(learned, data)
    names = (*SCORES, *(f"lagged_{one}" for one in SCORES), "auroc", "aupr")
    figures = {one: float("nan") if (value := found.get(one)) is None else float(value) for one in names}
    return SeriesRun(
        seed=seed,
        **figures,
        rounds=learned.last.number,
        megabytes=(learned.traffic.up + learned.traffic.down) / 1e6,
        cpu_seconds=learned.cpu_seconds,
        converged=learned.last.outcome == "converged",
    )


def scores(learned: Learned, data: FederatedData) -> Metrics:
    """The scores of a run against the common true graph of `data`, or against the silos' own ones."""
    spec = registry.specify("var")
    settings = LearnSettings(data="benchmark", algorithm="var")
    job = Job(settings, "benchmark", "inline", spec, truth=data.truth, silo_weights=data.silo_weights)
    return score_run(learned.algorithm, learned.last.server, learned.entry, job).metrics


def learn_auto(data: FederatedData, seed: int = 0) -> SeriesRun:
    """Run `learn` as it is by default, without parameters and resamples, and score it."""
    start = time.process_time()
    found = learn(data, parameters=False, bootstrap=0, seed=seed).result.metrics
    seconds = time.process_time() - start
    names = (*SCORES, *(f"lagged_{one}" for one in SCORES), "auroc", "aupr")
    figures = {one: float("nan") if (value := found.get(one)) is None else float(value) for one in names}
    sent = sum(int(found.get(key) or 0) for key in ("bytes_up", "bytes_down", "diagnosis_bytes"))
    return SeriesRun(
        seed=seed,
        **figures,
        rounds=int(str(found["rounds"])),
        megabytes=sent / 1e6,
        cpu_seconds=seconds,
        converged=bool(found["converged"]),
    )


def with_units(data: FederatedData) -> FederatedData:
    """`data` with the units of masked sums, which a run computes in an exchange of its own."""
    *_, last = rounds(registry.build(AlgorithmSpec("units", Units())), InProcessFederation(data.schema, data.tables))
    return replace(data, schema=replace(data.schema, units=tuple(map(float, units_of(last.server)))))


def over_series(cell: Cell) -> list[SeriesRun]:
    """Learn once a seed, on one BLAS thread; the compiled code is warmed up first."""
    with threadpool_limits(1):
        if cell.name == AUTO:
            learn_auto(cell.make(cell.seeds[0]))
            return [learn_auto(cell.make(seed), seed) for seed in cell.seeds]
        few = {"rounds": 3} if "rounds" in registry.parameter_names(cell.name) else {}
        run(cell.name, cell.params | few, cell.make(cell.seeds[0]))
        return [learn_series(cell.name, cell.params, cell.make(seed), seed) for seed in cell.seeds]


def series_row(cell: Cell, runs: Sequence[SeriesRun]) -> dict[str, Any]:
    """A table row: mean ± sd of the distances, means of the rest."""

    def mean(name: str, digits: int = 2) -> str:
        return mean_and_sd([float(getattr(one, name)) for one in runs], digits).split(" ")[0]

    return {
        "run": cell.label,
        "seeds": len(runs),
        "W SHD": mean_and_sd([one.shd for one in runs], 1),
        "W TPR": mean("tpr"),
        "W FDR": mean("fdr"),
        "A SHD": mean_and_sd([one.lagged_shd for one in runs], 1),
        "A TPR": mean("lagged_tpr"),
        "A FDR": mean("lagged_fdr"),
        "true edges W, A": f"{mean('true_edges', 1)}, {mean('lagged_true_edges', 1)}",
        "rounds": mean("rounds", 0),
        "converged": f"{sum(one.converged for one in runs)}/{len(runs)}",
        "MB": mean("megabytes"),
        "CPU s": mean_and_sd([one.cpu_seconds for one in runs], 2),
        "paper W, A": cell.paper,
        "asked": cell.asked,
    }


def series_table(title: str, cells: Sequence[Cell]) -> None:
    """Run and show one table, a row a cell."""
    runs = {cell.label: over_series(cell) for cell in cells}
    show(title, [series_row(cell, runs[cell.label]) for cell in cells], runs)
