"""Connected silos whose process is stopped or whose disk hangs, and slow but living silos, in real processes."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from fedbnsl.data.folder.folder import silo_files, write_folder
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.tasks.silo.ledger import ledger_of
from tests.flows.engines.frozen_process import release
from tests.flows.owners import Owners

PATIENCE = 5
"""seconds of `--silo-patience`"""
WITHIN = 40.0
"""seconds within which a run ends after a silo was stopped: the patience, the end of the run, and a slow machine"""
FROZEN = "silo-2: no response for 5 s (frozen: connected, but without a sign of life)"
PROCESS = Path(__file__).with_name("frozen_process.py")


class OnThisMachine:
    """Silos on the Dask workers of the run."""

    def __init__(self, folder):
        self.files, self.words, self.pids = silo_files(folder), [folder], {}

    def stop(self):
        """Nothing: the workers end with their run."""


class OfOwners(Owners):
    """Silos that dial in, each a process of `fedbnsl silo start`; the relay is in a thread of this process."""

    def __init__(self, folder, files):
        super().__init__(folder, files)
        self.processes, self.pids = ExitStack(), {}

    def join(self, silo):
        own = self.folder / silo
        self.files[silo] = Path(shutil.copy(self.files[silo], own / "rows.csv"))
        (own / "about.json").write_text('{"kind": "continuous"}')
        text = (own / "silo.toml").read_text().replace("127.0.0.1:1", str(self.where))
        (own / "silo.toml").write_text(text.replace('level = "sums"', 'level = "trusted"'))
        words = [sys.executable, "-m", "fedbnsl.flows.cli.main", "silo", "start", "--config", str(own / "silo.toml")]
        log = self.processes.enter_context((own / "log.txt").open("wb"))
        process = subprocess.Popen(words, stdout=log, stderr=log)
        self.processes.callback(process.wait, 20)
        self.processes.callback(process.terminate)
        self.wait_for(lambda: any(f"silo {silo} has joined" in line for line in self.said))
        (serving,) = psutil.Process(process.pid).children()
        self.pids[silo] = serving.pid

    @property
    def words(self):
        return ["--federation", self.file]

    def stop(self):
        self.processes.close()
        self.end(self.relay)
        self.run(asyncio.sleep(0.5))  # its connections end
        super().stop()


@pytest.fixture(params=["this machine", "owners"])
def silos(request, tmp_path):
    """Three silos over each of both transports; on this machine, the second one has a worker of its own."""
    write_folder(tmp_path / "data", homogeneous(variables=4, silos=3, rows=10_000, seed=1))
    if request.param == "this machine":
        yield OnThisMachine(tmp_path / "data")
        return
    owners = OfOwners(tmp_path / "federation", silo_files(tmp_path / "data"))
    owners.start()
    (owners.file.parent / "about.json").write_text('{"kind": "continuous"}')
    try:
        yield owners
    finally:
        owners.stop()


def command(*words, at="nothing", pids=(), rows="", file="stopped.json"):
    """Exit code and the lines on stderr of a run that stops silo-2 before the exchange `at`."""
    program = [sys.executable, PROCESS, at, json.dumps(dict(pids)), rows, file]
    done = subprocess.run(
        [str(word) for word in (*program, *words)], check=False, capture_output=True, text=True, timeout=300
    )
    assert "Traceback" not in done.stdout + done.stderr
    return done.returncode, done.stderr.splitlines()


def resume(pid):
    if psutil.pid_exists(pid):
        os.kill(pid, signal.SIGCONT)


@pytest.mark.slow(120)
@pytest.mark.parametrize(
    ("fault", "at", "run", "code"),
    [
        ("process", "describe", ["fed-pc", "--quorum", 3], 3),
        ("process", "round", ["dp-fed-sparse", "--epsilon", 8, "--quorum", 3], 3),
        ("process", "round", ["dp-fed-sparse", "--epsilon", 8, "--quorum", 2], 0),
        ("process", "diagnosis", ["fed-pc"], 0),
        ("disk", "describe", ["fed-pc", "--quorum", 3], 3),
        ("disk", "round", ["dp-fed-sparse", "--epsilon", 8, "--quorum", 3], 3),
    ],
    ids=[
        "before round 1",
        "in round 2",
        "in round 2, with a quorum",
        "after the rounds",
        "disk, before round 1",
        "disk, in round 2",
    ],
)
def test_a_frozen_silo_is_lost_like_one_that_is_gone(silos, fault, at, run, code, tmp_path):
    """A run without it, or with it after it has been continued, is not spoiled, and no round is charged twice."""
    out, file = tmp_path / "out", tmp_path / "stopped.json"
    words = ["learn", *silos.words, "--silo-patience", PATIENCE, "--out", out, "-a", *run]
    rows = silos.files["silo-2"] if fault == "disk" else ""
    left, said = command(*words, at=at, pids=silos.pids, rows=rows, file=file)
    assert file.exists(), said
    pid, since = json.loads(file.read_text())
    seconds = time.time() - since
    release(rows) if rows else resume(pid)
    assert left == code, said
    assert seconds < WITHIN
    assert [line for line in said if FROZEN in line and line.startswith("note")] == [
        f"note: {FROZEN}; not asked again in this run"
    ]
    if at == "describe":
        assert said[-1] == f"error: {FROZEN}, before the rows were described"
    elif code:
        assert (
            said[-1] == f"error: silo-2 did not respond and the run stopped; to continue: fedbnsl learn --resume {out}"
        )
        left, said = command("learn", "--resume", out)
        assert left == 0, said
    if "--epsilon" in run:
        rounds = json.loads((out / "metrics.json").read_text())["rounds"]
        charged = {silo: len(ledger_of(path, silo).charges()) for silo, path in silos.files.items()}
        assert charged["silo-1"] == charged["silo-3"] == rounds
        assert charged["silo-2"] == rounds if code else charged["silo-2"] <= 2
