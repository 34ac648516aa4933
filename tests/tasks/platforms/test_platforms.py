"""A run over a platform: the result is that of the engine inline, and failures are those of docs/failures.md."""

import shutil
import socket
import threading
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from uuid import uuid4

import pytest

from fedbnsl.algorithms.core.protocol import SiloLost
from fedbnsl.algorithms.errors import BadInput, SilosUnavailable
from fedbnsl.data.folder.folder import read_folder, silo_files, write_folder
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.flows.cli.federation import init_federation
from fedbnsl.flows.engines.inline import job_inline, run_inline
from fedbnsl.flows.engines.resuming import resume_settings
from fedbnsl.flows.engines.run_context import RunContext
from fedbnsl.flows.learn import learn_without_prefect
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.flows.servers.processes import free_port
from fedbnsl.flows.start import precheck
from fedbnsl.tasks.platforms import launch
from fedbnsl.tasks.platforms.door import ANSWER, AWAY, NAME, ask
from fedbnsl.tasks.platforms.silo import serve_at
from fedbnsl.tasks.silo.heartbeat import Heartbeat
from fedbnsl.tasks.silo.ledger import FileLedger, ledger_path
from fedbnsl.tasks.silo.messages import MethodCall
from fedbnsl.tasks.silo.policy import NotAllowed, Policy
from fedbnsl.tasks.transport.channel import Greeting
from fedbnsl.tasks.transport.configuration import read_federation_file
from fedbnsl.tasks.transport.federation import wait_for_silos
from fedbnsl.tasks.transport.signatures import sign_call
from tests.flows.owners import Owners, identity
from tests.flows.test_learn import same

from .local_platform import platform_of

BRIEF = {"algorithm": "fed-sparse", "params": {"rounds": 4}, "diagnose": False, "parameters": False, "bootstrap": 0}
SILOS = ("silo-1", "silo-2", "silo-3")


@pytest.fixture
def study(tmp_path, monkeypatch):
    """A folder of three silos of 200 rows."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    write_folder(tmp_path / "study", homogeneous(variables=5, silos=3, rows=200, seed=2))
    return tmp_path / "study"


@pytest.fixture
def platform(study, tmp_path, monkeypatch):
    """The doors of three silos, and a platform with a node at each; the coordinator's folder holds the truth."""
    with platform_of(silo_files(study), tmp_path / "federation", monkeypatch) as (doors, platform):
        (doors.file.parent / "truth.csv").write_bytes((study / "truth.csv").read_bytes())
        (doors.file.parent / "about.json").write_text('{"kind": "continuous"}')
        yield doors, platform


@pytest.fixture
def settings(platform, tmp_path):
    """A function that gives the settings of a run over the platform."""
    file = platform[0].file

    def settings(**more):
        own = {"data": str(file.parent), "federation": str(file), "platform": "flower", "silo_patience": 3}
        return LearnSettings(**{**BRIEF, **own, "out": str(tmp_path / "out"), **more})

    return settings


def inline(folder, **settings):
    """The result of the engine inline; masked messages have the run's id, so it has the length of a flow run's."""
    data, settings = read_folder(folder), LearnSettings(data=str(folder), **settings)
    return run_inline(job_inline(settings, str(uuid4()), data), data)


def learn(settings, *listeners):
    return learn_without_prefect(settings, RunContext(listeners)).result


def statement(result):
    """What each silo has sent of its rows' statistics; a run over no network needs no description of the rows."""
    return {
        silo: tuple(line for line in lines if line.statistic not in ("description", "records"))
        for silo, lines in result.disclosed.items()
    }


@pytest.mark.parametrize("algorithm", ["fed-sparse", "secure-linear"])
def test_a_platform_gives_what_inline_gives_bit_for_bit(study, settings, algorithm):
    run = {**BRIEF, "algorithm": algorithm, "params": {}, "seed": 3}
    result, alone = learn(settings(**run)), inline(study, **run)
    assert same(result, alone)
    assert statement(result) == statement(alone)
    assert set(statement(result)) == set(SILOS)


def charges(study):
    """The numbers of the charged rounds, by silo."""
    ledgers = {silo: FileLedger(ledger_path(path, silo)) for silo, path in silo_files(study).items()}
    return {silo: [(charge.run, charge.number) for charge in ledger.charges()] for silo, ledger in ledgers.items()}


PRIVATE = {"algorithm": "dp-covariance", "params": {}, "epsilon": 3.0}


def test_a_repeated_message_changes_and_charges_nothing(study, settings, platform):
    """Each call arrives twice, as after a time-out of the platform; the answer to the second one comes back."""
    nodes = platform[1]
    nodes.bring = lambda node, call, reply: ask(str(nodes.doors[node]), call, 5)
    assert learn(settings()).structure.weights.tobytes() == inline(study, **BRIEF).structure.weights.tobytes()
    learn(settings(**PRIVATE, out=str(study.parent / "private")))
    assert all(own and len(own) == len(set(own)) for own in charges(study).values())


@pytest.mark.parametrize("cut", ["call", "reply"])
def test_a_message_that_is_cut_ends_the_run_with_the_name_of_the_silo(settings, platform, cut, capfd):
    nodes = platform[1]
    if cut == "call":
        nodes.deliver = lambda node, call: call[: len(call) // 2] if node == "node of silo-2" else call
    else:
        nodes.bring = lambda node, call, reply: (
            reply[: len(reply) // 2] if node == "node of silo-2" and reply.startswith(ANSWER) else reply
        )
    with pytest.raises(SilosUnavailable, match=r"silo-2.*before the rows were described"):
        learn(settings())
    assert "silo-2: " in capfd.readouterr().err


def test_a_message_without_a_reply_is_delivered_again(study, settings, platform):
    lost = set()

    def bring(node, call, reply):
        first, _ = call not in lost, lost.add(call)
        return None if call and first else reply

    platform[1].bring = bring
    assert same(learn(settings()), inline(study, **BRIEF))
    assert len(lost) > 10


def test_a_node_that_dies_and_comes_back_delays_the_run(study, settings, platform):
    _, nodes = platform

    def die(heard):
        if heard.round.number == 2:
            nodes.up.discard("node of silo-2")
            threading.Timer(1.0, nodes.up.add, ["node of silo-2"]).start()

    assert same(learn(settings(), die), inline(study, **BRIEF))


def test_a_silo_that_stays_away_is_lost_and_the_run_continues_when_it_is_back(study, settings, platform):
    doors, _ = platform

    def die(heard):
        if heard.round.number == 2:
            doors.kill("silo-2")

    broken = learn(settings(silo_patience=1), die)
    assert (broken.outcome, broken.lost) == ("silo lost", ("silo-2",))
    doors.join("silo-2")
    resumed, alone = learn(resume_settings(study.parent / "out")), inline(study, **BRIEF)
    assert resumed.structure.weights.tobytes() == alone.structure.weights.tobytes()
    assert resumed.rounds == alone.rounds


def test_the_owners_policy_is_in_force(settings, platform):
    doors, _ = platform
    doors.kill("silo-2")
    doors.policies["silo-2"] = Policy(epsilon=1.0, total_epsilon=1.0)
    doors.join("silo-2")
    with pytest.raises(NotAllowed, match="silo-2"):
        learn(settings())


# Who may call whom


@pytest.fixture
def connected(platform):
    with launch.connect_to_platform(read_federation_file(platform[0].file), "flower", 10) as transport:
        wait_for_silos(transport, SILOS, 10, None)
        yield transport


SEAL = MethodCall("seal", ("run",))


def test_a_silo_answers_only_the_coordinator_of_its_federation(platform, connected, tmp_path):
    doors, _ = platform
    init_federation(tmp_path / "other", list(SILOS), "127.0.0.1:1")
    stranger = identity(tmp_path / "other" / "coordinator", "coordinator")
    silo = identity(doors.folder / "silo-2", "silo-2")
    for sender in (stranger, silo):
        forged = replace(connected, identity=sender)
        with pytest.raises(SiloLost):
            forged.submit("silo-1", SEAL).result(10)
    assert sum(line.startswith("refused: ") for line in doors.said) == 2
    assert connected.submit("silo-1", SEAL).result(10)


def test_a_call_that_is_signed_for_another_silo_is_refused(platform, connected):
    _, nodes = platform
    call = sign_call(connected.identity, "silo-2", SEAL.pack())
    nodes.deliver = lambda node, content: content and call
    with pytest.raises(SiloLost, match="not signed for silo silo-1"):
        connected.submit("silo-1", SEAL).result(10)
    assert connected.submit("silo-2", SEAL)


def test_an_answer_counts_only_from_its_silo_and_for_its_call(platform, connected):
    _, nodes = platform
    earlier = {}

    def old(node, call, reply):
        return earlier.setdefault(node, reply) if call else reply

    nodes.bring = old
    assert connected.submit("silo-1", SEAL).result(10)
    with pytest.raises(SiloLost, match="not signed for this call"):
        connected.submit("silo-1", MethodCall("seal", ("another",))).result(10)
    nodes.bring = lambda node, call, reply: earlier["node of silo-1"] if call else reply
    with pytest.raises(SiloLost, match="signed by 'silo-1', not by silo-2"):
        connected.submit("silo-2", SEAL).result(10)


def test_another_version_of_the_protocol_is_refused_with_both_versions(platform, connected, monkeypatch):
    monkeypatch.setattr(Greeting, "pack", lambda self: b"fedbnsl 999 run 9.9")
    with pytest.raises(SiloLost, match=r"fedbnsl 9\.9 \(protocol 999\)"):
        connected.submit("silo-1", SEAL).result(10)


def test_a_node_that_claims_the_name_of_a_present_silo_gets_no_call(platform, connected):
    _, nodes = platform
    nodes.doors["impostor"] = nodes.doors["node of silo-1"]
    asked = []
    nodes.deliver = lambda node, call: asked.append((node, bool(call))) or call
    nodes.up.add("impostor")
    Owners.wait_for(lambda: ("impostor", False) in asked)
    assert connected.submit("silo-1", SEAL).result(10)
    assert ("impostor", True) not in asked


# Options


def test_a_platform_needs_a_federation(study):
    with pytest.raises(BadInput, match="--platform flower needs --federation"):
        precheck(LearnSettings(data=str(study), platform="flower"))


def test_a_platform_that_does_not_start_its_job_makes_the_silos_unavailable(platform, monkeypatch):
    monkeypatch.setitem(launch.STARTERS, "flower", lambda folder, path, file: nullcontext())
    with (
        pytest.raises(SilosUnavailable, match="has not started it within"),
        launch.connect_to_platform(read_federation_file(platform[0].file), "flower", 0.5),
    ):
        pass


def test_the_command_of_a_platform_that_is_missing_or_fails_is_named(tmp_path, monkeypatch):
    file = SimpleNamespace(platforms={})
    monkeypatch.setenv("PATH", str(tmp_path))
    with (
        pytest.raises(BadInput, match="flwr: no such command on PATH"),
        launch.STARTERS["flower"](tmp_path, tmp_path, file),
    ):
        pass
    program = tmp_path / "flwr"
    program.write_text("#!/bin/sh\necho '╭──╮ no SuperLink ╰──╯' >&2; exit 3\n")
    program.chmod(0o755)
    shutil.rmtree(tmp_path / "app")
    with (
        pytest.raises(BadInput, match=r"flwr run failed: no SuperLink$"),
        launch.STARTERS["flower"](tmp_path, tmp_path, file),
    ):
        pass


def test_a_door_reports_a_silent_silo_as_away(tmp_path):
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "door"))
        silent.listen()
        assert ask(str(tmp_path / "door"), b"call", 0.2).startswith(AWAY)
    assert ask(str(tmp_path / "nowhere"), b"call").startswith(AWAY)


def test_a_door_may_be_a_port_in_a_network_of_containers(platform):
    doors, _ = platform
    address = f"127.0.0.1:{free_port(0)}"
    own = identity(doors.folder / "silo-1", "silo-1")
    serving = doors.begin(serve_at(address, "silo-1", own, bytes, Heartbeat(), doors.said.append))
    Owners.wait_for(lambda: f"silo silo-1 answers at {address}" in doors.said)
    assert ask(address, b"") == NAME + b"silo-1"
    doors.end(serving)
    assert ask(address, b"").startswith(AWAY)


@pytest.mark.parametrize("address", ["/nowhere/silo.sock", f"/tmp/{'long' * 30}.sock"])
def test_a_socket_that_cannot_be_created_is_named(platform, address):
    doors, _ = platform
    with pytest.raises(BadInput, match=address):
        doors.run(serve_at(address, "silo-1", identity(doors.folder / "silo-1", "silo-1"), bytes, Heartbeat(), print))


def test_the_connections_to_platforms_are_checked(platform):
    file = platform[0].file
    text = file.read_text()
    file.write_text(text + '\n[platforms]\nflowers = "here"\n')
    with pytest.raises(BadInput, match="unknown key 'flowers'; available: flower, nvflare, vantage6"):
        read_federation_file(file)
    file.write_text(text + '\n[platforms]\nvantage6 = "connection.toml"\n')
    (file.parent / "connection.toml").write_text('python = "/nowhere/python"\nhost = "https://localhost"\n')
    with pytest.raises(BadInput, match=r"connection\.toml: port is None: it must be a number"):
        connect(file)
    file.write_text(text)
    with pytest.raises(BadInput, match=r"\[platforms\] must have vantage6"):
        connect(file)


def connect(file):
    with launch.connect_to_platform(read_federation_file(file), "vantage6", 1):
        pass
