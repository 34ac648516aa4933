"""Settings of an algorithm from the user's input: values, or their text as on the command line."""

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from ..errors import BadInput, choices_text
from .spec import Entry
from .wire import field_types

MAX_EXACT_INTEGER = 2**53
"""the largest integer up to which every integer has an exact floating-point representation"""


def parse_settings(name: str, entry: Entry, params: Mapping[str, Any]) -> Any:
    """The settings of the algorithm `name` with `params` (values or their text) in place of the defaults.

    The key `preset` selects named settings as the defaults. Raises `BadInput`, naming the parameter and the value, if a
    parameter is unknown or a value is invalid.
    """
    given = dict(params)
    preset = given.pop("preset", None)
    if preset is not None and preset not in entry.presets:
        raise BadInput(f"unknown preset '{preset}' of {name}: {choices_text(str(preset), entry.presets)}")
    hints = field_types(entry.config)
    available = [field.name for field in fields(entry.config)]
    values = {}
    for key, value in given.items():
        if key not in available:
            raise BadInput(f"unknown parameter '{key}' of {name}: {choices_text(key, available)}")
        values[key] = parse_value(f"parameter {key} of {name}", hints[key], value)
    return replace(entry.presets[preset], **values) if preset else entry.config(**values)


def parse_value(label: str, kind: Any, value: Any) -> Any:
    """`value`, which may be text, as a value of type `kind`; raises `BadInput` with the `label` if it is invalid."""
    if get_origin(kind) in (Union, UnionType):
        number, words = get_args(kind)
        return value if value in get_args(words) else parse_value(label, number, value)
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise BadInput(f"{label} is '{value}': it must be one of {', '.join(map(str, get_args(kind)))}")
        return value
    if kind is bool:
        words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
        if str(value).lower() not in words:
            raise BadInput(f"{label} is '{value}': it must be true or false")
        return words[str(value).lower()]
    try:
        number = float(value)
        if not math.isfinite(number) or (kind is int and number != int(number)):
            raise ValueError
        if kind is int and abs(number) > MAX_EXACT_INTEGER:
            raise BadInput(f"{label} is '{value}': it must be a whole number of no more than {MAX_EXACT_INTEGER}")
        return kind(number)
    except BadInput:
        raise
    except (ValueError, TypeError, OverflowError):
        raise BadInput(f"{label} is '{value}': it must be {'a whole number' if kind is int else 'a number'}") from None
