"""The registry: every algorithm by name, with its settings, its builder, and a text on what leaves a silo.

Importing the registry imports no algorithm: the code of an algorithm is imported on first use of its settings.
"""

import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedbnsl.algorithms.core.spec import parse_settings

from .core import wire
from .core.protocol import Algorithm
from .core.spec import AlgorithmSpec, Entry, Wrapper
from .errors import BadInput, choices_text

if TYPE_CHECKING:
    from .graphs.structure import Structure

FAMILIES = {
    "admm": "consensus ADMM",
    "moments": "summed moments",
    "dp_fed_sparse": "consensus ADMM",
    "constraint": "independence tests",
    "score": "score search",
    "mlp": "neural networks",
    "dynamic": "time series",
    "events": "event sequences",
    "baselines": "baselines",
    "parameters": "",
    "diagnosis": "",
    "effects": "",
    "statistics": "",
    "resampling": "",
}
"""the folders of `algorithms/` whose `__init__.py` has entries of the registry, each with the name of its family"""


def _collect(table: str) -> dict[str, Any]:
    """The entries of all families in their dictionaries named `table`.

    This imports only the `__init__.py` of each family, which does not import the algorithms.
    """
    families = (import_module(f"{__package__}.{family}") for family in FAMILIES)
    return {name: entry for family in families for name, entry in getattr(family, table, {}).items()}


ALGORITHMS: dict[str, Entry] = _collect("ALGORITHMS")
"""the learners"""
STEPS: dict[str, Entry] = _collect("STEPS")
"""additional exchanges of a run, before or after those of its algorithm"""
WRAPPERS: dict[str, Wrapper] = _collect("WRAPPERS")
"""algorithms that wrap another one (see `core/spec.py`)"""


def by_family() -> dict[str, list[str]]:
    """The names of the learners by their family, baselines last."""
    found: dict[str, list[str]] = {title: [] for title in FAMILIES.values()}
    for folder, title in FAMILIES.items():
        declared = getattr(import_module(f"{__package__}.{folder}"), "ALGORITHMS", {})
        for name, one in declared.items():
            found[FAMILIES["baselines"] if one.summary.startswith("baseline") else title].append(name)
    return {title: names for title, names in found.items() if names}


def family(name: str) -> str:
    """The family of the learner `name`."""
    return next(title for title, names in by_family().items() if name in names)


def entry(name: str) -> Entry:
    """The entry of the learner or step `name`; raises `BadInput` for an unknown name."""
    if name in STEPS:
        return STEPS[name]
    if name not in ALGORITHMS:
        raise BadInput(f"unknown algorithm '{name}': {choices_text(name, ALGORITHMS)}")
    return ALGORITHMS[name]


def wrapper_entry(name: str) -> Wrapper:
    """The entry of the wrapper `name`; raises `BadInput` for an unknown name."""
    if name not in WRAPPERS:
        raise BadInput(f"unknown wrapper '{name}': available: {', '.join(WRAPPERS) or 'none'}")
    return WRAPPERS[name]


def parameter_names(name: str) -> tuple[str, ...]:
    """The names of the parameters of algorithm `name`."""
    return tuple(field.name for field in fields(entry(name).config))


def specify(
    name: str, params: Mapping[str, Any] | None = None, epsilon: float | None = None, delta: float | None = None
) -> AlgorithmSpec:
    """The specification of algorithm `name` with `params` (values or their text) in place of the defaults.

    If given, `epsilon` and `delta` replace those of the privacy settings. Raises `BadInput` for an unknown algorithm or
    parameter, for an invalid value, and for an ε or δ with an algorithm that is not private.
    """
    settings = parse_settings(name, entry(name), params or {})
    if epsilon is None and delta is None:
        return AlgorithmSpec(name, settings)
    if not entry(name).private:
        private = [other for other, one in ALGORITHMS.items() if one.private]
        raise BadInput(f"--epsilon: {name} is not private; private algorithms: {', '.join(private)}")
    return AlgorithmSpec(name, settings.with_budget(epsilon, delta))


def prepare_messages() -> None:
    """Import all algorithms and resolve the types of their messages, so that no request of another party does."""
    for config in (one.config for table in (ALGORITHMS, STEPS, WRAPPERS) for one in table.values()):
        wire.prepare(config)
    for name, module in list(sys.modules.items()):
        if name.startswith(f"{__package__}."):
            for kind in vars(module).values():
                if isinstance(kind, type) and is_dataclass(kind) and kind.__module__ == name:
                    wire.prepare(kind)


def at_sums(spec: AlgorithmSpec) -> AlgorithmSpec:
    """`spec` with the settings with which level `sums` allows all its releases; unchanged if there are none."""
    return replace(spec, settings=replace(spec.settings, **(entry(spec.name).at_sums or {})))


def levels_of(one: Entry) -> str:
    """The levels at which owners allow the algorithm or step of an entry, as text."""
    levels = ["sums"] * (one.at_sums is not None) + ["epsilon (with --epsilon)"] * one.private
    return ", ".join([*levels, "trusted"])


def direction_assumptions(spec: AlgorithmSpec, structure: "Structure") -> tuple[str, ...]:
    """Sentences on what directs the edges of a `structure` learned by `spec`, for an algorithm without `basis`."""
    across = ("Time determines the direction of edges across time.",) if structure.lags else ()
    if entry(spec.name).equal_variances(spec.settings) and structure.kind == "dag":
        return ("Directions rest on errors of equal variance, in the units of the data.", *across)
    if structure.kind == "dag" and structure.lags and not structure.adjacency.any():
        return across
    if structure.kind == "dag":
        return (f"Directions rest on the assumptions of {spec.name}, which were not tested on these data.", *across)
    return (
        "Directions rest on conditional independences: a directed edge is part of a v-structure or follows from "
        "v-structures.",
        *across,
    )


def build(spec: AlgorithmSpec) -> Algorithm:
    """The algorithm of `spec`, inside its wrappers; built once per process."""
    return build_packed(pack(spec))


def build_packed(packed: bytes) -> Algorithm:
    """The algorithm of a packed specification; raises the errors of `unpack`."""
    name, *_ = wire.decode(tuple, packed)
    return _built(packed, entry(name))


@lru_cache(maxsize=64)
def _built(packed: bytes, entry: Entry) -> Algorithm:
    # The cache key has the packed bytes instead of the specification: 1, 1.0 and True are equal as settings, but their
    # bytes differ. Algorithms are stateless, so several runs can use the same instance.
    spec = unpack(packed)
    algorithm = replace(entry.build(spec.settings), releases=entry.releases)
    for wrapper in spec.wrappers:
        algorithm = wrapper_entry(wrapper.name).wrap(algorithm, wrapper.settings)
    return algorithm


def pack(spec: AlgorithmSpec) -> bytes:
    """`spec` as bytes, to send to a worker or to store in a checkpoint."""
    wrappers = tuple((wrapper.name, wire.encode(wrapper.settings)) for wrapper in spec.wrappers)
    return wire.encode((spec.name, wire.encode(spec.settings), wrappers))


def unpack(packed: bytes) -> AlgorithmSpec:
    """The specification in `packed`; its settings are checked again.

    Raises `BadInput` for a name that is not in the registry and for a value out of range, `ValueError` for settings of
    another algorithm.
    """
    name, settings, wrappers = wire.decode(tuple, packed)
    spec = AlgorithmSpec(name, wire.decode(entry(name).config, settings))
    for wrapper, wrapper_settings in wrappers:
        spec = spec.wrapped(wrapper, wire.decode(wrapper_entry(wrapper).config, wrapper_settings))
    return spec
