"""Conversion of messages for Python users: options of the command line become keywords of `learn`."""

import re
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any, get_args

from fedbnsl.algorithms.errors import BadInput

from .learn import LearnOptions
from .model import OnCommandLine

OPTION = re.compile(r"(?<![\w-])--([a-z][a-z-]*)(?: ([a-z][a-z-]*))?")
"""an option of the command line in a message, and the next word, which may be its value"""

SETTING = re.compile(r"(?<![\w-])-p (\w+=)")
"""a setting of an algorithm on the command line"""

ADVISED = re.compile(r"(?<![\w-])--([a-z][a-z-]*)(?: (?!--)([^\s]*[^\s.,;:]))?")
"""an option in advice, and the next word unless it is an option"""

ADVISED_SETTING = re.compile(r"(?<![\w-])-p (\w+)=([^\s]*[^\s.,;:])")
"""a setting of an algorithm in advice, and its value"""


def message_in_python(message: str) -> str:
    """`message` with keywords instead of options, such as `held_out` for `--held-out`, except in backticks."""
    parts = message.split("`")
    parts[::2] = (SETTING.sub(r"\1", OPTION.sub(_mentioned, part)) for part in parts[::2])
    return "`".join(parts)


def advice_in_python(advice: str) -> str:
    """`advice` with keywords instead of options and settings, such as `algorithm='secure-boss', weights='own'`."""
    text = ADVISED_SETTING.sub(lambda found: f"{found[1]}={_literal(found[2])}", ADVISED.sub(_advised, advice))
    return re.sub(r"(=(?:'[^']*'|[\w.]+)) (?=\w+=)", r"\1, ", text)


@cache
def keywords() -> dict[str, str]:
    """The keyword of `learn` for each option of the command line, written with underscores and without dashes."""
    forms = {
        flag.lstrip("-").replace("-", "_"): name
        for name, field in LearnOptions.model_fields.items()
        for form in field.metadata
        if isinstance(form, OnCommandLine)
        for flag in form.names
    }
    return {name: name for name in LearnOptions.model_fields} | forms


def as_fields(given: Mapping[str, Any], settings: Collection[str]) -> dict[str, Any]:
    """The keywords `given` with the names of fields, such as required_arcs for `required`, as the option is called.

    The `settings` of an algorithm keep their names. Raises `BadInput` if both names of an option are given.
    """
    fields = dict[str, Any]()
    for name, value in given.items():
        field = name if name in settings or len(name) == 1 else keywords().get(name, name)
        if field in fields or (field != name and field in given):
            raise BadInput(f"{name} and {field} are the same option: give one of them")
        fields[field] = value
    return fields


def _mentioned(option: "re.Match[str]") -> str:
    """The keyword of an `option`, or the option itself if `learn` has no such keyword."""
    rest = f" {option[2]}" if option[2] else ""
    name = keywords().get(option[1].replace("-", "_"), "")
    if name:
        choices = get_args(LearnOptions.model_fields[name].annotation)
        return f"{name}='{option[2]}'" if option[2] in choices else name + rest
    switched = keywords().get(option[1].replace("-", "_").removeprefix("no_"))
    return f"{switched}=False{rest}" if switched else option[0]


def _advised(option: "re.Match[str]") -> str:
    """The keyword of an `option` with its value. A switch gets the value True, and the word after it stays."""
    name = keywords().get(option[1].replace("-", "_"), "")
    if not name:
        return option[0]
    if LearnOptions.model_fields[name].annotation is bool:
        return f"{name}=True" + (f" {option[2]}" if option[2] else "")
    return f"{name}={_literal(option[2])}" if option[2] else name


def _literal(value: str) -> str:
    return value if re.fullmatch(r"\d+(\.\d+)?", value) else f"'{value}'"
