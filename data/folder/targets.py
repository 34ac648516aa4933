"""Targets of experiments, as `about.json` or `--targets` declares them: the variables that were set in each silo.

`about.json` has them by silo, `{"targets": {"pma": ["PKC"]}}`. A file of `--targets` has the columns silo and variable,
and a line for each target; its targets replace those of `about.json`. A silo on its owner's machine describes its own
targets.

A column may name the condition of each row (`--condition`, or `condition` in `about.json`). In this case, `about.json`
has the targets by condition, the file of `--targets` has the columns condition and variable, and the rows of a silo are
ordered by condition.
"""

import csv
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from fedbnsl.algorithms.core.experiments import Targets, check_targets
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput, quoted

Named = dict[str, tuple[str, ...]]
"""targets by silo, or by condition"""
HEADERS = (["silo", "variable"], ["condition", "variable"])
NONE = "none"
UNKNOWN = "unknown"
"""the value of `--targets` with which the run reads no targets and finds them itself"""


def read_targets(given: str) -> Named:
    """The targets in the file `given`; no targets for the words none and unknown.

    Raises `BadInput` if the file does not exist or is not CSV, for another header, for a line with too few or too many
    cells, and for an empty cell.
    """
    if given in (NONE, UNKNOWN):
        return {}
    path, found = Path(given), dict[str, list[str]]()
    if not path.is_file():
        raise BadInput(f"--targets {given}: no such file; give none, unknown, or a CSV file with columns silo,variable")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file)
            header = [cell.strip() for cell in next(lines, [])]
            if header not in HEADERS:
                raise BadInput(f"{path}: line 1: the header must be {' or '.join(map(','.join, HEADERS))}")
            for row in lines:
                cells = [cell.strip() for cell in row]
                if not any(cells):
                    continue
                place = f"{path}: line {lines.line_num}"
                if len(cells) != len(header):
                    raise BadInput(f"{place}: {len(cells)} cells, but the header names {len(header)} columns")
                for column, cell in zip(header, cells, strict=True):
                    if not cell:
                        raise BadInput(f"{place}, column '{column}': the cell is empty")
                found.setdefault(cells[0], []).append(cells[1])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{path}: not a CSV file in UTF-8: {error}") from None
    return {name: tuple(dict.fromkeys(own)) for name, own in found.items()}


def with_targets(
    schema: Schema,
    named: Mapping[str, tuple[str, ...]],
    place: str,
    silos: tuple[str, ...] | None = (),
    condition: str | None = None,
    *,
    unknown: bool = False,
) -> Schema:
    """`schema` with the targets `named` for its silos, without targets that are not variables of the schema.

    If the targets are `unknown`, the returned schema has none. `named` may also contain `silos` that take no part in
    the run, or any silo if `silos` is None. With a column `condition`, `named` has the targets by condition. Raises
    `BadInput` for a silo, condition or column that does not exist, with the `place` of the targets, and for a column of
    conditions without targets.
    """
    if unknown:
        return replace(schema, targets={})
    if condition is not None:
        return _with_targets_by_condition(schema, named, place, condition, some=silos is None)
    known = (*schema.rows, *(silos or ()))
    for silo in named:
        if silo not in known and silos is not None:
            raise BadInput(f"{place}: there is no silo {quoted(silo)}; available: {', '.join(sorted(set(known)))}")
    targets: dict[str, Targets] = {silo: (own,) for silo, own in named.items() if silo in schema.rows}
    check_targets(place, targets, (*schema.variables, *schema.aside))
    return replace(schema, targets={silo: (_learned(own, schema),) for silo, (own,) in targets.items()})


def named_targets(schema: Schema) -> Named:
    """The targets in `schema` as they are declared: by condition if it has conditions, else by silo."""
    found: dict[str, dict[str, None]] = {}
    for silo, each in schema.targets.items():
        for name, own in zip(schema.condition_names.get(silo, (silo,)), each, strict=True):
            found.setdefault(name, {}).update(dict.fromkeys(own))
    return {name: tuple(own) for name, own in found.items() if own}


def _with_targets_by_condition(
    schema: Schema, named: Mapping[str, tuple[str, ...]], place: str, condition: str, *, some: bool
) -> Schema:
    """`schema` with the targets `named` by condition; if only `some` silos are read, unknown conditions are allowed.

    Raises `BadInput` as `with_targets` does.
    """
    if not schema.condition_names:
        raise BadInput(f"--condition {quoted(condition)} is for tables, and the data are {schema.kind}")
    known = sorted({name for names in schema.condition_names.values() for name in names})
    if not named:
        example = f'{{"targets": {{"{known[-1]}": ["{schema.variables[0]}"]}}}}'
        raise BadInput(
            f"--condition {quoted(condition)} needs the variables that were set in each condition: declare them in "
            f"about.json, such as {example}, or in a file with the columns condition,variable (--targets FILE)"
        )
    for name, targets in named.items():
        if name not in known and not some:
            raise BadInput(f"{place}: there is no condition {quoted(name)}; available: {', '.join(known)}")
        for target in targets:
            if target not in (*schema.variables, *schema.aside):
                raise BadInput(
                    f"{place}: condition {quoted(name)} targets {quoted(target)}, which is not a column of the data"
                )
    own = {
        silo: tuple(_learned(named.get(name, ()), schema) for name in names)
        for silo, names in schema.condition_names.items()
    }
    return replace(schema, targets={silo: each for silo, each in own.items() if any(each)})


def _learned(targets: tuple[str, ...], schema: Schema) -> tuple[str, ...]:
    """The `targets` that are variables of `schema`; the other targets are columns that were excluded."""
    return tuple(name for name in targets if name in schema.variables)
