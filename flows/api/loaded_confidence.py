"""How sure the edges of a finished run are, from its files: of the edges that they name."""

import csv
from pathlib import Path
from typing import Any

import numpy as np

from fedbnsl.algorithms.core.safe_cells import plain_cell
from fedbnsl.algorithms.graphs.strengths import Strengths
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.data.folder.folder import read_structure
from fedbnsl.tracking.outputs import AVERAGED
from fedbnsl.tracking.result import Confidence, Metric


def confidence_in(folder: Path, structure: Structure, metrics: dict[str, Metric]) -> Confidence | None:
    """Return what the resamples of the run in `folder` say of its edges; None where there were none.

    The counts of pairs that neither its structure nor its averaged one joins are not in its files: they are NaN.
    """
    path = folder / AVERAGED
    if not path.is_file():
        return None
    variables, lags, count = structure.variables, structure.lags, _number(metrics, "bootstrap")
    d = len(variables)
    arrows, lines, at_lags = np.full((d, d), np.nan), np.zeros((d, d)), np.full((lags, d, d), np.nan)
    for row in (*_rows(folder / "structure.csv"), *_rows(path)):
        i, j = (variables.index(plain_cell(row[end])) for end in ("source", "target"))
        joined = float(row["strength"]) * count
        if int(row.get("lag") or 0):
            at_lags[int(row["lag"]) - 1, i, j] = joined
        else:
            way = float(row["direction"] or 0)
            arrows[i, j], arrows[j, i] = way * joined, (1 - way) * joined
    strengths = Strengths(variables, int(count), arrows, lines, at_lags, structure.kind == "dag")
    exchanges, sent = (int(_number(metrics, f"bootstrap_{name}")) for name in ("rounds", "bytes"))
    return Confidence(strengths, _number(metrics, "threshold"), read_structure(path, variables), exchanges, sent)


def _number(metrics: dict[str, Metric], name: str) -> float:
    return float(metrics[name] or 0)


def _rows(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
