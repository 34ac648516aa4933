"""Read a discrete Bayesian network in the Bayesian Interchange Format (BIF 0.15), as the bnlearn repository writes it.

One pass of three patterns over the text, and each table's numbers at once, so that the largest published networks take
a second. Labels may be anything without spaces, commas and brackets: `<5`, `12+`, `Asy/Patch`.
"""

import gzip
import math
import re
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedbnsl.algorithms.core.schema import FloatArray
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.parameters.networks import DiscreteNetwork

from ..folder.check import check_names, shown

NAME = r'("[^"\n]*"|[^\s{}()|,;"]+)'
PROPERTIES = r"(?:property[^;]*;\s*)*"
SKIPPED = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/|network\s[^{]*\{[^}]*\})+", re.DOTALL)
VARIABLE = re.compile(
    rf"variable\s+{NAME}\s*\{{\s*{PROPERTIES}type\s+discrete\s*\[\s*(\d+)\s*\]\s*\{{([^{{}}]*)\}}\s*;\s*{PROPERTIES}\}}"
)
PROBABILITY = re.compile(rf"probability\s*\(\s*{NAME}\s*(?:\|([^()]*))?\)\s*\{{([^{{}}]*)\}}")
ROW = re.compile(r"\s*\(([^()]*)\)([^;()]*);")
WHOLE = re.compile(r"\s*(table|default)\s([^;()]*);")
PROPERTY = re.compile(r"\s*property[^;]*;")
TOLERANCE = 1e-3
"""how far a published row may be from summing to 1"""
MOST_NUMBERS = 10**8
"""in one table: more would not fit into memory"""


def read_bif(path: Path) -> DiscreteNetwork:
    """Read `path` (.bif or .bif.gz). Raises `BadInput` naming file, line and what is wrong there."""
    try:
        content = path.read_bytes()
        text = (gzip.decompress(content) if path.suffix.lower() == ".gz" else content).decode("utf-8-sig")
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file") from None
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: byte {error.start}: not UTF-8 text") from None
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    return parse_bif(text, str(path))


def parse_bif(text: str, origin: str = "BIF") -> DiscreteNetwork:
    """Return the network that `text` describes; `origin` names it in messages. Raises `BadInput` as `read_bif` does."""
    levels: dict[str, tuple[str, ...]] = {}
    blocks: dict[str, tuple[str, tuple[str, ...], str]] = {}
    position = _skip(text, 0)
    while position < len(text):
        place = f"{origin}: line {text.count(chr(10), 0, position) + 1}"
        if found := VARIABLE.match(text, position):
            name = _bare(found[1])
            if name in levels:
                raise BadInput(f"{place}: the variable {shown(name)} is declared twice")
            levels[name] = _levels(place, name, int(found[2]), _names(found[3]))
        elif found := PROBABILITY.match(text, position):
            name = _bare(found[1])
            if name in blocks:
                raise BadInput(f"{place}: the probabilities of {shown(name)} are given twice")
            blocks[name] = (place, _names(found[2] or ""), found[3])
        else:
            raise BadInput(f"{place}: neither a variable nor probabilities, {shown(text[position : position + 99])}")
        position = _skip(text, found.end())
    check_names(origin, tuple(levels))
    return _network(origin, levels, blocks)


def _network(
    origin: str, levels: dict[str, tuple[str, ...]], blocks: dict[str, tuple[str, tuple[str, ...], str]]
) -> DiscreteNetwork:
    parents: dict[str, tuple[str, ...]] = {}
    tables: dict[str, FloatArray] = {}
    for name, (place, given, body) in blocks.items():
        unknown = [one for one in (name, *given) if one not in levels]
        if unknown:
            raise BadInput(f"{place}: the variable {shown(unknown[0])} is not declared")
        if len({name, *given}) != 1 + len(given):
            raise BadInput(f"{place}: {shown(name)} has a parent twice, or itself")
        parents[name], tables[name] = given, _table(place, name, [levels[one] for one in (*given, name)], body)
    missing = [name for name in levels if name not in blocks]
    if missing:
        raise BadInput(f"{origin}: the variable {shown(missing[0])} has no probabilities")
    network = DiscreteNetwork(tuple(levels), levels, parents, tables)
    if cycle := network.structure.cycle:
        raise BadInput(f"{origin}: the network has the cycle {' -> '.join([*cycle, cycle[0]])}")
    return network


def _table(place: str, name: str, levels: Sequence[tuple[str, ...]], body: str) -> FloatArray:
    """Return P(name | parents), [levels of each parent..., levels of `name`]; rows not listed are `default`."""
    shape = tuple(len(one) for one in levels)
    if math.prod(shape) > MOST_NUMBERS:
        raise BadInput(f"{place}: probabilities of {shown(name)}: a table of {math.prod(shape)} numbers is too large")
    rows = ROW.findall(body)
    whole = dict(WHOLE.findall(ROW.sub("", body)))
    rest = PROPERTY.sub("", WHOLE.sub("", ROW.sub("", body))).strip()
    if rest:
        raise BadInput(f"{place}: probabilities of {shown(name)}: {shown(rest)} is not understood")
    if "table" in whole:  # all numbers in counting order, the variable itself counting slowest (BIF 0.15)
        values = _numbers(place, name, whole["table"], math.prod(shape))
        return _checked(place, name, np.moveaxis(values.reshape(shape[-1:] + shape[:-1]), 0, -1))
    table = np.full((math.prod(shape[:-1]), shape[-1]), np.nan)
    if "default" in whole:
        table[:] = _numbers(place, name, whole["default"], shape[-1])
    if rows:
        at = _configurations(place, name, [labels for labels, _ in rows], levels[:-1])
        numbers = ",".join(numbers for _, numbers in rows)
        table[at] = _numbers(place, name, numbers, len(rows) * shape[-1]).reshape(-1, shape[-1])
    return _checked(place, name, table.reshape(shape))


def _configurations(place: str, name: str, rows: list[str], levels: Sequence[tuple[str, ...]]) -> list[int]:
    """Return the number of each row's configuration of the parents, the last parent counting fastest."""
    codes = [{label: code for code, label in enumerate(one)} for one in levels]
    found: list[int] = []
    for row in rows:
        labels = _names(row)
        number = 0
        if len(labels) != len(codes):
            raise BadInput(
                f"{place}: probabilities of {shown(name)}: ({row}) does not name {len(codes)} parents' levels"
            )
        for label, code in zip(labels, codes, strict=True):
            if label not in code:
                raise BadInput(f"{place}: probabilities of {shown(name)}: ({row}): there is no level {shown(label)}")
            number = number * len(code) + code[label]
        found.append(number)
    if len(set(found)) != len(found):
        twice = next(row for row, number in zip(rows, found, strict=True) if found.count(number) > 1)
        raise BadInput(f"{place}: probabilities of {shown(name)}: the row ({twice}) is given twice")
    return found


def _numbers(place: str, name: str, text: str, count: int) -> FloatArray:
    try:
        values = np.array(text.split(","), dtype=np.float64)
    except ValueError as error:
        raise BadInput(f"{place}: probabilities of {shown(name)}: {error}") from None
    if len(values) != count:
        raise BadInput(f"{place}: probabilities of {shown(name)}: {len(values)} numbers where {count} are needed")
    return values


def _checked(place: str, name: str, table: FloatArray) -> FloatArray:
    if np.isnan(table).any():
        raise BadInput(f"{place}: probabilities of {shown(name)}: a configuration of its parents is missing")
    total = table.sum(axis=-1)
    if (table < 0).any() or (abs(total - 1) > TOLERANCE).any():
        wrong = total.flat[int(np.argmax(abs(total - 1)))]
        raise BadInput(f"{place}: probabilities of {shown(name)}: a row is negative or sums to {wrong:.6g}, not 1")
    return table


def _levels(place: str, name: str, count: int, labels: tuple[str, ...]) -> tuple[str, ...]:
    if len(labels) != count or len(set(labels)) != count or count < 1:
        raise BadInput(
            f"{place}: the variable {shown(name)} has {count} levels, but names {', '.join(labels) or 'none'}"
        )
    return labels


def _names(text: str) -> tuple[str, ...]:
    return tuple(_bare(name.strip()) for name in text.split(",")) if text.strip() else ()


def _bare(name: str) -> str:
    return name[1:-1].strip() if len(name) > 1 and name[0] == name[-1] == '"' else name


def _skip(text: str, position: int) -> int:
    found = SKIPPED.match(text, position)
    return found.end() if found else position
