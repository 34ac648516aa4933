"""Every call of a coordinator to a silo, with every error of every transport and of the silo's disk.

Law: a command ends with one line that names a silo or its file, and exit code 3 if a silo was lost, or 2 if its disk or
files fail; never with a traceback. If the run can be continued, the line says how. Calls after the rounds cost a run
with a result nothing but themselves.
"""

import asyncio
import errno
import pickle
import socket
import sqlite3
import ssl
from concurrent import futures
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from distributed import KilledWorker
from distributed.client import FutureCancelledError
from distributed.comm import CommClosedError

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import SiloLost
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.secure.masks import Aborted
from fedbnsl.data.folder.about import Declared
from fedbnsl.data.folder.folder import silo_files, write_folder
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.flows import start
from fedbnsl.flows.cli import learn as command
from fedbnsl.flows.engines import dask as engine
from fedbnsl.flows.engines.run_context import RunContext
from fedbnsl.flows.learn import learn_without_prefect
from fedbnsl.tasks.silo.ledger import ledger_of
from fedbnsl.tasks.silo.messages import METHODS, MethodCall, SiloFailed, answer, unpack_call
from fedbnsl.tasks.silo.private_folder import RecordUnavailable
from fedbnsl.tasks.silo.secure_sums import RunTerms, SecureSumRequest
from fedbnsl.tasks.silo.service import SiloService
from fedbnsl.tasks.transport.channel import RelayTransport
from fedbnsl.tasks.transport.cluster import DaskTransport, resource
from fedbnsl.tasks.transport.federation import Patience, Roster
from tests.flows.commands import run

SILO = "silo-2"
PATIENCE = Patience(absent=1.0)
TERMS = RunTerms("run", registry.pack(registry.specify("secure-sum", None)), Schema(("x0",), {"silo-1": 9, SILO: 9}), 0)
TRANSPORT_ERRORS = {
    "refused": ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"),
    "reset": ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
    "broken pipe": BrokenPipeError(errno.EPIPE, "Broken pipe"),
    "end of file": EOFError(),
    "incomplete read": asyncio.IncompleteReadError(b"", 8),
    "host unreachable": OSError(errno.EHOSTUNREACH, "No route to host"),
    "name not found": socket.gaierror(-2, "Name or service not known"),
    "broken frame": ValueError("a frame of 9 bytes\nand more"),
    "TLS alert": ssl.SSLError(1, "[SSL: TLSV1_ALERT_UNKNOWN_CA] tlsv1 alert unknown ca"),
    "certificate": ssl.SSLCertVerificationError(1, "certificate verify failed"),
    "disk of the coordinator full": OSError(errno.ENOSPC, "No space left on device", "/tmp/dask-worker-space"),
    "worker killed": KilledWorker("solve-17", None, 3),
    "scheduler closed": CommClosedError("in <TLS>: Stream is closed"),
    "cancelled by Dask": FutureCancelledError("solve-17", "scheduler-connection-lost"),
    "cancelled": futures.CancelledError(),
    "cancelled task": asyncio.CancelledError(),
    "event loop closed": RuntimeError("Event loop is closed"),
    "not serialised": pickle.PicklingError("cannot pickle"),
    "not deserialised": TypeError("Could not deserialize"),
    "no memory": MemoryError(),
}
"""errors of a transport, by name"""
UNREADABLE = {"not an answer": b"\x93\xff", "no bytes": b"", "none": None}
"""answers that cannot be read"""
SILO_ERRORS = {
    "disk full": OSError(errno.ENOSPC, "No space left on device", "/data/.fedbnsl/silo-2.sqlite"),
    "database full": sqlite3.OperationalError("database or disk is full"),
    "rolled back": sqlite3.OperationalError("cannot rollback - no transaction is active"),
    "quota": OSError(errno.EDQUOT, "Disk quota exceeded"),
    "permission": PermissionError(errno.EACCES, "Permission denied", "/data/.fedbnsl/silo-2.sqlite"),
    "read only": OSError(errno.EROFS, "Read-only file system"),
    "dead disk": OSError(errno.EIO, "Input/output error"),
    "bug": KeyError("x7"),
    "bad cell": BadInput("rows.csv: line 5, column 'x': 'abc' is not a number"),
    "unsafe sum": Aborted("2 keys are the same"),
}
"""errors of a silo that is reached, by name"""
AFTERWARDS = ("charges", "releases", "sign", "finish")
"""calls after the rounds"""


class Faulty:
    """Services of silos whose answers to one method, from one silo, are faults."""

    def __init__(self, files, method, fault):
        self.services = {silo: SiloService(silo, path) for silo, path in files.items()}
        self.method, self.fault = method, fault

    def is_due(self, silo, packed):
        return silo == SILO and unpack_call(packed).method == self.method

    def result(self, silo, packed):
        """The bytes that arrive; raises the fault of a transport."""
        if not self.is_due(silo, packed):
            return answer(self.services[silo], packed)
        if isinstance(self.fault, BaseException):
            raise self.fault
        return self.fault(self.services[silo], packed) if callable(self.fault) else self.fault


class Pending:
    """The future of an answer, of Dask and of the relay."""

    def __init__(self, faulty, silo, packed):
        self.given = faulty, silo, packed

    def result(self, timeout):
        faulty, silo, packed = self.given
        return faulty.result(silo, packed)

    def add_done_callback(self, call):
        call(self)

    def release(self):
        faulty, silo, packed = self.given
        if faulty.is_due(silo, packed) and isinstance(faulty.fault, Exception):
            raise faulty.fault


def dask(faulty, at_once):
    """Dask's transport over a client that reaches `faulty` services; with `at_once`, calls fail when they are sent."""

    def submit(function, silo, packed, key, resources):
        if at_once and faulty.is_due(silo, packed):
            raise faulty.fault
        return Pending(faulty, silo, packed)

    def identity(n_workers):
        return {
            "workers": {
                f"tls://{silo}": {"resources": {resource(silo): 1}, "status": "running", "last_seen": 0.0}
                for silo in faulty.services
            }
        }

    scheduler = SimpleNamespace(identity=identity)
    return DaskTransport(SimpleNamespace(submit=submit, scheduler=scheduler, sync=lambda call, **how: call(**how)))


def relay(faulty, at_once):
    """The relay's transport over a client that reaches `faulty` services; `at_once` is as for `dask`."""

    def submit(silo, packed):
        if at_once and faulty.is_due(silo, packed):
            raise faulty.fault
        return Pending(faulty, silo, packed)

    return RelayTransport(
        SimpleNamespace(
            submit=submit,
            present=lambda: tuple(faulty.services),
            silence=lambda: dict.fromkeys(faulty.services, 0.0),
            warnings=(),
        )
    )


@pytest.fixture
def learn(tmp_path, monkeypatch, capsys):
    """A function that runs `fedbnsl learn` over a faulty relay, without Prefect."""
    write_folder(tmp_path / "data", homogeneous(variables=3, silos=3, rows=2000, seed=1))
    monkeypatch.setattr(command, "prestart", lambda engine, quiet: nullcontext())
    monkeypatch.setattr(
        start, "learn_with_prefect", lambda settings, *listeners, server: learn_without_prefect(settings, RunContext())
    )

    def learn(method, fault=None, *more, made_for=""):
        """Exit code, stdout and stderr of a command that makes the call `method` or `made_for`."""
        faulty = Faulty(silo_files(tmp_path / "data"), method, fault)
        reached = relay(faulty, at_once=False), tuple(faulty.services)
        monkeypatch.setattr(engine, "_transport", lambda settings, started: nullcontext(reached))
        masked = "secure_answer" in (method, made_for)
        algorithm = ["secure-sum"] if masked else ["dp-covariance", "--epsilon", 8]
        words = ["-a", *algorithm, "--quorum", 3, "--silo-patience", 1, "--out", tmp_path / "out", "--quiet"]
        return run(capsys, "learn", tmp_path / "data", *words, *more)

    return learn


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The files of three silos."""
    folder = tmp_path_factory.mktemp("errors") / "data"
    write_folder(folder, homogeneous(variables=3, silos=3, rows=20, seed=1))
    return silo_files(folder)


CALLS = {
    "describe": (Declared(),),
    "admit": (TERMS, False),
    "seal": ("run",),
    "solve": (TERMS, 1, b""),
    "secure_answer": (TERMS, 1, SecureSumRequest("advertise", b"")),
    "charges": ("run",),
    "releases": ("run",),
    "sign": ("run", {"structure.csv": "0" * 64}),
    "finish": ("run",),
}
"""the arguments of each call"""


def test_every_call_is_tried():
    assert tuple(CALLS) == METHODS


@pytest.mark.parametrize("at_once", [False, True], ids=["awaited", "sent"])
@pytest.mark.parametrize("transport", [dask, relay])
@pytest.mark.parametrize("error", TRANSPORT_ERRORS)
@pytest.mark.parametrize("method", METHODS)
def test_an_error_of_a_transport_is_a_lost_silo(files, transport, method, error, at_once, capsys):
    """Whether the call fails when it is sent, or when its answer is awaited."""
    reached = transport(Faulty(files, method, TRANSPORT_ERRORS[error]), at_once)
    roster = Roster(reached, tuple(files), PATIENCE)
    with pytest.raises(SiloLost) as lost:
        roster.ask({SILO: MethodCall(method, CALLS[method])}, tolerates_dropout=False)
    assert lost.value.silos == (SILO,)
    assert roster.lost == {SILO: lost.value.reason}
    assert len(str(lost.value).splitlines()) == len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("error", [*TRANSPORT_ERRORS.values(), TimeoutError()], ids=[*TRANSPORT_ERRORS, "timeout"])
def test_a_scheduler_that_does_not_respond_hosts_no_silo(error):
    def fail(*given, **more):
        raise error

    transport = DaskTransport(SimpleNamespace(sync=fail, scheduler=SimpleNamespace(identity=None)))
    assert (transport.present(), transport.silence()) == ((), {})


@pytest.mark.parametrize("fault", UNREADABLE)
@pytest.mark.parametrize("method", METHODS)
def test_an_answer_that_cannot_be_read_is_a_failed_silo(files, method, fault):
    roster = Roster(relay(Faulty(files, method, UNREADABLE[fault]), False), tuple(files), PATIENCE)
    with pytest.raises(SiloFailed, match=rf"the answer of silo {SILO} to `{method}` cannot be read"):
        roster.ask({SILO: MethodCall(method, CALLS[method])}, tolerates_dropout=False)


@pytest.mark.parametrize("error", SILO_ERRORS)
@pytest.mark.parametrize("method", METHODS)
def test_an_error_of_a_silo_is_one_line_that_names_it(files, method, error):
    roster = Roster(relay(Faulty(files, method, failing(method, SILO_ERRORS[error])), False), tuple(files), PATIENCE)
    with pytest.raises((BadInput, Aborted), match=SILO) as failed:
        roster.ask({SILO: MethodCall(method, CALLS[method])}, tolerates_dropout=False)
    assert len(str(failed.value).splitlines()) == 1


def failing(method, error):
    """A silo whose `method` raises `error`."""

    def fail(*arguments):
        raise error

    def answer_with_failure(service, packed):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(service, method, fail)
            return answer(service, packed)

    return answer_with_failure


CLASSES = {
    "lost": (ConnectionResetError("reset"), 3),
    "failed": (b"", 2),
    "full": (RecordUnavailable(f"{SILO}.sqlite: the journal cannot be written"), 2),
}
"""by class of the errors above, one of them, and the exit code of a command"""


@pytest.mark.slow(60)
@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("method", METHODS)
def test_a_command_ends_with_one_line_and_a_documented_code(learn, method, kind, tmp_path):
    fault, expected = CLASSES[kind]
    out = tmp_path / "out"
    code, _, err = learn(method, failing(method, fault) if kind == "full" else fault)
    errors = [line for line in err.splitlines() if not line.startswith("note: ")]
    if method == "charges" and kind != "lost":  # a ledger that does not tell what was charged is no detail
        assert (code, len(errors)) == (2, 1), err
        return
    if method in AFTERWARDS:
        assert (code, errors) == (0, []), err
        assert (out / "metrics.json").exists()
        return
    assert (code, len(errors)) == (expected, 1), err
    assert errors[0].startswith("error: ")
    assert SILO in errors[0]
    hint = errors[0].endswith(f"; to continue: fedbnsl learn --resume {out}")
    assert hint == (kind != "failed" and (out / "started.json").exists())


@pytest.mark.slow(60)
@pytest.mark.parametrize("kind", ["lost", "full"])
@pytest.mark.parametrize("method", [method for method in METHODS if method not in AFTERWARDS])
def test_a_command_that_failed_can_be_repeated_and_charges_no_round_twice(learn, method, kind, tmp_path):
    fault, expected = CLASSES[kind]
    code, _, err = learn(method, failing(method, fault) if kind == "full" else fault)
    assert code == expected, err
    code, _, err = learn("nothing", None, "--silo-patience", 2, made_for=method)
    assert code == 0, err
    if method == "solve":
        assert f"note: continuing the unfinished run in {tmp_path / 'out'}" in err.splitlines()
    if method != "secure_answer":
        charged = [len(ledger_of(path, silo).charges()) for silo, path in silo_files(tmp_path / "data").items()]
        assert charged == [2, 2, 2]


@pytest.mark.slow(60)
def test_an_unfinished_run_of_other_settings_is_not_continued(learn, tmp_path):
    learn("solve", ConnectionResetError())
    code, _, err = learn("nothing", None, "--seed", 5)
    assert code == 2
    assert f"error: {tmp_path / 'out'}: has an unfinished run with other settings: fedbnsl learn --resume" in err
    assert learn("nothing", None, "--quorum", 3)[0] == 0


@pytest.mark.slow(60)
@pytest.mark.parametrize("prefect", [True, False])
def test_a_result_that_cannot_be_written_is_printed(learn, prefect, tmp_path, monkeypatch):
    full = OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "out" / "report.html"))
    more = [] if prefect else ["--engine", "inline"]
    with monkeypatch.context() as patch:
        patch.setattr("fedbnsl.tracking.outputs.write_files", failing_with(full))
        code, out, err = learn("nothing", None, *more)
    errors = [line for line in err.splitlines() if line.startswith("error: ")]
    assert (code, len(errors)) == (2, 1), err
    assert errors[0].startswith(f"error: {full.filename}: the results cannot be written (No space left on device)")
    assert "edge" in out.splitlines()[0]
    assert ("--resume" in errors[0]) == prefect
    code, _, err = learn("nothing", None, *more)
    assert code == 0, err
    assert (tmp_path / "out" / "report.html").exists()


def failing_with(error):
    def fail(*arguments):
        raise error

    return fail


@pytest.mark.slow(60)
@pytest.mark.parametrize(
    ("more", "note"),
    [
        (["-a", "fed-sparse", "--quorum", 2], "--quorum 2 applies before round 1 only: fed-sparse needs all 3 silos"),
        (["--engine", "inline"], "--quorum 3 has no effect: with the engine inline, all silos are in this process"),
    ],
)
def test_a_quorum_without_effect_is_noted_at_the_start(learn, more, note):
    code, _, err = learn("nothing", None, *more, made_for="secure_answer")
    assert code == 0, err
    assert sum(line.startswith(f"note: {note}") for line in err.splitlines()) == 1
