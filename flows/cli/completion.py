"""Shell completion of algorithms, their parameters, and engines."""

from collections.abc import Callable
from typing import Any

ENGINES = ("prefect", "inline")

Found = list[tuple[str, str]]
"""words with their explanations"""


def algorithms(incomplete: str) -> Found:
    """The algorithms whose names begin with `incomplete`."""
    from fedbnsl.algorithms.registry import ALGORITHMS

    named = {"auto": "as suits the data", **{name: entry.summary for name, entry in ALGORITHMS.items()}}
    return _beginning(named, incomplete)


def one_algorithm(incomplete: str) -> Found:
    """The algorithms whose names begin with `incomplete`, except `auto`, which has no page."""
    return [one for one in algorithms(incomplete) if one[0] != "auto"]


def parameters(ctx: Any, incomplete: str) -> Found:
    """The parameters of the algorithm on the command line that begin with `incomplete`, and `preset`.

    After the =, the words are the possible values, or the presets. There are no words for `auto`, because its choice is
    not known yet.
    """
    from fedbnsl.algorithms.registry import ALGORITHMS

    from ..options.parameters import parameters as parameters_of

    entry = ALGORITHMS.get(ctx.params.get("algorithm") or "")
    if entry is None:
        return []
    known = {one.name: one for one in parameters_of(entry.config)}
    key, equals, _ = incomplete.partition("=")
    if not equals:
        meanings = {f"{name}=": one.meaning for name, one in known.items()}
        return _beginning(meanings | ({"preset=": "settings to start from"} if entry.presets else {}), incomplete)
    choices = list(entry.presets) if key == "preset" else known[key].choices if key in known else ()
    return _beginning({f"{key}={one}": "" for one in choices}, incomplete)


def engines(incomplete: str) -> Found:
    """The engines that begin with `incomplete`."""
    return _beginning(dict.fromkeys(ENGINES, ""), incomplete)


COMPLETIONS: dict[str, Callable[..., Found]] = {"algorithm": algorithms, "params": parameters}
"""for fields of the options, the function that completes their values"""


def _beginning(words: dict[str, str], incomplete: str) -> Found:
    return [(word, meaning) for word, meaning in words.items() if word.startswith(incomplete)]
