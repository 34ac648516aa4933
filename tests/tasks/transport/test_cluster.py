"""The workers that are present when a run begins, as Dask's scheduler reports them."""

from types import SimpleNamespace

import pytest

from fedbnsl.algorithms.errors import SilosUnavailable
from fedbnsl.tasks.transport import federation
from fedbnsl.tasks.transport.cluster import HEARTBEATS, DaskTransport, hosted_silos
from fedbnsl.tasks.transport.federation import wait_for_silos


class Told:
    """A client whose scheduler reports one of `looks` at each call: the workers as pairs of silos and status."""

    def __init__(self, *looks):
        self.looks = [*looks]
        self.scheduler = SimpleNamespace(identity=self.identity)

    def sync(self, function, **words):
        return function(**words)

    def scheduler_info(self, n_workers):
        return {"workers": {}}  # as after the client's timer, independent of the scheduler's knowledge

    def identity(self, n_workers):
        assert n_workers == -1
        now = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        workers = [
            {
                "resources": {**{f"silo:{silo}": 1 for silo in silos}, "gpu": 1},
                "status": status,
                "metrics": {HEARTBEATS: 17},
            }
            for silos, status in now
        ]
        return {"workers": {f"tls://{k}": worker for k, worker in enumerate(workers)}}


BOTH = [(("b", "c"), "running"), (("a",), "running")]
ONE = [(("a",), "running")]


def test_silos_are_those_of_workers_that_are_running():
    assert tuple(hosted_silos(Told(BOTH))) == ("a", "b", "c")
    assert hosted_silos(Told([*ONE, (("b",), "closing"), (("a",), "closing")])) == {"a": ("tls://0", 17)}


def test_silos_are_waited_for_while_patience_lasts(monkeypatch):
    monkeypatch.setattr(federation, "POLL_SECONDS", 0.0)
    assert wait_for_silos(DaskTransport(Told([], ONE, BOTH)), ("a", "b"), 60.0, None) == ("a", "b")
    assert wait_for_silos(DaskTransport(Told([], ONE)), (), 60.0, None) == ("a",)


def test_a_wait_of_some_seconds_is_told_once(monkeypatch, capsys):
    monkeypatch.setattr(federation, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(federation, "NOTICE_SECONDS", 0.0)
    wait_for_silos(DaskTransport(Told(ONE, ONE, ONE, BOTH)), ("a", "b", "c"), 60.0, None)
    assert capsys.readouterr().err == "waiting for b, c, at most 60 s\n"
    wait_for_silos(DaskTransport(Told(BOTH)), ("a", "b", "c"), 60.0, None)
    assert capsys.readouterr().err == ""


def test_a_run_begins_without_a_silo_only_where_a_quorum_is_given_and_there():
    assert wait_for_silos(DaskTransport(Told(BOTH)), ("a", "b", "d"), 0.0, 2) == ("a", "b")
    with pytest.raises(SilosUnavailable, match=r"no worker hosts d \(available: a, b, c\); 3 of 3 are needed"):
        wait_for_silos(DaskTransport(Told(BOTH)), ("a", "b", "d"), 0.0, 3)
    with pytest.raises(SilosUnavailable, match=r"no worker hosts d \(available: a, b, c\): its owner starts one"):
        wait_for_silos(DaskTransport(Told(BOTH)), ("a", "b", "d"), 0.0, None)
    with pytest.raises(SilosUnavailable, match=r"no worker hosts any silo \(available: none\)"):
        wait_for_silos(DaskTransport(Told([])), (), 0.0, None)
    with pytest.raises(SilosUnavailable, match="4 of all connected silos are needed"):
        wait_for_silos(DaskTransport(Told(BOTH)), (), 0.0, 4)
