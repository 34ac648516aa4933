"""Processes with a silo's certificate that lie to a federation: each is refused with one line at both ends."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedbnsl.algorithms.errors import SilosUnavailable
from fedbnsl.data.folder.folder import silo_files, write_folder
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.tasks.transport.cluster import connect_to_coordinator, hosted_silos, resource
from fedbnsl.tasks.transport.configuration import read_federation_file
from tests.flows.owners import owners_of

ROGUE = Path(__file__).with_name("rogue.py")


@pytest.fixture(scope="module")
def owners(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rogues")
    write_folder(folder / "data", homogeneous(variables=4, silos=3, rows=60, seed=1))
    with owners_of(silo_files(folder / "data"), folder / "federation") as found:
        yield found


def rogue(owners, *words):
    command = [sys.executable, str(ROGUE), str(owners.folder / "silo-1"), "silo-1", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def worker_of(owners, silo):
    return next(where for where, one in owners.scheduler.workers.items() if resource(silo) in one.resources)


ATTACKS = {
    "a heartbeat with foreign resources": ("heartbeat", "silo-2", "claims the resources silo:silo-2"),
    "a heartbeat of another worker": ("heartbeat of another", None, "as its own"),
    "unregister another's worker": ("unregister", None, "as its own"),
    "a client": ("client", "", "which is reserved for coordinators"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_silo_acts_under_its_own_name_only(owners, name):
    attack, victim, reason = ATTACKS[name]
    victim = worker_of(owners, "silo-2") if victim is None else victim
    done = rogue(owners, owners.scheduler.address, attack, victim)
    assert done.stdout.strip() == "closed: CommClosedError", done.stderr
    refusals = [line for line in owners.said if line.startswith("refused: silo silo-1") and reason in line]
    assert len(refusals) == 1
    assert {one for worker in owners.scheduler.workers.values() for one in worker.resources} == {
        resource(silo) for silo in owners.files
    }


def test_a_silo_is_not_taken_for_the_coordinator(owners):
    """A client that connected to a silo's scheduler would send it all its data."""
    command = [sys.executable, str(ROGUE), str(owners.folder / "silo-1"), "silo-1", "-", "scheduler"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            address = process.stdout.readline().strip()
            owners.file.with_name("rogue.toml").write_text(
                owners.file.read_text().replace(
                    owners.scheduler.address.removeprefix("tls://"), address.removeprefix("tls://")
                )
            )
            file = read_federation_file(owners.file.with_name("rogue.toml"))
            began = time.monotonic()
            with (
                pytest.raises(SilosUnavailable, match="no coordinator responds"),
                connect_to_coordinator(file, timeout=3),
            ):
                pass
            assert time.monotonic() - began < 20
        finally:
            process.kill()


def test_the_coordinator_is_accepted_still(owners):
    with connect_to_coordinator(read_federation_file(owners.file)) as client:
        assert hosted_silos(client) == tuple(sorted(owners.files))
