"""Which peers the coordinator accepts, and what a silo may ask of it; the connections are fakes."""

import asyncio
from types import SimpleNamespace

import pytest

from fedbnsl.tasks.transport.cluster import resource
from fedbnsl.tasks.transport.coordinator import FederationScheduler, _restrict_silo
from fedbnsl.tasks.transport.identity import peer_of


class Connection:
    """The coordinator's end of a connection, whose other side has shown the certificate of `peer`."""

    def __init__(self, peer, *messages):
        self.extra_info = {"peercert": {"subject": ((("organizationName", "x"),), (("commonName", peer),))}}
        self.peer_address, self.messages, self.written, self.aborted = "tls://10.0.0.9:1", [*messages], [], False

    async def read(self, deserializers=None):
        return self.messages.pop(0)

    async def write(self, message):
        self.written.append(message)

    def abort(self):
        self.aborted = True


def refused(peer, claimed, here=(), silos=("clinic", "lab")):
    """The reason for refusing a worker that has the certificate of `peer` and claims to be `claimed`."""
    said, connection = [], Connection(peer)

    async def join():
        scheduler = FederationScheduler(silos, said.append, dashboard=False, host="127.0.0.1", port=0)
        hosted = {f"tls://{silo}": SimpleNamespace(resources={resource(silo): 1.0}) for silo in here}
        scheduler.workers = hosted
        await scheduler.add_worker(connection, resources=dict.fromkeys(map(resource, claimed), 1.0))

    asyncio.run(join())
    assert len(connection.written) == len(said) == 1
    assert connection.written[0]["status"] == "error"
    assert said[0] == f"refused: {connection.written[0]['message']}"
    return said[0].removeprefix("refused: ")


@pytest.mark.parametrize("claimed", [("lab",), ("clinic", "lab"), ()])
def test_a_worker_is_taken_in_under_the_name_in_its_certificate_only(claimed):
    assert refused("clinic", claimed).startswith("a worker with the certificate of clinic claims to be ")


def test_a_second_worker_of_a_silo_is_not_taken_in():
    assert refused("lab", ["lab"], here=["clinic", "lab"]).startswith("silo lab already has a worker")


def test_a_silo_that_is_not_on_the_list_is_not_taken_in():
    assert refused("ward", ["ward"]) == "silo ward is not a member: federation.toml lists clinic, lab"


def heard(*messages):
    """Return what the coordinator reads of a silo's `messages`, its answer, and whether it closed the connection."""
    said, connection, read = [], Connection("clinic", *messages), []
    _restrict_silo(connection, "clinic", said.append)

    async def listen():
        while connection.messages:
            read.append(await connection.read())

    try:
        asyncio.run(listen())
    except OSError:
        assert connection.aborted
    return read, said


def test_what_a_silos_worker_says_is_heard():
    messages = [{"op": "register-worker"}, [{"op": "task-finished"}, {"op": "keep-alive"}], {"op": "long-running"}]
    assert heard(*messages) == (messages, [])
    assert heard({"op": "heartbeat_worker"}, {"op": "unregister"})[1] == []


OTHERS = {
    "tasks": ({"op": "update-graph"},),
    "code": ({"op": "run_function"},),
    "becoming a client": ({"op": "register-client"},),
    "a report of somebody who is not registered": ({"op": "task-finished"},),
    "one of several": ({"op": "register-worker"}, [{"op": "keep-alive"}, {"op": "update-graph"}]),
    "another worker's name": ({"op": "register-worker"}, {"op": "register-worker"}),
    "nothing that has a name": ("hello",),
}


@pytest.mark.parametrize("messages", OTHERS.values(), ids=OTHERS)
def test_a_silo_that_asks_for_what_is_a_coordinators_is_hung_up_on(messages):
    read, said = heard(*messages)
    assert len(read) == len(messages) - 1
    assert len(said) == 1
    assert said[0].startswith("refused: silo clinic requests '")


@pytest.mark.parametrize("field", ["address", "worker"])
def test_a_silo_cannot_name_the_worker_of_another_one_as_its_own(field):
    async def reasons():
        scheduler = FederationScheduler(("clinic", "lab"), print, dashboard=False, host="127.0.0.1", port=0)
        scheduler.workers = {
            f"tls://{one}": SimpleNamespace(resources={resource(one): 1.0}) for one in ("clinic", "lab")
        }
        message = {"op": "heartbeat_worker", "address": "tls://clinic", "worker": "tls://clinic"}
        return [scheduler.impersonates("clinic", message | {field: f"tls://{one}"}) for one in ("clinic", "lab")]

    assert asyncio.run(reasons()) == [None, "names the worker at tls://lab as its own"]


def test_nobody_is_a_peer_without_a_certificate():
    assert peer_of(Connection("clinic")) == "clinic"
    assert peer_of(SimpleNamespace(extra_info={})) is None
