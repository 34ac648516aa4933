"""Targets of experiments, as `about.json` or `--targets` declares them: the variables that were set in each silo.

`about.json` has them by silo, `{"targets": {"pma": ["PKC"]}}`. A file of `--targets` has the columns silo and variable,
and a line for each target; it replaces those of `about.json`. A silo on its owner's machine describes its own targets.
"""

import csv
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedbnsl.algorithms.core.experiments import Targets, check_targets
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput, quoted

Named = dict[str, tuple[str, ...]]
"""targets by silo"""
HEADER = ["silo", "variable"]
NONE = "none"


def declared_targets(path: Path, about: Mapping[str, Any]) -> Named:
    """The targets in `about`, the content of `path`; raises `BadInput` for anything but lists of names."""
    given = about.get("targets") or {}
    if not isinstance(given, Mapping):
        raise BadInput(f'{path}: targets: not a JSON object such as {{"silo": ["variable"]}}')
    for name, targets in given.items():
        if not isinstance(targets, list | tuple) or not all(isinstance(one, str) for one in targets):
            raise BadInput(f"{path}: targets: {quoted(name)}: not a list of names of variables")
    return {name: tuple(dict.fromkeys(targets)) for name, targets in given.items() if targets}


def read_targets(given: str) -> Named:
    """The targets in the file `given`; no targets for the word none.

    Raises `BadInput` naming file, line and column for a file that does not exist, another header and an empty cell.
    """
    if given == NONE:
        return {}
    path, found = Path(given), dict[str, list[str]]()
    if not path.is_file():
        raise BadInput(f"--targets {given}: no such file; it is a CSV file with columns {','.join(HEADER)}, or none")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file)
            if [cell.strip() for cell in next(lines, [])] != HEADER:
                raise BadInput(f"{path}: line 1: the header must be {','.join(HEADER)}")
            for row in lines:
                cells = [cell.strip() for cell in row]
                if not any(cells):
                    continue
                place = f"{path}: line {lines.line_num}"
                if len(cells) != len(HEADER):
                    raise BadInput(f"{place}: {len(cells)} cells, but the header names {len(HEADER)} columns")
                for column, cell in zip(HEADER, cells, strict=True):
                    if not cell:
                        raise BadInput(f"{place}, column '{column}': the cell is empty")
                found.setdefault(cells[0], []).append(cells[1])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{path}: not a CSV file in UTF-8: {error}") from None
    return {name: tuple(dict.fromkeys(own)) for name, own in found.items()}


def with_targets(
    schema: Schema, named: Mapping[str, tuple[str, ...]], place: str, silos: tuple[str, ...] | None = ()
) -> Schema:
    """`schema` with the targets `named` for its silos, as far as their columns are learned from.

    `silos` may be named, too: silos that take no part; None: any. Raises `BadInput`, from `place`, for the name of a
    silo or of a variable that does not exist.
    """
    known = (*schema.rows, *(silos or ()))
    for silo in named:
        if silo not in known and silos is not None:
            raise BadInput(f"{place}: there is no silo {quoted(silo)}; available: {', '.join(sorted(set(known)))}")
    targets: dict[str, Targets] = {silo: (own,) for silo, own in named.items() if silo in schema.rows}
    check_targets(place, targets, (*schema.variables, *schema.aside))
    return replace(schema, targets={silo: (_learned(own, schema),) for silo, (own,) in targets.items()})


def _learned(targets: tuple[str, ...], schema: Schema) -> tuple[str, ...]:
    """The `targets` that are variables: others are columns that were set aside."""
    return tuple(name for name in targets if name in schema.variables)
