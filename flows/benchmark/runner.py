"""The runs of a benchmark on Dask, with a journal, so that an interrupted benchmark can be resumed."""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.tracking.kept_files import with_format, without_format
from fedbnsl.tracking.mlflow.store import log_benchmark
from fedbnsl.tracking.staging import write_files

from ..servers.environment import prepare_environment
from .cells import described, run_cell
from .spec import Cell, Spec, spec_of
from .tables import files_of

JOURNAL = "runs.jsonl"
"""the file with a line for each finished run, from which the tables are made"""
Listener = Callable[[dict[str, Any], int, int], None]
"""called with the row of a finished run, the number of finished runs, and the number of all runs"""


@dataclass(frozen=True)
class Benchmark:
    """A finished benchmark: one row for each run, and the folder of its files."""

    rows: pd.DataFrame
    folder: Path

    def __repr__(self) -> str:
        """One line with the number of runs that succeeded, and the folder."""
        done = int((self.rows["status"] == "ok").sum()) if "status" in self.rows else 0
        return f"Benchmark({done} of {len(self.rows)} runs succeeded; {self.folder})"

    def _repr_html_(self) -> str:
        return str(self.rows.to_html(index=False))


def benchmark(
    data: Any,
    algorithms: Any,
    *,
    seeds: Any = 1,
    out: str | Path,
    workers: int | None = None,
    track: bool = False,
    **options: Any,
) -> Benchmark:
    """Compare algorithms on data sets with several seeds, and write tables and pictures.

    Parameters
    ----------
    data
        A data set or a list of data sets. A data set is a folder, a mapping such as {"prepare": "homogeneous",
        "variables": 20}, a `FederatedData`, a dict of DataFrames by silo, or a mapping with tables in any form of
        `learn`, such as {"data": frame, "by": "hospital", "truth": graph, "name": "mine"}.
    algorithms
        Names, and mappings such as {"algorithm": "fed-pc", "alpha": .001} or {"program": "peer {rows} {edges}"}.
    seeds
        The number of seeds, or a list of seeds.
    out
        The folder of results; an interrupted benchmark in this folder is resumed.
    workers
        The number of processes, by default one for each core; 0 runs in this process.
    track
        Whether runs are logged to MLflow, as children of a run for the benchmark.
    **options
        Options of `learn` for all algorithms.

    Raises
    ------
    BadInput
        A ValueError, for an invalid description, and for a folder that has other files.
    """
    return run_benchmark(spec_of(data, algorithms, seeds, options), Path(out), workers=workers, track=track)


def run_benchmark(
    spec: Spec, out: Path, *, workers: int | None = None, track: bool = False, listener: Listener | None = None
) -> Benchmark:
    """Execute the runs of `spec` that have not succeeded according to the journal in `out`; write all tables.

    Raises `BadInput` if `out` has other files.
    """
    prepare_environment(quiet=True)
    if out.exists() and not (out / JOURNAL).exists() and (not out.is_dir() or any(out.iterdir())):
        raise BadInput(f"{out}: already exists and is no benchmark; give a new or an empty folder with --out")
    out.mkdir(parents=True, exist_ok=True)
    cells = list(spec.cells())
    rows = {key: row for key, row in _journal(out).items() if row["status"] != "failed"}
    left = [cell for cell in cells if cell.key not in rows]
    with (out / JOURNAL).open("a", encoding="utf-8") as journal:
        for row in _results(left, workers):
            journal.write(json.dumps(with_format(out / JOURNAL, row)) + "\n")
            journal.flush()
            os.fsync(journal.fileno())
            rows[row["key"]] = row
            if listener is not None:
                listener(row, sum(cell.key in rows for cell in cells), len(cells))
    found = pd.DataFrame([rows[cell.key] for cell in cells])
    write_files(out, files_of(found.drop(columns="key"), spec.name))
    if track:
        log_benchmark(spec.name, [_described(cell, rows[cell.key]) for cell in cells])
    return Benchmark(found.drop(columns="key"), out)


def _described(cell: Cell, row: Mapping[str, Any]) -> dict[str, Any]:
    return {**cell.learner.params, **row}


def _journal(out: Path) -> dict[str, dict[str, Any]]:
    """The last row for each key in the journal in `out`; incomplete lines are left out."""
    rows = {}
    if (out / JOURNAL).exists():
        for line in (out / JOURNAL).read_text("utf-8").splitlines():
            try:
                row = without_format(out / JOURNAL, json.loads(line))
                rows[row["key"]] = row
            except (json.JSONDecodeError, KeyError, TypeError):
                continue
    return rows


def _results(cells: list[Cell], workers: int | None) -> Iterator[dict[str, Any]]:
    """Yield the rows of `cells` in the order in which their runs finish."""
    count = min(os.cpu_count() or 1 if workers is None else workers, len(cells))
    if count < 1:
        yield from map(run_cell, cells)
        return
    yield from _in_processes(cells, count)


def _in_processes(cells: Iterable[Cell], count: int) -> Iterator[dict[str, Any]]:
    import dask
    from distributed import Client, as_completed
    from distributed.system import MEMORY_LIMIT

    from fedbnsl.tasks.fork_server import THREADS, scripts_not_repeated
    from fedbnsl.tasks.transport.cluster import QUIET, local_cluster

    os.environ.update(THREADS)
    with (
        scripts_not_repeated(),
        dask.config.set(QUIET | {"distributed.nanny.environ": THREADS}),
        local_cluster({f"worker-{i}": {"memory_limit": MEMORY_LIMIT // count} for i in range(count)}) as cluster,
        Client(cluster) as client,
    ):
        by_future = {client.submit(run_cell, cell, pure=False): cell for cell in cells}
        for future in as_completed(list(by_future)):
            if future.status == "finished":
                yield future.result()
            else:
                yield described(by_future[future]) | {
                    "status": "failed",
                    "reason": "its process ended, as for lack of memory",
                }
