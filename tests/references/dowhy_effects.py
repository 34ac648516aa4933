"""Effects by DoWhy on pooled rows of three silos, for `tests/algorithms/effects/test_dowhy.py`.

    python tests/references/dowhy_effects.py > tests/references/dowhy_effects.json

Needs dowhy (MIT), which is no part of this project: `pip install dowhy`. Indicator variables of two silos are parents
of all variables in DoWhy's graph, so its regressions also have an intercept per silo.
"""

import json
from typing import Any

import numpy as np
import pandas as pd

SILOS = {"a": 120, "b": 300, "c": 580}
CASES = [{"seed": seed, "labels": seed >= 6} for seed in range(10)]
"""six cases of numbers, and four in which treatment and outcome have two labels"""
D = 6


def draw(seed: int, *, labels: bool) -> tuple[np.ndarray, tuple[int, int], dict[str, np.ndarray]]:
    """A DAG `[D, D]`, treatment and outcome joined by a directed path, and the rows of each silo, with offsets."""
    rng = np.random.default_rng(seed)
    while True:
        order = rng.permutation(D)
        dag = np.triu(rng.random((D, D)) < 0.5, 1)[np.ix_(order, order)]
        reached = np.linalg.matrix_power(np.eye(D) + dag, D) > 0
        pairs = [(x, y) for x in range(D) for y in range(D) if x != y and reached[x, y] and dag[:, x].any()]
        if pairs:
            break
    x, y = pairs[rng.integers(len(pairs))]
    weights = dag * rng.uniform(0.4, 1.2, (D, D)) * rng.choice([-1, 1], (D, D))
    causal = np.argsort(reached.sum(axis=0))
    tables = {}
    for silo, n in SILOS.items():
        rows, offsets = np.zeros((n, D)), rng.normal(size=D)
        for v in causal:
            mean = rows @ weights[:, v] + offsets[v]
            noise = rng.normal(size=n)
            rows[:, v] = rng.random(n) < 1 / (1 + np.exp(-mean)) if labels and v in (x, y) else mean + noise
        tables[silo] = rows
    return dag, (x, y), tables


def case(arguments: dict[str, Any]) -> dict[str, Any]:
    """The adjustment set without the silos, the estimate, its interval, and a checksum of the data."""
    import networkx
    import statsmodels.api as sm
    from dowhy import CausalModel

    dag, (x, y), tables = draw(**arguments)
    names, silos = [f"v{v}" for v in range(D)], [f"silo {silo}" for silo in list(SILOS)[1:]]
    table = pd.DataFrame(np.vstack(list(tables.values())), columns=names)
    for silo, name in zip(list(SILOS)[1:], silos, strict=True):
        table[name] = np.repeat([float(one == silo) for one in SILOS], list(SILOS.values()))
    graph = networkx.DiGraph([(names[u], names[v]) for u, v in np.argwhere(dag)])
    graph.add_edges_from((silo, name) for silo in silos for name in names)
    model = CausalModel(table, names[x], names[y], graph=graph)
    estimand = model.identify_effect(method_name="efficient-adjustment", proceed_when_unidentifiable=True)
    covariates = estimand.get_adjustment_set()
    logistic = {"glm_family": sm.families.Binomial(), "predict_score": True}
    found = model.estimate_effect(
        estimand,
        method_name=f"backdoor.{'generalized_linear_model' if arguments['labels'] else 'linear_regression'}",
        method_params=logistic if arguments["labels"] else {},
        effect_modifiers=[],
        control_value=0,
        treatment_value=1,
        target_units="ate",
    )
    interval = None if arguments["labels"] else np.ravel(found.get_confidence_intervals()).tolist()
    return {
        **arguments,
        "sum": round(float(np.abs(table[names].to_numpy()).sum()), 6),
        "covariates": sorted(names.index(name) for name in covariates if name in names),
        "estimate": float(found.value),
        "interval": interval,
    }


def main() -> None:
    """Print all cases as JSON."""
    from importlib.metadata import version

    program = (
        f"DoWhy {version('dowhy')} (MIT, PyWhy contributors), efficient-adjustment with linear_regression and "
        f"generalized_linear_model of statsmodels {version('statsmodels')}, numpy {np.__version__}"
    )
    lines = ",\n".join(json.dumps(case(arguments)) for arguments in CASES)
    print(f'{{"program": {json.dumps(program)}, "cases": [\n{lines}\n]}}')


if __name__ == "__main__":
    main()
