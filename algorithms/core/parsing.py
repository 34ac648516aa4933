"""Parsing settings: `KEY=VALUE` pairs become the typed fields of an algorithm's settings."""

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from ..errors import BadInput, among
from .spec import Entry

EXACT = 2**53
"""the largest whole number up to which a floating-point number holds every one"""


def parsed(name: str, entry: Entry, params: Mapping[str, Any]) -> Any:
    """Return the settings of the algorithm `name` with `params` (values or their text) in place of the defaults.

    `preset` among them names the settings to start from. Raises `BadInput` that names the parameter and the value, for
    one that does not exist or has no such value.
    """
    given = dict(params)
    preset = given.pop("preset", None)
    if preset is not None and preset not in entry.presets:
        raise BadInput(f"unknown preset '{preset}' of {name}: {among(str(preset), entry.presets)}")
    hints = get_type_hints(entry.config)
    known = [field.name for field in fields(entry.config)]
    values = {}
    for key, value in given.items():
        if key not in known:
            raise BadInput(f"unknown parameter '{key}' of {name}: {among(key, known)}")
        values[key] = parsed_value(f"parameter {key} of {name}", hints[key], value)
    return replace(entry.presets[preset], **values) if preset else entry.config(**values)


def parsed_value(what: str, kind: Any, value: Any) -> Any:
    """Return `value`, or the value of its text, as a `kind`; raises `BadInput` that calls it `what`."""
    if get_origin(kind) in (Union, UnionType):
        number, words = get_args(kind)
        return value if value in get_args(words) else parsed_value(what, number, value)
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
