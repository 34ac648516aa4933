"""What the processes of a federation unpickle from each other: this project's own messages, and nothing that runs code.

Dask sends tasks and results as pickles, and a pickle may call anything that can be imported. Here only names on a list
are looked up: the message classes of this project, which hold values and do nothing, arrays, and Dask's own envelope
around the one function that a coordinator may call. Everything else is refused before it is built.
"""

import io
import pickle
import sys
from collections.abc import Iterable
from dataclasses import is_dataclass
from importlib import import_module
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

OURS = ("fedbnsl.algorithms.", "fedbnsl.data.", "fedbnsl.tasks.")
"""rooms whose dataclasses and exceptions travel"""
FAMILIAR = ("builtins", "concurrent", "asyncio", "distributed", "dask")
"""packages that exceptions may come from besides"""
OTHERS = frozenset(
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


PLAIN = frozenset(
    ["bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset", "int", "list", "set", "str", "tuple"]
)
"""Python's own kinds of values"""


class ForeignObject(pickle.UnpicklingError):
    """A message held something that does not belong to this project's messages."""


class Nothing:
    """What becomes of the traceback of an exception: it would show code and paths of another machine."""

    def __new__(cls, *parts: Any) -> Any:
        """A stand-in for a part of a traceback, and None for the traceback as a whole."""
        return None if parts else super().__new__(cls)


class MessageUnpickler(pickle.Unpickler):
    """An unpickler that knows the names on the list only."""

    def find_class(self, module: str, name: str) -> Any:
        """Return what `name` of `module` stands for; raises `ForeignObject` unless it is on the list."""
        plain = module == "builtins" and name in PLAIN
        if plain or (module, name) in OTHERS or _is_message(module, name) or _is_exception(module, name):
            return attrgetter(name)(import_module(module))
        if module.partition(".")[0] == "tblib":
            return Nothing
        raise ForeignObject(f"a message holds {module}.{name}, which no message of a federation may hold")


def loads(content: Any, *, buffers: Iterable[Any] = ()) -> Any:
    """Return what `content` holds; raises `ForeignObject` for anything that is not a message."""
    return MessageUnpickler(io.BytesIO(content), buffers=buffers).load()


def only_messages() -> None:
    """From now on, let Dask unpickle messages only, in this process; once is enough, more does no harm."""
    from distributed.protocol import pickle as of_dask

    # Dask reads every pickle through this one module, whose own name for Python's `pickle` is replaced.
    vars(of_dask)["pickle"] = SimpleNamespace(**{**vars(pickle), "loads": loads})


def _is_message(module: str, name: str) -> bool:
    """Whether this is a dataclass or an exception of a room whose objects travel."""
    if not module.startswith(OURS) or "." in name:
        return False
    found = getattr(import_module(module), name, None)
    return isinstance(found, type) and (is_dataclass(found) or issubclass(found, Exception))


def _is_exception(module: str, name: str) -> bool:
    """Whether this is an exception that Python or Dask may raise; nothing is imported to find out."""
    if module.partition(".")[0] not in FAMILIAR or module not in sys.modules:
        return False
    found = getattr(sys.modules[module], name, None)
    return isinstance(found, type) and issubclass(found, Exception)
