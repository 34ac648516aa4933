"""A whole federation in processes of its own, in which nothing that arrives may be interpreted as a program."""

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from fedbnsl.algorithms.core.release import FIXED_SUMS
from fedbnsl.flows.cli.federation import init_federation
from fedbnsl.flows.servers.federation_demo import SILOS, write_demo_rows
from fedbnsl.tasks.transport.channel import connect_to_coordinator
from fedbnsl.tasks.transport.configuration import read_federation_file

PROCESS = Path(__file__).with_name("federation_process.py")


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """The folder of a federation of three silos at level sums."""
    folder = tmp_path_factory.mktemp("bytes") / "study"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    init_federation(folder, SILOS, f"127.0.0.1:{port}")
    write_demo_rows(folder)
    return folder


def command(folder, *words):
    return [sys.executable, str(PROCESS), str(folder / "marker.txt"), *map(str, words)]


@pytest.mark.slow(60)
def test_a_federation_learns_without_pickle(study, tmp_path):
    """In coordinator, silos and the run, `pickle.loads`, `Unpickler` and `get_type_hints` raise after start-up."""
    environment = os.environ | {"PYTHONUNBUFFERED": "1", "FEDBNSL_HOME": str(tmp_path / "home")}
    file = study / "coordinator" / "federation.toml"
    with ExitStack() as started:

        def start(name, *words):
            log = started.enter_context((study / f"{name}.log").open("wb"))
            process = subprocess.Popen(command(study, *words), stdout=log, stderr=subprocess.STDOUT, env=environment)
            started.callback(process.wait, 20)
            started.callback(process.terminate)

        start("coordinator", "coordinator", "start", "--federation", file)
        for silo in SILOS:
            start(silo, "silo", "start", "--config", study / silo / "silo.toml")
        with connect_to_coordinator(read_federation_file(file), timeout=60) as transport:
            deadline = time.monotonic() + 60
            while transport.present() != SILOS and time.monotonic() < deadline:
                time.sleep(0.05)
        out = tmp_path / "out"
        words = ("learn", "--federation", file, "--secure", "--out", out, "--bootstrap", "5")
        run = command(study, *words)
        done = subprocess.run(run, check=False, capture_output=True, text=True, timeout=300, env=environment)
    marker = study / "marker.txt"
    assert not marker.exists(), marker.read_text()
    logs = "".join((study / f"{name}.log").read_text() for name in ("coordinator", *SILOS))
    assert done.returncode == 0, done.stderr + logs
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["edges"] > 0
    statement = json.loads((out / "disclosure.json").read_text())
    assert set(statement["silos"]) == set(SILOS)
    for lines in statement["silos"].values():
        statistics = {line["statistic"] for line in lines}
        assert statistics <= FIXED_SUMS | {"masked messages", "records", "description"}
        assert all(line["silos"] == list(SILOS) for line in lines if line["statistic"] in FIXED_SUMS)
        assert all(line["masked"] for line in lines if line["statistic"] in FIXED_SUMS)
