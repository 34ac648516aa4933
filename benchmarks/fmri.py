"""Chen, Ma & Yue 2025, Table 8: simulated recordings of fMRI (NetSim), with the figure of the authors' notebook.

`python benchmarks/fmri.py FOLDER` reads `sim1.mat`, `sim2.mat` and `sim3.mat` in FOLDER, from the authors' repository.
FDBNL divides the 200 times of one subject among five silos; for PFDBNL, five subjects are five silos. The notebook
takes the AUROC of thresholded weights W + A, and counts the diagonal, on which the truth has an entry for every
variable. So a graph without any edge, the identity matrix, scores, too. Beside it: the AUROC of the same weights over
the pairs of different variables, as they rank them.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

import numpy as np
from measure import show
from numpy.typing import NDArray
from scipy.io import loadmat
from sklearn.metrics import roc_auc_score

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.data.federated import time_series
from fedbnsl.tasks.transport.in_process import InProcessFederation

Array = NDArray[np.float64]
SUBJECTS = {5: (1, (3, 6, 9, 12, 15)), 10: (2, (2, 4, 6, 8, 10)), 15: (3, (1, 3, 5, 7, 9))}
"""number of variables -> number of the file, and the subjects, from 1 (§5.2)"""
TIMES, SILOS, TAU = 200, 5, 0.2
LEARNERS = {
    "fdbnl, paper's settings": ("fdbnl", {"preset": "paper-fmri"}),
    "fdbnl": ("fdbnl", {}),
    "pfdbnl, paper's settings": ("pfdbnl", {"preset": "paper-fmri"}),
    "pfdbnl": ("pfdbnl", {}),
    "secure-linear": ("secure-linear", {}),
}


def learned(name: str, params: dict[str, object], tables: dict[str, Array]) -> dict[str, Array]:
    """The weights W + A by silo, or once under the name "" if the learner has one network for all."""
    d = next(iter(tables.values())).shape[1]
    names = tuple(f"x{v + 1:02}" for v in range(d))
    schema = time_series(tables, {silo: (len(table),) for silo, table in tables.items()}, names)
    algorithm = registry.build(registry.specify(name, {"lags": 1, **params}))
    *_, last = rounds(algorithm, InProcessFederation(schema, tables))
    if name == "pfdbnl":
        own = np.asarray(last.server.own)
        return {silo: own[k, :d] + own[k, d:] for k, silo in enumerate(sorted(tables))}
    found = algorithm.structure(last.server)
    return {"": found.weights + sum(found.lagged)}


def scored(subjects: list[tuple[Array, Array]], name: str, params: dict[str, object]) -> Iterator[tuple[float, float]]:
    """The notebook's AUROC and the AUROC over pairs, for each subject."""
    if name == "pfdbnl":
        weights = list(learned(name, params, {f"s{k}": rows for k, (rows, _) in enumerate(subjects)}).values())
    else:
        parts = [{f"s{k}": part for k, part in enumerate(np.split(rows, SILOS))} for rows, _ in subjects]
        weights = [learned(name, params, tables)[""] for tables in parts]
    for (_, truth), found in zip(subjects, weights, strict=True):
        kept, edges, apart = np.abs(found) > TAU, truth != 0, ~np.eye(len(truth), dtype=bool)
        yield roc_auc_score(edges.ravel(), kept.ravel()), roc_auc_score(edges[apart], np.abs(found)[apart])


def main() -> None:
    """Show the table."""
    lines = []
    for d, (number, chosen) in SUBJECTS.items():
        recorded = loadmat(Path(sys.argv[1]) / f"sim{number}.mat")
        rows = np.split(recorded["ts"], len(recorded["ts"]) // TIMES)
        subjects = [(rows[k - 1], recorded["net"][k - 1]) for k in chosen]
        identity = mean(roc_auc_score((truth != 0).ravel(), np.eye(d).ravel()) for _, truth in subjects)
        empty = {"AUROC, notebook": f"{identity:.2f}", "AUROC, pairs": "0.50", "CPU s": ""}
        lines.append({"data": f"d = {d}", "run": "the identity matrix"} | empty)
        for label, (name, params) in LEARNERS.items():
            start = time.process_time()
            found = list(scored(subjects, name, params))
            lines.append(
                {
                    "data": f"d = {d}",
                    "run": label,
                    "AUROC, notebook": f"{mean(one for one, _ in found):.2f}",
                    "AUROC, pairs": f"{mean(one for _, one in found):.2f}",
                    "CPU s": f"{time.process_time() - start:.2f}",
                }
            )
    show("dynamic-fmri", lines, {})


if __name__ == "__main__":
    main()
