import json
import os
import signal
import subprocess
import sys
import time

import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.flows.cli.main import main
from fedbnsl.flows.engines.resuming import settings_of
from fedbnsl.tracking.checkpoint import load

LEARN = [sys.executable, "-m", "fedbnsl.flows.cli.main", "learn"]
OPTIONS = ["-a", "notears-admm", "--seed", "4"]


def metrics(folder):
    found = json.loads((folder / "metrics.json").read_text())
    return {key: value for key, value in found.items() if key != "seconds"}


def test_a_killed_coordinator_goes_on_and_the_result_is_the_same_bit_for_bit(
    server, example, tmp_path, capsys, monkeypatch
):
    with pytest.raises(SystemExit):
        main(["learn", str(example), *OPTIONS, "--engine", "inline", "--out", str(tmp_path / "whole")])
    out = tmp_path / "out"
    environment = {**os.environ, "PREFECT_API_URL": server}
    run = subprocess.Popen([*LEARN, str(example), *OPTIONS, "--out", str(out)], env=environment, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 120
    while not (out / "checkpoint.bin").exists() or load(out / "checkpoint.bin").number < 3:
        assert run.poll() is None, run.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    run.send_signal(signal.SIGKILL)
    run.wait()
    stopped = load(out / "checkpoint.bin")
    assert not (out / "metrics.json").exists()
    capsys.readouterr()
    monkeypatch.chdir("/")
    with pytest.raises(SystemExit) as leaving:
        main(["learn", "--resume", str(out)])
    said = capsys.readouterr()
    assert leaving.value.code == 0, said.err
    assert stopped.number < metrics(out)["rounds"]
    assert metrics(out) == metrics(tmp_path / "whole")
    for name in ("structure.csv", "rounds.csv"):
        assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert f"MLflow: http://127.0.0.1:5000/#/experiments/1/runs/{stopped.tracking_id}" in said.out
    assert not (out / "checkpoint.bin").exists()


def test_there_must_be_something_to_resume(tmp_path):
    with pytest.raises(BadInput, match="no interrupted run to resume"):
        settings_of(tmp_path)
