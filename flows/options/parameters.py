"""The settings of an algorithm: names, types, defaults and meanings, for the command line and Prefect's forms.

Only forms of deployments list the settings, because the list requires the import of all algorithms, which takes time.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import MISSING, dataclass, fields
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from fedbnsl.algorithms.core.settings import Settings, range_text, words_of
from fedbnsl.tasks.prefect_internals import in_prefect_command


@dataclass(frozen=True)
class Parameter:
    """One parameter of an algorithm."""

    name: str
    kind: str
    """its type or its choices, and its range, as text"""
    default: Any
    meaning: str
    choices: tuple[str, ...] = ()
    """the words that are possible values; empty for a number"""


def parameters(config: type[Settings]) -> tuple[Parameter, ...]:
    """The parameters of the settings class `config`."""
    kinds, meanings, bounds = get_type_hints(config), field_meanings(config), config.bounds()
    return tuple(
        Parameter(
            field.name,
            _shown(kinds[field.name], f" {range_text(bounds[field.name])}" if field.name in bounds else ""),
            None if field.default is MISSING else field.default,
            meanings.get(field.name, ""),
            words_of(kinds[field.name]),
        )
        for field in fields(config)
        if field.init
    )


def field_meanings(config: type[Any]) -> dict[str, str]:
    """The docstrings of the fields of `config`; if a class repeats a field without one, that of its base class."""
    from pydantic import TypeAdapter

    found: dict[str, str] = {}
    for one in reversed(config.__mro__[:-1]):
        fields = TypeAdapter(one).json_schema().get("properties", {})
        stated = {name: field["description"] for name, field in fields.items() if "description" in field}
        found |= {name: " ".join(text.split()) for name, text in stated.items()}
    return found


def _shown(kind: Any, within: str = "") -> str:
    """A type as text: its choices, joined by bars, or its name, with its range."""
    if get_origin(kind) is Literal:
        return " | ".join(map(str, get_args(kind)))
    if get_origin(kind) in (Union, UnionType):
        return " | ".join(_shown(one, within) for one in get_args(kind))
    return f"{getattr(kind, '__name__', kind)}{within}"


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
    fields, meanings = TypeAdapter(one.config).json_schema()["properties"], field_meanings(one.config)
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
