"""The settings of an algorithm as a form: fields to fill in, in Prefect's pages.

The form takes the code of the algorithms, which needs time to import, so it is made for deployments alone: a run that
is started here has no use for it.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

ELSEWHERE = ("epsilon", "delta", "seed")
"""settings that have fields of their own beside those of the algorithm"""
FEATURED = ("fed-sparse", "secure-linear", "secure-sum", "fed-pc", "secure-ges", "fdbnl")
"""those that a form shows which is for any algorithm: the page has them in one line, and no room for all"""
_shown: ContextVar[tuple[str, ...] | None] = ContextVar("shown", default=None)


@contextmanager
def with_form_of(algorithm: str) -> Iterator[None]:
    """Have the schemas that are made within the block hold the settings of `algorithm`; "auto": of those featured."""
    from fedbnsl.algorithms.choose import AUTO

    token = _shown.set(FEATURED if algorithm == AUTO else (algorithm,))
    try:
        yield
    finally:
        _shown.reset(token)


def list_settings(schema: dict[str, Any]) -> None:
    """Replace the `schema` of any settings by one that lists those of algorithms, where that is wanted.

    It is wanted within `with_form_of`, and in Prefect's own commands, such as `prefect deploy`. What no field is for
    can be given as JSON.
    """
    names = _shown.get() or (FEATURED if "prefect.cli" in sys.modules else ())
    if names:
        free = {"title": "as JSON", "type": schema.pop("type"), "additionalProperties": schema["additionalProperties"]}
        del schema["additionalProperties"]
        # The page shows the first that fits: fields before JSON.
        schema["anyOf"] = [*(settings_schema(name) for name in names), free]


def settings_schema(name: str) -> dict[str, Any]:
    """Return the JSON schema of the settings of algorithm `name`: types and meanings; none of them is needed.

    Defaults are said and not filled in: what a form sends would otherwise override a preset.
    """
    from pydantic import TypeAdapter

    from fedbnsl.algorithms.registry import entry

    from .parameters import parameters

    one = entry(name)
    fields = TypeAdapter(one.config).json_schema()["properties"]
    meanings = {known.name: known.meaning for known in parameters(one.config)}
    properties = {}
    for key, field in fields.items():
        if key not in ELSEWHERE:
            said = f"{meanings.get(key, '')} (default: {field.pop('default', 'none')})"
            properties[key] = {**field, "title": key, "description": said.strip()}
    if one.presets:
        preset = {"title": "preset", "enum": list(one.presets), "type": "string"}
        properties = {"preset": preset | {"description": "Named settings to start from."}, **properties}
    return {"title": name, "type": "object", "description": one.summary, "properties": properties}
