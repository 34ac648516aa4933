"""The private learners on ER graphs with d edges, 8 silos of 5000 rows, δ = 1/n_p²; exact secure sums; masking.

`python benchmarks/private.py` runs all tables, `--table NAME` one of them. Seeds 2 to 11; defaults were chosen on seeds
from 100 on. Every run draws new noise from the operating system, so figures vary a little between calls.
"""

import secrets
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from measure import over_seeds, row, run_tables, show

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.secure import participant
from fedbnsl.algorithms.secure.masks import SecureSession, default_threshold
from fedbnsl.data.federated import FederatedData
from fedbnsl.data.generators.linear import homogeneous

SEEDS = range(2, 12)
EPSILONS = (0.5, 1.0, 5.0, 10.0)
ASKED = {
    "secure-sum": {0.5: "≤ 2", 1.0: "≤ 1.5", 5.0: "≤ 1", 10.0: "≤ 0.5"},
    "dp-fed-sparse": {1.0: "≤ 5", 5.0: "≤ 2", 10.0: "≤ 1.5"},
    "dp-covariance": {0.5: "≤ 8", 1.0: "≤ 6", 5.0: "≤ 2", 10.0: "≤ 1.5"},
}
ASKED_200 = {"secure-sum": "SHD ≤ 25", "dp-fed-sparse": "SHD ≤ 70, TPR ≥ 0.8, ≤ 300 CPU s", "dp-covariance": ""}


def er(variables: int) -> Callable[[int], FederatedData]:
    """The maker of the paper's homogeneous data: 8 silos of 5000 rows."""
    return lambda seed: homogeneous(variables, 8, 5000, seed)


def d20() -> None:
    """D = 20, by ε."""
    rows, runs = [], {}
    for name in (name for name in ASKED if name in registry.ALGORITHMS):
        for epsilon in EPSILONS:
            label = f"{name}, ε = {epsilon:g}"
            runs[label] = over_seeds(name, {"epsilon": epsilon}, er(20), SEEDS)
            rows.append(row(label, runs[label], ASKED[name].get(epsilon, "")))
    label = "dp-covariance, equal-variance, ε = 1"
    runs[label] = over_seeds("dp-covariance", {"epsilon": 1.0, "learner": "equal-variance"}, er(20), SEEDS)
    rows.append(row(label, runs[label]))
    show("private-er-d20", rows, runs)


def d200() -> None:
    """D = 200, ε = 10."""
    rows, runs = [], {}
    for name, asked in ASKED_200.items():
        if name in registry.ALGORITHMS:
            params: dict[str, Any] = {"epsilon": 10.0}
            if name == "dp-covariance":
                params["learner"] = "equal-variance"
            runs[name] = over_seeds(name, params, er(200), SEEDS)
            rows.append(row(f"{name}, ε = 10", runs[name], asked))
    show("private-er-d200", rows, runs)


def exact() -> None:
    """Secure sums without noise."""
    rows, runs = [], {}
    for d, asked in ((20, ""), (100, ""), (200, "SHD ≤ 1, ≤ 2 CPU s after the sum, ≤ 1.29 MB up")):
        label = f"secure-sum, no noise, d = {d}"
        runs[label] = over_seeds("secure-sum", {}, er(d), SEEDS)
        rows.append(row(label, runs[label], asked))
    show("secure-sum-exact", rows, runs)


def masking() -> None:
    """Masking 40,000 entries among 64 silos."""
    names = tuple(f"silo-{k:02d}" for k in range(64))
    session = SecureSession("run", 1, 1, names, default_threshold(64))
    states, keys = {}, {}
    for name in names:
        states[name], keys[name] = participant.advertise(session, name, secrets.token_bytes(32))
    sealed: dict[str, dict[str, bytes]] = {name: {} for name in names}
    for name in names:
        states[name], parts = participant.share(states[name], keys)
        for to, part in parts.items():
            sealed[to][name] = part
    vector = np.arange(40_000, dtype=np.uint64)
    times = []
    for name in names[:16]:
        start = time.process_time()
        participant.mask(states[name], sealed[name], vector)
        times.append(1000 * (time.process_time() - start))
    figures = {"what": "masking 40,000 entries, 64 silos", "CPU ms a silo, median": round(statistics.median(times), 1)}
    show("masking", [figures | {"worst of 16": round(max(times), 1), "asked": "≤ 50"}], {})


TABLES: dict[str, Callable[[], None]] = {"d20": d20, "d200": d200, "exact": exact, "masking": masking}


if __name__ == "__main__":
    run_tables(TABLES, __doc__, __file__)
