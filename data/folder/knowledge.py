"""Background knowledge as a CSV file: `rule,source,target`, one rule a line.

`required,A,B`: A → B is there. `forbidden,A,B`: it is not. `no-parents,A`: nothing causes A. `tier,A,2`: A stands in
tier 2, and nothing in a tier of a greater number causes it.
"""

import csv
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from fedbnsl.algorithms.core.knowledge import Arc, Knowledge, of_tiers, without_parents
from fedbnsl.algorithms.core.safe_cells import plain_cell
from fedbnsl.algorithms.errors import BadInput, shown

HEADER = ("rule", "source", "target")
RULES = ("required", "forbidden", "no-parents", "tier")


def read_knowledge(path: Path, variables: Sequence[str]) -> Knowledge:
    """Return what the file says of graphs over `variables`.

    Raises `BadInput` naming file, line, column and value: no such file, another header, an unknown rule or variable, a
    tier that is no whole number, and rules that contradict each other.
    """
    if not path.is_file():
        raise BadInput(f"{path}: no such file")
    arcs: dict[str, list[Arc]] = {"required": [], "forbidden": []}
    tiers: dict[int, list[str]] = defaultdict(list)
    roots: list[str] = []
    for place, (rule, source, target) in _rules(path):
        if rule not in RULES:
            raise BadInput(f"{place}, column 'rule': {shown(rule)} is none of {', '.join(RULES)}")
        source = _named(place, "source", source, variables)
        if rule in arcs:
            arcs[rule].append((source, _named(place, "target", target, variables)))
        elif rule == "tier":
            tiers[_number(place, target)].append(source)
        else:
            roots.append(source)
    in_order = [tiers[number] for number in sorted(tiers)]
    forbidden = (*arcs["forbidden"], *of_tiers(in_order), *without_parents(roots, variables))
    return Knowledge(tuple(arcs["required"]), tuple(dict.fromkeys(forbidden)))


def _rules(path: Path) -> Iterator[tuple[str, tuple[str, str, str]]]:
    """Yield the place of each line below the header that is not empty, and its three cells."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file)
            if tuple(next(lines, ())) != HEADER:
                raise BadInput(f"{path}, line 1: the header must be {','.join(HEADER)}")
            for number, cells in enumerate(lines, start=2):
                if any(cells):
                    rule, source, target = (*(cell.strip() for cell in cells), "", "", "")[:3]
                    yield f"{path}, line {number}", (rule, source, target)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{path}: not a CSV file in UTF-8: {error}") from None


def _named(place: str, column: str, cell: str, variables: Sequence[str]) -> str:
    """Return the variable that a cell names, as it is or as the files of a run write it."""
    name = cell if cell in variables else plain_cell(cell)
    if name not in variables:
        raise BadInput(f"{place}, column {column!r}: {shown(cell)} is not a column of the data")
    return name


def _number(place: str, word: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise BadInput(f"{place}, column 'target': {shown(word)} is no whole number, which a tier has") from None
