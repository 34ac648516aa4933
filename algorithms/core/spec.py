"""Algorithm specifications, the entries of the registry, and the parsing of settings.

A specification is data: an algorithm by its name, its settings and its wrappers. It is parsed once, from the user's
input, and travels to every worker, which builds the algorithm from it (`algorithms/registry.py`). A wrapper turns an
algorithm into another one, so wrappers compose. An entry names a settings class and a builder, which are imported on
first use (`lazy_factory`), and states the capabilities of the algorithm as flags.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib import import_module
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints
from warnings import warn

from ..errors import BadInput, RenamedWarning, choices_text
from .protocol import FederatedAlgorithm
from .schema import Kind

HERE = __package__.rpartition(".")[0]
OWN_ROWS: tuple[Kind, ...] = ("discrete", "continuous")
ANY_ROWS: tuple[Kind, ...] = (*OWN_ROWS, "mixed")
SERIES: tuple[Kind, ...] = ("time-series",)


def always(settings: Any) -> bool:
    """True: directions rest on equal error variances whatever the settings."""
    return True


def square(settings: Any, variables: int) -> int:
    """Entries of a d x d matrix: weights, second moments or end marks."""
    return variables**2


@dataclass(frozen=True)
class Factory:
    """The settings class and the builder of an algorithm or a wrapper."""

    config: type[Any]
    """the class of its settings, a frozen dataclass"""
    build: Callable[..., Any]
    """(settings) -> the algorithm; of a wrapper (algorithm, settings) -> the wrapped algorithm"""
    presets: Mapping[str, Any] = field(default_factory=dict)
    """named settings besides the defaults, such as the paper's own"""


def lazy_factory(config: str, build: str = "build") -> Callable[[], Factory]:
    """A function that imports the settings class `config`, `module:name` in `fedbnsl.algorithms`, on first call.

    `build` is a name in the same module, or a `module:name` of its own. The presets are those in the module's PRESETS
    of this class.
    """

    @cache
    def made() -> Factory:
        place, _, name = config.rpartition(":")
        module = import_module(f"{HERE}.{place}")
        elsewhere, _, builder = build.rpartition(":")
        builds = import_module(f"{HERE}.{elsewhere}") if elsewhere else module
        settings_class = getattr(module, name)
        presets = {key: one for key, one in getattr(module, "PRESETS", {}).items() if type(one) is settings_class}
        return Factory(settings_class, getattr(builds, builder), presets)

    return made


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
        """The specification with one more wrapper around it."""
        return replace(self, wrappers=(*self.wrappers, WrapperSpec(name, settings)))


@dataclass(frozen=True)
class Entry:
    """One algorithm of the registry."""

    summary: str
    source: str
    disclosure: str
    """exactly what leaves a silo, as `fedbnsl algorithms` prints it"""
    maker: Callable[[], Factory]
    """imports what makes it"""
    kinds: tuple[Kind, ...] = ("continuous",)
    gaps: bool = False
    """whether tables may have empty cells"""
    fills: bool = False
    """whether empty cells of discrete data are imputed before it learns"""
    streams: bool = False
    """whether silos may read their tables in passes, if rows exceed their memory"""
    pooled: bool = False
    """a baseline that needs all rows in one place: it runs on one silo with all of them"""
    needs_truth: bool = False
    """a baseline that selects by the true graph: for benchmarks only"""
    vote: bool = False
    """a baseline that learns one structure a silo and combines them: the result is scored, not its parts"""
    equal_variances: Callable[[Any], bool] = lambda settings: False
    """(settings) -> whether directions rest on errors of equal variance, whatever the data"""
    lags_before: bool = False
    """whether lags=auto must be resolved before the first round"""
    message_size: Callable[[Any, int], int] = square
    """(settings, d) -> the largest number of entries of an array that a silo sends, for d variables and no noise"""
    varying_messages: bool = False
    """whether the lengths of its messages depend on the data even in short runs: they hold tests, or changed entries"""
    nonlinear: bool = False
    """whether it fits neural networks, whose loss is flat around its many minima"""
    exact_solver: bool = True
    """whether its local solver reaches the minimum of its problem"""
    directs_by_knowledge: bool = False
    """whether its search takes background knowledge into account, which then directs further edges of a CPDAG"""
    subtracts_means: bool = False
    """whether it learns from time series minus the mean of all rows, whatever its settings"""

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
    maker: Callable[[], Factory]
    """imports what makes it"""

    @property
    def config(self) -> type[Any]:
        """The class of its settings, a frozen dataclass."""
        return self.maker().config

    @property
    def wrap(self) -> Callable[[Algorithm, Any], Algorithm]:
        """(algorithm, settings) -> the wrapped algorithm."""
        return self.maker().build


EXACT = 2**53
"""the largest integer up to which floating-point numbers represent every integer"""


RENAMED_SETTINGS = {"hold": "send_threshold"}
"""settings by their old names, which are accepted in version 0.1 with a warning"""


def _with_current_names(name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """`params` of the algorithm `name`, renamed settings under their new names; raises `BadInput` if both are given."""
    given = dict(params)
    for old, new in RENAMED_SETTINGS.items():
        if old in given:
            if new in given:
                raise BadInput(f"parameter {old} of {name} is now {new}: give only {new}")
            warn(f"parameter {old} of {name} is deprecated: it is now {new}", RenamedWarning, stacklevel=2)
            given[new] = given.pop(old)
    return given


def parse_settings(name: str, entry: Entry, params: Mapping[str, Any]) -> Any:
    """The settings of the algorithm `name` with `params` (values or their text) in place of the defaults.

    `preset` among them names the settings to start from. Raises `BadInput` that names the parameter and the value, for
    one that does not exist or has no such value.
    """
    given = _with_current_names(name, params)
    preset = given.pop("preset", None)
    if preset is not None and preset not in entry.presets:
        raise BadInput(f"unknown preset '{preset}' of {name}: {choices_text(str(preset), entry.presets)}")
    hints = get_type_hints(entry.config)
    known = [field.name for field in fields(entry.config)]
    values = {}
    for key, value in given.items():
        if key not in known:
            raise BadInput(f"unknown parameter '{key}' of {name}: {choices_text(key, known)}")
        values[key] = parse_value(f"parameter {key} of {name}", hints[key], value)
    return replace(entry.presets[preset], **values) if preset else entry.config(**values)


def parse_value(what: str, kind: Any, value: Any) -> Any:
    """`value`, or the value of its text, as a `kind`; raises `BadInput` that calls it `what`."""
    if get_origin(kind) in (Union, UnionType):
        number, words = get_args(kind)
        return value if value in get_args(words) else parse_value(what, number, value)
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise BadInput(f"{what} is '{value}': choose {', '.join(map(str, get_args(kind)))}")
        return value
    if kind is bool:
        words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
        if str(value).lower() not in words:
            raise BadInput(f"{what} is '{value}': it is true or false")
        return words[str(value).lower()]
    try:
        number = float(value)
        if not math.isfinite(number) or (kind is int and number != int(number)):
            raise ValueError
        if kind is int and abs(number) > EXACT:
            raise BadInput(f"{what} is '{value}': it must be a whole number of no more than {EXACT}")
        return kind(number)
    except BadInput:
        raise
    except (ValueError, TypeError, OverflowError):
        raise BadInput(f"{what} is '{value}': it must be {'a whole number' if kind is int else 'a number'}") from None
