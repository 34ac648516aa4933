"""Settings of algorithms, generators and owners: the type of a field states its range, and its docstring its meaning.

The command line's parameters, the forms of Prefect and the check of a value follow from the field alone. A class that
repeats a field for another default repeats its type.
"""

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from inspect import get_annotations
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt

from ..errors import BadInput

Positive = Annotated[float, Gt(0)]
NonNegative = Annotated[float, Ge(0)]
Factor = Annotated[float, Ge(1)]
Share = Annotated[float, Gt(0), Lt(1)]
Quota = Annotated[float, Ge(0), Le(1)]
ShareOrNone = Annotated[float, Ge(0), Lt(1)]
"""a share, for which 0 stands for a default"""
Count = Annotated[int, Ge(1)]
CountOrNone = Annotated[int, Ge(0)]
"""a count, for which 0 mostly stands for none or for all"""
Seed = Annotated[int, Ge(0)]
Auto = Literal["auto"]


@dataclass(frozen=True)
class Settings:
    """Settings, such as those of an algorithm; raises `BadInput` for a value outside the range of its field."""

    called: ClassVar[str] = "parameter "
    """what a message calls a field, before its name"""
    __pydantic_config__: ClassVar[dict[str, Any]] = {"use_attribute_docstrings": True}

    def __post_init__(self) -> None:
        """Check all values; a text must be a word of its field's type, such as auto."""
        kinds = declared_types(type(self))
        for name, kind in kinds.items():
            if get_origin(kind) is Literal and getattr(self, name) not in get_args(kind):
                choices = ", ".join(words_of(kind))
                raise BadInput(f"{self.called}{name} is '{getattr(self, name)}': it must be one of {choices}")
        for name, bounds in self.bounds().items():
            value, words = getattr(self, name), words_of(kinds[name])
            if not (value in words if isinstance(value, str) else is_within(value, bounds)):
                others = "".join(f", or {word}" for word in words)
                raise BadInput(f"{self.called}{name} is {value}: it must be {range_text(bounds)}{others}")

    @classmethod
    @cache
    def bounds(cls) -> Mapping[str, "Bounds"]:
        """The bounds of the fields that have a range."""
        found = {}
        for name, kind in declared_types(cls).items():
            for part in get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,):
                limits = [one for one in getattr(part, "__metadata__", ()) if type(one) in WITHIN]
                if limits:
                    found[name] = {type(one): float(getattr(one, type(one).__name__.lower())) for one in limits}
        return found


def declared_types(config: Any) -> dict[str, Any]:
    """The types of the fields of `config` as its classes declare them.

    They are not evaluated, because settings are also made of messages, while nothing that arrives may be evaluated.
    """
    own = [get_annotations(one) for one in reversed(config.__mro__)]
    return {name: kind for types in own for name, kind in types.items()}


WITHIN: dict[type[Any], Callable[[float, float], bool]] = {
    Gt: operator.gt,
    Ge: operator.ge,
    Lt: operator.lt,
    Le: operator.le,
}
Bounds = dict[type[Any], float]
"""limits by `Gt`, `Ge`, `Lt` and `Le`"""


def is_within(value: float, bounds: Bounds) -> bool:
    """Whether a number is within `bounds`; NaN never is."""
    return all(WITHIN[kind](value, limit) for kind, limit in bounds.items())


def words_of(kind: Any) -> tuple[str, ...]:
    """The words that are possible values of a type; none for a number."""
    if get_origin(kind) is Literal:
        return tuple(map(str, get_args(kind)))
    if get_origin(kind) in (Union, UnionType):
        return tuple(word for one in get_args(kind) for word in words_of(one))
    return ("true", "false") if kind is bool else ()


def range_text(bounds: Bounds) -> str:
    """The range within `bounds`, such as "0 or more"; an infinite upper bound is left out."""
    least, most = bounds.get(Ge, bounds.get(Gt, -math.inf)), bounds.get(Le, bounds.get(Lt, math.inf))
    if most == math.inf:
        return f"above {least:g}" if Gt in bounds else f"{least:g} or more"
    if Gt in bounds:
        return f"above {least:g} and at most {most:g}" if Le in bounds else f"between {least:g} and {most:g}"
    return f"from {least:g} to {most:g}" if Le in bounds else f"from {least:g} to below {most:g}"
