"""Which algorithm the options ask for, with its typed settings."""

from difflib import get_close_matches
from typing import Any

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.choose import AUTO, choices
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.errors import BadInput

from ..options.learn import LearnOptions


def spec_of(options: LearnOptions, schema: Schema) -> AlgorithmSpec:
    """Return the algorithm that `options` ask for on data of `schema`, with its settings, the budget among them.

    `auto` becomes the algorithm that suits the data. Raises `BadInput` for a parameter or a value that it does not
    have.
    """
    name, params = options.algorithm, dict[str, Any]()
    if name == AUTO:
        first = choices(schema, private=options.epsilon is not None)[0]
        name, params = first.name, dict(first.params)
    if "seed" in registry.parameter_names(name):
        params["seed"] = options.seed
    return registry.specify(name, params | options.params, options.epsilon, options.delta)


def check_words(options: LearnOptions) -> None:
    """Raise `BadInput` for what is wrong with `options` whatever the data are."""
    if options.algorithm != AUTO:
        registry.build(registry.specify(options.algorithm, options.params, options.epsilon, options.delta))
        return
    known = dict.fromkeys(("preset", *(one for name in registry.ALGORITHMS for one in registry.parameter_names(name))))
    for name in options.params:
        if name not in known:
            near = get_close_matches(name, known, 1)
            instead = f"did you mean {near[0]}?" if near else "`fedbnsl algorithms NAME` has those of one"
            raise BadInput(f"unknown parameter '{name}', which no algorithm has: {instead}")


def asks_for_privacy(options: LearnOptions) -> bool:
    """Say whether `options` ask for a private run: by --epsilon, by a parameter, or by an algorithm that always is."""
    if options.epsilon is not None or options.algorithm == AUTO:
        return options.epsilon is not None
    spec = registry.specify(options.algorithm, options.params, None, options.delta)
    return registry.build(spec).private is not None


def pools(options: LearnOptions) -> bool:
    """Say whether `options` ask for an algorithm that needs all rows in one place."""
    return options.algorithm != AUTO and registry.entry(options.algorithm).pooled
