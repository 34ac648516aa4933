"""Memory and disk use of a long run, and memory use of a run with many silos.

`python benchmarks/endurance.py [--table rounds|silos]`. Table `rounds`: 1000 rounds of `notears-admm` over 3 silos, d =
10, through Prefect. It shows the resident memory (RSS) of the coordinator and of each worker every 100 rounds. Table
`silos`: 64 silos of 500 rows, d = 20. It shows the memory of coordinator, workers and their fork server as PSS, which
counts shared pages once. Prefect's server is a separate process; its memory is shown, but not counted.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from measure import show
from processes import Home, Program, free_port, prefect_server

LONG = ("-a", "notears-admm", "-p", "preset=paper", "-p", "rounds=1000", "-p", "tolerance=1e-300", "--no-diagnose")
MANY = {
    "auto": (),
    "fed-sparse": ("-a", "fed-sparse"),
    "notears-admm, masked": ("-a", "notears-admm", "-p", "rounds=10", "--secure"),
}


@contextmanager
def running(scratch: Path) -> Iterator[tuple[Home, Program]]:
    """Yield a home with a Prefect server; all started processes end with the block."""
    home = Home(scratch / "home")
    try:
        with prefect_server(home, free_port()) as server:
            yield home, server
    finally:
        home.end()


def made(home: Home, *words: str) -> Path:
    """A folder of drawn data."""
    assert home.start("prepare", "homogeneous", home.folder / "data", "--seed", "2", *words).wait() == 0
    return home.folder / "data"


def megabytes(size: float) -> str:
    """A number of bytes as the tables show it."""
    return f"{size / 1e6:.1f}"


def resident(process: psutil.Process) -> int:
    """The resident memory of a process."""
    return int(process.memory_info().rss)


def rounds(scratch: Path) -> list[dict[str, Any]]:
    """A line for every 100 rounds."""
    lines = []
    with running(scratch) as (home, server):
        data = made(home, "--variables", "10", "--silos", "3", "--rows", "300")
        program = home.start("learn", data, *LONG, "--out", home.folder / "out")
        coordinator, first = psutil.Process(program.process.pid), list[int]()
        for number in range(100, 1000, 100):
            program.at_round(home.folder / "out", number)
            held = [resident(process) for process in (coordinator, *program.workers())]
            first = first or held
            lines.append(line(number, held, first, resident(psutil.Process(server.process.pid)), home, data))
            print(" | ".join(lines[-1].values()), flush=True)
        assert program.wait() == 0, program.log.read_text()
        lines.append({**dict.fromkeys(lines[-1], ""), "round": "ended", **files(home, data)})
    return lines


def line(number: int, held: list[int], first: list[int], server: int, home: Home, data: Path) -> dict[str, str]:
    """Return the memory of the coordinator and its workers after this number of rounds."""
    return {
        "round": str(number),
        "coordinator MB": megabytes(held[0]),
        "workers MB": ", ".join(map(megabytes, held[1:])),
        "growth since round 100": ", ".join(f"{now / then - 1:+.1%}" for now, then in zip(held, first, strict=True)),
        "Prefect's server MB": megabytes(server),
        **files(home, data),
    }


def files(home: Home, data: Path) -> dict[str, str]:
    """The sizes of the journals of all silos and of Prefect's database."""
    journals = sum(file.stat().st_size for file in (data / ".fedbnsl").glob("*.sqlite*"))
    database = sum(file.stat().st_size for file in Path(home.surroundings["PREFECT_HOME"]).glob("prefect.db*"))
    return {"journals MB": megabytes(journals), "Prefect's database MB": megabytes(database)}


def silos(scratch: Path) -> list[dict[str, Any]]:
    """A line for every kind of run over 64 silos."""
    lines = []
    with running(scratch) as (home, _):
        data = made(home, "--variables", "20", "--silos", "64", "--rows", "500")
        for name, words in MANY.items():
            program = home.start("learn", data, *words, "--out", home.folder / name.split(",")[0])
            most: dict[str, float] = {"coordinator": 0.0, "workers": 0.0, "all": 0.0, "processes": 0}
            while program.process.poll() is None:
                held = shared_once(program)
                if held["all"] > most["all"]:
                    most = held
                time.sleep(0.1)
            assert program.wait() == 0, program.log.read_text()
            shown = {f"{what} MB": megabytes(most[what]) for what in ("coordinator", "workers", "all")}
            lines.append({"run": name, "processes": str(most["processes"]), **shown})
            print(" | ".join(lines[-1].values()), flush=True)
    return lines


def shared_once(program: Program) -> dict[str, float]:
    """The PSS of the coordinator's process and of all that it started, at this moment."""
    own, others = 0, []
    try:
        parent = psutil.Process(program.process.pid)
        below = parent.children(recursive=True)
        own = parent.memory_full_info().pss
        others = [child.memory_full_info().pss for child in below]
    except psutil.NoSuchProcess:
        others = []
    return {"coordinator": own, "workers": sum(others), "all": own + sum(others), "processes": 1 + len(others)}


def main() -> None:
    """Measure the requested tables."""
    tables = {"rounds": rounds, "silos": silos}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", choices=tables, action="append", help="one or more; default: both")
    for name in parser.parse_args().table or tables:
        with tempfile.TemporaryDirectory(prefix="endurance-") as scratch:
            show(f"endurance-{name}", tables[name](Path(scratch)), {})


if __name__ == "__main__":
    main()
