"""Graphs of GIES by the package `gies` on data of `prepare interventions`, for tests and `benchmarks/experiments.py`.

    python tests/references/gies_graphs.py > tests/references/gies_graphs.json

Needs this project and gies (BSD-3-Clause), which is no part of it: `pip install gies`.
"""

import json
from typing import Any

import numpy as np

from fedbnsl.data.generators.interventions import interventions

CASES = [
    {"variables": d, "silos": 6, "rows": n, "seed": 1000 + seed, "experiment": experiment, "edges": 3 * d // 2}
    for seed, (d, n, experiment) in enumerate(
        (d, n, experiment)
        for d in (8, 14)
        for n in (1000, 5000)
        for experiment in ("randomised", "soft", "inhibiting")
        for _ in range(2)
    )
]
"""the arguments of `interventions`; the other ones are its defaults, with four targeted silos"""


def case(arguments: dict[str, Any]) -> dict[str, Any]:
    """The class that gies finds, as a list of its [i, j] entries, its score by gies, and a checksum of the data."""
    import gies

    data = interventions(**arguments, targeted_silos=4)
    names, silos = data.schema.variables, data.schema.silos
    targets = [[names.index(name) for name in data.schema.targets.get(silo, ((),))[0]] for silo in silos]
    graph, score = gies.fit_bic([data.tables[silo] for silo in silos], targets)
    total = round(float(sum(np.abs(table).sum() for table in data.tables.values())), 6)
    return {**arguments, "sum": total, "score": float(score), "graph": np.argwhere(graph != 0).tolist()}


def main() -> None:
    """Print all cases as JSON."""
    from importlib.metadata import version

    program = f"gies {version('gies')} (BSD-3-Clause, J. L. Gamella, O. Kolotuhina), fit_bic, numpy {np.__version__}"
    lines = ",\n".join(json.dumps(case(arguments)) for arguments in CASES)
    print(f'{{"program": {json.dumps(program)}, "cases": [\n{lines}\n]}}')


if __name__ == "__main__":
    main()
