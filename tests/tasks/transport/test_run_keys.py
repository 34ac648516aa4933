"""Who may use the embedded cluster of a run: its own processes, which hold the keys of the run, and nobody else."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedbnsl.data.folder.folder import silo_files, write_folder
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.tasks.silo.messages import MethodCall
from fedbnsl.tasks.transport.certificates import COORDINATOR, Identity, issue, load_or_create_authority, write_trusted
from fedbnsl.tasks.transport.cluster import DaskTransport, connected_workers, embedded_cluster, hosted_silos
from fedbnsl.tasks.transport.run_keys import create_run_security

STRANGER = """
import logging, os, ssl, sys
from distributed import Client, Security
logging.disable(logging.CRITICAL)


class WithoutCertificate(Security):
    def get_connection_args(self, role):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return {"ssl_context": context, "require_encryption": False, "extra_conn_args": {}}


way, address, *identity = sys.argv[1:]
if way == "tcp":
    security, address = None, address.replace("tls", "tcp")
elif way == "no certificate":
    security = WithoutCertificate(require_encryption=False)
else:
    certificate, key, trusted = identity
    roles = {"tls_client_cert": certificate, "tls_client_key": key}
    security = Security(require_encryption=True, tls_ca_file=trusted, **roles)
try:
    with Client(address, security=security, timeout=4) as client:
        client.run_on_scheduler(os.getpid)
except (OSError, TimeoutError) as error:
    print("refused", type(error).__name__)
else:
    print("in")
"""


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """A folder of three silos."""
    folder = tmp_path_factory.mktemp("data") / "example"
    write_folder(folder, homogeneous(variables=5, silos=3, rows=100, seed=1))
    return folder


@pytest.fixture(scope="module")
def running(example):
    """The client of an embedded cluster with one worker."""
    with embedded_cluster(silo_files(example), workers=1) as client:
        yield client


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    """The files of an identity that another authority has issued."""
    folder = tmp_path_factory.mktemp("foreign")
    authority = load_or_create_authority(folder, "coordinators")
    issue(authority, COORDINATOR, folder, COORDINATOR)
    write_trusted(folder / "trusted.pem", authority)
    return Identity(folder / f"{COORDINATOR}.pem", folder / f"{COORDINATOR}.key", folder / "trusted.pem")


@pytest.mark.parametrize("way", ["tcp", "no certificate", "foreign certificate"])
@pytest.mark.parametrize("part", ["scheduler", "worker", "nanny"])
def test_a_process_without_the_keys_reaches_no_part_of_the_cluster(running, foreign, way, part):
    ((worker, about),) = connected_workers(running).items()
    address = {"scheduler": running.scheduler.address, "worker": worker, "nanny": about["nanny"]}[part]
    assert address.startswith("tls://127.0.0.1:")
    words = [way, address, *map(str, (foreign.certificate, foreign.key, foreign.trusted))]
    command = [sys.executable, "-c", STRANGER, *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("refused"), done.stderr


def worker_process():
    """The id of the worker's process, or None while there is none."""
    from distributed.nanny import Nanny

    return next((nanny.pid for nanny in Nanny._instances if nanny.pid is not None), None)


def test_a_killed_worker_returns_with_the_keys(running):
    killed = worker_process()
    os.kill(killed, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while worker_process() in (None, killed) and time.monotonic() < deadline:
        time.sleep(0.05)
    described = DaskTransport(running).submit("silo-1", MethodCall("describe")).result(60)
    assert described.silo == "silo-1"
    assert "silo-1" in hosted_silos(running)


def test_keys_are_in_no_file():
    opened = []
    recording = True
    sys.addaudithook(lambda event, words: opened.append(words) if recording and event == "open" else None)
    security = create_run_security()
    assert security.get_connection_args("client")["require_encryption"]
    security.get_listen_args("scheduler")
    recording = False
    written = [words for words in opened if isinstance(words[2], int) and words[2] & (os.O_WRONLY | os.O_RDWR)]
    assert [path for path, *_ in written] == []
    assert "PRIVATE KEY" not in repr(security)


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="keys are loaded from memory on Linux only")
def test_no_file_with_a_key_stays_open():
    """A descriptor would be inherited by processes, and readable in /proc for as long as the run lasts."""
    create_run_security().get_listen_args("scheduler")
    open_files = [os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    assert not [name for name in open_files if "memfd:fedbnsl" in name]


def test_every_run_has_its_own_keys():
    one, two = create_run_security(), create_run_security()
    assert one.tls_client_key != two.tls_client_key
    assert one.tls_ca_file != two.tls_ca_file
    assert one.tls_client_key != one.tls_worker_key
