"""The settings of every algorithm as a form: in Prefect's pages, one chooses an algorithm's and fills in fields.

The form takes the code of all algorithms, which needs a second to import, so it is made for deployments alone: a run
that is started here has no use for it.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

ELSEWHERE = ("epsilon", "delta", "seed")
"""settings that have fields of their own beside those of the algorithm"""
_wanted: ContextVar[bool] = ContextVar("wanted", default=False)


@contextmanager
def with_forms() -> Iterator[None]:
    """Have the schemas that are made within the block hold the settings of every algorithm."""
    token = _wanted.set(True)
    try:
        yield
    finally:
        _wanted.reset(token)


def list_settings(schema: dict[str, Any]) -> None:
    """Replace the `schema` of any settings by one that lists those of every algorithm, where that is wanted.

    It is wanted within `with_forms`, and in Prefect's own commands, such as `prefect deploy`.
    """
    if not _wanted.get() and "prefect.cli" not in sys.modules:
        return
    from fedbnsl.algorithms.registry import ALGORITHMS

    free = {"title": "as JSON", "type": "object", "additionalProperties": schema.pop("additionalProperties")}
    schema.pop("type")
    schema["anyOf"] = [free, *(settings_schema(name) for name in sorted(ALGORITHMS))]


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
