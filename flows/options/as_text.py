"""Options whose values are names, arcs, tiers or a file: text on the command line; in Python also lists and paths.

A value of another type raises an error of one line, with the option's name and the expected types.
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, ValidationInfo

from fedbnsl.algorithms.errors import BadInput, quoted


@dataclass(frozen=True)
class Converted:
    """A validator that converts Python's types to the form of the command line; None and text stay as they are."""

    convert: Callable[[Any], Any]
    """a function that converts a value, and raises `TypeError` for a value of another type"""
    expected: str
    """the expected types, for the message"""

    def __call__(self, given: Any, info: ValidationInfo) -> Any:
        """The converted value; raises `BadInput` for another type."""
        if given is None or isinstance(given, str):
            return given
        try:
            return self.convert(given)
        except TypeError:
            raise BadInput(f"{info.field_name} is {quoted(str(given))}: expected {self.expected}") from None


def names_of(given: Any) -> tuple[str, ...]:
    """The names in an iterable, such as a list, a set or an index of pandas. Names of a set are sorted.

    Raises `TypeError` for a dictionary, for a value that is not iterable, and for names that are not strings.
    """
    if isinstance(given, dict) or not isinstance(given, Iterable):
        raise TypeError
    names = tuple(sorted(given) if isinstance(given, set | frozenset) else given)
    if not all(isinstance(name, str) for name in names):
        raise TypeError
    return names


def _names_as_text(given: Any) -> str:
    return ",".join(names_of(given))


def _arcs_as_text(given: Any) -> str:
    """Pairs of names, and texts such as 'A->B', as one text such as 'A->B,B->C'."""
    arcs = []
    for one in given if isinstance(given, list | tuple | set | frozenset) else names_of(given):
        ends = (one,) if isinstance(one, str) else names_of(one)
        if len(ends) != (1 if isinstance(one, str) else 2):
            raise TypeError
        arcs.append("->".join(ends))
    return ",".join(arcs)


def _tiers_as_text(given: Any) -> str:
    """A list of tiers as text, such as 'age,sex<dose'. Each tier is a text or a list of names."""
    if not isinstance(given, list | tuple):
        raise TypeError
    return "<".join(tier if isinstance(tier, str) else _names_as_text(tier) for tier in given)


def _file_name(given: Any) -> str:
    if not isinstance(given, os.PathLike):
        raise TypeError
    return str(os.fspath(given))


NAMES = "names such as 'age,sex', or a list of names"


def _split(given: Any, info: ValidationInfo) -> Any:
    """The names in a text with commas, or in a list."""
    return given.split(",") if isinstance(given, str) else Converted(names_of, NAMES)(given, info)


CommaSeparated = BeforeValidator(_split)

Names = Annotated[str | None, BeforeValidator(Converted(_names_as_text, NAMES))]

Arcs = Annotated[
    str | None,
    BeforeValidator(Converted(_arcs_as_text, "arcs such as 'A->B,B->C', or a list of pairs of names")),
]

Tiers = Annotated[
    str | None,
    BeforeValidator(Converted(_tiers_as_text, "tiers such as 'age,sex<dose', or a list of lists of names")),
]

KnowledgeFile = Annotated[
    str | None,
    BeforeValidator(Converted(_file_name, "the name of a CSV file with columns rule, source, target")),
]

TargetsFile = Annotated[
    str | None,
    BeforeValidator(
        Converted(
            _file_name,
            "none, unknown, or the name of a CSV file with columns silo, variable; the targets of each silo can also "
            "be given under the key targets of about.json",
        )
    ),
]
