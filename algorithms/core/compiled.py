"""Functions that numba compiles, without numba until the first of them is called.

Importing numba and reading its first compiled function take 0.6 s, more than most small runs compute. `njit` therefore
returns a `Compiled`, which imports numba when it is called, or when numba compiles a function that calls it.

Numba keeps compiled functions on disk. Two things in which it would call the wrong code are changed here:

- It compiles the functions that a function calls, and the constants that it reads, into its code, but compiles it again
  only after a change of its own file. Here the key of compiled code has a digest of all of them.
- It numbers the files of a function's signatures in an index. If two processes compile different signatures at the same
  time, both may choose the same number. A later process then calls the code of another signature, which reads outside
  its arrays (numba/numba#4807 and #10128 report such crashes). The silos of one machine are such processes, so the
  folder is locked while a process reads or writes its files.
"""

import fcntl
import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import update_wrapper
from types import CodeType
from typing import Any

import numpy as np

_started: list[Callable[[], None]] = []
"""the functions to call once numba is imported"""


class Compiled:
    """A function that numba compiles in nopython mode at its first call, with the `options` of `numba.njit`."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        """Keep the function; nothing is imported."""
        self.py_func = function
        self._options = options
        self._dispatcher: Any = None
        update_wrapper(self, function)

    def __call__(self, *given: Any) -> Any:
        """The result of the compiled function."""
        return (self._dispatcher or self._compile())(*given)

    @property
    def _numba_type_(self) -> Any:
        """The type with which numba compiles calls of this function from other compiled functions."""
        return (self._dispatcher or self._compile())._numba_type_

    def _compile(self) -> Any:
        import numba

        for call in _started:
            call()
        _started.clear()
        dispatcher = numba.njit(**self._options)(self.py_func)
        if self._options.get("cache"):
            dispatcher._cache = _create_cache(self)
        self._dispatcher = dispatcher
        return dispatcher


def _create_cache(compiled: Compiled) -> Any:
    """Numba's cache of a function, with the two changes."""
    from numba.core import caching

    base: Any = caching.FunctionCache

    class Cache(base):  # type: ignore[misc]
        def _index_key(self, *given: Any) -> Any:
            return (*super()._index_key(*given), digest_of(compiled))

        def load_overload(self, *given: Any) -> Any:
            with _locked(self.cache_path):
                return super().load_overload(*given)

        def save_overload(self, *given: Any) -> None:
            os.makedirs(self.cache_path, exist_ok=True)
            with _locked(self.cache_path):
                super().save_overload(*given)

    return Cache(compiled.py_func)


def digest_of(compiled: Compiled) -> str:
    """A digest of all that numba compiles into a function.

    This is its code, the constants that it reads, and the same of all compiled functions that it calls.
    """
    content, waiting, done = hashlib.sha256(), [compiled], set[int]()
    while waiting:
        one = waiting.pop()
        if id(one) in done:
            continue
        done.add(id(one))
        codes = list(_codes(one.py_func.__code__))
        for code in codes:
            constants = [value for value in code.co_consts if not isinstance(value, CodeType)]
            content.update(repr((code.co_code, code.co_names, code.co_varnames, constants)).encode())
        for name in (name for code in codes for name in code.co_names):
            value = one.py_func.__globals__.get(name)
            if isinstance(value, Compiled):
                waiting.append(value)
            elif isinstance(value, np.ndarray):
                content.update(f"{name} {value.dtype} {value.shape}".encode() + value.tobytes())
            elif isinstance(value, bool | int | float | str | tuple | np.generic):
                content.update(f"{name} {value!r}".encode())
            elif isinstance(value, type):
                content.update(f"{name} {getattr(value, '_fields', ())}".encode())
    return content.hexdigest()


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code of a function, and of the comprehensions in it."""
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)


@contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Within the block, no other process is in such a block for this folder."""
    with ExitStack() as held:
        with suppress(OSError):  # a missing folder needs no lock, and some network file systems have none
            descriptor = os.open(folder, os.O_RDONLY)
            held.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # A process that was forked meanwhile has the descriptor, too: closing it here would not unlock.
            held.callback(fcntl.flock, descriptor, fcntl.LOCK_UN)
        yield


def njit(**options: Any) -> Callable[[Callable[..., Any]], Compiled]:
    """A decorator that returns a `Compiled`, which numba compiles with these options at the first call."""
    return lambda function: Compiled(function, options)


@contextmanager
def on_numba(call: Callable[[], None]) -> Iterator[None]:
    """Within the block, run `call` when numba is imported, or at once if it is already imported."""
    if "numba" in sys.modules:
        call()
    else:
        _started.append(call)
    try:
        yield
    finally:
        if call in _started:
            _started.remove(call)
