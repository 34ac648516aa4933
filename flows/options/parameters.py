"""The settings of an algorithm: names, types, defaults and meanings, for the command line and Prefect's forms.

Only forms of deployments list the settings, because the list requires the import of all algorithms, which takes time.
"""

import ast
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import MISSING, dataclass, fields
from textwrap import dedent
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from fedbnsl.tasks.prefect_internals import in_prefect_command


@dataclass(frozen=True)
class Parameter:
    """One parameter of an algorithm."""

    name: str
    kind: str
    """its type or its choices, as text"""
    default: Any
    meaning: str
    choices: tuple[str, ...] = ()
    """the words that are possible values; empty for a number"""


def parameters(config: type[Any]) -> tuple[Parameter, ...]:
    """The parameters of the settings class `config`, a dataclass."""
    kinds, meanings = get_type_hints(config), field_meanings(config)
    return tuple(
        Parameter(
            field.name,
            _shown(kinds[field.name]),
            None if field.default is MISSING else field.default,
            meanings.get(field.name, ""),
            literal_choices(kinds[field.name]),
        )
        for field in fields(config)
        if field.init
    )


def field_meanings(config: type[Any]) -> dict[str, str]:
    """The docstrings of the fields of `config`: the string literals that follow the fields in its source.

    If a class repeats a field without a docstring, the docstring of the base class applies.
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
            text = ast.literal_eval(after.value)
            found[field.target.id] = " ".join(str(text).split())
    return found


def literal_choices(kind: Any) -> tuple[str, ...]:
    """The words that are possible values of a type; none for a number."""
    if get_origin(kind) is Literal:
        return tuple(map(str, get_args(kind)))
    if get_origin(kind) in (Union, UnionType):
        return tuple(word for one in get_args(kind) for word in literal_choices(one))
    return ("true", "false") if kind is bool else ()


def _shown(kind: Any) -> str:
    """A type as text: its choices, joined by bars, or its name."""
    if get_origin(kind) is Literal:
        return " | ".join(map(str, get_args(kind)))
    if get_origin(kind) in (Union, UnionType):
        return " | ".join(map(_shown, get_args(kind)))
    return str(getattr(kind, "__name__", kind))


ELSEWHERE = ("epsilon", "delta", "seed")
"""settings that are separate fields of the form, outside the list of settings"""
FEATURED = ("fed-sparse", "secure-linear", "secure-sum", "fed-pc", "secure-ges", "fdbnl")
"""algorithms whose settings a form lists if any algorithm can be chosen; Prefect's page has no room for more names"""
_listed_algorithms: ContextVar[tuple[str, ...] | None] = ContextVar("listed_algorithms", default=None)


@contextmanager
def with_settings_schema(algorithm: str) -> Iterator[None]:
    """List the settings of `algorithm` in schemas that the block makes; for "auto", the settings of `FEATURED`."""
    from fedbnsl.algorithms.choose import AUTO

    token = _listed_algorithms.set(FEATURED if algorithm == AUTO else (algorithm,))
    try:
        yield
    finally:
        _listed_algorithms.reset(token)


def list_settings(schema: dict[str, Any]) -> None:
    """Change the `schema` of free settings (a JSON object) to a choice between free settings and lists of settings.

    The schema stays as it is except within `with_settings_schema` and in Prefect's own commands, such as
    `prefect deploy`.
    """
    names = _listed_algorithms.get() or (FEATURED if in_prefect_command() else ())
    if names:
        free = {"title": "as JSON", "type": schema.pop("type"), "additionalProperties": schema["additionalProperties"]}
        del schema["additionalProperties"]
        forms = [settings_schema(name) for name in names]
        # Prefect's page opens the first entry. It is the list of settings if there is one algorithm.
        schema["anyOf"] = [*forms, free] if len(forms) == 1 else [free, *forms]


def settings_schema(name: str) -> dict[str, Any]:
    """The JSON schema of the settings of algorithm `name`, with types and meanings; all settings are optional.

    Defaults are only in the descriptions: if the form contained them as values, they would override a preset.
    """
    from pydantic import TypeAdapter

    from fedbnsl.algorithms.registry import entry

    one = entry(name)
    fields = TypeAdapter(one.config).json_schema()["properties"]
    meanings = {known.name: known.meaning for known in parameters(one.config)}
    properties = {}
    for key, field in fields.items():
        if key not in ELSEWHERE:
            description = f"{meanings.get(key, '')} (default: {field.pop('default', 'none')})"
            # Without a default in the schema, the form would show a switch as off. A choice starts without a value.
            if field.get("type") == "boolean":
                field = {**field, "enum": [True, False]}
                del field["type"]
            properties[key] = {**field, "title": key, "description": description.strip()}
    if one.presets:
        preset = {"title": "preset", "enum": list(one.presets), "type": "string"}
        properties = {"preset": preset | {"description": "Named settings to start from."}, **properties}
    return {"title": name, "type": "object", "description": one.summary, "properties": properties}
