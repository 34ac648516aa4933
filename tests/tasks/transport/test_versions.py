"""Versions: both ends of a connection state theirs, and refuse another protocol in one line with both."""

import dataclasses
import hashlib
import types
import typing

import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.errors import BadInput, SilosUnavailable
from fedbnsl.tasks.silo.messages import ANSWERS, ARGUMENTS, ERRORS, PROTOCOL_VERSION
from fedbnsl.tasks.transport import channel
from fedbnsl.tasks.transport.channel import Greeting, Parcel, RelayTransport
from fedbnsl.tasks.transport.federation import wait_for_silos
from fedbnsl.tasks.transport.tls import PeerRefusedError
from tests.tasks.transport.relay_peers import FalseRelay, eventually, hub, identity_of

OTHER = PROTOCOL_VERSION + 1
PROTOCOLS = {1: "324520a0"}
"""by version of the protocol, a digest of the messages"""


@pytest.fixture
def newer(monkeypatch):
    """A function that gives the silos and runs of a test, but not its relay, another version."""

    def newer(protocol):
        def greeting(role):
            return Greeting(role) if role == "coordinator" else Greeting(role, protocol, "9.9.9")

        monkeypatch.setattr(channel, "Greeting", greeting)
        greeting.unpack = Greeting.unpack

    return newer


def test_another_protocol_is_refused_at_both_ends_with_both_versions(issued, newer):
    own, log = Greeting("silo"), []
    newer(OTHER)
    with hub(issued) as relay:
        relay.silo("clinic", log=log)
        there = f"fedbnsl 9.9.9 (protocol {OTHER})"
        assert eventually(lambda: log)[0] == (
            f"silo clinic cannot join {relay.where.tls}: the coordinator has {own}, and this silo has {there}: install "
            "one version at both"
        )
        assert eventually(lambda: relay.log[1:]) == [
            f"refused: silo clinic: the silo has {there}, and this coordinator has {own}: install one version at both"
        ]
        with pytest.raises(BadInput, match=r"the coordinator has fedbnsl .*, and this run has fedbnsl 9\.9\.9"):
            relay.run().__enter__()


def test_a_run_reads_which_silo_was_refused_and_why(issued, newer):
    """It does not say only that the silo has not responded."""
    with hub(issued) as relay, relay.run() as run:
        newer(OTHER)
        relay.silo("clinic")
        eventually(lambda: run.refusals)
        with pytest.raises(SilosUnavailable, match="no worker hosts clinic"):
            wait_for_silos(RelayTransport(run), ("clinic",), 0, None)
        (reason,) = run.refusals
        assert reason.startswith("silo clinic: the silo has fedbnsl 9.9.9 (protocol")


def test_another_release_of_the_same_protocol_is_accepted(issued, newer):
    newer(PROTOCOL_VERSION)
    with hub(issued) as relay:
        relay.silo("clinic")
        with relay.run_with("clinic") as run:
            assert run.submit("clinic", b"x").result(5)


@pytest.mark.parametrize("content", [b"", b"hello", b"fedbnsl x silo 1", b"fedbnsl 1 silo", b"\xff" * 2000])
def test_a_peer_that_states_no_version_is_told_which_it_needs(issued, content):
    with pytest.raises(PeerRefusedError, match=r"does not state its version: it needs fedbnsl \d"):
        Greeting.unpack(content)
    log = []

    def behave(peer):
        peer.receive(0.5)

    with FalseRelay(identity_of(issued, "coordinator"), behave) as false, hub(issued) as relay:
        false.greeting = content
        relay.where = false.where
        relay.silo("clinic", log=log)
        assert "does not state its version" in eventually(lambda: log)[0]


def test_a_greeting_has_the_same_form_in_all_versions():
    greeting = Greeting("silo", 7, "1.2.3")
    assert greeting.pack() == b"fedbnsl 7 silo 1.2.3"
    assert Greeting.unpack(greeting.pack()) == greeting


def shape(kind, known):
    """The structure of a type of messages as text: the names and types of all fields, however deep."""
    parts = typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        if kind in known:
            return kind.__name__
        known.add(kind)
        hints = typing.get_type_hints(kind)
        inner = [f"{one.name}:{shape(hints[one.name], known)}" for one in dataclasses.fields(kind)]
        return f"{kind.__name__}({','.join(inner)})"
    union = typing.get_origin(kind) in (typing.Union, types.UnionType)
    name = "Union" if union else getattr(typing.get_origin(kind) or kind, "__name__", str(kind))
    return f"{name}[{','.join(shape(one, known) for one in parts)}]" if parts else name


def messages():
    """The structures of all messages: calls, answers, errors, parcels, and the messages of every algorithm."""
    known = set()
    lines = [shape(Parcel, known), *sorted(ERRORS)]
    for table in (ARGUMENTS, ANSWERS):
        lines += [f"{name} {shape(kind, known)}" for name, kinds in table.items() for kind in kinds]
    for name in sorted(registry.ALGORITHMS):
        algorithm = registry.build(registry.specify(name))
        lines += [f"{name} {shape(one, known)}" for one in (algorithm.broadcast_type, algorithm.reply_type)]
    return "\n".join(lines)


def test_changed_messages_have_another_version_of_the_protocol():
    """If this fails: raise PROTOCOL_VERSION if the last release has this version, and record the digest here."""
    assert hashlib.sha256(messages().encode()).hexdigest()[:8] == PROTOCOLS[PROTOCOL_VERSION]
