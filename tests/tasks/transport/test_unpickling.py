import json
import pickle
import sqlite3
import subprocess
import sys
from concurrent.futures import BrokenExecutor

import numpy as np
import pytest
from distributed.comm.core import CommClosedError

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.promise import Charge
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.flows.engines.resuming import Pin
from fedbnsl.flows.servers.processes import free_port
from fedbnsl.tasks.silo.rows import Described
from fedbnsl.tasks.silo.runs import RunTerms, SecureSumRequest
from fedbnsl.tasks.silo.service import MethodCall, SiloService
from fedbnsl.tasks.transport.cluster import RemoteError
from fedbnsl.tasks.transport.identity import write_secret
from fedbnsl.tasks.transport.unpickling import ForeignObject, loads

TERMS = RunTerms("run", registry.pack(registry.specify("fed-pc")), Schema(("a", "b"), {"one": 10, "two": 20}), 3)
MESSAGES = [
    TERMS,
    MethodCall("solve", (TERMS, 1, b"broadcast")),
    SecureSumRequest("mask", b"message", b"broadcast"),
    RemoteError(BadInput, ("no such column",)),
    RemoteError(ValueError, ("no",)),
    (Charge("run", 1, "", "a count", 0.5, 1e-6, "", b""),),
    {"one": np.arange(6.0).reshape(2, 3), "two": np.float64(2.5), "three": {1, 2}},
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_what_a_federation_sends_arrives(message):
    assert repr(loads(pickle.dumps(message))) == repr(message)


def test_what_a_silo_says_of_its_rows_arrives(hosted):
    described = hosted(rows=20).services["silo-1"].describe()
    assert isinstance(described, Described)
    assert loads(pickle.dumps(described)) == described


class Call:
    """Something that a pickle calls when it is read."""

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


FOREIGN = {
    "a program": Call(__import__("os").system, "true"),
    "code": Call(eval, "1"),
    "an import": Call(__import__, "os"),
    "a function of ours": Call(free_port, 0),
    "a function beside the messages": Call(write_secret, "written", b""),
    "a class of ours that does something": Call(SiloService, "one", "rows.csv"),
    "an attribute of what may be named": b"cfedbnsl.tasks.silo.method_call\nMethodCall.on\n.",
    "a file": Call(open, "/dev/null"),
}


@pytest.mark.parametrize("message", FOREIGN.values(), ids=FOREIGN)
def test_what_would_run_code_is_refused_before_it_is_called(message):
    with pytest.raises(ForeignObject, match="which is not allowed in messages"):
        loads(message if isinstance(message, bytes) else pickle.dumps(message))


def test_a_traceback_becomes_nothing():
    import tblib.pickling_support

    tblib.pickling_support.install()
    try:
        raise ValueError("said")
    except ValueError as error:
        packed = pickle.dumps(error)
    assert b"test_unpickling" in packed
    read = loads(packed)
    assert (type(read), str(read), read.__traceback__) == (ValueError, "said", None)


def test_a_room_that_sends_no_messages_is_closed():
    with pytest.raises(ForeignObject, match=r"fedbnsl\.flows\.engines\.resuming\.Pin"):
        loads(pickle.dumps(Pin(1, "seal")))


@pytest.mark.parametrize("error", [sqlite3.OperationalError, subprocess.CalledProcessError, json.JSONDecodeError])
def test_exceptions_of_other_modules_are_refused_although_these_are_imported(error):
    """An exception is built by its own code, with arguments that come from the other machine."""
    assert error.__module__ in sys.modules
    with pytest.raises(ForeignObject, match=f"{error.__module__}.{error.__name__}"):
        loads(b"c%b\n%b\n." % (error.__module__.encode(), error.__name__.encode()))


@pytest.mark.parametrize("error", [KeyError, TimeoutError, BrokenExecutor, CommClosedError])
def test_exceptions_of_python_and_dask_arrive(error):
    assert loads(pickle.dumps(error)) is error


def test_to_find_an_exception_nothing_is_imported(monkeypatch):
    monkeypatch.delitem(sys.modules, "distributed.comm.core", raising=False)
    with pytest.raises(ForeignObject, match=r"distributed\.comm\.core\.CommClosedError"):
        loads(b"cdistributed.comm.core\nCommClosedError\n.")
    assert "distributed.comm.core" not in sys.modules
