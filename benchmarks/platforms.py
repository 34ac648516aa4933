"""Seconds of a round over each platform, beside Dask and the relay, with the same result.

`python benchmarks/platforms.py`, after `make test-platforms` has installed the platforms: three silos of 500 rows and 8
variables in processes of this machine, `fed-sparse` for as many rounds as fit each transport, without masks, so that a
round is one exchange. Shown are the seconds of all rounds by their number, the median of three runs. The edges and
weights must be those of the engine inline, bit for bit. The results are in `results/platforms.json`.
"""

import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from measure import show

from fedbnsl.flows.servers.federation_demo import SILOS, running_federation
from fedbnsl.flows.servers.processes import free_port
from tests.platforms.flower_processes import flower_of
from tests.platforms.nvflare_processes import environment_of, start_poc
from tests.platforms.processes import silos_of
from tests.platforms.study import BRIEF, edges, learn, over, set_policy, write_study
from tests.platforms.vantage6_processes import write_mock_connection

RUNS = 3
NAMES = (
    *("inline", "Dask", "relay", "NVFlare, simulator", "NVFlare, server and clients"),
    *("Flower", "vantage6, mock client"),
)
ROUNDS = {"Flower": 5}
"""number of rounds, if not 40, of a platform that starts a process for each message"""
Transport = tuple[dict[str, str], tuple[object, ...]]
"""the environment and the words of `learn`"""


@contextmanager
def transport(name: str, study: Path) -> Iterator[Transport]:
    """The processes of the transport called `name`, for the owners in `study`."""
    with ExitStack() as running:
        if name == "Flower":
            flower = running.enter_context(flower_of(study.with_name("flower"), study, SILOS))
            yield flower.processes.environment, over(study, "flower")
            return
        if name == "relay":
            where = f"127.0.0.1:{free_port(0)}"
            for file in study.glob("*/*.toml"):
                file.write_text(file.read_text().replace("127.0.0.1:1", where))
            file = running.enter_context(running_federation(study))
            yield os.environ | environment_of(study), ("--federation", file)
            return
        silos = running.enter_context(silos_of(study, FEDBNSL_STUDY=str(study), **environment_of(study)))
        match name:
            case "NVFlare, simulator":
                words = over(study, "nvflare", "simulator")
            case "NVFlare, server and clients":
                words = over(study, "nvflare", start_poc(study, silos) / "admin@nvidia.com")
            case "vantage6, mock client":
                write_mock_connection(study)
                words = over(study, "vantage6", "vantage6.toml")
            case _:
                words = (study / "all", "--engine", "prefect" if name == "Dask" else "inline")
        yield silos.environment, words


def measure(name: str, number: int, folder: Path) -> tuple[list[float], bytes]:
    """The seconds of a round in each run of `number` rounds over the transport `name`, and the edges found."""
    study, seconds = write_study(folder / "study"), []
    set_policy(study, 'level = "trusted"')
    with transport(name, study) as (environment, words):
        for run in range(RUNS):
            out = folder / f"run-{run}"
            more = ("-a", "fed-sparse", "-p", f"rounds={number}", "-p", "tolerance=1e-12", "--seed", 1, *BRIEF)
            code, err = learn(environment, *words, *more, "--out", out)
            assert code == 0, err
            metrics = json.loads((out / "metrics.json").read_text())
            seconds.append(metrics["seconds"] / metrics["rounds"])
    return seconds, edges(out)


def main() -> None:
    """Measure every transport, print the table, and write the results; fails if a transport changes the edges."""
    rows, inline = [], {}
    for name in NAMES:
        number = ROUNDS.get(name, 40)
        with tempfile.TemporaryDirectory() as folder:
            if number not in inline:
                _, inline[number] = measure("inline", number, Path(folder) / "inline")
            seconds, found = measure(name, number, Path(folder) / "own")
        assert found == inline[number], name
        rows.append(
            {
                "transport": name,
                "rounds": number,
                "seconds of a round": round(statistics.median(seconds), 3),
                "least": round(min(seconds), 3),
                "most": round(max(seconds), 3),
            }
        )
        print(rows[-1], flush=True)
    show("platforms", rows, {})


if __name__ == "__main__":
    main()
