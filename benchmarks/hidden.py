"""PAGs of twenty visible variables with 0, 3 and 6 hidden causes: `fed-bfci` and `fed-fci` beside causal-learn's FCI.

Numbers follow a linear model over a random DAG of mean degree 2, with weights of .5 to 1.5 in absolute value and random
sign; mixed tables follow `prepare mixed`. Hidden are common causes first (`data/generators/hidden_variables.py`). Three
silos of equal size. Adjacency F1, the share of learned arrowheads that the true PAG has, the share of its arrowheads
that were found, SHD between PAGs, and CPU seconds. Writes `results/hidden-causes.json`.

causal-learn needs packages that this project does not install: give a Python that has it. Its FCI gets the rows about
the means of the silos.

    .venv/bin/python benchmarks/hidden.py [--seeds 20] [--peer PYTHON]
"""

import argparse
import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from measure import show
from numpy.typing import NDArray

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.graphs.pag import ARROW, pag_of
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.data.federated import FederatedData, continuous, silo_names
from fedbnsl.data.generators.hidden_variables import hide
from fedbnsl.data.generators.mixed import mixed
from fedbnsl.tasks.transport.in_process import InProcessFederation

FIRST_SEED = 1000
VISIBLE, SILOS = 20, 3
PEER = """
import sys, time, numpy as np
from causallearn.search.ConstraintBased.FCI import fci
given, alpha, found = np.load(sys.argv[1]), float(sys.argv[2]), {}
for name in given.files:
    start = time.process_time()
    graph = fci(given[name], "fisherz", alpha, show_progress=False)[0].graph
    found[name + " seconds"] = time.process_time() - start
    found[name] = np.select([graph.T == -1, graph.T == 1, graph.T == 2], [1, 2, 3])
np.savez(sys.argv[3], **found)
"""
Figures = tuple[float, ...]


def linear(seed: int, hidden: int, rows: int) -> FederatedData:
    """Numbers with this number of `hidden` causes, and the true PAG."""
    rng, d = np.random.default_rng(seed), VISIBLE + hidden
    order = rng.permutation(d)
    dag = np.triu(rng.random((d, d)) < 2 / (d - 1), 1)[np.ix_(order, order)]
    weights = dag * rng.uniform(0.5, 1.5, (d, d)) * rng.choice([-1, 1], (d, d))
    table = rng.standard_normal((rows, d)) @ np.linalg.inv(np.eye(d) - weights)
    parts = dict(zip(silo_names(SILOS), np.array_split(table, SILOS), strict=True))
    names = tuple(f"x{v:02}" for v in range(d))
    return with_pag(FederatedData(continuous(parts, names), parts, Structure(names, weights)), hidden, seed)


def with_labels(seed: int, hidden: int, rows: int) -> FederatedData:
    """Numbers and labels with this number of `hidden` causes, and the true PAG."""
    d = VISIBLE + hidden
    return with_pag(mixed(d, SILOS, rows // SILOS, seed, edges=d), hidden, seed)


def with_pag(data: FederatedData, hidden: int, seed: int) -> FederatedData:
    """`data` without hidden variables, with the PAG as the truth."""
    if hidden:
        return hide(data, hidden, np.random.default_rng(seed))
    assert data.truth is not None
    marks = pag_of(data.truth.adjacency, []).astype(np.float64)
    return replace(data, truth=Structure(data.schema.variables, marks, "pag"))


def figures(marks: NDArray[np.float64], truth: NDArray[np.float64], seconds: float) -> Figures:
    """Adjacency F1, precision and recall of arrowheads, SHD, CPU seconds."""
    joined, true = marks != 0, truth != 0
    heads, true_heads = marks == ARROW, truth == ARROW
    both = int((heads & true_heads).sum())
    differ = (marks != truth) | (marks != truth).T
    f1 = 2 * (joined & true).sum() / max(int(joined.sum() + true.sum()), 1)
    precision = both / heads.sum() if heads.any() else np.nan
    return float(f1), precision, both / max(int(true_heads.sum()), 1), float(np.triu(differ).sum()), seconds


def ours(name: str, data: FederatedData) -> Figures:
    """The figures of a learner of this package with its defaults."""
    algorithm = registry.build(registry.specify(name, {}))
    start = time.process_time()
    *_, last = rounds(algorithm, InProcessFederation(data.schema, data.tables))
    seconds = time.process_time() - start
    assert data.truth is not None
    return figures(algorithm.structure(last.server).weights, data.truth.weights, seconds)


def theirs(python: str, alpha: float, draws: list[FederatedData]) -> list[Figures]:
    """The figures of causal-learn's FCI by Fisher's z on each of the `draws`, in one process."""
    with tempfile.TemporaryDirectory() as scratch:
        given, found = Path(scratch) / "given.npz", Path(scratch) / "found.npz"
        rows = [np.vstack([table - table.mean(axis=0) for table in one.tables.values()]) for one in draws]
        np.savez(given, **{f"draw {k}": one for k, one in enumerate(rows)})
        subprocess.run([python, "-c", PEER, given, str(alpha), found], check=True, capture_output=True)
        content, every = np.load(found), []
        for k, one in enumerate(draws):
            assert one.truth is not None
            marks = content[f"draw {k}"].astype(float)
            every.append(figures(marks, one.truth.weights, float(content[f"draw {k} seconds"])))
        return every


def main() -> None:
    """Run all cells and write their table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--peer", metavar="PYTHON")
    given = parser.parse_args()
    ours("fed-bfci", linear(0, 0, 300)), ours("fed-bfci", with_labels(0, 0, 300))  # compiles
    rows: list[dict[str, Any]] = []
    for kind, make in (("numbers", linear), ("mixed", with_labels)):
        for hidden in (0, 3, 6):
            for n in (1000, 10_000):
                draws = [make(seed, hidden, n) for seed in range(FIRST_SEED, FIRST_SEED + given.seeds)]
                found = {name: [ours(name, one) for one in draws] for name in ("fed-bfci", "fed-fci")}
                for alpha in (0.05, 0.01) if given.peer and kind == "numbers" else ():
                    found[f"causal-learn FCI, α = {alpha}"] = theirs(given.peer, alpha, draws)
                for name, every in found.items():
                    f1, precision, recall, shd, seconds = np.nanmean(every, axis=0)
                    rows.append(
                        {
                            "data": f"{kind}, {hidden} hidden, {n:,} rows",
                            "learner": name,
                            "adjacency F1": f"{f1:.3f}",
                            "arrowhead precision": f"{precision:.3f}",
                            "arrowhead recall": f"{recall:.3f}",
                            "SHD": f"{shd:.1f}",
                            "CPU s": f"{seconds:.2f}",
                        }
                    )
    show("hidden-causes", rows, {})


if __name__ == "__main__":
    main()
