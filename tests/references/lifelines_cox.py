"""Cox regressions by lifelines, stratified by silo, for `tests/algorithms/parameters/test_survival.py`.

    python tests/references/lifelines_cox.py > tests/references/lifelines_cox.json

Needs lifelines (MIT), which is no part of this project: `pip install lifelines`. Times are continuous, so there are no
ties.
"""

import json
from typing import Any

import numpy as np

SILOS = {"a": 700, "b": 500, "c": 1200}
CASES = [{"seed": seed, "censored": censored} for seed in range(4) for censored in (0.3, 0.7)]
TERMS = ("age", "dose=some", "dose=much", "pressure")


def draw(seed: int, censored: float) -> dict[str, np.ndarray]:
    """By silo, rows of age, dose (0, 1, 2), pressure, time in days, and event; hazards differ by silo and rise."""
    rng = np.random.default_rng(seed)
    weights = np.array([0.5, 0.3, 0.8, -0.4])
    tables = {}
    for p, (silo, n) in enumerate(SILOS.items()):
        age = rng.normal(size=n) + 0.3 * p
        dose = rng.choice(3, n, p=(0.5, 0.3, 0.2))
        pressure = 0.5 * age + rng.normal(size=n)
        x = np.column_stack([age, dose == 1, dose == 2, pressure])
        times = 400.0 * (rng.exponential(size=n) * np.exp(-(x @ weights) - 0.4 * p)) ** (1 / 1.4)
        scale = {0.3: 540.0, 0.7: 110.0}[censored]
        ends = scale * rng.exponential(size=n)
        event = times <= ends
        tables[silo] = np.column_stack([age, dose, pressure, np.minimum(times, ends), event])
    return tables


def case(arguments: dict[str, Any]) -> dict[str, Any]:
    """The log hazard ratios and their standard errors, and a checksum of the data."""
    import pandas as pd
    from lifelines import CoxPHFitter

    tables = draw(**arguments)
    table = np.vstack(list(tables.values()))
    frame = pd.DataFrame(
        {
            "age": table[:, 0],
            "dose=some": table[:, 1] == 1,
            "dose=much": table[:, 1] == 2,
            "pressure": table[:, 2],
            "days": table[:, 3],
            "died": table[:, 4],
            "silo": np.repeat(list(SILOS), list(SILOS.values())),
        }
    ).astype({"dose=some": float, "dose=much": float})
    fit = CoxPHFitter().fit(frame, "days", "died", strata=["silo"])
    return {
        **arguments,
        "sum": round(float(table.sum()), 6),
        "events": int(table[:, 4].sum()),
        "log_hazard_ratios": [float(fit.params_[name]) for name in TERMS],
        "errors": [float(fit.standard_errors_[name]) for name in TERMS],
    }


if __name__ == "__main__":
    import lifelines

    program = f"lifelines {lifelines.__version__} (MIT, Cameron Davidson-Pilon), CoxPHFitter, numpy {np.__version__}"
    cases = ",\n".join(json.dumps(case(arguments)) for arguments in CASES)
    print(f'{{"program": "{program}", "cases": [\n{cases}\n]}}')
