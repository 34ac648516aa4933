"""The constraint-based learners on discrete data, as in Wang, Ma & Wang: SHD, exchanges, bytes, CPU seconds.

`python benchmarks/constraint.py` runs all tables, `--table NAME` one of them, each in a process of its own. Seeds 2 to
11; the defaults were chosen on seeds from 100 on. SHD is strict, between CPDAGs or PAGs; "lenient" is the paper's.
"""

import resource
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from measure import run_tables
from measure import show as show_table

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import FederatedAlgorithm, Replies, Traffic, gather, rounds, traffic_of
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.data.federated import FederatedData, pool
from fedbnsl.data.generators.discrete import discrete
from fedbnsl.data.networks.published import network
from fedbnsl.data.networks.sachs import discrete_sachs, sachs_truth
from fedbnsl.data.networks.surrogate import surrogate
from fedbnsl.tasks.transport.in_process import InProcessFederation

SEEDS = range(2, 12)
ROWS = 10_000
LEVELS = (2, 6)
PC = ("fed-pc", "pc", "pc-voting", "pc-cit-voting")
FCI = ("fed-fci", "fci", "fci-voting", "fci-cit-voting")
NETWORKS = ("child", "insurance", "alarm", "hailfinder", "win95pts")
LARGE = ("andes", "pathfinder", "pigs")
Make = Callable[[int], FederatedData]


@dataclass(frozen=True)
class Measured:
    """One run against the truth; CPU seconds of this process, with the data in memory and the code compiled."""

    seed: int
    shd: float
    lenient: float
    skeleton: float
    exchanges: int
    megabytes: float
    cpu_seconds: float
    tests: float


@dataclass
class Losing(InProcessFederation):
    """A federation in which a fifth of the silos, the last by name, answer only the first exchange."""

    def exchange(
        self, algorithm: FederatedAlgorithm[Any, Any, Any, Any], number: int, broadcast: Any, sparse: Any = None
    ) -> tuple[Replies[Any], Traffic]:
        """Call the remaining silos (see `Federation.exchange`)."""
        if number == 1:
            return super().exchange(algorithm, number, broadcast, sparse)
        left = self.schema.silos[: len(self.schema.silos) * 4 // 5]
        replies = {silo: self.reply(algorithm, number, silo, broadcast) for silo in left}
        return gather(algorithm, replies), traffic_of(algorithm, broadcast, replies)


def learn(
    name: str, params: dict[str, Any], data: FederatedData, seed: int = 0, *, losing: bool = False
) -> tuple[Structure, Measured]:
    """Learn inline from `data`, whose truth is a DAG or a PAG, and compare."""
    data = pool(data) if registry.entry(name).pooled else data
    algorithm = registry.build(registry.specify(name, params))
    federation = (Losing if losing else InProcessFederation)(data.schema, data.tables, seed)
    traffic, start = Traffic(), time.process_time()
    for last in rounds(algorithm, federation):
        traffic = traffic + last.traffic
    structure = algorithm.structure(last.server)
    cpu = time.process_time() - start
    assert data.truth is not None
    score = {key: value or 0.0 for key, value in compare(structure, data.truth).items()}
    return structure, Measured(
        seed,
        score["shd"],
        score["shd_lenient"],
        score["shd_skeleton"],
        last.number,
        (traffic.up + traffic.down) / 1e6,
        cpu,
        algorithm.measures(last.server).get("tests", 0.0),
    )


def over(name: str, make: Make, seeds: Iterable[int] = SEEDS, losing: bool = False, **params: Any) -> list[Measured]:
    """Learn once per seed, after a first run that compiles the code."""
    learn(name, params, discrete(6, 2, 50, 0))
    return [learn(name, params, make(seed), seed, losing=losing)[1] for seed in seeds]


def row(label: str, runs: Sequence[Measured], asked: str = "") -> dict[str, Any]:
    """A table row: means over the runs, of the SHD with its standard deviation."""

    def mean(field: str) -> float:
        return statistics.mean(getattr(run, field) for run in runs)

    sd = statistics.stdev(run.shd for run in runs) if len(runs) > 1 else 0.0
    return {
        "run": label,
        "seeds": len(runs),
        "SHD": f"{mean('shd'):.2f} ± {sd:.2f}",
        "lenient": f"{mean('lenient'):.2f}",
        "skeleton": f"{mean('skeleton'):.2f}",
        "exchanges": f"{mean('exchanges'):.1f}",
        "tests": f"{mean('tests'):.0f}",
        "MB": f"{mean('megabytes'):.2f}",
        "CPU s": f"{mean('cpu_seconds'):.3f}",
        "most CPU s": f"{max(run.cpu_seconds for run in runs):.3f}",
        "peak MB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "asked": asked,
    }


Cell = tuple[str, str, Make, dict[str, Any], str]


def show(title: str, rows: Sequence[dict[str, Any]], runs: dict[str, Sequence[Measured]], seeds: Iterable[int]) -> None:
    """Print the table with its command and seeds, and record it."""
    listed = sorted(seeds)
    command = f"python benchmarks/constraint.py --table {title.removeprefix('constraint-')}"
    print(f"`{command}`, seeds {listed[0]} to {listed[-1]}", flush=True)
    show_table(title, rows, runs)


def table(title: str, cells: Sequence[Cell], seeds: Iterable[int] = SEEDS) -> None:
    """Run and show one table: a row per (label, algorithm, data, params, figure asked for)."""
    rows, runs = [], {}
    for label, name, make, params, asked in cells:
        runs[label] = over(name, make, seeds, **params)
        rows.append(row(label, runs[label], asked))
    show(title, rows, runs, seeds)


def er(variables: int, silos: int = 10) -> Make:
    """The maker of the paper's homogeneous data: 10,000 rows of an ER network, as many edges as variables."""
    return lambda seed: discrete(variables, silos, ROWS // silos, seed, levels=LEVELS)


def sizes() -> None:
    """Networks of 10 to 100 variables, K = 10."""
    asked = {20: "SHD ≤ 2.2, ≤ 0.6 CPU s", 50: "≤ 3 CPU s", 100: "≤ 15 CPU s"}
    table(
        "constraint-sizes",
        [
            (f"{name}, d = {d}", name, er(d), {}, asked.get(d, "") if name == "fed-pc" else "")
            for d in (10, 20, 50, 100)
            for name in PC
        ],
    )


def with_latent(variables: int, latent: int) -> Make:
    """The maker of data of which some variables are hidden, common causes first; the truth is a PAG."""
    return lambda seed: discrete(variables, 10, ROWS // 10, seed, levels=LEVELS, latent=latent)


def latent() -> None:
    """FCI without and with a tenth of the variables hidden."""
    table(
        "constraint-latent",
        [
            (f"{name}, d = {d}, {hidden} hidden", name, with_latent(d, hidden), {}, "")
            for d, hidden in ((10, 0), (20, 0), (20, 2), (50, 0), (50, 5))
            for name in FCI
        ],
    )


def silos() -> None:
    """Silos from 2 to 64, d = 20: the same graph for every K."""
    cells: list[Cell] = [
        (f"{name}, K = {k}", name, er(20, k), {}, "≤ 1.5 CPU s" if (name, k) == ("fed-pc", 64) else "")
        for k in (2, 4, 8, 16, 32, 64)
        for name in ("fed-pc", "pc-voting", "pc-cit-voting")
    ]
    table("constraint-silos", cells)


def heterogeneous() -> None:
    """Rows split by a hidden child of five variables, against the same rows dealt at random, d = 20, K = 4."""
    cells: list[Cell] = []
    for name in PC:
        for parents, split in ((0, "homogeneous"), (5, "surrogate")):

            def make(seed: int, parents: int = parents) -> FederatedData:
                return surrogate(4, ROWS // 4, seed, parents=parents, variables=20, levels=LEVELS)

            cells.append((f"{name}, {split}", name, make, {}, "within 0.5 of homogeneous" if name == "fed-pc" else ""))
    table("constraint-surrogate", cells)


def dropout() -> None:
    """A fifth of K = 10 silos is lost after the first exchange, d = 20."""
    rows, runs = [], {}
    for losing in (False, True):
        label = "fed-pc, " + ("2 of 10 silos lost" if losing else "all silos")
        runs[label] = over("fed-pc", er(20), losing=losing)
        rows.append(row(label, runs[label], "SHD at most 1 more" if losing else ""))
    show("constraint-dropout", rows, runs, SEEDS)


def networks() -> None:
    """Published networks, 5,000 rows over 10 silos."""
    asked = {"alarm": "≤ 2 CPU s, ≤ 8 exchanges"}
    table("constraint-networks", [_network(net, asked.get(net, "")) for net in NETWORKS], range(2, 5))


def large(net: str) -> None:
    """One of the networks on which other programs do not finish, 5,000 rows over 10 silos."""
    table(f"constraint-{net}", [_network(net, "≤ 600 s, ≤ 4 GB")], range(2, 3))


def _network(net: str, asked: str) -> Cell:
    return (f"fed-pc, {net}", "fed-pc", lambda seed: network(net, 10, 500, seed), {}, asked)


def sachs_table() -> None:
    """Discrete Sachs, 853 rows, K = 2 to 64: the same graph for every K."""
    truth = sachs_truth("17")
    rows = []
    for k in (2, 4, 8, 16, 32, 64):
        found = [learn("fed-pc", {}, discrete_sachs(k, 853, seed))[0] for seed in SEEDS]
        same = [learn("pc", {}, discrete_sachs(1, 853, seed))[0] for seed in SEEDS]
        scores = [compare(one, truth) for one in found]
        rows.append(
            {
                "K": k,
                "SHD": statistics.mean(score["shd"] or 0 for score in scores),
                "lenient": statistics.mean(score["shd_lenient"] or 0 for score in scores),
                "same graph as pooled": sum(
                    np.array_equal(a.reordered(b.variables).weights, b.weights)
                    for a, b in zip(found, same, strict=True)
                ),
                "asked": "the same for every K",
            }
        )
    show("constraint-sachs", rows, {}, SEEDS)


def projection() -> None:
    """The paper's random projections beside exact sums, K = 10."""
    table(
        "constraint-projection",
        [
            (f"fed-pc, {mode}, d = {d}", "fed-pc", er(d), {"mode": mode}, "")
            for d in (10, 20)
            for mode in ("exact", "projection")
        ],
    )


def private() -> None:
    """Noise on the counts by ε, fresh from the operating system in every run, K = 10, δ = 1e-6."""
    cells: list[Cell] = [
        (f"fed-pc, ε = {epsilon:g}, d = {d}", "fed-pc", er(d), {"epsilon": epsilon} if epsilon < np.inf else {}, "")
        for d in (10, 20)
        for epsilon in (1.0, 2.0, 5.0, 10.0, 20.0, np.inf)
    ]
    table("constraint-private", cells)


def rfcd() -> None:
    """Regret instead of tests: K = 10 silos, and K = 4 split by a hidden child of five variables, d = 20."""
    hidden: Make = lambda seed: surrogate(4, ROWS // 4, seed, parents=5, variables=20, levels=LEVELS)  # noqa: E731
    makes = (("homogeneous, d = 10, K = 10", er(10)), ("homogeneous, d = 20, K = 10", er(20)), ("surrogate", hidden))
    names = ("rfcd", "fed-pc")
    table("constraint-rfcd", [(f"{name}, {label}", name, make, {}, "") for label, make in makes for name in names])


TABLES: dict[str, Callable[[], None]] = {
    "sizes": sizes,
    "silos": silos,
    "surrogate": heterogeneous,
    "dropout": dropout,
    "latent": latent,
    "networks": networks,
    **{net: partial(large, net) for net in LARGE},
    "sachs": sachs_table,
    "projection": projection,
    "private": private,
    "rfcd": rfcd,
}


if __name__ == "__main__":
    run_tables(TABLES, __doc__, __file__)
