"""The Python API: `from fedbnsl import learn, load, prepare`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .evaluation import compare, evaluate
    from .learned import Learned
    from .learning import learn, prepare
    from .loading import load

__all__ = ["Learned", "compare", "evaluate", "learn", "load", "prepare"]

PLACES = {
    "Learned": "learned",
    "compare": "evaluation",
    "evaluate": "evaluation",
    "learn": "learning",
    "load": "loading",
    "prepare": "learning",
}
"""public name -> its module, imported on first use: a comparison of two files needs no learner"""


def __getattr__(name: str) -> Any:
    """The public name `name`; raises `AttributeError` for any other name."""
    if name not in PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{PLACES[name]}", __name__), name)
