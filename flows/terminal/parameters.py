"""The parameters of an algorithm: names, types, defaults, and meanings as the fields of its settings state them."""

import ast
import inspect
from dataclasses import MISSING, dataclass, fields
from textwrap import dedent
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints


@dataclass(frozen=True)
class Parameter:
    """One parameter of an algorithm."""

    name: str
    kind: str
    """its type, or the values there are to choose from"""
    default: Any
    meaning: str
    choices: tuple[str, ...] = ()
    """the words among its values"""


def parameters(config: type[Any]) -> tuple[Parameter, ...]:
    """Return the parameters of the settings class `config`, a dataclass."""
    kinds, meanings = get_type_hints(config), field_meanings(config)
    return tuple(
        Parameter(
            field.name,
            _shown(kinds[field.name]),
            None if field.default is MISSING else field.default,
            meanings.get(field.name, ""),
            words_in(kinds[field.name]),
        )
        for field in fields(config)
        if field.init
    )


def field_meanings(config: type[Any]) -> dict[str, str]:
    """Return the docstrings of the fields of `config`: the string literals that follow them in its source.

    Those of a base class count where a class repeats a field without one.
    """
    found: dict[str, str] = {}
    for one in reversed(config.__mro__[:-1]):
        found |= _stated_in(one)
    return found


def _stated_in(config: type[Any]) -> dict[str, str]:
    (tree,) = ast.parse(dedent(inspect.getsource(config))).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for field, after in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(after, ast.Expr):
            said = ast.literal_eval(after.value)
            found[field.target.id] = " ".join(str(said).split())
    return found


def words_in(kind: Any) -> tuple[str, ...]:
    """Return the words among the values of a type; none of a number."""
    if get_origin(kind) is Literal:
        return tuple(map(str, get_args(kind)))
    if get_origin(kind) in (Union, UnionType):
        return tuple(word for one in get_args(kind) for word in words_in(one))
    return ("true", "false") if kind is bool else ()


def _shown(kind: Any) -> str:
    """Return the words for a type: its choices, joined by bars, or its name."""
    if get_origin(kind) is Literal:
        return " | ".join(map(str, get_args(kind)))
    if get_origin(kind) in (Union, UnionType):
        return " | ".join(map(_shown, get_args(kind)))
    return str(getattr(kind, "__name__", kind))
