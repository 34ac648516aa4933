import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.moments import summed
from fedbnsl.data.folder.folder import read_folder, silo_files, write_folder
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.flows.cli.main import main
from fedbnsl.flows.engines.inline import job_inline, run_inline
from fedbnsl.flows.engines.resuming import read_started, resume_settings
from fedbnsl.flows.engines.run_context import RunContext
from fedbnsl.flows.learn import learn, learn_flow
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.tasks.silo.ledger import FileLedger, ledger_path
from fedbnsl.tracking.checkpoint import load

LEARN = [sys.executable, "-m", "fedbnsl.flows.cli.main", "learn"]
OPTIONS = ["-a", "notears-admm", "--seed", "4"]


def metrics(folder):
    found = json.loads((folder / "metrics.json").read_text())
    return {key: value for key, value in found.items() if key != "seconds"}


@pytest.mark.slow(60)
def test_a_killed_coordinator_goes_on_and_the_result_is_the_same_bit_for_bit(
    server, example, tmp_path, capsys, monkeypatch
):
    with pytest.raises(SystemExit):
        main(["learn", str(example), *OPTIONS, "--engine", "inline", "--out", str(tmp_path / "whole")])
    out = tmp_path / "out"
    environment = {**os.environ, "PREFECT_API_URL": server}
    run = subprocess.Popen([*LEARN, str(example), *OPTIONS, "--out", str(out)], env=environment, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 120
    try:
        while not (out / "checkpoint.bin").exists() or load(out / "checkpoint.bin").number < 3:
            assert run.poll() is None, run.stderr.read()
            assert time.monotonic() < deadline, "no third round within two minutes"
            time.sleep(0.01)
    finally:
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
    assert not (out / "checkpoint.bin").exists()


def stop_at(number):
    """A listener that stops the coordinator at this round, which has been checkpointed by then."""

    def stop(heard):
        if heard.round.number == number:
            raise RuntimeError("the coordinator stopped")

    return stop


@pytest.mark.slow
def test_a_masked_run_goes_on_behind_fresh_masks_to_the_same_bits(server, example, tmp_path):
    asked = {"data": str(example), "algorithm": "notears-admm", "params": {"rounds": 6}, "secure": True}
    data = read_folder(example)
    whole = run_inline(job_inline(LearnSettings(**asked), "whole", data), data)
    out = tmp_path / "out"
    with pytest.raises(RuntimeError, match="coordinator stopped"):
        learn_flow(RunContext((stop_at(3),)))(LearnSettings(out=str(out), **asked))
    assert load(out / "checkpoint.bin").number == 3
    tracked = read_started(out).tracking_id
    again = learn(resume_settings(out))
    assert tracked
    assert f"/runs/{tracked}?" in again.tracking_url
    resumed = again.result
    assert resumed.secure
    assert resumed.structure.weights.tobytes() == whole.structure.weights.tobytes()
    assert [row["round"] for row in resumed.rounds] == [1, 2, 3, 4, 5, 6]


def test_a_private_run_goes_on_with_the_noise_that_was_drawn_and_pays_once(server, tmp_path, monkeypatch):
    """It stops after the second sum, that of second moments; the silos repeat this reply from their journals."""
    folder = tmp_path / "private"
    write_folder(folder, homogeneous(variables=5, silos=3, rows=100, seed=1))
    asked = {"data": str(folder), "algorithm": "secure-sum", "epsilon": 40.0, "budget": 41.0}
    out, seen = tmp_path / "out", []

    def stop(server, S, *given):
        seen.append(S)
        if len(seen) == 1:
            raise RuntimeError("the coordinator stopped")
        return learned(server, S, *given)

    learned = summed.learn
    monkeypatch.setattr(summed, "learn", stop)
    with pytest.raises(RuntimeError, match="coordinator stopped"):
        learn(LearnSettings(out=str(out), **asked))
    paid = charged(folder)
    assert {silo: len(charges) for silo, charges in paid.items()} == dict.fromkeys(("silo-1", "silo-2", "silo-3"), 2)
    resumed = learn(resume_settings(out)).result
    assert len(seen) == 2
    np.testing.assert_array_equal(*seen)
    assert charged(folder) == paid
    assert 39.0 < resumed.metrics["epsilon"] <= 40.0


def charged(folder):
    """Return what the ledger of each silo says."""
    ledgers = {silo: FileLedger(ledger_path(path, silo)) for silo, path in silo_files(folder).items()}
    # A run that has ended has its keys erased.
    return {silo: [replace(charge, key=b"") for charge in ledger.charges()] for silo, ledger in ledgers.items()}


def test_there_must_be_something_to_resume(tmp_path):
    with pytest.raises(BadInput, match="no interrupted run to resume"):
        resume_settings(tmp_path)
