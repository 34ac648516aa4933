"""One run of a benchmark: data by seed, a learner or another program, and the scores against the true graph."""

import os
import shlex
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from fedbnsl.algorithms.errors import BadInput, NotApplicable
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.data.federated import FederatedData
from fedbnsl.data.folder.folder import read_folder, read_structure
from fedbnsl.tracking.metrics import known_in

from ..api.learning import learn
from ..options.prepare import recipe
from .spec import Cell, DataSource

LONGEST_REASON = 300
"""maximum length of the reason for a failed run"""
NOT_APPLICABLE = "not applicable"
"""the status of a run whose algorithm does not learn from such data"""


def run_cell(cell: Cell) -> dict[str, Any]:
    """The row of the results for `cell`: scores, costs, and whether the run failed, with the reason.

    `cpu` is the CPU time in seconds of all threads and of the programs that the run called, including reading and
    scoring. A failed run has no scores and no costs, and neither has an algorithm that does not learn from such data.
    """
    row = described(cell)
    begin = _cpu_seconds()
    try:
        found = _by_program(cell) if cell.learner.program else _learned(cell)
    except NotApplicable as error:
        return row | {"status": NOT_APPLICABLE, "reason": str(error)}
    except Exception as error:  # one failed run must not end the comparison of the others
        reason = " ".join(str(error).split()) or type(error).__name__
        return row | {"status": "failed", "reason": reason[:LONGEST_REASON]}
    metrics = known_in("results", found) | known_in("benchmark", found)
    return row | {"status": "ok", "reason": ""} | metrics | {"cpu": _cpu_seconds() - begin}


def described(cell: Cell) -> dict[str, Any]:
    """What a row of the results says of its run; with a sweep, also the option, its value, and what is swept."""
    row = {"key": cell.key, "data": cell.source.name, "algorithm": cell.learner.name, "seed": cell.seed}
    for part, sweep in (("data", cell.source.sweep), ("algorithm", cell.learner.sweep)):
        if sweep is not None:
            row |= {f"swept_{part}": sweep.of, f"{part}_option": sweep.option, f"{part}_value": sweep.value}
    return row


def _cpu_seconds() -> float:
    """The CPU time of this process and of its children that have ended."""
    return sum(os.times()[:4])


def data_of(source: DataSource, seed: int) -> FederatedData:
    """The data set of `source` for `seed`; raises `BadInput` as `_run` does for a generator."""
    if source.data is not None:
        return source.data
    if source.folder:
        return read_folder(Path(source.folder))
    if source.prepare:
        return recipe(source.prepare, **source.options, seed=seed).build()
    with TemporaryDirectory() as scratch:
        folder = Path(scratch) / "data"
        _run(source.name, source.generator, source.timeout, {"folder": str(folder), "seed": str(seed)})
        if not folder.is_dir():
            raise BadInput(f"{source.name} ended without a folder of data")
        return read_folder(folder)


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
        given = {"rows": str(rows), "edges": str(edges), "seed": str(cell.seed)}
        seconds = _run(cell.learner.name, cell.learner.program, cell.learner.timeout, given)
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


def _run(name: str, command: str, timeout: float, given: dict[str, str]) -> float:
    """Run the `command` of the program `name` with the `given` paths and seed, and return its duration in seconds.

    Raises `BadInput` if the program does not exist, takes longer than `timeout` seconds, or fails.
    """
    words = [word.format(**given) for word in shlex.split(command)]
    begin = time.perf_counter()
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=timeout, check=False)
    except FileNotFoundError:
        raise BadInput(f"{name}: there is no program {words[0]}") from None
    except subprocess.TimeoutExpired:
        raise BadInput(f"{name} took more than {timeout:g} s") from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["nothing on stderr"]
        raise BadInput(f"{name} ended with {done.returncode}: {said[-1]}")
    return time.perf_counter() - begin
