"""Restricted unpickling: the processes of a run accept only this project's messages, and no code.

Dask sends tasks and results as pickles, and a pickle may call any importable function. Here only names on an allow-list
are resolved: this project's message classes and exceptions, plain values, arrays, the exceptions of Python and Dask,
and Dask's envelope around the one function that a coordinator may call. Every other name is refused before an object is
built.
"""

import io
import pickle
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import is_dataclass
from importlib import import_module
from operator import attrgetter
from threading import Lock
from types import SimpleNamespace
from typing import Any

OWN_PACKAGES = ("fedbnsl.algorithms.", "fedbnsl.data.", "fedbnsl.tasks.")
"""packages whose dataclasses and exceptions are accepted"""
EXCEPTION_PACKAGES = ("builtins", "concurrent", "asyncio", "distributed", "dask")
"""other packages whose exceptions are accepted"""
ALLOWED_NAMES = frozenset(
    {
        ("fedbnsl.tasks.transport.cluster", "on_worker"),
        ("dask._task_spec", "Task"),
        ("dask._expr", "Expr._reconstruct"),
        ("dask._expr", "LLGExpr"),
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "scalar"),
        ("numpy._core.numeric", "_frombuffer"),
        ("tblib.pickling_support", "unpickle_exception"),
        ("tblib.pickling_support", "unpickle_exception_with_attrs"),
    }
)


BUILTIN_TYPES = frozenset(
    ["bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset", "int", "list", "set", "str", "tuple"]
)
"""built-in types of values"""


class ForeignObject(pickle.UnpicklingError):
    """A message contains an object that is not on the allow-list."""


class NoTraceback:
    """Replaces the traceback of an exception, because a traceback shows code and paths of another machine."""

    def __new__(cls, *parts: Any) -> Any:
        """A placeholder for a part of a traceback, and None for the traceback as a whole."""
        return None if parts else super().__new__(cls)


class MessageUnpickler(pickle.Unpickler):
    """An unpickler that resolves only names on the allow-list."""

    def find_class(self, module: str, name: str) -> Any:
        """The object `name` of `module`; raises `ForeignObject` unless it is on the allow-list."""
        plain = module == "builtins" and name in BUILTIN_TYPES
        if plain or (module, name) in ALLOWED_NAMES or _is_message(module, name) or _is_exception(module, name):
            return attrgetter(name)(import_module(module))
        if module.partition(".")[0] == "tblib":
            return NoTraceback
        raise ForeignObject(f"a message contains {module}.{name}, which is not allowed in messages of a run")


def loads(content: Any, *, buffers: Iterable[Any] = ()) -> Any:
    """The message in the pickle `content`; raises `ForeignObject` for any object that is not on the allow-list."""
    return MessageUnpickler(io.BytesIO(content), buffers=buffers).load()


_RESTRICTIONS: set[object] = set()
"""the callers that have restricted Dask in this process, as tokens; without any, Dask unpickles everything"""
_LOCK = Lock()


def restrict_unpickling() -> None:
    """From now on, let Dask in this process unpickle only names on the allow-list; repeated calls have no effect."""
    _restrict("process")


@contextmanager
def restricted_unpickling() -> Iterator[None]:
    """Within the block, let Dask in this process unpickle only names on the allow-list; blocks in threads may overlap.

    The restriction ends with the block, because the process may be a notebook that uses Dask for other purposes.
    """
    reason = object()
    _restrict(reason)
    try:
        yield
    finally:
        from distributed.protocol import pickle as dask_pickle

        with _LOCK:
            _RESTRICTIONS.discard(reason)
            if not _RESTRICTIONS:
                vars(dask_pickle)["pickle"] = pickle


def _restrict(reason: object) -> None:
    from distributed.protocol import pickle as dask_pickle

    with _LOCK:
        _RESTRICTIONS.add(reason)
        # Dask reads every pickle through this module, in which the name `pickle` is replaced.
        vars(dask_pickle)["pickle"] = SimpleNamespace(**{**vars(pickle), "loads": loads})


def _is_message(module: str, name: str) -> bool:
    """Whether `name` is a dataclass or an exception of one of `OWN_PACKAGES`."""
    if not module.startswith(OWN_PACKAGES) or "." in name:
        return False
    candidate = getattr(import_module(module), name, None)
    return isinstance(candidate, type) and (is_dataclass(candidate) or issubclass(candidate, Exception))


def _is_exception(module: str, name: str) -> bool:
    """Whether `name` is an exception of Python or Dask; the check imports nothing."""
    if module.partition(".")[0] not in EXCEPTION_PACKAGES or module not in sys.modules:
        return False
    candidate = getattr(sys.modules[module], name, None)
    return isinstance(candidate, type) and issubclass(candidate, Exception)
