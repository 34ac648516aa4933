"""One run of a benchmark: data by seed, a learner or another program, and the scores against the true graph."""

import os
import shlex
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.data.federated import FederatedData
from fedbnsl.data.folder.folder import read_folder, read_structure
from fedbnsl.tracking.metrics import known_in

from ..api.learning import learn
from ..options.prepare import recipe
from .spec import Cell, DataSource, Learner

LONGEST_REASON = 300
"""maximum length of the reason for a failed run"""


def run_cell(cell: Cell) -> dict[str, Any]:
    """The row of the results for `cell`: scores, costs, and whether the run failed, with the reason.

    `cpu` is the CPU time in seconds of all threads and of the programs that the run called, including reading and
    scoring. A failed run has no scores and no costs.
    """
    row = {"key": cell.key, "data": cell.source.name, "algorithm": cell.learner.name, "seed": cell.seed}
    begin = _cpu_seconds()
    try:
        found = _by_program(cell) if cell.learner.program else _learned(cell)
    except Exception as error:  # one failed run must not end the comparison of the others
        reason = " ".join(str(error).split()) or type(error).__name__
        return row | {"status": "failed", "reason": reason[:LONGEST_REASON]}
    metrics = known_in("results", found) | known_in("benchmark", found)
    return row | {"status": "ok", "reason": ""} | metrics | {"cpu": _cpu_seconds() - begin}


def _cpu_seconds() -> float:
    """The CPU time of this process and of its children that have ended."""
    return sum(os.times()[:4])


def data_of(source: DataSource, seed: int) -> FederatedData:
    """The data set of `source` for `seed`."""
    if source.data is not None:
        return source.data
    return (
        read_folder(Path(source.folder))
        if source.folder
        else recipe(source.prepare, **source.options, seed=seed).build()
    )


def _learned(cell: Cell) -> dict[str, Any]:
    given = {"bootstrap": 0, **cell.learner.params, "seed": cell.seed}
    data = cell.source.folder or data_of(cell.source, cell.seed)
    return dict(learn(data, cell.learner.algorithm, **given).metrics)


def _by_program(cell: Cell) -> dict[str, Any]:
    """Run the program on the rows of all silos and score its edges; raises `BadInput` if the program fails."""
    data = data_of(cell.source, cell.seed)
    if data.truth is None:
        raise BadInput(f"{cell.source.name}: has no true graph to compare with")
    with TemporaryDirectory() as scratch:
        rows, edges = Path(scratch) / "rows.csv", Path(scratch) / "edges.csv"
        pooled_frame(data).to_csv(rows, index=False)
        seconds = _run(cell.learner, {"rows": str(rows), "edges": str(edges), "seed": str(cell.seed)})
        if not edges.is_file():
            raise BadInput(f"{cell.learner.name} ended without a file of edges")
        return {**compare(read_structure(edges, data.schema.variables), data.truth), "seconds": seconds}


def pooled_frame(data: FederatedData) -> pd.DataFrame:
    """The rows of all silos in one table, with labels as text."""
    frame = pd.concat(
        [pd.DataFrame(data.tables[silo], columns=list(data.schema.variables)) for silo in data.schema.silos]
    )
    for name, levels in data.schema.levels.items():
        frame[name] = [levels[int(code)] if code >= 0 else None for code in frame[name].fillna(-1)]
    return frame


def _run(learner: Learner, paths: dict[str, str]) -> float:
    """Run the command of `learner` with these paths, and return its duration in seconds.

    Raises `BadInput` if the program does not exist, takes too long, or fails.
    """
    words = [word.format(**paths) for word in shlex.split(learner.program)]
    begin = time.perf_counter()
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=learner.timeout, check=False)
    except FileNotFoundError:
        raise BadInput(f"{learner.name}: there is no program {words[0]}") from None
    except subprocess.TimeoutExpired:
        raise BadInput(f"{learner.name} took more than {learner.timeout:g} s") from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["nothing on stderr"]
        raise BadInput(f"{learner.name} ended with {done.returncode}: {said[-1]}")
    return time.perf_counter() - begin
