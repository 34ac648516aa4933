"""fedbnsl: learn the structure of a Bayesian network from data that several owners hold and may not pool."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedbnsl import settings
    from fedbnsl.flows.api import Learned, compare, evaluate, learn, load, prepare
    from fedbnsl.flows.benchmark import benchmark

    __version__: str

__all__ = ["Learned", "__version__", "benchmark", "compare", "evaluate", "learn", "load", "prepare", "settings"]

MODULES = ("settings",)


def __getattr__(name: str) -> Any:
    """The public name `name`, imported on first use, as `learn` imports numpy, pandas and the learners.

    Raises `AttributeError` for any other name.
    """
    if name == "__version__":
        from importlib.metadata import version  # takes 10 ms, which `import fedbnsl` alone can save

        return version("fedbnsl")
    if name in MODULES:
        return import_module(f"fedbnsl.{name}")
    if name == "benchmark":
        return import_module("fedbnsl.flows.benchmark").benchmark
    if name in __all__:
        return getattr(import_module("fedbnsl.flows.api"), name)
    raise AttributeError(f"module 'fedbnsl' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The names of the package, for completion."""
    return sorted((*globals(), *__all__))
