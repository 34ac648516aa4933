"""Where an algorithm is made: the class of its settings and what builds it from them, imported when first asked for."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

HERE = __package__.rpartition(".")[0]


@dataclass(frozen=True)
class Maker:
    """What makes an algorithm, or a wrapper."""

    config: type[Any]
    """the class of its settings, a frozen dataclass"""
    build: Callable[..., Any]
    """(settings) -> the algorithm; of a wrapper (algorithm, settings) -> the algorithm that it makes of it"""
    presets: Mapping[str, Any] = field(default_factory=dict)
    """named settings besides the defaults, such as the paper's own"""


def at(config: str, build: str = "build") -> Callable[[], Maker]:
    """Return what imports the maker at `config`, `module:name` within `fedbnsl.algorithms`, when it is first called.

    `build` is a name in the same module, or a `module:name` of its own. The presets are the module's PRESETS, if it has
    any.
    """

    @cache
    def made() -> Maker:
        place, _, name = config.rpartition(":")
        module = import_module(f"{HERE}.{place}")
        elsewhere, _, builder = build.rpartition(":")
        builds = import_module(f"{HERE}.{elsewhere}") if elsewhere else module
        return Maker(getattr(module, name), getattr(builds, builder), getattr(module, "PRESETS", {}))

    return made
