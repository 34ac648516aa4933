"""fedbnsl: learn the structure of a Bayesian network from data that several owners hold and may not pool."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedbnsl import settings
    from fedbnsl.flows.api import Learned, learn, load, prepare

__all__ = ["Learned", "learn", "load", "prepare", "settings"]

MODULES = ("settings",)


def __getattr__(name: str) -> Any:
    """Import what is asked for on its first use: it brings numpy, pandas and all the learners."""
    if name in MODULES:
        return import_module(f"fedbnsl.{name}")
    if name in __all__:
        return getattr(import_module("fedbnsl.flows.api"), name)
    raise AttributeError(f"module 'fedbnsl' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return what there is, for completion."""
    return sorted((*globals(), *__all__))
