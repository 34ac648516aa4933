"""A discrete network as a BIF file (Bayesian Interchange Format 0.15), as the bnlearn repository writes it.

Numbers are written so that reading them gives the same bits. `fedbnsl prepare network OUT --network FILE.bif` reads it
back, and so does pgmpy, whatever the labels are; pgmpy's own writer changes some.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import product

from fedbnsl.algorithms.parameters.networks import DiscreteNetwork

UNWRITABLE = re.compile(r'[,;(){}|"\r\n]|//|/\*')
"""what ends a name in BIF, even in quotes"""


def why_no_bif(network: DiscreteNetwork) -> str | None:
    """Return in words why `network` cannot be written as BIF, None if it can."""
    for name in network.variables:
        for kind, word in (("variable", name), *((f"label of {name}", label) for label in network.levels[name])):
            if UNWRITABLE.search(word):
                return f"BIF cannot say the {kind} '{word}'"
    return None


def bif(network: DiscreteNetwork) -> str:
    """Return `network` as the text of a BIF file. Raises `ValueError` for a name or label that BIF cannot say."""
    reason = why_no_bif(network)
    if reason:
        raise ValueError(reason)
    return "".join(_blocks(network))


def _blocks(network: DiscreteNetwork) -> Iterator[str]:
    yield "network unknown {\n}\n"
    for name in network.variables:
        levels = network.levels[name]
        yield f"variable {_word(name)} {{\n  type discrete [ {len(levels)} ] {{ {_words(levels)} }};\n}}\n"
    for name in network.variables:
        parents, table = network.parents[name], network.tables[name]
        if not parents:
            yield f"probability ( {_word(name)} ) {{\n  table {_numbers(table.tolist())};\n}}\n"
            continue
        yield f"probability ( {_word(name)} | {_words(parents)} ) {{\n"
        states = product(*([_word(label) for label in network.levels[parent]] for parent in parents))
        for state, row in zip(states, table.reshape(-1, table.shape[-1]).tolist(), strict=True):
            yield f"  ({', '.join(state)}) {_numbers(row)};\n"
        yield "}\n"


def _words(names: Iterable[str]) -> str:
    return ", ".join(_word(name) for name in names)


def _word(name: str) -> str:
    return f'"{name}"' if re.search(r"\s", name) else name


def _numbers(row: list[float]) -> str:
    return ", ".join(map(repr, row))
