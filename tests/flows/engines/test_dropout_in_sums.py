"""Worker processes that die inside a masked sum: the sum restarts with fresh keys, and the result is unchanged."""

import os
import signal

import pytest
from distributed.nanny import Nanny

from fedbnsl.data.folder.folder import read_folder, write_folder
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.flows.engines.inline import job_inline, run_inline
from fedbnsl.flows.learn import learn
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.tasks.transport.federation import SecureTransport


@pytest.mark.slow
def test_workers_killed_in_the_middle_of_sums_change_nothing(server, tmp_path, monkeypatch):
    """One is killed when it has advertised its keys, another when its masked summand is in."""
    write_folder(tmp_path / "set", homogeneous(variables=5, silos=4, rows=150, seed=6))
    asked = {"data": str(tmp_path / "set"), "algorithm": "notears-admm", "params": {"rounds": 5}, "secure": True}
    data = read_folder(tmp_path / "set")
    whole = run_inline(job_inline(LearnSettings(**asked), "whole", data), data)
    dying, killed, phases = {(2, "mask"), (4, "unmask")}, [], []
    ask = SecureTransport.ask

    def killing(transport, phase, messages):
        phases.append((transport.number, phase))
        if (transport.number, phase) in dying:
            dying.discard((transport.number, phase))
            killed.append(next(nanny.pid for nanny in Nanny._instances if nanny.pid is not None))
            os.kill(killed[-1], signal.SIGKILL)
        return ask(transport, phase, messages)

    monkeypatch.setattr(SecureTransport, "ask", killing)
    result = learn(LearnSettings(out=str(tmp_path / "out"), **asked)).result
    assert len(killed) == 2
    assert not dying
    assert result.outcome == "out of rounds"
    assert result.lost == ()
    assert result.structure.weights.tobytes() == whole.structure.weights.tobytes()
    assert phases.count((2, "mask")) > 1  # the sum restarts, because the other silos cannot replace the lost keys
    assert phases.count((3, "mask")) == 1
