"""A coordinator that lies to silos in processes of their own: each attack is refused with one line at both ends."""

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager

import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.secure.masked_round import new_attempt, session_of
from fedbnsl.algorithms.secure.masks import Refused
from fedbnsl.data.folder.about import Declared, declarations
from fedbnsl.flows.cli.federation import init_federation
from fedbnsl.tasks.silo.messages import MethodCall
from fedbnsl.tasks.silo.policy import NotAllowed
from fedbnsl.tasks.silo.runs import RunTerms
from fedbnsl.tasks.silo.secure_sums import SecureSumRequest
from fedbnsl.tasks.transport.channel import connect_to_coordinator
from fedbnsl.tasks.transport.configuration import read_federation_file
from tests.tasks.broadcasts import first_broadcast

SILOS = ("a", "b", "c")
ROWS = 600
ABOUT = {"kind": "continuous"}
POLICY = "masked = true\nepsilon = 8.0\ntotal_epsilon = 24.0\nrows = 50\n"


class Processes:
    """The coordinator and the silos of one federation, each a process of the command line."""

    def __init__(self, folder):
        self.folder, self.started = folder, ExitStack()

    def start(self, name, *words):
        with (self.folder / f"{name}.log").open("wb") as log:
            command = [sys.executable, "-m", "fedbnsl.flows.cli.main", *words]
            environment = os.environ | {"PYTHONUNBUFFERED": "1"}
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
        self.started.callback(process.wait, 20)
        self.started.callback(process.terminate)

    def log(self, name):
        return (self.folder / f"{name}.log").read_text()

    def refusals(self, name, reason):
        """The lines of a process' log that refuse with `reason`."""
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline and reason not in self.log(name):
            time.sleep(0.05)
        return [line for line in self.log(name).splitlines() if "refused: " in line and reason in line]


@contextmanager
def federation(folder):
    """The client of a coordinator, and the processes, of three silos whose owners allow masked runs of ε = 8."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    init_federation(folder, list(SILOS), f"127.0.0.1:{port}")
    processes = Processes(folder)
    for shift, silo in enumerate(SILOS):
        lines = [f"{(k * 7 + shift) % 11 + 0.5},{k * k % 13 + 0.25}" for k in range(ROWS)]
        (folder / silo / "rows.csv").write_text("x,y\n" + "\n".join(lines) + "\n")
        (folder / silo / "about.json").write_text(json.dumps(ABOUT))
        file = folder / silo / "silo.toml"
        head, rest = file.read_text().split("[policy]\n")
        file.write_text(f"{head}[policy]\n{POLICY}silos = 3\n\n{rest[rest.index('[members]') :]}")
    with processes.started:
        coordinator = folder / "coordinator" / "federation.toml"
        processes.start("coordinator", "coordinator", "start", "--federation", str(coordinator))
        for silo in SILOS:
            processes.start(silo, "silo", "start", "--config", str(folder / silo / "silo.toml"))
        with connect_to_coordinator(read_federation_file(coordinator), timeout=60) as transport:
            deadline = time.monotonic() + 60
            while transport.present() != SILOS and time.monotonic() < deadline:
                time.sleep(0.05)
            yield transport, processes


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with federation(tmp_path_factory.mktemp("lies") / "study") as found:
        yield found


def terms(run, rows, **settings):
    schema = Schema(("x", "y"), rows)
    spec = registry.pack(registry.specify("secure-sum", settings))
    return RunTerms(run, spec, schema, 0, declared=declarations(ABOUT))


def ask(running, silo, method, *arguments):
    return running[0].submit(silo, MethodCall(method, arguments)).result(30)


def session_over(asked, number=1):
    """A session over the silos that the coordinator names, for the sum that it announces."""
    digest = asked.exchange_digest(first_broadcast(asked), None)
    return session_of(asked.run_id, number, new_attempt(), asked.schema, digest)


def advertise(running, asked, silos, session):
    """The keys that `silos` advertise in `session`."""
    request = SecureSumRequest("advertise", wire.encode(session))
    return {silo: ask(running, silo, "secure_answer", asked, session.round, request) for silo in silos}


def no_ledger(running, silo):
    return not list((running[1].folder / silo / ".fedbnsl").glob("*.ledger"))


def test_an_unmasked_reply_is_refused(running):
    asked = terms("single", dict.fromkeys(SILOS, ROWS), epsilon="8.0")
    with pytest.raises(NotAllowed, match="replies must be masked"):
        ask(running, "a", "solve", asked, 1, first_broadcast(asked))
    assert len(running[1].refusals("a", "replies must be masked")) == 1
    assert no_ledger(running, "a")


def test_a_sum_with_invented_silos_is_refused(running):
    """A coordinator that invents 59 silos knows their masks and could read the summand of the only real one."""
    asked = terms("crowd", dict.fromkeys((*SILOS, *(f"s{k}" for k in range(59))), ROWS), epsilon="8.0")
    with pytest.raises(NotAllowed, match="its owner knows a, b, c, and s0 is not among them"):
        advertise(running, asked, ["b"], session_over(asked))
    assert len(running[1].refusals("b", "s0 is not among them")) == 1
    assert no_ledger(running, "b")


def test_keys_in_the_name_of_other_silos_are_refused(running):
    asked = terms("keys", dict.fromkeys(SILOS, ROWS), epsilon="8.0")
    session = session_over(asked)
    keys = advertise(running, asked, ["c"], session)
    invented = keys | dict.fromkeys(("a", "b"), bytes(range(96)))
    with pytest.raises(Refused, match="the mask keys of a are not signed by a"):
        ask(running, "c", "secure_answer", asked, 1, SecureSumRequest("share", wire.encode(invented)))
    assert len(running[1].refusals("c", "the mask keys of a are not signed by a")) == 1
    assert no_ledger(running, "c")


def test_a_declaration_of_the_coordinator_is_refused(running):
    """By choosing missing-value marks, a coordinator could count any value."""
    declared = Declared(kind="continuous", marks={"x": ("0.5",)})
    with pytest.raises(NotAllowed, match="refuses the declared marks"):
        ask(running, "a", "describe", declared)
    assert len(running[1].refusals("a", "refuses the declared marks")) == 1


def test_a_larger_epsilon_is_refused(running):
    asked = terms("large", dict.fromkeys(SILOS, ROWS), epsilon="9.0")
    with pytest.raises(NotAllowed, match="the maximum is 8"):
        advertise(running, asked, ["a"], session_over(asked))
    assert len(running[1].refusals("a", "the maximum is 8")) == 1


def test_an_honest_coordinator_is_answered_still(running):
    asked = terms("honest", dict.fromkeys(SILOS, ROWS), epsilon="8.0")
    session = session_over(asked)
    keys = advertise(running, asked, SILOS, session)
    assert ask(running, "a", "secure_answer", asked, 1, SecureSumRequest("share", wire.encode(keys)))
