"""Discrete networks as text in the Bayesian Interchange Format (BIF 0.15), as the bnlearn repository writes them.

The parser makes one pass over the text, and parses all numbers of a table at once, so the largest published networks
take a second. Labels can have characters as in `<5`, `12+` and `Asy/Patch`. Commas, quotes and brackets in labels are
percent-encoded, as in `a%2Cb`. Numbers are written so that reading them restores the same bits. pgmpy reads these files
with any labels, but does not decode the percent codes.
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import product

import numpy as np

from ..core.schema import FloatArray, check_names
from ..errors import BadInput, quoted
from .networks import Network

RESERVED_CHARACTERS = re.compile(r'[,;(){}|"]|/(?=[/*])|%(?=2[2589CF]|3B|7[BCD])')
"""pattern of the characters to encode: those that end a name in BIF even in quotes, and a % that looks like a code"""
ESCAPE = re.compile("%(2[2589CF]|3B|7[BCD])")
NAME = r'("[^"\n]*"|[^\s{}()|,;"]+)'
PROPERTIES = r"(?:property[^;]*;\s*)*"
IGNORED = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/|network\s[^{]*\{[^}]*\})+", re.DOTALL)
VARIABLE = re.compile(
    rf"variable\s+{NAME}\s*\{{\s*{PROPERTIES}type\s+discrete\s*\[\s*(\d+)\s*\]\s*\{{([^{{}}]*)\}}\s*;\s*{PROPERTIES}\}}"
)
PROBABILITY = re.compile(rf"probability\s*\(\s*{NAME}\s*(?:\|([^()]*))?\)\s*\{{([^{{}}]*)\}}")
ROW = re.compile(r"\s*\(([^()]*)\)([^;()]*);")
WHOLE = re.compile(r"\s*(table|default)\s([^;()]*);")
PROPERTY = re.compile(r"\s*property[^;]*;")
TOLERANCE = 1e-3
"""maximum deviation of a published row's sum from 1"""
MAX_TABLE_NUMBERS = 10**8
"""maximum number of entries of one table: a larger table would not fit into memory"""


def format_bif(network: Network) -> str:
    """The text of a BIF file of `network`, with names escaped by `escape_name`."""
    return "".join(_blocks(network))


def escape_name(name: str) -> str:
    """A name or label in percent-encoding, which BIF and pgmpy can read: `a%2Cb` for `a,b`."""
    return RESERVED_CHARACTERS.sub(lambda found: f"%{ord(found[0]):02X}", name)


def unescape_name(name: str) -> str:
    """The name or label from the output of `escape_name`."""
    return ESCAPE.sub(lambda found: chr(int(found[1], 16)), name)


def _blocks(network: Network) -> Iterator[str]:
    yield "network unknown {\n}\n"
    for name in network.variables:
        levels = network.levels[name]
        yield f"variable {_quoted(name)} {{\n  type discrete [ {len(levels)} ] {{ {_quoted_all(levels)} }};\n}}\n"
    for name in network.variables:
        parents, table = network.parents[name], network.tables[name]
        if not parents:
            yield f"probability ( {_quoted(name)} ) {{\n  table {_joined_numbers(table.tolist())};\n}}\n"
            continue
        yield f"probability ( {_quoted(name)} | {_quoted_all(parents)} ) {{\n"
        states = product(*([_quoted(label) for label in network.levels[parent]] for parent in parents))
        for state, row in zip(states, table.reshape(-1, table.shape[-1]).tolist(), strict=True):
            yield f"  ({', '.join(state)}) {_joined_numbers(row)};\n"
        yield "}\n"


def _quoted_all(names: Iterable[str]) -> str:
    return ", ".join(_quoted(name) for name in names)


def _quoted(name: str) -> str:
    escaped = escape_name(name)
    return f'"{escaped}"' if re.search(r"\s", escaped) else escaped


def _joined_numbers(row: list[float]) -> str:
    return ", ".join(map(repr, row))


def parse_bif(text: str, origin: str = "BIF") -> Network:
    """The network in `text`; `origin` names it in messages.

    Raises `BadInput` with the line and the error.
    """
    levels: dict[str, tuple[str, ...]] = {}
    blocks: dict[str, tuple[str, tuple[str, ...], str]] = {}
    position = _skip(text, 0)
    while position < len(text):
        place = f"{origin}: line {text.count(chr(10), 0, position) + 1}"
        if found := VARIABLE.match(text, position):
            name = _unquoted(found[1])
            if name in levels:
                raise BadInput(f"{place}: the variable {quoted(name)} is declared twice")
            levels[name] = _levels(place, name, int(found[2]), _parsed_names(found[3]))
        elif found := PROBABILITY.match(text, position):
            name = _unquoted(found[1])
            if name in blocks:
                raise BadInput(f"{place}: the probabilities of {quoted(name)} are given twice")
            blocks[name] = (place, _parsed_names(found[2] or ""), found[3])
        else:
            raise BadInput(f"{place}: neither a variable nor probabilities: {quoted(text[position : position + 99])}")
        position = _skip(text, found.end())
    check_names(origin, tuple(levels))
    return _network(origin, levels, blocks)


def _network(
    origin: str, levels: dict[str, tuple[str, ...]], blocks: dict[str, tuple[str, tuple[str, ...], str]]
) -> Network:
    parents: dict[str, tuple[str, ...]] = {}
    tables: dict[str, FloatArray] = {}
    for name, (place, parent_names, body) in blocks.items():
        unknown = [one for one in (name, *parent_names) if one not in levels]
        if unknown:
            raise BadInput(f"{place}: the variable {quoted(unknown[0])} is not declared")
        if len({name, *parent_names}) != 1 + len(parent_names):
            raise BadInput(f"{place}: {quoted(name)} has a duplicate parent, or itself as a parent")
        parents[name], tables[name] = (
            parent_names,
            _table(place, name, [levels[one] for one in (*parent_names, name)], body),
        )
    missing = [name for name in levels if name not in blocks]
    if missing:
        raise BadInput(f"{origin}: the variable {quoted(missing[0])} has no probabilities")
    network = Network(tuple(levels), levels, parents, tables)
    if cycle := network.structure.cycle:
        raise BadInput(f"{origin}: the network has the cycle {' -> '.join([*cycle, cycle[0]])}")
    return network


def _table(place: str, name: str, levels: Sequence[tuple[str, ...]], body: str) -> FloatArray:
    """P(name | parents), [levels of each parent..., levels of `name`]; rows that are not listed have the `default`."""
    shape = tuple(len(one) for one in levels)
    if math.prod(shape) > MAX_TABLE_NUMBERS:
        raise BadInput(f"{place}: probabilities of {quoted(name)}: a table of {math.prod(shape)} numbers is too large")
    rows = ROW.findall(body)
    whole = dict(WHOLE.findall(ROW.sub("", body)))
    rest = PROPERTY.sub("", WHOLE.sub("", ROW.sub("", body))).strip()
    if rest:
        raise BadInput(f"{place}: probabilities of {quoted(name)}: {quoted(rest)} is not understood")
    if "table" in whole:  # all numbers in mixed-radix order; the variable's own level changes slowest (BIF 0.15)
        values = _parsed_numbers(place, name, whole["table"], math.prod(shape))
        return _require_distributions(place, name, np.moveaxis(values.reshape(shape[-1:] + shape[:-1]), 0, -1))
    table = np.full((math.prod(shape[:-1]), shape[-1]), np.nan)
    if "default" in whole:
        table[:] = _parsed_numbers(place, name, whole["default"], shape[-1])
    if rows:
        positions = _configurations(place, name, [labels for labels, _ in rows], levels[:-1])
        numbers = ",".join(numbers for _, numbers in rows)
        table[positions] = _parsed_numbers(place, name, numbers, len(rows) * shape[-1]).reshape(-1, shape[-1])
    return _require_distributions(place, name, table.reshape(shape))


def _configurations(place: str, name: str, rows: list[str], levels: Sequence[tuple[str, ...]]) -> list[int]:
    """The number of each row's configuration of the parents; the level of the last parent changes fastest."""
    codes = [{label: code for code, label in enumerate(one)} for one in levels]
    found: list[int] = []
    for row in rows:
        labels = _parsed_names(row)
        number = 0
        if len(labels) != len(codes):
            raise BadInput(
                f"{place}: probabilities of {quoted(name)}: ({row}) does not name {len(codes)} parents' levels"
            )
        for label, code in zip(labels, codes, strict=True):
            if label not in code:
                raise BadInput(f"{place}: probabilities of {quoted(name)}: ({row}): there is no level {quoted(label)}")
            number = number * len(code) + code[label]
        found.append(number)
    if len(set(found)) != len(found):
        duplicate = next(row for row, number in zip(rows, found, strict=True) if found.count(number) > 1)
        raise BadInput(f"{place}: probabilities of {quoted(name)}: the row ({duplicate}) is given twice")
    return found


def _parsed_numbers(place: str, name: str, text: str, count: int) -> FloatArray:
    try:
        values = np.array(text.split(","), dtype=np.float64)
    except ValueError as error:
        raise BadInput(f"{place}: probabilities of {quoted(name)}: {error}") from None
    if len(values) != count:
        raise BadInput(f"{place}: probabilities of {quoted(name)}: {len(values)} numbers where {count} are needed")
    return values


def _require_distributions(place: str, name: str, table: FloatArray) -> FloatArray:
    """The `table`; raises `BadInput` unless it is complete, not negative, and every row sums to 1 up to `TOLERANCE`."""
    if np.isnan(table).any():
        raise BadInput(f"{place}: probabilities of {quoted(name)}: a configuration of its parents is missing")
    total = table.sum(axis=-1)
    if (table < 0).any() or (abs(total - 1) > TOLERANCE).any():
        invalid = total.flat[int(np.argmax(abs(total - 1)))]
        raise BadInput(f"{place}: probabilities of {quoted(name)}: a row is negative or sums to {invalid:.6g}, not 1")
    return table


def _levels(place: str, name: str, count: int, labels: tuple[str, ...]) -> tuple[str, ...]:
    if len(labels) != count or len(set(labels)) != count or count < 1:
        raise BadInput(
            f"{place}: the variable {quoted(name)} has {count} levels, but names {', '.join(labels) or 'none'}"
        )
    return labels


def _parsed_names(text: str) -> tuple[str, ...]:
    return tuple(_unquoted(name.strip()) for name in text.split(",")) if text.strip() else ()


def _unquoted(name: str) -> str:
    return unescape_name(name[1:-1].strip() if len(name) > 1 and name[0] == name[-1] == '"' else name)


def _skip(text: str, position: int) -> int:
    found = IGNORED.match(text, position)
    return found.end() if found else position
