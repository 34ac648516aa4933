"""Functions that numba compiles, without numba until the first of them is called.

Importing numba and reading its first compiled function take 0.6 s, more than most small runs compute. `njit` therefore
returns a `Compiled`, which imports numba when it is called, or when numba compiles a function that calls it.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import update_wrapper
from typing import Any

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
        self._dispatcher = numba.njit(**self._options)(self.py_func)
        return self._dispatcher


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
