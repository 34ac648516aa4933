"""A whole federation in processes of its own, in which nothing that arrives may be interpreted as a program."""

import json
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.release import FIXED_SUMS
from fedbnsl.flows.cli.federation import init_federation
from fedbnsl.flows.servers.federation_demo import SILOS, write_demo_rows
from fedbnsl.tasks.transport.channel import connect_to_coordinator
from fedbnsl.tasks.transport.configuration import read_federation_file, read_silo_file

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
        assert statistics <= FIXED_SUMS | {"masked messages", "records", "description", "refusals"}
        assert all(line["silos"] == list(SILOS) for line in lines if line["statistic"] in FIXED_SUMS)
        assert all(line["masked"] for line in lines if line["statistic"] in FIXED_SUMS)
    own = [word for silo in SILOS for word in ("--silo", study / silo / "silo.toml")]
    words = command(study, "audit", out, "--trusted", study / "coordinator" / "trusted.pem", *own)
    audited = subprocess.run(words, check=False, capture_output=True, text=True, timeout=60, env=environment)
    assert audited.returncode == 0, audited.stdout + audited.stderr
    assert "No fault: 3 silos signed" in audited.stdout
    for silo, lines in statement["silos"].items():
        compare_with_traffic(lines, captured(Path(f"{marker}.sent-{silo}")))
        own = command(study, "silo", "sent", read_silo_file(study / silo / "silo.toml").data)
        shown = subprocess.run(own, check=False, capture_output=True, text=True)
        assert not shown.returncode, shown.stderr + str(sorted((study / silo).rglob("*")))
        assert shown.stdout.count("moments, masked") == sum(line["statistic"] == "moments" for line in lines)


def captured(path):
    """The method and the content of each answer that a silo has sent; of an error, its text."""
    packed, found = path.read_bytes(), []
    while packed:
        parts = []
        for _ in range(2):
            size = int.from_bytes(packed[:4], "big")
            parts.append(packed[4 : 4 + size])
            packed = packed[4 + size :]
        error, _, content = wire.decode(tuple[str, int, bytes], parts[1])
        found.append((f"refused {parts[0].decode()}" if error else parts[0].decode(), content))
    return found


def compare_with_traffic(lines, sent):
    """The statement has every message with every byte, except answers without a value, itself and its signature."""
    bytes_of, times_of = Counter(), Counter()
    for line in lines:
        kind = line["statistic"] if line["statistic"] in ("description", "records", "refusals") else "replies"
        bytes_of[kind] += line["bytes"]
        times_of[kind] += line["times"]
    expected_bytes, expected_times = Counter(), Counter()
    for method, content in sent:
        kind = KINDS.get(method, "refusals" if method.startswith("refused") else "")
        if kind and method not in ("releases", "sign"):
            expected_bytes[kind] += len(wire.decode(bytes, content) if kind == "replies" else content)
            expected_times[kind] += 1
    assert times_of == expected_times
    assert bytes_of == expected_bytes
    assert {content for method, content in sent if method in ("admit", "finish")} == {wire.encode(None)}


KINDS = {
    "describe": "description",
    "solve": "replies",
    "secure_answer": "replies",
    "seal": "records",
    "charges": "records",
    "releases": "records",
    "sign": "records",
}
