"""The relay between runs and silos, over real sockets: delivery, redelivery, and which certificate allows what."""

import hashlib
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from fedbnsl.algorithms.core.protocol import SiloLost
from fedbnsl.algorithms.errors import BadInput, SilosUnavailable
from fedbnsl.flows.cli.federation import init_federation
from fedbnsl.tasks.transport.certificates import Authority, issue, load_or_create_authority, new_authority
from fedbnsl.tasks.transport.channel import ConnectionLimits, Parcel, RelayClient, serve_silo
from fedbnsl.tasks.transport.configuration import Endpoint
from tests.tasks.transport.relay_peers import (
    QUICK,
    FalseRelay,
    Peer,
    digest,
    eventually,
    hub,
    identity_of,
    silo_process,
)

MANY = [f"s{i:02}" for i in range(12)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("relay") / "made"
    init_federation(made, MANY, "127.0.0.1:1")
    return made


class Held:
    """An answer that a silo gives once it may; counts the calls."""

    def __init__(self):
        self.may, self.calls = threading.Event(), []

    def __call__(self, content):
        self.calls.append(content)
        self.may.wait(20)
        return content


# Delivery


@pytest.mark.parametrize("size", [0, 1, 1000, 1 << 20, 20_000_000])
def test_bytes_arrive_as_they_were_sent(folder, size):
    content = hashlib.shake_128(b"seed").digest(size)
    with hub(folder) as relay:
        relay.silo("s00", lambda call: call[::-1])
        with relay.run_with("s00") as run:
            assert run.submit("s00", content).result(20) == content[::-1]


def test_many_silos_answer_concurrent_calls_of_two_runs(folder):
    with hub(folder) as relay:
        for name in MANY:
            relay.silo(name, lambda call, name=name: name.encode() + call)
        with relay.run_with(*MANY) as one, relay.run_with(*MANY) as other, ThreadPoolExecutor(8) as threads:
            calls = [(run, name, f"{i}".encode()) for i in range(15) for name in MANY for run in (one, other)]
            answers = threads.map(lambda call: call[0].submit(*call[1:]).result(20), calls)
            assert list(answers) == [name.encode() + content for _, name, content in calls]


def test_a_silo_gets_the_calls_of_a_run_in_order_and_one_at_a_time(folder):
    at_once, seen = threading.Semaphore(1), []

    def answer(call):
        assert at_once.acquire(blocking=False)
        seen.append(call)
        time.sleep(0.002)
        at_once.release()
        return call

    calls = [str(i).encode() for i in range(50)]
    with hub(folder) as relay:
        relay.silo("s00", answer)
        with relay.run_with("s00") as run:
            pending = [run.submit("s00", call) for call in calls]
            assert [one.result(10) for one in pending] == calls
    assert seen == calls


def test_the_relay_delivers_a_call_only_after_the_answer_to_the_last_one(folder):
    with hub(folder) as relay, relay.peer("s00") as silo:
        assert silo.receive() == Parcel("present", silos=("s00",))
        with relay.run_with("s00") as run:
            first, second = run.submit("s00", b"1"), run.submit("s00", b"2")
            call = silo.receive()
            assert silo.receive(0.5) is None
            silo.send(Parcel("answer", call.number, content=b"one"))
            assert first.result(5) == b"one"
            silo.send(Parcel("answer", silo.receive().number, content=b"two"))
            assert second.result(5) == b"two"


def test_runs_know_which_silos_are_present(folder):
    with hub(folder) as relay, relay.run() as run:
        assert run.present() == ()
        second, first = relay.silo("s01"), relay.silo("s00")
        eventually(lambda: run.present() == ("s00", "s01"))
        second.cancel()
        eventually(lambda: run.present() == ("s00",))
        with relay.run() as other:
            assert other.present() == ("s00",)
        first.cancel()
        eventually(lambda: run.present() == ())


def test_runs_know_for_how_long_which_silos_are_silent(folder):
    """One silo sends no ping, as if its process were stopped; the other one is alive, while it computes in Python."""
    busy, ended = threading.Event(), threading.Event()

    def compute(content):
        busy.set()
        while not ended.is_set():
            sum(range(1000))
        return content

    try:
        with hub(folder, limits=replace(QUICK, ping_seconds=0.2)) as relay, relay.peer("s01") as frozen:
            frozen.send(bytes(8))  # one ping
            relay.silo("s00", compute)
            with relay.run_with("s00", "s01") as run:
                assert run.silence() == {"s00": 0.0, "s01": 0.0}
                run.submit("s00", b"")
                assert busy.wait(10)
                eventually(lambda: run.silence()["s01"] > 1.5)
                assert run.silence()["s00"] < 1
                with relay.run() as other:
                    assert other.silence()["s01"] > 1
    finally:
        ended.set()


def test_a_call_waits_for_a_silo_that_is_away(folder):
    with hub(folder) as relay, relay.run() as run:
        pending = run.submit("s00", b"x")
        with pytest.raises(TimeoutError):
            pending.result(0.3)
        relay.silo("s00")
        assert pending.result(5) == digest(b"x")


# Redelivery


def test_a_silo_killed_while_it_computes_gets_the_call_three_times(folder):
    """A SIGKILL, as if its machine had crashed; after the third time, the call is lost and the next one is answered."""
    with hub(folder) as relay, relay.run() as run:
        lost, next_call = run.submit("s00", b"hang"), run.submit("s00", b"next")
        for _ in range(3):
            assert not lost.future.done()
            with silo_process(relay, "s00") as process:
                lines = iter(process.stdout)
                assert next(lines).startswith("silo s00 has joined")
                assert next(lines) == "call hang\n"
                process.kill()
            eventually(lambda: run.present() == ())
        with pytest.raises(SiloLost, match=r"^s00: its worker died repeatedly while solving$") as loss:
            lost.result(5)
        assert loss.value.silos == ("s00",)
        relay.silo("s00")
        assert next_call.result(5) == digest(b"next")


def test_a_silo_that_comes_back_answers_the_call(folder):
    held = Held()
    with hub(folder) as relay, relay.run() as run:
        first = relay.silo("s00", held)
        pending = run.submit("s00", b"x")
        eventually(lambda: held.calls)
        first.cancel()
        eventually(lambda: run.present() == ())
        relay.silo("s00", lambda call: b"second")
        assert pending.result(5) == b"second"
        held.may.set()


def test_deliveries_are_counted_for_each_call(folder):
    """A connection that ends while a silo computes is no fault of the calls that wait behind."""
    with hub(folder, limits=replace(QUICK, deliveries=2)) as relay, relay.run() as run:
        calls = [run.submit("s00", bytes([i])) for i in range(3)]
        for _ in range(4):
            with relay.peer("s00") as silo:
                assert silo.receive().kind == "present"
                silo.receive()
            eventually(lambda: run.present() == ())
        for call in calls[:2]:
            with pytest.raises(SiloLost):
                call.result(5)
        relay.silo("s00")
        assert calls[2].result(5) == digest(b"\x02")


def test_an_answer_that_raises_is_logged_by_type_only_and_lost(folder):
    def answer(call):
        raise KeyError("row 17: Miller, 1950")

    log = []
    with hub(folder) as relay, relay.run() as run:
        relay.silo("s00", answer, log)
        with pytest.raises(SiloLost, match="died repeatedly"):
            run.submit("s00", b"x").result(10)
        assert log[:3] == [
            f"silo s00 has joined {relay.where.tls}",
            "silo s00: KeyError while it answered a call",
            f"silo s00: connection to {relay.where.tls} lost; reconnecting",
        ]
        assert "Miller" not in "".join(log + relay.log)


# Ends


def test_the_calls_of_a_run_that_ends_are_forgotten(folder):
    with hub(folder) as relay:
        with relay.run() as run:
            pending = run.submit("s00", b"first")
            run.submit("s01", b"second")
            time.sleep(0.2)
        with pytest.raises(SiloLost, match=r"^s00: the connection to the coordinator was lost$"):
            pending.result(1)
        with relay.run() as run, relay.peer("s00") as silo:
            assert silo.receive().kind == "present"
            run.submit("s00", b"third")
            assert silo.receive().content == b"third"


def test_the_relay_forgets_a_released_call(folder):
    with hub(folder) as relay, relay.run() as run:
        run.submit("s00", b"first").release()
        second = run.submit("s00", b"second")
        with relay.peer("s00") as silo:
            assert silo.receive().kind == "present"
            call = silo.receive()
            assert call.content == b"second"
            second.release()
            third = run.submit("s00", b"third")
            silo.send(Parcel("answer", call.number, content=b"late"))
            silo.send(Parcel("answer", silo.receive().number, content=b"answer"))
            assert third.result(5) == b"answer"
            with pytest.raises(TimeoutError):
                second.result(0.1)


def test_a_run_learns_that_the_relay_has_ended(folder):
    with hub(folder) as relay:
        silo = relay.silo("s00", log=(log := []))
        with relay.run_with("s00") as run:
            pending = run.submit("s01", b"x")
            time.sleep(0.1)
            relay.task.cancel()
            for call in (pending, run.submit("s00", b"y")):
                with pytest.raises(SiloLost, match="the connection to the coordinator was lost"):
                    call.result(5)
                call.release()
            assert run.present() == ()
        eventually(lambda: len(log) >= 3)
        assert log[:2] == [
            f"silo s00 has joined {relay.where.tls}",
            f"silo s00: connection to {relay.where.tls} lost; reconnecting",
        ]
        assert log[2].startswith(f"silo s00 cannot join {relay.where.tls}: ")
        time.sleep(0.3)
        assert len(log) == 3  # the reason is logged once
        silo.cancel()


def test_nobody_responds(folder):
    nowhere = Endpoint("127.0.0.1", 9)
    sentence = (
        r"^no coordinator responds at 127\.0\.0\.1:9 \(TimeoutError\): start it with `fedbnsl coordinator start`$"
    )
    with (
        pytest.raises(SilosUnavailable, match=sentence),
        RelayClient.connect(nowhere, identity_of(folder, "coordinator"), 0.5),
    ):
        pass


def test_a_run_waits_for_a_relay_that_starts_later(folder):
    def present():
        with RelayClient.connect(where, identity_of(folder, "coordinator"), 10, QUICK) as run:
            return run.present()

    # The port stays reserved by a socket that does not listen, so that no other process takes it meanwhile.
    with socket.socket() as reserved, ThreadPoolExecutor(1) as thread:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        where = Endpoint("127.0.0.1", reserved.getsockname()[1])
        waiting = thread.submit(present)
        time.sleep(0.5)
        assert not waiting.done()
        with hub(folder, port=where.port):
            assert waiting.result(5) == ()


def test_why_a_silo_cannot_join_is_logged_again_after_each_connection(folder):
    """Refused, refused, refused for another reason, accepted, refused."""
    refused, other = Parcel("refused", note="not now"), Parcel("refused", note="never")
    firsts, log = iter([refused, refused, other, Parcel("present"), other, other]), []
    with FalseRelay(identity_of(folder, "coordinator"), lambda peer: peer.send(next(firsts))) as relay:
        with hub(folder) as silos:
            silos.where = relay.where
            silos.silo("s00", log=log)
            eventually(lambda: relay.visits >= 6)
        tls = relay.where.tls
    assert log[:5] == [
        f"silo s00 cannot join {tls}: not now",
        f"silo s00 cannot join {tls}: never",
        f"silo s00 has joined {tls}",
        f"silo s00: connection to {tls} lost; reconnecting",
        f"silo s00 cannot join {tls}: never",
    ]


# Who may do what


def test_the_relay_logs_who_joins_and_leaves(folder):
    with hub(folder, silos=("s00", "s01")) as relay:
        assert relay.log == [f"listening at {relay.where.tls} for s00, s01"]
        silo = relay.silo("s00")
        eventually(lambda: len(relay.log) > 1)
        silo.cancel()
        eventually(lambda: len(relay.log) > 2)
        assert relay.log[1].startswith("silo s00 has joined from tls://127.0.0.1:")
        assert relay.log[2:] == ["silo s00 has left"]
    with hub(folder) as relay:
        assert relay.log == [f"listening at {relay.where.tls} for any silo"]


def test_a_silo_that_is_no_member_is_refused_once_in_both_logs(folder):
    refusal, log = "silo s02 is not a member: federation.toml lists s00, s01", []
    with hub(folder, silos=("s00", "s01")) as relay:
        relay.silo("s02", log=log)
        eventually(lambda: log)
        time.sleep(0.4)  # it tries again and again
        assert log == [f"silo s02 cannot join {relay.where.tls}: {refusal}"]
        assert relay.log[1:] == [f"refused: {refusal}"]
        with relay.run() as run:
            assert run.present() == ()


def test_a_second_connection_of_a_silo_is_refused(folder):
    refusal, log = "silo s00 already has a worker: a second worker of this name is not accepted", []
    with hub(folder) as relay:
        relay.silo("s00", lambda call: b"first")
        with relay.run_with("s00") as run:
            relay.silo("s00", lambda call: b"second", log)
            eventually(lambda: log)
            assert log == [f"silo s00 cannot join {relay.where.tls}: {refusal}"]
            assert [run.submit("s00", b"").result(5) for _ in range(20)] == [b"first"] * 20
            assert run.present() == ("s00",)
        assert relay.log[2:] == [f"refused: {refusal}"]


def is_rejected(relay, context):
    """Whether TLS rejects a peer; its own handshake may end before the relay has verified its certificate."""
    try:
        with Peer(relay.where, context) as peer:
            return peer.is_closed()
    except OSError:
        return True


def test_strangers_are_rejected(folder, tmp_path):
    init_federation(tmp_path / "other", ["s00"], "127.0.0.1:1")
    certified = identity_of(tmp_path / "other", "coordinator").client_context()
    certified.load_verify_locations(folder / "s00" / "trusted.pem")
    no_certificate = identity_of(folder, "s00").client_context().__class__(certified.protocol)
    no_certificate.check_hostname = False
    no_certificate.load_verify_locations(folder / "s00" / "trusted.pem")
    old = identity_of(folder, "s00").client_context()
    old.minimum_version, old.maximum_version = old.maximum_version.TLSv1_2, old.maximum_version.TLSv1_2
    with hub(folder) as relay:
        for context in (certified, no_certificate, old):
            assert is_rejected(relay, context)
        assert not is_rejected_soon(relay, folder)
        reasons = [line.removeprefix("refused: a peer at 127.0.0.1: ") for line in relay.log[1:-2]]
        assert reasons[0].startswith("the certificate of 'coordinator' is signed by 'fedbnsl coordinators', and not by")
        assert reasons[1:] == [
            "the other side has sent no certificate",
            "the other side does not speak TLS 1.3 (UNSUPPORTED_PROTOCOL)",
        ]
        assert ["silo s00 has joined" in relay.log[-2], "silo s00 has left" in relay.log[-1]] == [True, True]
        relay.silo("s00")
        with relay.run_with("s00") as run:
            assert run.submit("s00", b"x").result(5) == digest(b"x")


def is_rejected_soon(relay, folder):
    with relay.peer("s00") as peer:
        closed = peer.is_closed(0.3)
    eventually(lambda: relay.log[-1] == "silo s00 has left")
    return closed


def named_as_the_coordinator(folder, tmp_path):
    """A silo's certificate whose holder is called `coordinator`."""
    own = tmp_path / "coordinator"
    own.mkdir(parents=True)
    issue(load_or_create_authority(folder / "authorities", "silos"), "coordinator", own, "coordinator")
    (own / "trusted.pem").write_bytes((folder / "s00" / "trusted.pem").read_bytes())
    # `client_context` of a coordinator trusts its own authority only, which no relay has.
    context = identity_of(folder, "s00").client_context()
    context.load_cert_chain(own / "coordinator.pem", own / "coordinator.key")
    return context


@pytest.mark.parametrize("name", ["s00", "coordinator"])
@pytest.mark.parametrize(
    "parcel", [Parcel("call", 1, "s01", b"x"), Parcel("release", 1), Parcel("present", silos=("s01",))]
)
def test_a_silo_cannot_act_as_a_run(folder, tmp_path, name, parcel):
    held = Held()
    with hub(folder) as relay:
        relay.silo("s01", held)
        with relay.run_with("s01"):
            contexts = {
                "s00": identity_of(folder, "s00").client_context,
                "coordinator": lambda: named_as_the_coordinator(folder, tmp_path),
            }
            with Peer(relay.where, contexts[name]()) as rogue:
                assert rogue.receive() == Parcel("present", silos=(name,))  # and no other silo
                rogue.send(parcel)
                assert rogue.is_closed()
        line = f"refused: silo {name} sends something other than the answer to the call that it has"
        assert line in eventually(lambda: line in relay.log and relay.log)
        assert held.calls == []
        held.may.set()


def test_an_authority_with_the_name_of_the_coordinators_is_not_theirs(folder, tmp_path):
    """The certificate of a run is verified with the key of the authority, not by the authority's name."""
    coordinators = load_or_create_authority(folder / "authorities", "coordinators")
    false = Authority(coordinators.certificate, new_authority("fedbnsl coordinators").key)
    issue(false, "coordinator", tmp_path, "coordinator")
    context = identity_of(folder, "s00").client_context()
    context.load_cert_chain(tmp_path / "coordinator.pem", tmp_path / "coordinator.key")
    with hub(folder) as relay:
        assert is_rejected(relay, context)


def test_a_silo_cannot_answer_the_call_of_another_silo(folder):
    with hub(folder) as relay, relay.peer("s00") as victim, relay.peer("s01") as rogue, relay.run() as run:
        for silo in (victim, rogue):
            assert silo.receive().kind == "present"
        pending, own = run.submit("s00", b"x"), run.submit("s01", b"y")
        call, _ = victim.receive(), rogue.receive()
        rogue.send(Parcel("answer", call.number, content=b"false"))
        assert rogue.is_closed()
        assert not pending.future.done()
        assert not own.future.done()
        victim.send(Parcel("answer", call.number, content=b"true"))
        assert pending.result(5) == b"true"
        refusal = "refused: silo s01 sends something other than the answer to the call that it has"
        assert relay.log.count(refusal) == 1


def test_a_silo_answers_a_call_once(folder):
    with hub(folder) as relay, relay.peer("s00") as silo, relay.run() as run:
        assert silo.receive().kind == "present"
        pending = run.submit("s00", b"x")
        number = silo.receive().number
        silo.send(Parcel("answer", number, content=b"1"))
        silo.send(Parcel("answer", number, content=b"2"))
        assert silo.is_closed()
        assert pending.result(5) == b"1"


def test_a_run_cannot_answer_calls(folder):
    with hub(folder) as relay, relay.run() as run, relay.peer("coordinator") as rogue:
        pending = run.submit("s00", b"x")
        assert rogue.receive() == Parcel("present")
        rogue.send(Parcel("answer", 1, content=b"false"))
        assert rogue.is_closed()
        assert not pending.future.done()
        assert relay.log[-1] == "refused: a run sends a parcel that is neither a new call nor the release of one"


def test_a_run_cannot_release_the_calls_of_another_run(folder):
    with hub(folder) as relay, relay.run() as run, relay.peer("coordinator") as rogue:
        pending = run.submit("s00", b"x")
        rogue.send(Parcel("release", pending.number))
        time.sleep(0.2)
        relay.silo("s00")
        assert pending.result(5) == digest(b"x")


@pytest.mark.parametrize("holder", ["s01", "coordinator of another federation"])
def test_clients_accept_only_their_coordinator(folder, tmp_path, holder):
    """A silo that listens under the coordinator's address gets neither calls nor answers, and learns nothing."""
    false = identity_of(folder, "s01")
    if holder != "s01":
        init_federation(tmp_path / "other", ["s00"], "127.0.0.1:1")
        false = identity_of(tmp_path / "other", "coordinator")
    both = tmp_path / "both.pem"
    both.write_bytes(b"".join(file.read_bytes() for file in (folder / "coordinator" / "trusted.pem", false.trusted)))
    trusting = replace(false, trusted=both)
    log, limits = [], ConnectionLimits(first_seconds=2)
    with FalseRelay(trusting, lambda peer: peer.send(Parcel("present", silos=("s00",)))) as false, hub(folder) as relay:
        relay.where = false.where
        refusal = f"the certificate of '{holder.split()[0]}' is signed by 'fedbnsl .*', and not by an authority in "
        with pytest.raises(BadInput, match=refusal), relay.run(timeout=2):
            pass
        relay.silo("s00", log=log, limits=limits)
        eventually(lambda: log)
        assert re.search(f"cannot join .*: {refusal}", log[0])
        assert false.visits == 0


def test_a_silo_that_trusts_too_much_still_wants_a_coordinator(folder, tmp_path):
    """The silos' authority among the trusted ones does not make a silo a coordinator."""
    trusted, log = folder / "coordinator" / "trusted.pem", []
    false = replace(identity_of(folder, "s01"), trusted=trusted)
    credulous = replace(identity_of(folder, "s00"), trusted=trusted)
    with FalseRelay(false, lambda peer: peer.receive()) as server, hub(folder) as relay:
        relay.loop.start(serve_silo("s00", server.where, credulous, digest, log.append, 0.05, QUICK))
        eventually(lambda: log)
        reason = "the other side has the certificate of 's01', not of a coordinator"
        assert log == [f"silo s00 cannot join {server.where.tls}: {reason}"]
