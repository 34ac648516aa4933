"""Functions that numba compiles at their first call; numba is not imported before that.

Importing numba and reading the first compiled function from disk take 0.6 s, longer than the computations of most small
runs. `njit` therefore returns a `Compiled`, which imports numba when it is called, or when numba compiles a function
that calls it.

Numba stores compiled functions on disk. In two cases it can load the wrong code, which this module prevents:

- The compiled code of a function includes the functions that it calls and the constants that it reads. But numba
  compiles the function again only if the function's own file has changed. Here the key of the stored code includes a
  digest of the called functions and the constants.
- Numba numbers the files of a function's signatures in an index. If two processes compile different signatures at the
  same time, both may choose the same number. A later process then calls the code of another signature, which reads
  outside its arrays (numba/numba#4807 and #10128 report such crashes). Several silos on one machine can be such
  processes. So the folder is locked while a process reads or writes its files.
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
"""the functions to call when a `Compiled` imports numba"""


class Compiled:
    """A function that numba compiles in nopython mode at its first call, with the `options` of `numba.njit`.

    Before numba is imported, the function runs uncompiled if its first argument has at most the length
    `uncompiled_up_to`.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any], uncompiled_up_to: int = -1) -> None:
        """Store the arguments, without importing numba."""
        self.py_func = function
        self._options = options
        self._uncompiled_up_to = uncompiled_up_to
        self._dispatcher: Any = None
        update_wrapper(self, function)

    def __call__(self, *given: Any) -> Any:
        """The result of the function."""
        may_wait = self._dispatcher is None and self._uncompiled_up_to >= 0 and "numba" not in sys.modules
        if may_wait and len(given[0]) <= self._uncompiled_up_to:
            return self.py_func(*given)
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
        # Without the interpreter's lock, so that a silo answers the pings of its coordinator while it computes.
        dispatcher = numba.njit(nogil=True, **self._options)(self.py_func)
        if self._options.get("cache"):
            dispatcher._cache = _create_cache(self)
        self._dispatcher = dispatcher
        return dispatcher


def _create_cache(compiled: Compiled) -> Any:
    """Numba's cache of a function, with the two changes of the module's docstring."""
    from numba.core import caching

    base: Any = caching.FunctionCache

    class Cache(base):  # type: ignore[misc]
        def _index_key(self, *given: Any) -> Any:
            return (*super()._index_key(*given), digest_of(compiled), "nogil")

        def load_overload(self, *given: Any) -> Any:
            with _locked(self.cache_path):
                return super().load_overload(*given)

        def save_overload(self, *given: Any) -> None:
            os.makedirs(self.cache_path, exist_ok=True)
            with _locked(self.cache_path):
                super().save_overload(*given)

    return Cache(compiled.py_func)


def digest_of(compiled: Compiled) -> str:
    """A digest of a function's code and constants, and of all `Compiled` functions that it calls, also indirectly."""
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
    """The code of a function, and of the functions and comprehensions in it."""
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)


@contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Lock `folder` against other processes within the block, if it exists and its file system has locks."""
    with ExitStack() as held:
        with suppress(OSError):  # a missing folder needs no lock, and some network file systems have none
            descriptor = os.open(folder, os.O_RDONLY)
            held.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # Unlock explicitly: a process that was forked meanwhile also has the descriptor, so closing it here would
            # not release the lock.
            held.callback(fcntl.flock, descriptor, fcntl.LOCK_UN)
        yield


def njit(*, uncompiled_up_to: int = -1, **options: Any) -> Callable[[Callable[..., Any]], Compiled]:
    """A decorator that returns a `Compiled`, which numba compiles with these `options` at its first call."""
    return lambda function: Compiled(function, options, uncompiled_up_to)


@contextmanager
def on_numba(call: Callable[[], None]) -> Iterator[None]:
    """Within the block, run `call` when a `Compiled` imports numba, or at once if numba is already imported."""
    if "numba" in sys.modules:
        call()
    else:
        _started.append(call)
    try:
        yield
    finally:
        if call in _started:
            _started.remove(call)
