"""Graphs of PCMCI+ by tigramite on pooled series, for `tests/algorithms/constraint/test_time_series.py`.

    python tests/references/pcmci_plus.py > tests/references/pcmci_plus.json

Needs numpy and tigramite (GPL, so neither part of the project nor needed by its tests): `pip install tigramite scipy`.
"""

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

CASES = [
    {"seed": 1000 + seed, "d": d, "lags": lags, "lengths": lengths, "alpha": alpha, "rule": rule}
    for seed, (d, lags, lengths, alpha, rule) in enumerate(
        [
            (5, 1, [300], 0.01, "majority"),
            (6, 2, [150, 400], 0.01, "majority"),
            (8, 1, [90, 260, 400], 0.05, "majority"),
            (8, 2, [500, 300], 0.05, "conservative"),
            (10, 1, [120, 180, 700], 0.01, "conservative"),
            (10, 3, [900], 0.01, "majority"),
            (12, 2, [200, 350, 250], 0.05, "majority"),
            (7, 2, [60, 80], 0.1, "conservative"),
            (9, 1, [400, 100], 0.01, "none"),
            (15, 1, [300, 500], 0.01, "majority"),
        ]
    )
]
"""data sets, and the settings of PCMCI+"""


def draw(seed: int, d: int, lags: int, lengths: list[int]) -> list[NDArray[np.float64]]:
    """Series `[n, d]` of these `lengths` with common weights, errors of unequal variances, and columns in any order."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(d)
    within, lagged = np.zeros((d, d)), np.zeros((lags, d, d))
    for a in range(d):
        for b in range(a + 1, d):
            if rng.random() < 1.5 / (d - 1):
                within[order[a], order[b]] = rng.choice([-1, 1]) * rng.uniform(0.3, 0.6)
    lagged[0][np.arange(d), np.arange(d)] = rng.uniform(0.2, 0.5, d)
    for _ in range(d):
        lagged[rng.integers(lags), rng.integers(d), rng.integers(d)] = rng.choice([-1, 1]) * rng.uniform(0.2, 0.35)
    total, sd = np.linalg.inv(np.eye(d) - within), rng.uniform(0.5, 2, d)
    parts = []
    for n in lengths:
        x, errors = np.zeros((n + 100, d)), rng.normal(size=(n + 100, d)) * sd
        for t in range(lags, n + 100):
            x[t] = (errors[t] + sum(x[t - 1 - lag] @ lagged[lag] for lag in range(lags))) @ total
        parts.append(x[100:])
    return parts


def main() -> None:
    """Print the graphs as JSON, a line for each case."""
    import tigramite  # noqa: F401
    from tigramite.data_processing import DataFrame
    from tigramite.independence_tests.parcorr import ParCorr
    from tigramite.pcmci import PCMCI

    about: dict[str, Any] = {
        "program": "tigramite 5.2.10.1 (GPL, J. Runge), PCMCI(DataFrame(analysis_mode='multiple'), ParCorr())."
        "run_pcmciplus; 'x-x' are conflicting orientations",
        "data": "draw of tests/references/pcmci_plus.py, which made this file; sum is that of the absolute values",
    }
    print(json.dumps(about))
    for case in CASES:
        parts = draw(case["seed"], case["d"], case["lags"], case["lengths"])  # type: ignore[arg-type]
        data = DataFrame(dict(enumerate(parts)), analysis_mode="multiple")
        found = PCMCI(data, ParCorr(), verbosity=0).run_pcmciplus(
            tau_max=case["lags"], pc_alpha=case["alpha"], contemp_collider_rule=case["rule"]
        )
        total = round(float(sum(np.abs(part).sum() for part in parts)), 6)
        print(json.dumps(case | {"sum": total, "graph": np.moveaxis(found["graph"], 2, 0).tolist()}))


if __name__ == "__main__":
    main()
