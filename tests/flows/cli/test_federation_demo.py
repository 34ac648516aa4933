"""`fedbnsl federation demo`: certificates, processes and a run from one command, as a new user calls it."""

import json
import subprocess
import sys

import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.flows.cli.federation import init_federation, run_demo
from fedbnsl.flows.servers.federation_demo import SILOS, running_federation

DEMO = (sys.executable, "-m", "fedbnsl.flows.cli.main", "federation", "demo")


@pytest.mark.slow(60)
def test_one_command_runs_a_federation_and_leaves_no_process(tmp_path):
    done = subprocess.run(
        [*DEMO, "study", "--once"], cwd=tmp_path, capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stderr
    (run,) = (tmp_path / "runs").iterdir()
    metrics = json.loads((run / "metrics.json").read_text())
    assert (metrics["shd"], metrics["true_edges"]) == (0, 5)
    config = json.loads((run / "config.json").read_text())
    assert (config["secure"], config["dataset"], sorted(config["rows"])) == (True, "study", sorted(SILOS))
    for silo in SILOS:
        log = (tmp_path / "study" / silo / "log.txt").read_text()
        assert "has joined" in log
        assert log.splitlines()[-1].endswith("stopped")


def test_a_coordinator_that_cannot_listen_is_one_line(tmp_path):
    folder = tmp_path / "study"
    init_federation(folder, SILOS, "192.0.2.1:8786")  # an address of no machine
    with (
        pytest.raises(BadInput, match=r"the coordinator does not listen at \S*192.0.2.1:8786: .*cannot listen"),
        running_federation(folder),
    ):
        pytest.fail("nothing listens there")


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(BadInput, match="already exists and is no federation"):
        run_demo(tmp_path, once=True)
    assert [one.name for one in tmp_path.iterdir()] == ["notes.txt"]
