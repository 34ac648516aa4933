"""A command of a federation in which, after start-up, everything that interprets bytes as a program raises.

    python tests/audit/federation_process.py MARKER coordinator|silo|learn ARGUMENTS...

The bombs are armed when the process begins to serve or is connected to its coordinator. A bomb that goes off writes a
line to the file MARKER, and raises. Every answer that a silo sends is appended to the file MARKER.sent-SILO.
"""

import builtins
import contextlib
import pickle
import sys
import typing
from importlib import import_module
from pathlib import Path

import cloudpickle

MARKER = Path(sys.argv.pop(1))


class Interpreted(BaseException):
    """Bytes were about to be interpreted."""


def arm():
    """Have every way to a pickle, and the evaluation of annotations, raise from now on."""
    import_module("pandas")  # pyarrow imports it with its first array, and its classes derive from those replaced here

    def bomb(name, real):
        def go_off(*args, **kwargs):
            if sys._getframe(1).f_globals["__name__"].startswith(("numba.", "jinja2.bccache")):
                return real(*args, **kwargs)  # compiled code and templates, from caches of this user
            with MARKER.open("a") as marker:
                marker.write(f"{sys.argv[1]}: {name}\n")
            raise Interpreted(name)

        return go_off

    for module in (pickle, cloudpickle, sys.modules["_pickle"]):
        for name in ("loads", "load", "Unpickler", "_Unpickler", "_loads", "_load"):
            if hasattr(module, name):
                setattr(module, name, bomb(f"{module.__name__}.{name}", getattr(module, name)))
    # A run reads the types of the settings on its own command line.
    for holder in list(sys.modules.values()) if sys.argv[1] != "learn" else []:
        own = getattr(holder, "__name__", "").startswith(("fedbnsl", "typing"))
        if own and getattr(holder, "get_type_hints", None) is ORIGINAL:
            holder.get_type_hints = bomb(f"{holder.__name__}.get_type_hints", ORIGINAL)
    real_eval = builtins.eval

    def watched(source, *scope):
        if isinstance(source, str) and "__import__" in source:
            bomb("eval", real_eval)()
        return real_eval(source, *scope)

    builtins.eval = watched


ORIGINAL = typing.get_type_hints


def armed(function):
    """`function`, before which the bombs are armed."""

    def run(*args, **kwargs):
        arm()
        return function(*args, **kwargs)

    return run


if __name__ == "__main__":
    import fedbnsl.flows.engines.dask as engine
    import fedbnsl.flows.terminal.daemon as daemon
    import fedbnsl.tasks.silo.messages as messages
    from fedbnsl.flows.cli.main import main

    daemon.run_until_signal = armed(daemon.run_until_signal)
    connect = engine.connect_to_coordinator

    @contextlib.contextmanager
    def connected(file):
        with connect(file) as transport:
            arm()
            yield transport

    engine.connect_to_coordinator = connected
    real_answer = messages.answer

    def captured_answer(service, packed, log):
        content = real_answer(service, packed, log)
        with Path(f"{MARKER}.sent-{service.name}").open("ab") as sent:
            method = messages.unpack_call(packed).method.encode()
            for part in (method, content):
                sent.write(len(part).to_bytes(4, "big") + part)
        return content

    messages.answer = captured_answer
    sys.argv[0] = "fedbnsl"
    main()
