"""A stopped run prints a message, exits with code 130, and ends its workers and servers."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

ENDLESS = ["-a", "notears-admm", "-p", "preset=fed-bnsl", "-p", "rounds=1000000", "-p", "tolerance=1e-300"]


def until(holds, run, seconds=120):
    deadline = time.monotonic() + seconds
    while not holds():
        assert run.poll() is None, run.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.05)


# SIGINT to a run in one process; SIGTERM to one with a server of its own, workers and MLflow.
@pytest.mark.parametrize(
    ("word", "engine"),
    [(signal.SIGINT, "inline"), pytest.param(signal.SIGTERM, "prefect", marks=pytest.mark.slow)],
)
def test_a_run_that_is_stopped_leaves_with_130_and_nothing_runs_on(
    example, tmp_path, listening_to_ctrl_c, word, engine
):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "fedbnsl.flows.cli.main", "learn", str(example), *ENDLESS, "--engine", engine]
    environment = {name: value for name, value in os.environ.items() if name != "PREFECT_API_URL"}
    run = subprocess.Popen([*command, "--out", str(out)], env=environment, stderr=subprocess.PIPE, text=True)
    children = []
    try:
        if engine == "prefect":
            until((out / "checkpoint.bin").exists, run)
            children = psutil.Process(run.pid).children(recursive=True)
            assert len(children) > 2
        else:
            assert "starting" in run.stderr.readline()
            time.sleep(0.5)
        run.send_signal(word)
        _, said = run.communicate(timeout=60)
    finally:
        run.kill()
    assert run.returncode == 130, said
    assert said.endswith("stopped\n")
    assert "Traceback" not in said
    _, alive = psutil.wait_procs(children, timeout=20)
    assert alive == []
    assert not (out / "metrics.json").exists()
