"""Uncharged bytes that a private silo's worker sends over Dask are equal for neighbouring tables.

The test records the worker's sockets: serialised results and errors, and Dask's own reports of a finished task (type
and size). Seals of the rows may differ. Replies of charged rounds may differ, too. The test replaces each of them by
the reply for the first table, so that later messages can be compared as well.
"""

import secrets
import sys
from random import Random

import cloudpickle
import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.folder import silo_files
from fedbnsl.flows.engines.dask import connect_silos, job_of
from fedbnsl.flows.engines.run_context import Workers
from fedbnsl.flows.job.check import check
from fedbnsl.flows.job.run import run
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.tasks.rounds import Orchestration
from fedbnsl.tasks.transport.cluster import embedded_cluster
from tests.conformance.test_uncharged_disclosure import ABOUT, HOSTILE, PAIRS, SILOS, write

# The worker does not import the tests, so these functions are sent by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

OF_DASK = {"heartbeat_worker", "keep-alive", "release-worker-data", "add-keys", "worker-status-change", "identity"}
"""messages of a worker about itself, which have no results"""


def record(tap, message):
    """Keep the parts of a `message` about tasks: everything sent when one ends, and serialised results."""
    from distributed.protocol import serialize

    from fedbnsl.tasks.silo.messages import unpack_answer

    op = message.get("op")
    if op in ("task-finished", "task-erred"):
        kept = ("nbytes", "type", "typename", "metadata", "exception", "traceback")
        tap["sent"].append((op, message["key"].split("-")[0], repr([message.get(name) for name in kept])))
    elif "data" in message and message.get("status") == "OK":
        for key, value in message["data"].items():
            method = key.split("-")[0]
            header, frames = serialize(value.data)
            seal = method == "seal" and len(bytes.fromhex(unpack_answer("seal", value.data))) == 32
            body = b"a seal" if seal else b"".join(map(bytes, frames))
            tap["sent"].append(("result", method, repr(sorted(map(str, header.items()))), body))
    elif op is not None:
        tap["sent"].append(("message", op))


def install_tap(dask_worker):
    """Record what this worker sends about tasks, and make its silos' randomness depend on their calls alone."""
    import secrets
    from random import Random

    from distributed.comm.tcp import TCP

    from fedbnsl.tasks.silo.messages import METHODS
    from fedbnsl.tasks.silo.service import SiloService

    tap = dask_worker.tap = {"sent": [], "charged": {}, "calls": {}, "methods": [], "within": False}
    write, solve = TCP.write, SiloService._solve

    async def recording(self, message, *arguments, **options):
        for one in message if isinstance(message, list | tuple) else (message,):
            if isinstance(one, dict) and tap.get("on"):
                record(tap, one)
        return await write(self, message, *arguments, **options)

    def same_reply(self, terms, number, broadcast, *, behind_masks):
        own = solve(self, terms, number, broadcast, behind_masks=behind_masks)
        return tap["charged"].setdefault((self.name, terms.step_of, number), own)

    def seeded(method, original):
        def call(self, *arguments, **options):
            if tap["within"]:
                return original(self, *arguments, **options)
            count = tap["calls"][self.name] = tap["calls"].get(self.name, 0) + 1
            secrets.token_bytes = Random(f"{self.name} {method} {count}").randbytes
            tap["methods"].append(method)
            tap["within"] = True
            try:
                return original(self, *arguments, **options)
            finally:
                tap["within"] = False

        return call

    TCP.write, SiloService._solve = recording, same_reply
    for method in METHODS:
        setattr(SiloService, method, seeded(method, getattr(SiloService, method)))


def host_files(files, new_pair, dask_worker):
    """Host other files under the same names, and begin to record."""
    from fedbnsl.tasks.silo.service import SiloService
    from fedbnsl.tasks.transport.cluster import hosted_services

    hosted, tap = hosted_services(dask_worker), dask_worker.tap
    for name, path in files.items():
        hosted[name].close()
        hosted[name] = SiloService(name, path)
    if new_pair:
        tap["charged"].clear()
    tap["calls"].clear()
    tap.update(sent=[], methods=[], on=True)


def all_sent(dask_worker):
    """What was sent since `host_files`."""
    dask_worker.tap["on"] = False
    return dask_worker.tap["sent"], dask_worker.tap["methods"]


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = write(tmp_path_factory.mktemp("first") / "data", "numbers", None)
    with embedded_cluster(silo_files(folder), workers=1) as client:
        client.run(install_tap)
        yield client


def outcome(client, folder, new_pair, **options):
    """Run over Dask; returns all that the worker sent, sorted, and the error if there was one."""
    files, error = silo_files(folder), ""
    client.run(host_files, files, new_pair)
    settings = LearnSettings(data=str(folder), epsilon=8.0, **options)
    try:
        with connect_silos(settings, Orchestration(), workers=Workers(files, client)) as silos:
            job = job_of(settings, "the run", silos)
            check(job, silos.session.schema)
            silos.begin(job)
            run(job, silos.session)
            silos.finish()
    except BadInput as refusal:
        error = str(refusal).replace(str(folder), "")
    ((sent, methods),) = client.run(all_sent).values()
    assert {one[1] for one in sent if one[0] == "message"} <= OF_DASK
    return sorted(map(repr, (one for one in sent if one[0] != "message"))), sorted(methods), error


@pytest.fixture(scope="module")
def ordinary(client, tmp_path_factory):
    """The outcome on the ordinary table of a kind; its replies are also used for the neighbouring tables."""
    last = {}

    def found(kind):
        if kind not in last:
            last.clear()
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(secrets, "randbits", Random(1).getrandbits)
                last[kind] = outcome(client, write(tmp_path_factory.mktemp("data") / kind, kind, None), True)
        return last[kind]

    return found


@pytest.mark.parametrize("kind", ABOUT)
def test_all_of_a_run_is_tapped(kind, ordinary):
    sent, methods, error = ordinary(kind)
    assert not error
    assert set(methods) == {"describe", "admit", "seal", "secure_answer", "charges", "releases", "finish"}
    assert len([one for one in sent if one.startswith("('result'")]) == len(methods)
    assert len([one for one in sent if one.startswith("('task-finished'")]) == len(methods)
    assert len([one for one in sent if "a seal" in one]) == len(SILOS)


QUICK = 2
"""pairs of each kind that are not left to the slow tests; what silos send of all of them is tested in one process"""
EACH = [
    pytest.param(kind, line, marks=() if line in HOSTILE[kind][:QUICK] else pytest.mark.slow) for kind, line in PAIRS
]


@pytest.mark.parametrize(("kind", "line"), EACH)
def test_neighbours_are_told_apart_by_charged_replies_only(kind, line, client, ordinary, tmp_path, monkeypatch):
    expected = ordinary(kind)
    monkeypatch.setattr(secrets, "randbits", Random(1).getrandbits)
    assert outcome(client, write(tmp_path / kind, kind, line), False) == expected


def test_a_difference_is_seen(client, ordinary, tmp_path, monkeypatch):
    """One more row, which is no neighbour: the description has another number of rows."""
    expected = ordinary("numbers")
    monkeypatch.setattr(secrets, "randbits", Random(1).getrandbits)
    folder = write(tmp_path / "more", "numbers", None)
    with (folder / "a.csv").open("a") as file:
        file.write("1,2,3\n")
    assert outcome(client, folder, False) != expected


@pytest.mark.parametrize(
    ("kind", "line"), [(kind, PAIRS[[pair[0] for pair in PAIRS].index(kind)][1]) for kind in ABOUT]
)
def test_refusals_are_the_same(kind, line, client, tmp_path, monkeypatch):
    """The silos refuse a run that exceeds the budget; their errors are sent as values, without a traceback."""
    found = []
    for name, row in (("one", None), ("other", line)):
        monkeypatch.setattr(secrets, "randbits", Random(1).getrandbits)
        found.append(outcome(client, write(tmp_path / name, kind, row), False, budget=3.0))
    assert found[0] == found[1]
    assert "refused before any noise was drawn" in found[0][2]
    assert any("Overspent" in one for one in found[0][0])
    assert not any("task-erred" in one for one in found[0][0])
