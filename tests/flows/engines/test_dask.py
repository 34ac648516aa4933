import os
import signal
import threading
import time

import pytest

from fedbnsl.algorithms.errors import SilosUnavailable
from fedbnsl.data.folder.folder import silo_files, write_folder
from fedbnsl.data.networks.lucas import lucas
from fedbnsl.flows.engines.run_context import RunContext
from fedbnsl.flows.inference.audit import audit
from fedbnsl.flows.learn import learn, learn_flow
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.tasks.silo.messages import MethodCall
from fedbnsl.tasks.silo.policy import NotAllowed
from fedbnsl.tasks.silo.service import SiloService
from fedbnsl.tasks.transport import cluster
from fedbnsl.tasks.transport.cluster import DaskTransport, embedded_cluster, hosted_silos
from fedbnsl.tasks.transport.federation import FROZEN_SECONDS, wait_for_silos
from tests.flows.owners import owners_of
from tests.flows.test_learn import SETTINGS, inline, same


@pytest.mark.slow
def test_a_killed_worker_resumes_from_its_journal(server, example, tmp_path):
    killed = []

    def kill(heard):
        """Kill the process of a worker between two rounds, found by its command line."""
        if heard.round.number == 2:
            killed.append(worker_processes()[0])
            os.kill(killed[0], signal.SIGKILL)

    finished = learn_flow(RunContext((kill,)))(LearnSettings(data=str(example), out=str(tmp_path / "out"), **SETTINGS))
    assert killed
    assert same(finished.result, inline(example))


def worker_processes():
    """The processes of the Dask workers that this process has started, by id."""
    from distributed.nanny import Nanny

    return [nanny.pid for nanny in Nanny._instances if nanny.pid is not None]


def test_workers_that_do_not_start_are_unavailable_silos(example, monkeypatch):
    def fail(workers):
        raise RuntimeError("Cluster failed to start: too many open files")

    monkeypatch.setattr(cluster, "local_cluster", fail)
    with (
        pytest.raises(SilosUnavailable, match=r"silo-1, silo-2, silo-3: no worker .* \(RuntimeError: Cluster failed"),
        embedded_cluster(silo_files(example)),
    ):
        pass


@pytest.fixture
def two_of_three(example):
    """A client of one worker that hosts silos 1 and 3."""
    files = silo_files(example)
    del files["silo-2"]
    with embedded_cluster(files, workers=1) as client:
        yield client


def test_a_silo_without_a_worker_is_found_before_round_1(two_of_three):
    assert tuple(hosted_silos(two_of_three)) == ("silo-1", "silo-3")
    assert wait_for_silos(DaskTransport(two_of_three), (), 0, None) == wait_for_silos(
        DaskTransport(two_of_three), ("silo-1", "silo-3"), 0, None
    )
    assert wait_for_silos(DaskTransport(two_of_three), ("silo-1", "silo-2"), 0, 1) == ("silo-1",)
    with pytest.raises(
        SilosUnavailable, match=r"no worker hosts silo-2 \(available: silo-1, silo-3\): .*fedbnsl silo start"
    ):
        wait_for_silos(DaskTransport(two_of_three), ("silo-1", "silo-2"), 0, None)
    with pytest.raises(SilosUnavailable, match="2 of 2 are needed"):
        wait_for_silos(DaskTransport(two_of_three), ("silo-1", "silo-2"), 0, 2)


def test_a_call_finds_the_service_of_its_silo_on_the_worker_and_may_do_no_more_than_is_meant(two_of_three, example):
    transport = DaskTransport(two_of_three)
    assert transport.present() == ("silo-1", "silo-3")
    for silo in transport.present():
        found = transport.submit(silo, MethodCall("describe")).result(60)
        assert found == SiloService(silo, silo_files(example)[silo]).describe()
        assert transport.submit(silo, MethodCall("charges")).result(60) == ()
    for astray in ("close", "state", "__init__"):
        with pytest.raises(NotAllowed, match="what it received is not a call of this version"):
            transport.submit("silo-1", MethodCall(astray)).result(60)


def test_a_worker_is_silent_if_it_is_stopped_and_not_while_it_computes(two_of_three):
    def compute(seconds):  # as a local function it is sent by value
        from time import monotonic

        end = monotonic() + seconds
        while monotonic() < end:
            sum(range(1000))

    transport, heard = DaskTransport(two_of_three), []
    assert set(transport.silence()) == {"silo-1", "silo-3"}
    computing = two_of_three.submit(compute, FROZEN_SECONDS + 1, resources={"silo:silo-1": 1})
    while not computing.done():
        heard.append(max(transport.silence().values()))
        time.sleep(0.1)
    assert max(heard) < FROZEN_SECONDS
    (pid,) = two_of_three.run(os.getpid).values()
    os.kill(pid, signal.SIGSTOP)
    try:
        end = time.monotonic() + 60
        while (silence := transport.silence())["silo-3"] < FROZEN_SECONDS:
            assert time.monotonic() < end
            time.sleep(0.1)
        assert set(silence) == {"silo-1", "silo-3"}
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.fixture
def owners(example, tmp_path):
    """The running owners of three silos; the coordinator's folder holds the truth, and no row."""
    with owners_of(silo_files(example), tmp_path / "federation") as found:
        (found.file.parent / "truth.csv").write_bytes((example / "truth.csv").read_bytes())
        yield found


@pytest.mark.slow
def test_owners_workers_are_used_and_one_that_stays_away_is_lost(server, example, owners, tmp_path):
    settings = {**SETTINGS, "data": str(owners.file.parent), "federation": str(owners.file), "silo_patience": 2}
    finished = learn(LearnSettings(out=str(tmp_path / "one"), **settings))
    assert same(finished.result, inline(example))
    audited = audit(finished.folder, owners.folder / "coordinator" / "trusted.pem")
    assert audited.faults == ()
    assert "3 silos signed" in audited.lines[-1]
    assert finished.files["signatures.json"].exists()

    def stop(heard):
        if heard.round.number == 2:
            owners.kill("silo-2")

    finished = learn_flow(RunContext((stop,)))(LearnSettings(out=str(tmp_path / "two"), **settings))
    assert finished.result.outcome == "silo lost"
    assert finished.result.lost == ("silo-2",)
    assert finished.result.metrics["rounds"] == 2
    audited = audit(finished.folder)
    assert any("No silo has signed this run: the run was broken off" in line for line in audited.lines)
    assert audited.faults == ("silo-2 took part in the run, and its disclosure statement is missing",)
    assert threading.active_count() < 200


@pytest.mark.slow
def test_a_silo_that_dies_after_the_last_round_costs_the_model_its_rows(server, tmp_path):
    folder = tmp_path / "study"
    write_folder(folder, lucas("0", 3, 400, 2))
    with owners_of(silo_files(folder), tmp_path / "federation") as owners:

        def stop(heard):
            if heard.round.outcome:
                owners.kill("silo-2")

        settings = {"data": str(folder), "federation": str(owners.file), "silo_patience": 2, "algorithm": "fed-pc"}
        finished = learn_flow(RunContext((stop,)))(LearnSettings(out=str(tmp_path / "out"), **settings))
    assert finished.result.outcome == "converged"
    how = finished.result.parameters.how
    assert "counts in 800 rows" in how
    assert how.endswith("without silo-2")
    assert (finished.folder / "model.bif").exists()
