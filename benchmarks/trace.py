"""How many source files one run goes through: a reader who follows it from command to result has to open these.

    python benchmarks/trace.py            # prints the four counts and the files behind them

A `fed-sparse` run over three CSV files is traced inline: every project file in which a function is called (module
bodies, which run at import, are not counted). `cell` counts the files between the bytes of a CSV file and the numbers
that a silo learns from. `epsilon` counts the files with a function that takes ε as an argument before the noise is
drawn, and the file that draws it.
"""

import json
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import fedbnsl
from fedbnsl import prepare

ROOT = Path(fedbnsl.__file__).resolve().parents[1]
ROOMS = ("algorithms", "data", "flows", "tasks", "tracking", "fedbnsl")
EPSILON = 2.718281728
"""an ε that no other value of a run equals"""
NOISE = ("discrete_gaussian",)
"""the functions that draw noise"""
CELL = "0.123456789"
"""a cell that no other cell equals"""
LIMITS = {"files": 130, "epsilon": 8, "cell": 4, "settings_parsed": 1, "algorithms_built": 1}
Seen = Callable[[FrameType], bool]


def entered(work: Callable[[], Any], counts: Seen = lambda frame: True) -> list[str]:
    """Project files in which `work` calls a function whose frame `counts`; module bodies are not functions."""
    files: set[str] = set()

    def on_event(frame: FrameType, event: str, argument: Any) -> None:
        path = frame.f_code.co_filename
        # Bodies of modules and classes run at import and are not functions.
        if event != "call" or not path.startswith(str(ROOT)) or not frame.f_code.co_flags & CO_OPTIMIZED:
            return
        file = str(Path(path).relative_to(ROOT))
        if file.split("/")[0] in ROOMS and counts(frame):
            files.add(file)

    sys.setprofile(on_event)
    try:
        work()
    finally:
        sys.setprofile(None)
    return sorted(files)


def command(*words: str) -> Callable[[], None]:
    """The command line with these words, run in this process; its output is discarded."""

    def run() -> None:
        from fedbnsl.flows.cli.main import main

        try:
            main([*words])
        except SystemExit as done:
            if done.code:
                raise

    return run


def until_noise() -> Seen:
    """A counter of functions that receive ε as an argument, up to the first draw of noise."""
    drawn = False

    def holds(value: Any) -> bool:
        if is_dataclass(value) and not isinstance(value, type):
            return "epsilon" in (field.name for field in fields(value)) and value.epsilon == EPSILON
        return isinstance(value, float) and value == EPSILON

    def receives_epsilon(frame: FrameType) -> bool:
        nonlocal drawn
        code = frame.f_code
        if drawn:
            return False
        if code.co_name in NOISE:
            drawn = True
            return True
        names = "epsilon" in (*code.co_names, *code.co_varnames)
        return names and any(holds(value) for value in frame.f_locals.values())

    return receives_epsilon


def receives_cell(frame: FrameType) -> bool:
    """Whether a function is called with the cell: in bytes, text, an array or a column."""

    def holds(value: Any) -> bool:
        if isinstance(value, bytes):
            return CELL.encode() in value
        if isinstance(value, str):
            return CELL in value
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            return bool((value == float(CELL)).any())
        if isinstance(value, list | tuple):
            return any(holds(one) for one in value[:50])
        if is_dataclass(value) and not isinstance(value, type):
            return any(holds(getattr(value, field.name, None)) for field in fields(value))
        return False

    return any(holds(value) for value in frame.f_locals.values())


def measure(folder: Path) -> dict[str, Any]:
    """The files behind each of the `LIMITS`."""
    data = folder / "data"
    prepare("homogeneous", out=data, variables=6, silos=3, rows=200, seed=1)
    options = ("--engine", "inline", "--seed", "1")
    places = {"parse_settings": "core/spec.py", "build": "admm/fed_sparse.py"}
    calls = dict.fromkeys(places, 0)

    def count_calls(frame: FrameType) -> bool:
        name = frame.f_code.co_name
        if name in places and frame.f_code.co_filename.endswith(places[name]):
            calls[name] += 1
        return True

    run = entered(command("learn", str(data), "-a", "fed-sparse", *options, "--out", str(folder / "run")), count_calls)
    private = ("learn", str(data), "-a", "secure-sum", "--epsilon", str(EPSILON), *options)
    epsilon = entered(command(*private, "--out", str(folder / "private")), until_noise())
    first = data / "silo-1.csv"
    lines = first.read_text(encoding="utf-8").split("\n")
    lines[5] = ",".join([CELL, *lines[5].split(",")[1:]])
    first.write_text("\n".join(lines), encoding="utf-8")
    (data / "about.json").unlink()
    from fedbnsl.data.folder import read_folder

    cell = entered(lambda: read_folder(data), receives_cell)
    return {
        "files": run,
        "epsilon": epsilon,
        "cell": cell,
        "settings_parsed": calls["parse_settings"],
        "algorithms_built": calls["build"],
    }


def main() -> None:
    """Print the counts beside their limits, and the files; the exit code is 1 if a count is above its limit."""
    os.environ["COLUMNS"] = "100"
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder))
    counts = {name: len(value) if isinstance(value, list) else value for name, value in found.items()}
    print(json.dumps(found, indent=1))
    for name, count in counts.items():
        print(f"{name}: {count} (limit {LIMITS[name]})")
    raise SystemExit(any(counts[name] > limit for name, limit in LIMITS.items()))


if __name__ == "__main__":
    main()
