"""Memory and disk use of a long run, memory use of a run with many silos, and of many runs in a row.

`python benchmarks/endurance.py [--table rounds|silos|nights]`. Table `rounds`: 1000 rounds of `notears-admm` over 3
silos, d = 10, through Prefect. It shows the resident memory (RSS) of the coordinator and of each worker every 100
rounds. Table `silos`: 64 silos of 500 rows, d = 20. It shows the memory of coordinator, workers and their fork server
as PSS, which counts shared pages once. Prefect's server is a separate process; its memory is shown, but not counted.
Table `nights`: 50 runs of a deployment with `--keep 5`. It shows the memory of the long-lived processes, the CPU
seconds of a run and of the server, and the space on disk, as means over five runs.
"""

import argparse
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from measure import show
from processes import Home, Program, free_port, prefect_server, until

LONG = ("-a", "notears-admm", "-p", "preset=fed-bnsl", "-p", "rounds=1000", "-p", "tolerance=1e-300", "--no-diagnose")
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


NIGHTS, NIGHTS_IN_LINE = 50, 5
LONG_LIVED = ("serve", "Prefect's server")


def nights(scratch: Path) -> list[dict[str, Any]]:
    """A line for every five runs of a deployment."""
    lines, measured = [], []
    with running(scratch) as (home, server):
        data = made(home, "--variables", "6", "--silos", "3", "--rows", "300")
        program = home.start("serve", data, "-a", "secure-linear", "--unchanged", "learn", "--keep", "5")
        until(lambda: "serving" in program.log.read_text(), "serve")
        watched = [psutil.Process(one.process.pid) for one in (program, server)]
        for number in range(1, NIGHTS + 1):
            start_run(home)
            until(lambda so_far=number: program.log.read_text().count(" learned ") >= so_far, f"run {number}")
            serving, own = (one.cpu_times() for one in watched)
            spent = (serving.children_user + serving.children_system, own.user + own.system)
            measured.append(([resident(one) / 1e6 for one in watched], spent, space(home)))
            if number % NIGHTS_IN_LINE == 0:
                before = measured[-NIGHTS_IN_LINE - 1][1] if number > NIGHTS_IN_LINE else (0.0, 0.0)
                lines.append(nights_line(number, before, measured[-NIGHTS_IN_LINE:]))
                print(" | ".join(lines[-1].values()), flush=True)
        program.tell(signal.SIGINT)
    return lines


def start_run(home: Home) -> None:
    """Start a run of the deployment."""
    os.environ["PREFECT_API_URL"] = home.surroundings["PREFECT_API_URL"]
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        client.create_flow_run_from_deployment(client.read_deployment_by_name("learn/scheduled").id)


def nights_line(number: int, before: tuple[float, float], measured: list[Any]) -> dict[str, str]:
    """The means over the last runs up to `number`; `before` has the CPU seconds of runs and server until then."""
    held = [sum(one[0][which] for one in measured) / len(measured) for which in range(len(LONG_LIVED))]
    cpu = [(now - then) / len(measured) for now, then in zip(measured[-1][1], before, strict=True)]
    return {
        "runs": str(number),
        **{f"{name} MB": f"{size:.1f}" for name, size in zip(LONG_LIVED, held, strict=True)},
        "CPU s of a run": f"{cpu[0]:.2f}",
        "CPU s of Prefect's server a run": f"{cpu[1]:.2f}",
        **{f"{name} MB": f"{size / 1e6:.1f}" for name, size in measured[-1][2].items()},
    }


def space(home: Home) -> dict[str, int]:
    """The bytes on disk of results, MLflow and Prefect."""
    prefect = Path(home.surroundings["PREFECT_HOME"])
    places = {"runs": home.folder / "runs", "MLflow": home.folder / "mlartifacts", "Prefect": prefect}
    used = {
        name: sum(one.stat().st_size for one in place.rglob("*") if one.is_file()) for name, place in places.items()
    }
    return used | {"MLflow": used["MLflow"] + (home.folder / "mlflow.db").stat().st_size}


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
    tables = {"rounds": rounds, "silos": silos, "nights": nights}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", choices=tables, action="append", help="one or more; default: all")
    for name in parser.parse_args().table or tables:
        with tempfile.TemporaryDirectory(prefix="endurance-") as scratch:
            show(f"endurance-{name}", tables[name](Path(scratch)), {})


if __name__ == "__main__":
    main()
