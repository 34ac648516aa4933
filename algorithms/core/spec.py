"""What is to be run, as data: an algorithm by its name, its settings, and what is wrapped around it.

A specification is parsed once, where the user's words come in. It travels to every worker, which builds the algorithm
from it anew (`algorithms/registry.py`); a wrapper turns an algorithm into another one, so wrappers compose.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from .maker import Maker
from .protocol import FederatedAlgorithm
from .schema import Kind

Algorithm = FederatedAlgorithm[Any, Any, Any, Any]


@dataclass(frozen=True)
class WrapperSpec:
    """A wrapper by its name in the registry, with its settings: a frozen dataclass."""

    name: str
    settings: Any


@dataclass(frozen=True)
class AlgorithmSpec:
    """An algorithm by its name in the registry, with its settings (a frozen dataclass) and its wrappers."""

    name: str
    settings: Any
    wrappers: tuple[WrapperSpec, ...] = ()
    """the innermost first"""

    def wrapped(self, name: str, settings: Any) -> "AlgorithmSpec":
        """Return the specification with one more wrapper around it."""
        return replace(self, wrappers=(*self.wrappers, WrapperSpec(name, settings)))


@dataclass(frozen=True)
class Entry:
    """One algorithm of the registry."""

    summary: str
    source: str
    leaves: str
    """exactly what leaves a silo, for `fedbnsl algorithms`"""
    maker: Callable[[], Maker]
    """imports what makes it"""
    kinds: tuple[Kind, ...] = ("continuous",)
    gaps: bool = False
    """whether tables may have empty cells"""
    fills: bool = False
    """whether it learns from discrete data with their empty cells filled in, and not from those that are there"""
    streams: bool = False
    """whether silos may read their tables in passes, as those do whose rows are more than their memory holds"""
    pooled: bool = False
    """a baseline that needs all rows in one place: it is run on one silo that holds them"""
    needs_truth: bool = False
    """a baseline that picks by the truth: for benchmarks only"""
    vote: bool = False
    """a baseline that learns one structure a silo and makes one of them: it is scored, not its parts"""
    equal_variances: Callable[[Any], bool] = lambda settings: False
    """(settings) -> whether directions rest on errors of equal variance, whatever the data"""
    lags_before: bool = False
    """whether a lag order that is to be chosen must be known before the first round"""

    @property
    def config(self) -> type[Any]:
        """The class of its settings, a frozen dataclass."""
        return self.maker().config

    @property
    def build(self) -> Callable[[Any], Algorithm]:
        """(settings) -> the algorithm."""
        return self.maker().build

    @property
    def presets(self) -> Mapping[str, Any]:
        """Named settings besides the defaults, such as the paper's own."""
        return self.maker().presets


@dataclass(frozen=True)
class Wrapper:
    """One wrapper of the registry."""

    summary: str
    maker: Callable[[], Maker]
    """imports what makes it"""

    @property
    def config(self) -> type[Any]:
        """The class of its settings, a frozen dataclass."""
        return self.maker().config

    @property
    def wrap(self) -> Callable[[Algorithm, Any], Algorithm]:
        """(algorithm, settings) -> the algorithm that the wrapper makes of it."""
        return self.maker().build
