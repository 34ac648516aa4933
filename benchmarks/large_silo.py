"""A silo larger than memory: peak memory of a run, and the speed of reading and summing its rows.

`shared` measures how much faster two processes of the owner read it than one.

The silo is a Parquet file of a linear model. A second, small silo makes masked sums possible. Each figure comes from a
separate process with one thread: its CPU seconds and its peak memory (`resource.getrusage`). A run holds coordinator
and both silos in one process, so a worker for the silo alone needs less.
"""

import hashlib
import multiprocessing
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

VARIABLES, SMALL, BLOCK = 50, 100_000, 1 << 18
REPETITIONS = 5
NAMES = ("silo-1", "silo-2")


@dataclass(frozen=True)
class Used:
    """What a process used, and what it found."""

    cpu_seconds: float
    megabytes: float
    found: Any


def large(rows: int, seed: int, scratch: Path | None = None) -> list[dict[str, str]]:
    """The lines of the table, of a silo of so many `rows` in files made below `scratch`, and removed."""
    lines = []
    for kind in ("float64", "float32"):
        folder = Path(tempfile.mkdtemp(prefix="large-", dir=scratch))
        try:
            alone(make, folder, rows, seed, kind)
            file = folder / f"{NAMES[0]}.parquet"
            for what, work in (("moments", moments), ("profile", profile), ("auto", auto)):
                used = alone(work, folder)
                lines.append(
                    {
                        "columns": kind,
                        "file": f"{file.stat().st_size / 1e9:.1f} GB",
                        "what": what,
                        "CPU s": f"{used.cpu_seconds:.1f}",
                        "rows a CPU second": f"{rows / used.cpu_seconds / 1e6:.2f} million",
                        "memory": f"{used.megabytes:.0f} MB",
                        "found": used.found,
                    }
                )
                print(" | ".join(lines[-1].values()), flush=True)
        finally:
            shutil.rmtree(folder)
    return lines


def shared(rows: int, seed: int, scratch: Path | None = None, counts: tuple[int, ...] = (1, 2)) -> list[dict[str, str]]:
    """The lines of the table of a silo of so many `rows` that `counts` of processes read.

    The processes take turns, `REPETITIONS` times, so that other work on the machine slows all of them; the ratio is the
    median over turns.
    """
    folder = Path(tempfile.mkdtemp(prefix="shared-", dir=scratch))
    try:
        alone(make, folder, rows, seed, "float64")
        turns, held = alone(turns_of, folder, counts).found
    finally:
        shutil.rmtree(folder)
    lines = []
    for what, seconds in turns.items():
        assert len({found for turn in seconds for _, _, found in turn.values()}) == 1, "not the same bits"
        for count in counts:
            lines.append(
                {
                    "what": what,
                    "processes": str(count),
                    "seconds": f"{min(turn[count][0] for turn in seconds):.2f}",
                    "CPU s": f"{min(turn[count][1] for turn in seconds):.2f}",
                    "times as fast as 1": f"{median(turn[counts[0]][0] / turn[count][0] for turn in seconds):.2f}",
                    "best turn": f"{max(turn[counts[0]][0] / turn[count][0] for turn in seconds):.2f}",
                    "MB a process": f"{held:.0f}" if count > 1 else "",
                    "rows": f"{rows:,}",
                }
            )
            print(" | ".join(lines[-1].values()), flush=True)
    return lines


def turns_of(
    folder: Path, counts: tuple[int, ...]
) -> tuple[dict[str, list[dict[int, tuple[float, float, str]]]], float]:
    """By pass and turn, for each number of processes: seconds, CPU seconds, and a digest of the result.

    And the most memory that one of the processes held, in MB.
    """
    from fedbnsl.data.folder.about import Declared
    from fedbnsl.data.folder.table import open_table
    from fedbnsl.tasks.silo.readers import Readers

    readers = {count: Readers(NAMES[0], count) for count in counts}
    found: dict[str, list[dict[int, tuple[float, float, str]]]] = {"moments": [], "profile": []}
    try:
        for one in readers.values():
            list(one.map(str, range(8)))
        for _ in range(REPETITIONS):
            for what, turns in found.items():
                turns.append({})
                for count, one in readers.items():
                    table = open_table(folder / f"{NAMES[0]}.parquet", Declared(), one.map)
                    assert table.streamed
                    before, begin = _cpu_seconds(one), time.perf_counter()
                    result = repr(table.profile()) if what == "profile" else moments_of(table)
                    seconds = time.perf_counter() - begin
                    turns[-1][count] = seconds, _cpu_seconds(one) - before, hashlib.sha256(result.encode()).hexdigest()
        held = max(_peak_megabytes(process) for one in readers.values() for process in _processes(one))
    finally:
        for one in readers.values():
            one.close()
    return found, held


def moments_of(table: Any) -> str:
    """The means and second moments of `table`, in full."""
    from fedbnsl.algorithms.core.schema import Schema
    from fedbnsl.algorithms.statistics.moments import about_means

    schema = Schema(table.source.names, {NAMES[0]: table.source.rows})
    means, products = about_means(table.view(schema, NAMES[0]))
    return means.tobytes().hex() + products.tobytes().hex()


def _cpu_seconds(readers: Any) -> float:
    """The CPU seconds of this process and of the processes of `readers`."""
    ticks = 0
    for process in _processes(readers):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def _processes(readers: Any) -> list[int]:
    return [] if readers._pool is None else [*(readers._pool._processes or {})]


def _peak_megabytes(process: int) -> float:
    (line,) = (line for line in Path(f"/proc/{process}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1e3


def alone(work: Callable[..., Any], *given: Any) -> Used:
    """Return the resources that `work` used in a separate process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(used_by, work, *given).result()


def used_by(work: Callable[..., Any], *given: Any) -> Used:
    """Run `work`; what it imports beforehand is not counted as its time."""
    import fedbnsl.flows.api  # noqa: F401 - its seconds are not those of the rows

    begin = time.process_time()
    found = work(*given)
    seconds = time.process_time() - begin
    return Used(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3, found)


def make(folder: Path, rows: int, seed: int, kind: str) -> None:
    """Write the two silos and the truth: a linear model with Gaussian errors of equal variance, edges as variables."""
    import numpy as np
    import pyarrow
    import pyarrow.parquet

    from fedbnsl.data.folder.folder import write_structure
    from fedbnsl.data.generators.linear import homogeneous

    truth = homogeneous(VARIABLES, 1, 2, seed).truth
    assert truth is not None
    write_structure(folder / "truth.csv", truth)
    mixing = np.linalg.inv(np.eye(VARIABLES) - truth.weights)
    rng = np.random.default_rng(seed)
    means = rng.normal(0, 100, VARIABLES)
    schema = pyarrow.schema([(name, kind) for name in truth.variables])
    for name, count in zip(NAMES, (rows, SMALL), strict=True):
        file = folder / f"{name}.parquet"
        with pyarrow.parquet.ParquetWriter(file, schema, use_dictionary=False, compression="none") as writer:
            for begin in range(0, count, BLOCK):
                table = rng.standard_normal((min(BLOCK, count - begin), VARIABLES)) @ mixing + means
                columns = [pyarrow.array(column.astype(kind)) for column in table.T]
                writer.write_table(pyarrow.Table.from_arrays(columns, schema=schema))


def moments(folder: Path) -> str:
    """Sum the second moments about the means of the large silo."""
    from fedbnsl.algorithms.core.schema import Schema
    from fedbnsl.algorithms.statistics.moments import about_means
    from fedbnsl.data.folder.parquet import ParquetParts
    from fedbnsl.data.folder.table import RowView

    source = ParquetParts(folder / f"{NAMES[0]}.parquet")
    about_means(RowView(source, Schema(source.names, {NAMES[0]: source.rows}), source.rows))
    return f"{source.rows * len(source.names):,} cells"


def profile(folder: Path) -> str:
    """Describe the large silo, as before every run."""
    from fedbnsl.data.folder.about import Declared
    from fedbnsl.data.folder.table import open_table

    return f"{open_table(folder / f'{NAMES[0]}.parquet', Declared()).profile().rows:,} rows"


def auto(folder: Path) -> str:
    """Learn from both silos with the defaults."""
    from fedbnsl import learn

    learned = learn(str(folder))
    rounds = learned.result.rounds
    return f"SHD {learned.metrics['shd']}, {len(rounds)} exchanges and those of units, diagnosis, parameters"
