"""Algorithm specifications, and the entries of the registry.

A specification is data: the name of an algorithm, its settings and its wrappers. It is parsed once from the user's
input and sent to every worker, which builds the algorithm from it (`algorithms/registry.py`). A wrapper turns an
algorithm into another algorithm, so wrappers compose. An entry names a settings class and a builder, which are imported
on first use (`lazy_factory`). It also states what the algorithm can do.
"""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib import import_module
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from ..errors import BadInput, choices_text
from .protocol import Algorithm
from .release import Releases
from .schema import Kind, Schema
from .wire import field_types

ALGORITHMS_PACKAGE = __package__.rpartition(".")[0]
UNMIXED_ROWS: tuple[Kind, ...] = ("discrete", "continuous")
"""the kinds of tables whose columns are all labels or all numbers"""
ANY_ROWS: tuple[Kind, ...] = (*UNMIXED_ROWS, "mixed")
SERIES: tuple[Kind, ...] = ("time-series",)
EVENTS: tuple[Kind, ...] = ("events",)
Feature = Literal[
    "clusters",
    "empty cells",
    "empty cells in series",
    "labels in series",
    "rows in passes",
    "series in passes",
    "targets of experiments",
]
"""what data may have besides a kind: rows of one cluster that depend on each other, empty cells of tables or of series
of numbers, columns of labels in time series, rows that a silo reads in passes because they exceed its memory, and
variables that experiments have set"""


def always(settings: Any) -> bool:
    """True, for algorithms whose directions rest on equal error variances with any settings."""
    return True


def square(settings: Any, variables: int) -> int:
    """The number of entries of a d x d matrix, such as weights or second moments."""
    return variables**2


@dataclass(frozen=True)
class Factory:
    """The settings class and the builder of an algorithm or a wrapper."""

    config: type[Any]
    """the class of its settings, a frozen dataclass"""
    build: Callable[..., Any]
    """(settings) -> the algorithm; for a wrapper, (algorithm, settings) -> the wrapped algorithm"""
    presets: Mapping[str, Any] = field(default_factory=dict)
    """named settings besides the defaults, such as the settings of the paper"""


def lazy_factory(config: str, build: str = "build") -> Callable[[], Factory]:
    """A function that imports a settings class and a builder when it is first called.

    `config` is the settings class, as `module:name` in `fedbnsl.algorithms`. `build` is the builder, a name in the same
    module or `module:name`. The presets are the instances of the settings class in PRESETS of its module.
    """

    @cache
    def factory() -> Factory:
        module_name, _, name = config.rpartition(":")
        module = import_module(f"{ALGORITHMS_PACKAGE}.{module_name}")
        builder_module_name, _, builder = build.rpartition(":")
        builder_module = import_module(f"{ALGORITHMS_PACKAGE}.{builder_module_name}") if builder_module_name else module
        settings_class = getattr(module, name)
        presets = {key: one for key, one in getattr(module, "PRESETS", {}).items() if type(one) is settings_class}
        return Factory(settings_class, getattr(builder_module, builder), presets)

    return factory


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
    """the wrappers, the innermost first"""

    def wrapped(self, name: str, settings: Any) -> "AlgorithmSpec":
        """The specification with one more wrapper around it."""
        return replace(self, wrappers=(*self.wrappers, WrapperSpec(name, settings)))


@dataclass(frozen=True)
class Entry:
    """One algorithm of the registry."""

    summary: str
    source: str
    disclosure: str
    """exactly what leaves a silo, as `fedbnsl algorithms` prints it"""
    releases: Releases
    """the kind of statistic in the reply to a broadcast"""
    maker: Callable[[], Factory]
    """a function that imports the settings class and the builder"""
    private: bool = False
    """whether its settings have an ε"""
    kinds: tuple[Kind, ...] = ("continuous",)
    takes: tuple[Feature, ...] = ()
    """the features that its data may have; refusals, `fedbnsl algorithms` and the documents follow from it"""
    prepares: bool = False
    """whether this is a step before round 1 (not a learner) that some data require; an owner who allows a learner
    allows such steps, too"""
    reach: int = 1
    """for time series, the number of earlier rows in a window for each lag of the settings"""
    fills: bool = False
    """whether silos impute empty cells of discrete data before the algorithm learns"""
    pooled: bool = False
    """whether it is a baseline on pooled rows, which runs on one silo with all rows"""
    needs_truth: bool = False
    """whether it is a baseline that selects its result by the true graph, for benchmarks only"""
    vote: bool = False
    """whether it is a baseline that learns one structure per silo and combines them; only the combined structure is
    scored"""
    equal_variances: Callable[[Any], bool] = lambda settings: False
    """(settings) -> whether directions always rest on errors of equal variance, independently of the data"""
    lags_before: bool = False
    """whether lags=auto must be resolved before the first round"""
    message_size: Callable[[Any, int], int] = square
    """(settings, d) -> without noise, the maximum number of entries of an array that a silo sends, for d variables"""
    varying_messages: bool = False
    """whether message lengths depend on the data even in short runs, because messages list tests or changed entries"""
    nonlinear: bool = False
    """whether it fits neural networks, whose loss is flat around its many minima"""
    exact_solver: bool = True
    """whether its local solver reaches the minimum of its problem"""
    directs_by_knowledge: bool = False
    """whether its search uses background knowledge, which then directs further edges of a CPDAG"""
    scores_tables: bool = False
    """whether it compares scores of summed count tables, whose margins over common variables must then be equal"""
    one_sum: Callable[[Any], bool] = lambda settings: False
    """(settings) -> whether, for numbers without empty cells, the sum of the first exchange determines a DAG or its
    equivalence class"""
    server_settings: tuple[str, ...] = ()
    """the settings that only the server uses, so that a silo's reply to a request does not depend on them"""
    subtracts_means: bool = False
    """whether it always subtracts the mean of all rows from time series"""
    at_sums: Mapping[str, Any] | None = field(default=None, hash=False)
    """the values of settings with which all its releases are masked sums that level `sums` allows, whatever the other
    settings are; None if there are none"""

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
        """Named settings besides the defaults, such as the settings of the paper."""
        return self.maker().presets


@dataclass(frozen=True)
class Wrapper:
    """One wrapper of the registry."""

    summary: str
    maker: Callable[[], Factory]
    """a function that imports the settings class and the builder"""
    at_sums: Callable[[Any], bool] = lambda settings: False
    """settings -> whether level `sums` allows it around a learner that the level allows"""
    schema: Callable[[Any, Schema], Schema] = lambda settings, schema: schema
    """(settings, public schema) -> the public schema of the rows that enter each statistic"""
    draws: Callable[[Any], int] = lambda settings: 0
    """settings -> the number of random parts of the rows that enter a statistic each; with more parts than rows, a
    coordinator could try to solve for the rows"""

    @property
    def config(self) -> type[Any]:
        """The class of its settings, a frozen dataclass."""
        return self.maker().config

    @property
    def wrap(self) -> Callable[[Algorithm, Any], Algorithm]:
        """(algorithm, settings) -> the wrapped algorithm."""
        return self.maker().build


MAX_EXACT_INTEGER = 2**53
"""the largest integer up to which every integer has an exact floating-point representation"""


def parse_settings(name: str, entry: Entry, params: Mapping[str, Any]) -> Any:
    """The settings of the algorithm `name` with `params` (values or their text) in place of the defaults.

    The key `preset` selects named settings as the defaults. Raises `BadInput`, naming the parameter and the value, if a
    parameter is unknown or a value is invalid.
    """
    given = dict(params)
    preset = given.pop("preset", None)
    if preset is not None and preset not in entry.presets:
        raise BadInput(f"unknown preset '{preset}' of {name}: {choices_text(str(preset), entry.presets)}")
    hints = field_types(entry.config)
    available = [field.name for field in fields(entry.config)]
    values = {}
    for key, value in given.items():
        if key not in available:
            raise unknown_parameter(name, key, available)
        values[key] = parse_value(f"parameter {key} of {name}", hints[key], value)
    return replace(entry.presets[preset], **values) if preset else entry.config(**values)


def unknown_parameter(name: str, key: str, available: Collection[str]) -> BadInput:
    """The error for the parameter `key`, which the algorithm `name` does not have."""
    return BadInput(f"unknown parameter '{key}' of {name}: {choices_text(key, available)}")


def parse_value(label: str, kind: Any, value: Any) -> Any:
    """`value`, which may be text, as a value of type `kind`; raises `BadInput` with the `label` if it is invalid."""
    if get_origin(kind) in (Union, UnionType):
        number, words = get_args(kind)
        return value if value in get_args(words) else parse_value(label, number, value)
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise BadInput(f"{label} is '{value}': it must be one of {', '.join(map(str, get_args(kind)))}")
        return value
    if kind is bool:
        words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
        if str(value).lower() not in words:
            raise BadInput(f"{label} is '{value}': it must be true or false")
        return words[str(value).lower()]
    try:
        number = float(value)
        if not math.isfinite(number) or (kind is int and number != int(number)):
            raise ValueError
        if kind is int and abs(number) > MAX_EXACT_INTEGER:
            raise BadInput(f"{label} is '{value}': it must be a whole number of no more than {MAX_EXACT_INTEGER}")
        return kind(number)
    except BadInput:
        raise
    except (ValueError, TypeError, OverflowError):
        raise BadInput(f"{label} is '{value}': it must be {'a whole number' if kind is int else 'a number'}") from None
