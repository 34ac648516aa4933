"""Time series larger than memory: peak memory and CPU seconds of a run, in Parquet and in CSV.

The large silo has 4 series with a gap each, from a stable model of 10 variables with one lag (`dynamic`). A second,
small silo makes masked sums possible. `FEDBNSL_IN_MEMORY_BYTES` is 1 MB, so both sizes are read in passes. Each figure
comes from a separate process with one thread, as in `large_silo.py`. The last lines are for the same rows in memory.
"""

import os
import shutil
import tempfile
from pathlib import Path

from large_silo import NAMES, alone

VARIABLES, SMALL, SERIES = 10, 20_000, 4


def series(rows: int, seed: int, scratch: Path | None = None, *, passes: bool = False) -> list[dict[str, str]]:
    """The lines of the table: `rows` and a tenth of them; with `passes` only those that are read in passes."""
    lines, ways = [], (("parquet", "1000000"), ("csv", "1000000"), ("parquet", ""))
    for kind, limit in ways[: 2 if passes else 3]:
        for count in (rows // 10, rows):
            folder = Path(tempfile.mkdtemp(prefix="series-", dir=scratch))
            try:
                alone(make, folder, count, seed, kind)
                used = alone(auto, folder, limit)
            finally:
                shutil.rmtree(folder)
            lines.append(
                {
                    "file": kind,
                    "read": "in passes" if limit else "in memory",
                    "rows": f"{count:,}",
                    "memory": f"{used.megabytes:.0f} MB",
                    "CPU s": f"{used.cpu_seconds:.1f}",
                    "CPU s per million rows": f"{used.cpu_seconds / count * 1e6:.1f}" if count == rows else "",
                    "found": used.found,
                }
            )
            print(" | ".join(lines[-1].values()), flush=True)
    return lines


def make(folder: Path, rows: int, seed: int, kind: str) -> None:
    """Write the two silos and the truth."""
    import numpy as np

    from fedbnsl.data.folder.folder import write_structure, write_table
    from fedbnsl.data.generators.dynamic import dynamic

    data = dynamic(VARIABLES, 2, rows, seed)
    assert data.truth is not None
    write_structure(folder / "truth.csv", data.truth)
    for silo, name in zip(data.schema.silos, NAMES, strict=True):
        table = data.tables[silo][: rows if name == NAMES[0] else SMALL]
        length = -(-len(table) // SERIES)
        number = np.arange(len(table)) // length
        time = np.arange(len(table)) % length
        keys = {"series": number, "time": time + 5 * (time > length // 3)}
        write_table(folder / f"{name}.{kind}", data.schema.variables, table, keys=keys)


def auto(folder: Path, limit: str) -> str:
    """Learn from both silos with the defaults, but without resamples, which need rows in memory."""
    if limit:
        os.environ["FEDBNSL_IN_MEMORY_BYTES"] = limit
    from fedbnsl import learn
    from fedbnsl.data.folder import batches

    if limit:  # modules that are already imported have read the default
        batches.IN_MEMORY_BYTES = int(limit)
    found = learn(str(folder), engine="inline", bootstrap=0)
    assert bool(limit) == any("in passes" in note for note in found.result.notes)
    named = ", ".join(one.name for one in found.result.diagnosed.findings) or "none"
    return f"W SHD {found.metrics['shd']}, A SHD {found.metrics['lagged_shd']}; findings: {named}"
