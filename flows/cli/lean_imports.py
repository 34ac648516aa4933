"""Imports of SciPy and matplotlib without what no command needs, for a command that ends soon.

- SciPy copies every name of NumPy, and thereby imports the parts of NumPy that are otherwise imported on use:
  `numpy.f2py`, `numpy.testing`.
- matplotlib writes docstrings and signatures of the setters of a hundred classes, which takes longer than a picture.

Both are replaced during these imports only, and only on the command line; a version of either library that has other
names is imported as it is.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.abc import MetaPathFinder
from typing import Any

UNUSED_PARTS = ("f2py", "testing", "ctypeslib", "distutils", "polynomial")
"""the parts of NumPy that it imports on use"""


class LeanImports(MetaPathFinder):
    """Prepares an import when it begins, once; it finds no module itself."""

    def __init__(self) -> None:
        """Nothing is prepared yet."""
        self._prepared: dict[str, Callable[[], None]] = {
            "scipy._lib._array_api": _array_names,
            "matplotlib.figure": _artists,
        }

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Nothing; what the module imports is imported before it."""
        prepare = self._prepared.pop(name, None)
        if prepare is not None:
            with suppress(ImportError, AttributeError):
                prepare()


def import_leanly() -> None:
    """Import SciPy and matplotlib from now on without what no command needs."""
    if not any(isinstance(one, LeanImports) for one in sys.meta_path):
        sys.meta_path.insert(0, LeanImports())


def _array_names() -> None:
    numpy = import_module("numpy")
    names = [name for name in dir(numpy) if name not in UNUSED_PARTS]
    public = [name for name in numpy.__all__ if name not in UNUSED_PARTS]
    with _replaced(numpy, "__dir__", lambda: names), _replaced(numpy, "__all__", public):
        import_module("scipy._lib.array_api_compat.numpy")


def _artists() -> None:
    artist = import_module("matplotlib.artist")
    without = classmethod(lambda cls: None)
    with _replaced(artist.Artist, "_update_set_signature_and_docstring", without), _replaced(artist, "kwdoc", str):
        import_module("matplotlib.figure")


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """`owner.name` is `value` within the block."""
    before = vars(owner)[name] if name in vars(owner) else getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
