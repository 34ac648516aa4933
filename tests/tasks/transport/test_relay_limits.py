"""Limits of the relay and of its clients: frames, silence, memory; and bytes that nobody honest sends."""

import asyncio
import pickle
import socket
import threading
import time
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.protocol import SiloLost
from fedbnsl.algorithms.errors import SilosUnavailable
from fedbnsl.flows.cli.federation import init_federation
from fedbnsl.tasks.silo.heartbeat import Heartbeat
from fedbnsl.tasks.transport.channel import Connection, ConnectionLimits, Parcel, RelayClient, serve_silo
from tests.hostile import hostile, memory
from tests.tasks.transport.relay_peers import (
    QUICK,
    FalseRelay,
    Loop,
    digest,
    eventually,
    frame,
    hub,
    identity_of,
)

SHORT = ConnectionLimits(frame_bytes=1 << 20, first_seconds=0.5, ping_seconds=0.1, silence_seconds=0.5)
KINDS = ("present", "refused", "call", "answer", "lost", "release")
PARCELS = st.builds(
    Parcel,
    kind=st.sampled_from(KINDS),
    number=st.integers(-(1 << 63), (1 << 64) - 1),
    silo=st.text(),
    content=st.binary(max_size=5000),
    note=st.text(),
    silos=st.lists(st.text()).map(tuple),
    warnings=st.lists(st.text()).map(tuple),
    refusals=st.lists(st.text()).map(tuple),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("relay") / "made"
    init_federation(made, ["a", "b"], "127.0.0.1:1")
    return made


# Framing


class Sink:
    """A writer that keeps what is written."""

    def __init__(self):
        self.written = b""

    def write(self, content):
        self.written += content

    async def drain(self):
        pass


class Source(Sink):
    """A stream of which a connection reads what `reader` gets."""

    def __init__(self, reader):
        super().__init__()
        self.read = reader.read


def read_all(stream, cuts=(), limits=SHORT):
    """The parcels that a connection reads from `stream`, which arrives in parts, and the error that ends it."""

    async def read():
        reader = asyncio.StreamReader()
        connection = Connection(Source(reader), limits)
        edges = [0, *sorted(cuts), len(stream)]
        for begin, end in pairwise(edges):
            reader.feed_data(stream[begin:end])
        reader.feed_eof()
        found = []
        try:
            while True:
                found.append(await connection.receive())
        except (OSError, ValueError) as error:
            return found, error

    return asyncio.run(read())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.none() | PARCELS, max_size=6), st.data())
def test_a_stream_of_frames_has_the_parcels_that_were_sent(sent, data):
    """Whatever the parts in which the bytes arrive; a ping (None) is no parcel."""
    sink = Sink()

    async def send():
        connection = Connection(sink, SHORT)
        for parcel in sent:
            await connection.send(parcel)

    asyncio.run(send())
    cuts = data.draw(st.lists(st.integers(0, len(sink.written)), max_size=5))
    found, error = read_all(sink.written, cuts)
    assert found == [parcel for parcel in sent if parcel]
    assert isinstance(error, ConnectionResetError)


@settings(max_examples=200, deadline=None)
@given(PARCELS, st.data())
def test_changed_bytes_are_another_parcel_or_an_error(parcel, data):
    packed = bytearray(frame(parcel))
    for _ in range(data.draw(st.integers(1, 3))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    found, error = read_all(bytes(packed) + frame(parcel))
    assert isinstance(error, OSError | ValueError)
    assert all(type(one) is Parcel for one in found)
    for one in found:
        assert {name: type(value) for name, value in vars(one).items()} == {
            name: type(value) for name, value in vars(parcel).items()
        }
        assert all(type(silo) is str for silo in one.silos)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_are_an_error(content):
    found, error = read_all(len(content).to_bytes(8) + content)
    assert found == []
    assert isinstance(error, ConnectionResetError if not content else ValueError)


def test_the_limit_of_a_frame_is_exact():
    empty = len(wire.encode(Parcel("call", 1, "a", b"x" * 300)))
    for length, fits in ((empty, True), (empty - 1, False)):
        found, error = read_all(frame(Parcel("call", 1, "a", b"x" * 300)), limits=replace(SHORT, frame_bytes=length))
        assert len(found) == fits
        assert isinstance(error, ConnectionResetError if fits else ValueError)


# Limits


@pytest.mark.parametrize("holder", ["a", "coordinator"])
@pytest.mark.parametrize("length", [(1 << 30) + 1, 1 << 40, (1 << 64) - 1])
def test_a_frame_that_is_too_long_ends_the_connection_at_its_length(folder, holder, length):
    with hub(folder, limits=ConnectionLimits()) as relay, relay.peer(holder) as peer:
        assert peer.receive().kind == "present"
        before = memory()
        peer.send(length.to_bytes(8))
        assert peer.is_closed(2)
        assert memory() - before < 20_000_000
        who = "silo a" if holder == "a" else "a run"
        line = f"refused: {who} sends a frame of {length} bytes, more than {1 << 30}"
        assert eventually(lambda: line in relay.log)


def test_the_length_of_a_frame_allocates_nothing(folder):
    """Many peers claim the longest frame, and send a part of it."""
    with hub(folder, limits=ConnectionLimits()) as relay:
        before, peers = memory(), []
        for _ in range(20):
            peers.append(relay.peer("coordinator"))
            peers[-1].send((1 << 30).to_bytes(8) + b"x" * 1000)
        with relay.run() as run:
            relay.silo("a")
            assert run.submit("a", b"x").result(5) == digest(b"x")
        assert memory() - before < 60_000_000
        for peer in peers:
            peer.socket.close()


def test_a_stalled_handshake_ends(folder):
    with hub(folder, limits=SHORT) as relay:
        for content in (b"", b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n\r\n"):
            with socket.create_connection((relay.where.host, relay.where.port), timeout=5) as peer:
                peer.sendall(content)
                began = time.monotonic()
                with suppress(ConnectionError):
                    while peer.recv(1000):
                        pass
                assert time.monotonic() - began < 2.5
        assert relay.log[1:] == ["refused: a peer at 127.0.0.1: the other side does not speak TLS 1.3 (HTTP_REQUEST)"]


@pytest.mark.parametrize("content", [b"", (1000).to_bytes(8) + b"x", b"\0\0\0"])
@pytest.mark.parametrize("first", [b"", b"\0" * 8])
@pytest.mark.parametrize("holder", ["a", "coordinator"])
def test_a_silent_peer_is_lost(folder, holder, first, content):
    """Before its first frame, between frames (after a ping), and within a frame."""
    with hub(folder, limits=replace(SHORT, ping_seconds=0.05)) as relay, relay.peer(holder) as peer:
        began = time.monotonic()
        peer.send(first + content)
        assert peer.is_closed(4)
        assert 0.3 < time.monotonic() - began < 2.5
        eventually(lambda: holder != "a" or relay.log[-1] == "silo a has left")


def test_the_first_frame_has_a_time_limit_of_its_own(folder):
    limits = replace(SHORT, first_seconds=0.3, silence_seconds=2.0)
    with hub(folder, limits=limits) as relay:
        for first, least, most in ((b"", 0.2, 1.5), (b"\0" * 8, 1.7, 4.0)):
            with relay.peer("a") as peer:
                began = time.monotonic()
                peer.send(first)
                assert peer.is_closed(6)
                assert least < time.monotonic() - began < most
            eventually(lambda: relay.log[-1] == "silo a has left")


def test_a_peer_that_pings_is_not_lost_and_gets_pings(folder):
    with hub(folder, limits=SHORT) as relay, relay.peer("a") as peer:
        assert peer.receive().kind == "present"
        began, pings = time.monotonic(), 0
        while time.monotonic() - began < 1.5:
            assert peer.exactly(8) == bytes(8)
            peer.send(bytes(8))
            pings += 1
        assert 8 <= pings <= 20
        assert relay.log[-1].startswith("silo a has joined")


def test_a_silo_is_present_while_it_computes(folder):
    """Three times as long as silence is allowed, in Python that never waits."""

    def compute(content):
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            sum(range(1000))
        return content

    with hub(folder, limits=SHORT) as relay, Loop() as own:
        own.start(serve_silo("a", relay.where, identity_of(folder, "a"), compute, print, 0.05, SHORT))
        with relay.run_with("a") as run:
            assert run.submit("a", b"x").result(5) == b"x"
        assert sum("has joined" in line for line in relay.log) == 1


def test_a_silo_whose_call_makes_no_progress_leaves_and_returns_when_it_goes_on(folder):
    """Its connection ends with its heartbeats; as long as the call hangs, it does not look alive by joining again."""

    class Hanging(Heartbeat):
        hangs = False

        def count(self):
            return 0 if self.hangs else super().count()

    heartbeat, log = Hanging(), []
    with hub(folder, limits=SHORT) as relay, Loop() as own:
        own.start(serve_silo("a", relay.where, identity_of(folder, "a"), digest, log.append, 0.05, SHORT, heartbeat))
        eventually(lambda: "has joined" in relay.log[-1])
        heartbeat.hangs = True
        eventually(lambda: log and "a call makes no progress" in log[-1])
        time.sleep(1.0)
        assert sum("has joined" in line for line in relay.log) == 1
        assert relay.log[-1] == "silo a has left"
        heartbeat.hangs = False
        eventually(lambda: "has joined" in relay.log[-1])


def test_a_silent_relay_is_lost(folder):
    """It accepts, and then says nothing: before the first frame, and after it."""
    for first, seen in ((b"", "cannot join"), (frame(Parcel("present")), "lost; reconnecting")):

        def behave(peer, first=first):
            peer.send(first)
            peer.is_closed(3)

        log = []
        with FalseRelay(identity_of(folder, "coordinator"), behave) as relay, Loop() as loop:
            loop.start(serve_silo("a", relay.where, identity_of(folder, "a"), digest, log.append, 5, SHORT))
            eventually(lambda seen=seen, log=log: log and seen in log[-1], 2.5)
            if not first:
                with (
                    pytest.raises(SilosUnavailable, match="no coordinator responds"),
                    RelayClient.connect(relay.where, identity_of(folder, "coordinator"), 5, SHORT),
                ):
                    pass
            else:
                with (
                    RelayClient.connect(relay.where, identity_of(folder, "coordinator"), 5, SHORT) as run,
                    pytest.raises(SiloLost, match="the connection to the coordinator was lost"),
                ):
                    run.submit("a", b"x").result(2.5)


@pytest.mark.parametrize(("limits", "accepted"), [(replace(QUICK, calls=3), 3), (replace(QUICK, call_bytes=250), 2)])
def test_the_relay_holds_a_limited_number_of_calls(folder, limits, accepted):
    with hub(folder, limits=limits) as relay, relay.run() as run, relay.run() as other:
        calls = [run.submit("a", b"x" * 100) for _ in range(accepted + 1)]
        with pytest.raises(SiloLost, match=r"^a: the coordinator holds too many calls of this run$"):
            calls[-1].result(5)
        assert not any(call.future.done() for call in calls[:-1])
        other_call = other.submit("a", b"y")  # another run has its own limit
        relay.silo("a")
        assert [call.result(5) for call in (*calls[:-1], other_call)] == [digest(b"x" * 100)] * accepted + [
            digest(b"y")
        ]
        calls = [run.submit("a", b"x" * 100) for _ in range(accepted)]  # answered calls no longer count
        assert [call.result(5) for call in calls] == [digest(b"x" * 100)] * accepted


def test_calls_that_are_over_leave_nothing_in_the_relay(folder, monkeypatch):
    from fedbnsl.tasks.transport import relay as module

    made = []
    monkeypatch.setattr(module, "Relay", lambda *given, make=module.Relay: made.append(make(*given)) or made[-1])
    with hub(folder) as relay:
        with relay.run() as run:
            relay.silo("a")
            run.submit("a", b"x").result(5)
            run.submit("nobody", b"x")
            run.submit("b", b"x").release()
            eventually(lambda: set(made[0]._queues) == {"a", "nobody"})
        eventually(lambda: not made[0]._runs)
        assert set(made[0]._queues) == {"a"}
        assert not made[0]._queues["a"].calls
        assert len(made[0]._connections) == 1


def test_a_silo_that_does_not_read_delays_nobody_else(folder):
    with hub(folder) as relay, relay.peer("a") as deaf, relay.run() as run:
        assert deaf.receive().kind == "present"
        pending = [run.submit("a", bytes(20_000_000)) for _ in range(3)]
        relay.silo("b")
        for i in range(10):
            assert run.submit("b", bytes([i])).result(5) == digest(bytes([i]))
        assert not any(call.future.done() for call in pending)


def test_a_run_that_does_not_read_delays_other_runs_until_it_is_lost(folder):
    limits = replace(QUICK, silence_seconds=1.0)
    with hub(folder, limits=limits) as relay, relay.run() as run, relay.peer("coordinator") as deaf:
        assert deaf.receive().kind == "present"
        relay.silo("a", lambda call: bytes(20_000_000) if call == b"deaf" else b"small")
        deaf.send(Parcel("call", 1, "a", b"deaf"))
        time.sleep(0.3)
        assert run.submit("a", b"x").result(6) == b"small"


def test_a_relay_cannot_fill_a_silo_with_calls(folder):
    """It sends calls without waiting for answers; the silo ends the connection at the third."""
    busy, log, calls, ended_by_silo = threading.Event(), [], [], []

    def answer(content):
        calls.append(content)
        busy.wait(10)
        return content

    def flood(peer):
        peer.send(Parcel("present", silos=("a",)))
        for number in range(1, 5):
            peer.send(Parcel("call", number, content=b"x"))
            time.sleep(0.1)
        ended_by_silo.append(peer.is_closed(3))

    with FalseRelay(identity_of(folder, "coordinator"), flood) as relay, Loop() as loop:
        loop.start(serve_silo("a", relay.where, identity_of(folder, "a"), answer, log.append, 60, QUICK))
        assert eventually(lambda: ended_by_silo) == [True]
        assert calls == [b"x"]
        busy.set()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "call"])
def test_a_silo_computes_for_calls_only(folder, kind):
    calls, ended_by_silo = [], []

    def behave(peer):
        peer.send(Parcel("present", silos=("a",)))
        peer.send(Parcel(kind, 1, "a", b"x"))
        ended_by_silo.append(peer.is_closed(3))

    with FalseRelay(identity_of(folder, "coordinator"), behave) as relay, Loop() as loop:
        mine = identity_of(folder, "a")
        loop.start(serve_silo("a", relay.where, mine, lambda call: calls.append(call) or b"", print, 60, QUICK))
        assert eventually(lambda: ended_by_silo) == [True]
    assert calls == []


# Bytes that nobody honest sends


@pytest.fixture
def no_interpretation(monkeypatch):
    """No pickle is read, and no text evaluated, while the test runs."""

    def forbidden(*_):
        raise AssertionError("bytes of another party were interpreted")

    for name in ("loads", "load", "Unpickler"):
        monkeypatch.setattr(pickle, name, forbidden)
    wire.prepare(Parcel)
    monkeypatch.setattr(wire, "get_type_hints", forbidden)


@pytest.fixture
def complaints(caplog):
    """The log of asyncio, which gets the exceptions that nobody handles."""
    yield caplog
    assert [record.getMessage() for record in caplog.get_records("call") if record.name == "asyncio"] == []


@pytest.mark.parametrize("holder", [None, "a", "coordinator"])
def test_the_relay_survives_hostile_bytes(folder, tmp_path, holder, no_interpretation, complaints):
    """Outside of TLS, from a silo, and from a run; every hostile connection ends, and nothing is executed."""
    mark = tmp_path / "executed"
    with hub(folder, limits=replace(SHORT, silence_seconds=5)) as relay:  # the run's pings may be late
        relay.silo("b", limits=QUICK)
        with relay.run_with("b") as run:
            before = memory()
            for content in hostile(mark, seed=1):
                if holder is None:
                    with socket.create_connection((relay.where.host, relay.where.port), timeout=5) as peer:
                        peer.sendall(content)
                else:
                    with relay.peer(holder) as peer:
                        peer.send(content)
                    eventually(
                        lambda: "silo a" not in relay.log[-1] or "left" in relay.log[-1] or "refused" in relay.log[-1]
                    )
            assert memory() - before < 60_000_000
            assert run.submit("b", b"x").result(5) == digest(b"x")
    assert not mark.exists()
    assert all(line.isprintable() and len(line) < 600 for line in relay.log)


@pytest.mark.parametrize("first", [b"", frame(Parcel("present", silos=("a",)))])
def test_a_silo_survives_hostile_bytes_of_a_coordinator(folder, tmp_path, first, no_interpretation, complaints):
    mark, log, calls = tmp_path / "executed", [], []
    contents = list(hostile(mark, seed=2))
    remaining = iter(contents)

    def behave(peer):
        content = next(remaining, None)
        peer.send(first + content if content else frame(Parcel("present")) + frame(Parcel("call", 7, content=b"x")))
        if content is None:
            while (parcel := peer.receive()) is not None:
                answers.append(parcel)

    answers = []
    limits = replace(QUICK, first_seconds=2.0)
    with FalseRelay(identity_of(folder, "coordinator"), behave) as relay, Loop() as loop:
        before = memory()
        mine = identity_of(folder, "a")
        loop.start(serve_silo("a", relay.where, mine, lambda call: calls.append(call) or b"ok", log.append, 0, limits))
        eventually(lambda: answers, 60)
        assert answers[0] == Parcel("answer", 7, content=b"ok")
        assert relay.visits == len(contents) + 1
        assert memory() - before < 60_000_000
    assert not mark.exists()
    assert all(type(call) is bytes for call in calls)
    assert all(line.isprintable() and len(line) < 600 for line in log)


def test_a_run_survives_hostile_bytes(folder, tmp_path, no_interpretation, complaints):
    mark = tmp_path / "executed"
    remaining = hostile(mark, seed=3)

    def behave(peer):
        peer.send(frame(Parcel("present", silos=("a",))) + next(remaining))
        peer.receive()

    outcomes = []
    with FalseRelay(identity_of(folder, "coordinator"), behave) as relay:
        for _ in range(60):
            with RelayClient.connect(relay.where, identity_of(folder, "coordinator"), 5, QUICK) as run:
                error = run.submit("a", b"x").future.exception(5)
            outcomes.append(error)
    assert all(error is None or (type(error) is SiloLost and str(error).isprintable()) for error in outcomes)
    assert len(outcomes) == 60
    assert not mark.exists()


def test_text_of_the_relay_is_one_printable_line(folder):
    """Control sequences in the reason of a refusal or a loss reach no terminal."""
    evil, log = "\x1b[2J\r\nsilo a has joined", []

    def refuse(peer):
        peer.send(Parcel("refused", note=evil))

    with FalseRelay(identity_of(folder, "coordinator"), refuse) as relay, Loop() as loop:
        loop.start(serve_silo("a", relay.where, identity_of(folder, "a"), digest, log.append, 5, QUICK))
        eventually(lambda: log)
        assert log[0].startswith(f"silo a cannot join {relay.where.tls}: ")
        assert log[0].isprintable()

    def lose(peer):
        peer.send(Parcel("present", silos=("a",)))
        peer.send(Parcel("lost", peer.receive().number, note=evil))
        peer.receive()

    with (
        FalseRelay(identity_of(folder, "coordinator"), lose) as relay,
        RelayClient.connect(relay.where, identity_of(folder, "coordinator"), 5, QUICK) as run,
    ):
        with pytest.raises(SiloLost) as loss:
            run.submit("a", b"x").result(5)
        assert "silo a has joined" in str(loss.value)
        assert str(loss.value).isprintable()
