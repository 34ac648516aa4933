"""The continuous learners on ER graphs with d and 4d edges: accuracy, bytes, CPU seconds; Sachs; personalisation.

`python benchmarks/continuous.py` runs all tables, `--table NAME` one of them. Seeds 2 to 11, as in Fassy El Fehri et
al.; the defaults were chosen on seeds from 100 on. The columns of drawn data are shuffled, so no learner can exploit
their order. Each table runs in its own process, so its peak memory is measured separately.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from measure import learn, over_seeds, row, run_tables, show

from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters.refit import normalised_mse
from fedbnsl.algorithms.statistics.moments import regression_weights
from fedbnsl.data.defaults import Graph
from fedbnsl.data.federated import FederatedData
from fedbnsl.data.generators.linear import heterogeneous, homogeneous
from fedbnsl.data.networks.sachs import sachs, sachs_truth

SEEDS = range(2, 12)
FIGURES = {"edges": "edges", "right, undirected": "correct_skeleton", "right, directed": "correct", "SHD": "shd"}


def shuffled(data: FederatedData, seed: int) -> FederatedData:
    """`data` with its columns in a random order under the same names, the truth and the weights with them."""
    assert data.truth is not None
    order = np.random.default_rng([seed, 1]).permutation(len(data.schema.variables))
    both = np.ix_(order, order)
    return replace(
        data,
        tables={silo: rows[:, order] for silo, rows in data.tables.items()},
        truth=Structure(data.schema.variables, data.truth.weights[both]),
        silo_weights={silo: weights[both] for silo, weights in data.silo_weights.items()},
    )


def er(variables: int, density: int = 1, graph: Graph = "ER") -> Callable[[int], FederatedData]:
    """The maker of the paper's homogeneous data, 8 silos of 5000 rows, with `density` edges a variable."""
    return lambda seed: shuffled(homogeneous(variables, 8, 5000, seed, density * variables, graph), seed)


Cell = tuple[str, str, dict[str, Any], str]


def table(title: str, variables: int, cells: Sequence[Cell], seeds: Sequence[int] = SEEDS) -> None:
    """Run and show one table: a row per (label, algorithm, params, figure asked for)."""
    rows, runs = [], {}
    for label, name, params, asked in cells:
        runs[label] = over_seeds(name, params, er(variables), seeds)
        rows.append(row(label, runs[label], asked))
    show(title, rows, runs)


def d20() -> None:
    """D = 20: every algorithm and the papers' presets."""
    table(
        "er-d20",
        20,
        [
            ("fed-sparse", "fed-sparse", {}, "SHD ≤ 1.0, ≤ 2.0 MB, ≤ 2 CPU s"),
            ("fed-sparse, paper's settings", "fed-sparse", {"preset": "paper"}, "paper 2.2, 1.99 MB"),
            ("notears-admm", "notears-admm", {}, "SHD ≤ 2.9, ≤ 2 CPU s"),
            ("notears-admm, paper's settings", "notears-admm", {"preset": "fed-bnsl"}, "paper 2.9, 5.12 MB"),
            ("fed-frank-wolfe", "fed-frank-wolfe", {}, ""),
            ("notears (pooled)", "notears", {}, "SHD ≤ 0.4"),
            ("notears-voting", "notears-voting", {}, ""),
            ("notears-best", "notears-best", {}, ""),
            ("notears-local", "notears-local", {}, ""),
        ],
    )


def d100() -> None:
    """D = 100."""
    table(
        "er-d100",
        100,
        [
            ("fed-sparse", "fed-sparse", {}, "SHD ≤ 3, ≤ 10 CPU s"),
            ("notears-admm", "notears-admm", {}, "SHD ≤ 10, ≤ 30 CPU s"),
            ("notears (pooled)", "notears", {}, "SHD ≤ 2"),
        ],
    )


def d200() -> None:
    """D = 200."""
    asked = "SHD ≤ 15 (try 5), ≤ 13.7 MB, ≤ 60 (try 30) CPU s, ≤ 600 MB memory"
    table("er-d200", 200, [("fed-sparse", "fed-sparse", {}, asked)])


def dense() -> None:
    """Dense graphs: 4d edges, d = 20 and 50, Erdős-Rényi and Barabási-Albert, seeds 2 to 6."""
    rows, runs = [], {}
    for variables, asked in ((20, "SHD ≤ 8"), (50, "SHD ≤ 18")):
        for name in ("fed-sparse", "notears-admm"):
            for graph in ("ER", "SF"):
                label = f"{name}, {graph}, d = {variables}"
                runs[label] = over_seeds(name, {}, er(variables, 4, graph), range(2, 7))
                rows.append(row(label, runs[label], asked if name == "fed-sparse" else ""))
    show("dense", rows, runs)


def small() -> None:
    """Few rows: the silos of Ng & Zhang 2022, §6.2, n = 256 rows in all at d = 20, over K silos."""
    rows, runs = [], {}
    for silos in (2, 8, 32):
        for name in ("fed-sparse", "notears-admm", "notears-voting"):
            label = f"{name}, K = {silos}"
            runs[label] = over_seeds(
                name, {}, lambda seed, silos=silos: shuffled(homogeneous(20, silos, 256 // silos, seed), seed), SEEDS
            )
            rows.append(row(label, runs[label]))
    show("er-d20-256-rows", rows, runs)


def sachs_table() -> None:
    """Sachs, three silos: right edges against each truth; three seeds of the split."""
    lines = []
    for label, params in (("sachs", {"preset": "sachs"}), ("paper-sachs", {"preset": "paper-sachs"}), ("default", {})):
        found = [learn("fed-sparse", params | {"center": True}, sachs(silos=3, seed=seed))[0] for seed in range(3)]
        for truth in ("18", "17", "20"):
            scores = [compare(structure, sachs_truth(truth), allow_cyclic_truth=True) for structure in found]
            lines.append(
                {
                    "fed-sparse, centred, settings": label,
                    "truth": f"{truth} edges",
                    **{name: [score[key] for score in scores] for name, key in FIGURES.items()},
                    "asked": "18 edges, ≥ 12 right" if (label, truth) == ("sachs", "18") else "",
                }
            )
    show("sachs", lines, {})


def personal() -> None:
    """Heterogeneous silos, P = 20, n_p = 50, d = 20: normalised MSE per silo (Fassy El Fehri et al., Figure 2)."""
    lines = []
    for seed in SEEDS:
        data = shuffled(heterogeneous(20, 20, 50, seed, weight_variance=0.1), seed)
        structure, measured = learn("fed-sparse", {}, data)
        errors: dict[str, list[float]] = {"consensus": [], "personal": [], "local": []}
        for silo, rows in data.tables.items():
            true = data.silo_weights[silo]
            errors["consensus"].append(normalised_mse(structure.weights, true))
            errors["personal"].append(
                normalised_mse(regression_weights(rows.T @ rows / len(rows), structure.adjacency), true)
            )
            alone = homogeneous_like(data, silo)
            errors["local"].append(normalised_mse(learn("notears", {}, alone)[0].weights, true))
        medians = {name: round(float(np.median(values)), 4) for name, values in errors.items()}
        lines.append(
            {"seed": seed, "SHD": measured.shd, **{f"median MSE, {name}": value for name, value in medians.items()}}
        )
    mean = {key: round(float(np.mean([line[key] for line in lines])), 4) for key in lines[0] if key != "seed"}
    show("personalised", [*lines, {"seed": "mean", **mean}], {})


def homogeneous_like(data: FederatedData, silo: str) -> FederatedData:
    """The federation in which `silo` is alone."""
    schema = type(data.schema)(data.schema.variables, {silo: data.schema.rows[silo]}, data.schema.kind)
    return FederatedData(schema, {silo: data.tables[silo]}, data.truth)


TABLES: dict[str, Callable[[], None]] = {
    "d20": d20,
    "d100": d100,
    "d200": d200,
    "dense": dense,
    "small": small,
    "sachs": sachs_table,
    "personal": personal,
}


if __name__ == "__main__":
    run_tables(TABLES, __doc__, __file__)
