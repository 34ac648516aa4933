import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.folder import silo_files, write_folder
from fedbnsl.data.networks.lucas import lucas
from fedbnsl.flows.engines.listening import listening
from fedbnsl.flows.learn import learn
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.tasks.silo.method_call import MethodCall
from fedbnsl.tasks.silo.service import SiloService
from fedbnsl.tasks.transport.cluster import connected, embedded, hosted_silos, require
from fedbnsl.tasks.transport.dask_transport import DaskTransport
from fedbnsl.tasks.transport.hosting import on_worker

from .test_learn import SETTINGS, inline, same


def test_a_killed_worker_resumes_from_its_journal(server, example, tmp_path):
    killed = []

    def kill(heard):
        """Kill the process of a worker between two rounds, found by its command line."""
        if heard.round.number == 2:
            killed.append(worker_processes()[0])
            os.kill(killed[0], signal.SIGKILL)

    with listening(kill):
        finished = learn(LearnSettings(data=str(example), out=str(tmp_path / "out"), **SETTINGS))
    assert killed
    assert same(finished.result, inline(example))


def worker_processes():
    """Return the processes of the Dask workers that this process has started, by id."""
    from distributed.nanny import Nanny

    return [nanny.pid for nanny in Nanny._instances if nanny.pid is not None]


@pytest.fixture
def two_of_three(example):
    """Return a client of one worker that hosts silos 1 and 3."""
    files = silo_files(example)
    del files["silo-2"]
    with embedded(files, workers=1) as client:
        yield client


def test_a_silo_without_a_worker_is_found_before_round_1(two_of_three):
    assert hosted_silos(two_of_three) == ("silo-1", "silo-3")
    require(two_of_three, ("silo-1", "silo-3"))
    with pytest.raises(BadInput, match=r"no worker hosts silo-2 \(there are silo-1, silo-3\).*--silo silo-2=FILE"):
        require(two_of_three, ("silo-1", "silo-2"))


def test_a_call_finds_the_service_of_its_silo_on_the_worker_and_may_do_no_more_than_is_meant(two_of_three, example):
    transport = DaskTransport(two_of_three)
    assert transport.present() == ("silo-1", "silo-3")
    for silo in transport.present():
        found = transport.submit(silo, MethodCall("describe")).result(60)
        assert found == SiloService(silo, silo_files(example)[silo]).describe()
        assert transport.submit(silo, MethodCall("charges")).result(60) == ()
    with pytest.raises(BadInput, match="silo silo-2 is not hosted by this worker: start it with --silo silo-2=FILE"):
        two_of_three.submit(on_worker, "silo-2", MethodCall("describe"), pure=False).result(60)
    with pytest.raises(ValueError, match="may not call 'close' of a silo"):
        transport.submit("silo-1", MethodCall("close")).result(60)


def test_no_scheduler_is_bad_input():
    with (
        pytest.raises(BadInput, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:1"),
        connected("tcp://127.0.0.1:1", 1),
    ):
        pass


@pytest.fixture
def owners(example, tmp_path):
    """Return the address of a scheduler and the workers two owners connected to it: of silos 1 and 3, of silo 2."""
    with connected_owners(silo_files(example), (("silo-1", "silo-3"), ("silo-2",)), tmp_path) as found:
        yield found


@contextmanager
def connected_owners(files, hosts, tmp_path):
    """Yield the address of a scheduler, and for each of `hosts` the process of a worker that hosts those silos."""
    from distributed import LocalCluster

    quiet = {"dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    with LocalCluster(n_workers=0, **quiet) as cluster, (tmp_path / "log").open("w") as log:
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler_address, "--no-dashboard"]
        worker += ["--nthreads", "1", "--preload", "fedbnsl.tasks.worker"]
        children = [
            subprocess.Popen(
                [*worker, *(word for silo in silos for word in ("--silo", f"{silo}={files[silo]}"))],
                **{"stdout": log, "stderr": log, "cwd": tmp_path, "start_new_session": True},
            )
            for silos in hosts
        ]
        yield cluster.scheduler_address, children
        for child in children:
            os.killpg(child.pid, signal.SIGTERM)
        for child in children:
            child.wait(20)


def wait_for(client, count):
    deadline = time.monotonic() + 60
    while len(hosted_silos(client)) < count and time.monotonic() < deadline:
        time.sleep(0.2)


def test_owners_workers_are_used_and_one_that_stays_away_is_lost(server, example, owners, tmp_path):
    address, children = owners
    with connected(address, 60) as client:
        wait_for(client, 3)
    coordinator = tmp_path / "coordinator"  # holds no row
    coordinator.mkdir()
    (coordinator / "truth.csv").write_bytes((example / "truth.csv").read_bytes())
    settings = {**SETTINGS, "data": str(coordinator), "dask_address": address, "silo_patience": 2}
    finished = learn(LearnSettings(out=str(tmp_path / "one"), **settings))
    assert same(finished.result, inline(example))

    def stop(heard):
        if heard.round.number == 2:
            os.killpg(children[1].pid, signal.SIGKILL)

    with listening(stop):
        finished = learn(LearnSettings(out=str(tmp_path / "two"), **settings))
    assert finished.result.outcome == "silo lost"
    assert finished.result.lost == ("silo-2",)
    assert finished.result.metrics["rounds"] == 2
    assert threading.active_count() < 200


def test_a_silo_that_dies_after_the_last_round_costs_the_model_its_rows(server, tmp_path):
    folder = tmp_path / "study"
    write_folder(folder, lucas("0", 3, 400, 2))
    with connected_owners(silo_files(folder), (("silo-1", "silo-3"), ("silo-2",)), tmp_path) as (address, children):
        with connected(address, 60) as client:
            wait_for(client, 3)

        def stop(heard):
            if heard.round.outcome:
                os.killpg(children[1].pid, signal.SIGKILL)

        settings = {"data": str(folder), "dask_address": address, "silo_patience": 2, "algorithm": "fed-pc"}
        with listening(stop):
            finished = learn(LearnSettings(out=str(tmp_path / "out"), **settings))
    assert finished.result.outcome == "converged"
    how = finished.result.parameters.how
    assert "counts in 800 rows" in how
    assert how.endswith("without silo-2")
    assert (finished.folder / "model.bif").exists()
