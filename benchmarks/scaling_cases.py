"""Cases of `scaling.py`: their data and learners, and one run of a case in a process of its own.

A process draws the data and runs the learner once on a small table to load compiled code. It then measures CPU seconds
on one thread, the bytes of all messages, and its peak memory including the data.
"""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

TIMEOUT_SECONDS = 310
"""CPU seconds of a process, after which it is stopped"""
STOPPED = "not within the limit"
PEERS = ("pgmpy hill climbing",)
"""learners of other projects, on pooled rows"""
ALONE: Mapping[str, Any] = {"parameters": False, "diagnose": False}
"""options of `learn` for a learner without the exchanges around it"""


@dataclass(frozen=True)
class Case:
    """One combination of data and learner; `required` are CPU seconds, megabytes sent and megabytes of memory."""

    name: str
    data: str
    """a key of `MAKERS`"""
    sizes: Mapping[str, Any]
    algorithm: str = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)
    required: tuple[float | None, float | None, float | None] = (None, None, None)
    without_solves: bool = False
    """whether the required seconds are without those in which silos add up their rows"""
    limit_seconds: int = TIMEOUT_SECONDS


def numbers(variables: int, silos: int, rows: int, edges: int, standardised: bool = False) -> Any:
    """A linear model with Gaussian errors of equal variance, with or without a column's scale."""
    from fedbnsl.data.generators.linear import homogeneous

    made = homogeneous(variables, silos, rows, 2, edges)
    if standardised:
        import numpy as np

        whole = np.vstack(list(made.tables.values()))
        scale = whole.std(axis=0)
        made = replace(made, tables={silo: table / scale for silo, table in made.tables.items()})
    return made


def labels(variables: int, silos: int, rows: int, edges: int, levels: tuple[int, int] = (2, 4)) -> Any:
    """A random discrete network."""
    from fedbnsl.data.generators.discrete import discrete

    return discrete(variables, silos, rows, 2, degree=2 * edges / variables, levels=levels)


def published(network: str, silos: int, rows: int) -> Any:
    """Rows of a published network, columns in a random order."""
    from score_orders import shuffled

    from fedbnsl.data.networks import published

    return shuffled(published.network(network, silos, rows, 2), 2)


MAKERS: dict[str, Callable[..., Any]] = {"numbers": numbers, "labels": labels, "published": published}
SMALL = {
    "numbers": {"variables": 6, "silos": 3, "rows": 200, "edges": 6},
    "labels": {"variables": 6, "silos": 3, "rows": 200, "edges": 6},
    "published": {"network": "asia", "silos": 3, "rows": 200},
}


def measure(case: Case) -> dict[str, Any]:
    """The figures of one run of `case` in this process; the peak of memory needs Linux."""
    import resource

    limit = case.limit_seconds
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
    run = peer if case.algorithm in PEERS else without_solves if case.without_solves else ours
    run(case, MAKERS[case.data](**SMALL[case.data]))
    data = MAKERS[case.data](**case.sizes)
    Path("/proc/self/clear_refs").write_text("5")  # the peak of memory is from here on, without the drawing of the data
    figures = run(case, data)
    status = Path("/proc/self/status").read_text()
    return figures | {"memory": int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e6}


def ours(case: Case, data: Any) -> dict[str, Any]:
    """CPU seconds, megabytes and accuracy of `learn`."""
    from fedbnsl import learn

    begin = time.process_time()
    learned = learn(data, case.algorithm, **case.options)
    seconds = time.process_time() - begin
    metrics = learned.metrics
    sent = sum(float(metrics[key] or 0) for key in metrics if "bytes" in key and "formula" not in key)
    return {
        "seconds": seconds,
        "megabytes": sent / 1e6,
        "shd": metrics["shd_cpdag" if case.data != "numbers" else "shd"],
        "learner": learned.result.algorithm,
    }


def without_solves(case: Case, data: Any) -> dict[str, Any]:
    """The same of the learner alone, without masks and without the CPU seconds in which silos read and add up rows."""
    from fedbnsl.algorithms import registry
    from fedbnsl.algorithms.core.protocol import Traffic, rounds
    from fedbnsl.algorithms.graphs.compare import compare
    from fedbnsl.tasks.transport.in_process import InProcessFederation

    solving = [0.0]

    def timed(work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any) -> Any:
            begin = time.process_time()
            try:
                return work(*given)
            finally:
                solving[0] += time.process_time() - begin

        return run

    algorithm = registry.build(registry.specify(case.algorithm, {}))
    algorithm = replace(algorithm, open_silo=timed(algorithm.open_silo), local_solve=timed(algorithm.local_solve))
    begin, traffic = time.process_time(), Traffic()
    for last in rounds(algorithm, InProcessFederation(data.schema, data.tables, 0)):
        traffic = traffic + last.traffic
    structure = algorithm.structure(last.server)
    seconds = time.process_time() - begin - solving[0]
    return {
        "seconds": seconds,
        "megabytes": (traffic.up + traffic.down) / 1e6,
        "shd": compare(structure, data.truth)["shd"],
        "learner": case.algorithm,
    }


def peer(case: Case, data: Any) -> dict[str, Any]:
    """The same of pgmpy's hill climbing by BIC, which sees all rows."""
    import numpy as np
    import pandas as pd
    from pgmpy.estimators import HillClimbSearch

    from fedbnsl.algorithms.graphs.compare import compare
    from fedbnsl.algorithms.graphs.structure import Structure

    table = pd.concat([pd.DataFrame(rows, columns=data.schema.variables) for rows in data.tables.values()])
    begin = time.process_time()
    found = HillClimbSearch(table.astype("category")).estimate(scoring_method="bic-d", show_progress=False)
    seconds = time.process_time() - begin
    index = {name: i for i, name in enumerate(data.schema.variables)}
    weights = np.zeros((len(index), len(index)))
    for source, target in found.edges():
        weights[index[source], index[target]] = 1.0
    score = compare(Structure(data.schema.variables, weights, "dag"), data.truth)["shd_cpdag"]
    return {"seconds": seconds, "megabytes": 0.0, "shd": score, "learner": case.algorithm}


def run_apart(script: Path, words: tuple[str, ...]) -> dict[str, Any] | str:
    """The figures that `script` prints in a separate process, or the reason that there are none."""
    command = [sys.executable, "-W", "ignore", str(script), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == -signal.SIGXCPU:
        return STOPPED
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        return (done.stderr.strip().splitlines() or ["no output"])[-1]
    figures: dict[str, Any] = json.loads(lines[-1])
    return figures


def silos_case(silos: int, seconds: float) -> Case:
    """20 variables in so many silos, by default settings."""
    sizes = {"variables": 20, "silos": silos, "rows": 200, "edges": 40}
    return Case(f"d = 20, {silos} silos", "numbers", sizes, required=(seconds, 12, None))


def network_case(
    network: str,
    silos: int,
    rows: int,
    required: tuple[float | None, float | None, float | None],
    algorithm: str = "auto",
) -> Case:
    """A published network."""
    sizes = {"network": network, "silos": silos, "rows": rows}
    name = f"{network.upper()}, {silos} silos of {rows:,} rows"
    return Case(name, "published", sizes, algorithm, {}, required)


def within(case: Case, megabytes: int) -> Case:
    """`case` with a budget of bytes, whose search ends with the best graph so far."""
    return replace(case, name=f"{case.name}, budget of {megabytes:,} MB", options={"megabytes": megabytes})


def equal_variances(d: int, seconds: float) -> Case:
    """Equal variances, learned by default settings."""
    sizes = {"variables": d, "silos": 2, "rows": 20_000, "edges": 2 * d}
    return Case(f"equal variances, d = {d}", "numbers", sizes, "secure-linear", ALONE, (seconds, None, None), True)


def standardised(d: int, seconds: float) -> Case:
    """The same on standardised columns."""
    sizes = {"variables": d, "silos": 2, "rows": 20_000, "edges": 2 * d, "standardised": True}
    return Case(f"standardised, d = {d}", "numbers", sizes, "secure-linear", ALONE, (seconds, None, None))


def binary(d: int, seconds: float) -> Case:
    """Labels of two levels."""
    sizes = {"variables": d, "silos": 10, "rows": 500, "edges": d, "levels": (2, 2)}
    return Case(f"binary, d = {d}", "labels", sizes, "auto", {}, (seconds, None, None))


REQUIRED: tuple[Case, ...] = (
    silos_case(8, 0.4),
    silos_case(64, 2),
    silos_case(256, 8),
    equal_variances(500, 0.5),
    equal_variances(1000, 2),
    equal_variances(2000, 8),
    equal_variances(3000, 30),
    standardised(200, 5),
    standardised(500, 25),
    standardised(1000, 200),
    Case(
        "fed-sparse, d = 500",
        "numbers",
        {"variables": 500, "silos": 8, "rows": 5000, "edges": 1000},
        "fed-sparse",
        ALONE,
        (15, None, None),
    ),
    network_case("alarm", 2, 2500, (4, None, 300)),
    network_case("alarm", 10, 500, (5, None, 300)),
    network_case("alarm", 64, 78, (12, None, 300)),
    network_case("alarm", 256, 50, (60, None, None)),
    network_case("alarm", 2, 150_000, (6, None, 400), "secure-boss"),
    network_case("alarm", 2, 500_000, (20, None, 400), "secure-boss"),
    network_case("pathfinder", 10, 500, (10, None, None)),
    binary(500, 20),
    binary(1000, 90),
    network_case("pigs", 10, 500, (15, 200, None)),
    network_case("link", 10, 500, (90, 2000, None)),
    network_case("diabetes", 10, 500, (300, 2000, None)),
    within(network_case("diabetes", 10, 500, (300, 2000, None)), 2000),
    replace(within(network_case("munin", 10, 500, (None, 2000, None)), 2000), limit_seconds=1800),
    within(network_case("link", 10, 500, (90, 2000, None)), 2000),
)
"""the cases whose seconds, bytes and memory were required beforehand"""
