"""Background knowledge as a CSV file: `rule,source,target`, one rule a line.

`required,A,B`: A → B is there. `forbidden,A,B`: it is not. `no-parents,A`: nothing causes A. `tier,A,2`: A stands in
tier 2, and nothing in a tier of a greater number causes it.
"""

import csv
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from fedbnsl.algorithms.core.knowledge import Arc, Knowledge, of_tiers, without_parents
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
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file)
        if tuple(next(lines, ())) != HEADER:
            raise BadInput(f"{path}, line 1: the header must be {','.join(HEADER)}")
        for number, cells in enumerate(lines, start=2):
            if not any(cells):
                continue
            place = f"{path}, line {number}"
            rule, source, target = (*(cell.strip() for cell in cells), "", "", "")[:3]
            if rule not in RULES:
                raise BadInput(f"{place}, column 'rule': {shown(rule)} is none of {', '.join(RULES)}")
            _check_name(place, "source", source, variables)
            if rule in arcs:
                _check_name(place, "target", target, variables)
                arcs[rule].append((source, target))
            elif rule == "tier":
                tiers[_number(place, target)].append(source)
            else:
                roots.append(source)
    in_order = [tiers[number] for number in sorted(tiers)]
    forbidden = (*arcs["forbidden"], *of_tiers(in_order), *without_parents(roots, variables))
    return Knowledge(tuple(arcs["required"]), tuple(dict.fromkeys(forbidden)))


def _check_name(place: str, column: str, name: str, variables: Sequence[str]) -> None:
    if name not in variables:
        raise BadInput(f"{place}, column {column!r}: {shown(name)} is not a column of the data")


def _number(place: str, word: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise BadInput(f"{place}, column 'target': {shown(word)} is no whole number, which a tier has") from None
