"""Settings objects, as `fedbnsl.settings` has them, in place of the name of an algorithm and its parameters."""

import re
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from typing import Any

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.choose import AUTO
from fedbnsl.algorithms.errors import BadInput

from ..options.learn import LearnOptions


def asked_for(algorithm: Any, params: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the algorithm by name, and those of its parameters that are given: in a settings object, or by keyword.

    Of a settings object these are the fields that differ from their defaults, so that what the run sets itself, such as
    its seed, stays so. Raises `BadInput` for what is neither name nor settings, for parameters beside settings, and for
    a keyword that is neither an option nor a parameter, naming the nearest.
    """
    if isinstance(algorithm, str):
        check_keywords(algorithm, params)
        return algorithm, dict(params)
    name = name_of(algorithm)
    if params:
        one = next(iter(params))
        raise BadInput(f"{one} is given beside {type(algorithm).__name__}(...): give it to that, as {one}=...")
    changed = {field.name: getattr(algorithm, field.name) for field in fields(algorithm) if field.init}
    defaults = {field.name: field.default for field in fields(algorithm) if field.default is not MISSING}
    return name, {key: value for key, value in changed.items() if key not in defaults or value != defaults[key]}


def name_of(settings: Any) -> str:
    """Return the algorithm whose settings these are: that of their class's name, else the only one of that class.

    Raises `BadInput` if there is none, or if several share the class.
    """
    if isinstance(settings, type):
        raise BadInput(f"algorithm is the class {settings.__name__}: give its settings, {settings.__name__}()")
    if not is_dataclass(settings):
        raise BadInput(
            f"algorithm is a {type(settings).__name__}: give a name of `fedbnsl algorithms`, or settings such as "
            "fedbnsl.settings.FedSparse()"
        )
    kind = type(settings)
    named = re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower()
    entry = registry.ALGORITHMS.get(named)
    if entry is not None and issubclass(kind, entry.config):
        return named
    sharing = [name for name, one in registry.ALGORITHMS.items() if one.config is kind]
    if not sharing:
        raise BadInput(f"algorithm is a {kind.__name__}, which are the settings of none: see fedbnsl.settings")
    if len(sharing) > 1:
        classes = " or ".join("".join(word.title() for word in name.split("-")) for name in sharing)
        raise BadInput(f"{kind.__name__} are the settings of several algorithms: say which by {classes}")
    return sharing[0]


def check_keywords(algorithm: str, params: Mapping[str, Any]) -> None:
    """Raise `BadInput` for a keyword of `learn` that is like one of its options, and no parameter of the algorithm."""
    if algorithm not in (*registry.ALGORITHMS, AUTO):
        return
    known = registry.parameter_names(algorithm) if algorithm != AUTO else ()
    options = [name for name in LearnOptions.model_fields if name != "params"]
    for name in params:
        near = get_close_matches(name, [*known, *options], 1)
        if name not in (*known, "preset") and near and near[0] in options:
            raise BadInput(
                f"'{name}' is neither an option of learn nor a parameter of {algorithm}: did you mean {near[0]}?"
            )
