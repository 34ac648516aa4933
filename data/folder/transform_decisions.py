"""Which columns are counts, and which transform each column of numbers has, decided for all silos alike.

A silo's profile says in one word what the shape of a column suggests; the word of most cells counts, so that columns
which are alike are read alike at all silos. What is declared or requested takes precedence.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from fedbnsl.algorithms.core.schema import FloatArray, Schema, Transform
from fedbnsl.algorithms.errors import BadInput, shown
from fedbnsl.algorithms.statistics.moments import chunks, thin_rows
from fedbnsl.algorithms.statistics.transforms import (
    NORMAL_SCORES,
    SAMPLED_ROWS,
    below_domain,
    domain_fault,
    suggested_transforms,
)

from ..federated import FederatedData
from .about import Declared, Reading, declarations
from .joint_columns import JointColumn
from .profile import ColumnProfile
from .scan import MAX_CODES

MIN_COUNT_VALUES, MIN_MORE_COUNT_VALUES = 7, 4
"""distinct values from which on whole numbers may be counts: in any table, and in one that has other counts"""


def count_codings(columns: Mapping[str, JointColumn]) -> dict[str, str]:
    """The columns of counts, each with its coding, as most cells of all silos suggest it.

    Counts start at 0. A column that starts at 1, or whose zeros may mark missing values, is one of labels or numbers.
    """
    found = {
        name: coding
        for name, column in columns.items()
        if column.whole and not column.negative and not (column.words or column.zeros_apart)
        for coding in (column.majority(lambda part: part.counted, "anscombe"),)
        if coding and (column.zeros or column.values > MAX_CODES)
    }
    if not any(columns[name].values >= MIN_COUNT_VALUES for name in found):
        return {}
    return {name: coding for name, coding in found.items() if columns[name].values >= MIN_MORE_COUNT_VALUES}


def transforms_of(
    place: str, numbers: Mapping[str, JointColumn], counts: Mapping[str, str], declared: Declared
) -> dict[str, Transform]:
    """The transform of each column of `numbers` that has one.

    Raises `BadInput` for a transform of a column that has labels or does not exist, and of numbers below its domain.
    """
    if declared.complete:
        return {}
    for name in dict(declared.reading.transforms):
        if name not in numbers and declared.keeps(name):
            raise BadInput(f"{place}: --transform: {shown(name)} is not a column of numbers")
    found: dict[str, Transform] = {}
    for name, column in numbers.items():
        requested = declared.transform_of(name)
        if requested is None and name in counts:
            found[name] = "log1p" if counts[name] == "log1p" else "anscombe"
        elif requested is not None and requested != "none":
            if column.negative and requested != "normal-scores":
                raise BadInput(f"{place}: column {shown(name)}: it has numbers below 0, which have no {requested}")
            found[name] = "log1p" if requested == "log" and column.zeros else requested
    return found


def with_declared_transforms(schema: Schema, declared: Declared) -> Schema:
    """`schema` with the transforms that are declared, of data whose cells may not decide on one.

    The logarithm of time series is ln x, in runs with an ε ln(1 + x): a number below 0 then counts as 0.
    """
    numbers = [name for name in schema.variables if name not in schema.levels]
    for name in dict(declared.reading.transforms):
        if name not in numbers and declared.keeps(name):
            raise BadInput(f"--transform: {shown(name)} is not a column of numbers")
    counts = tuple(name for name in numbers if declared.columns.get(name) == "count")
    found: dict[str, Transform] = {}
    for name in numbers:
        requested = declared.transform_of(name)
        if requested is None and name in counts:
            found[name] = "anscombe"
        elif requested is not None and requested != "none":
            found[name] = "log1p" if requested == "log" and declared.reading.private else requested
    return replace(schema, transforms=found, counts=counts)


def skewed_columns(
    numbers: Mapping[str, JointColumn], transforms: Mapping[str, Transform], declared: Declared
) -> dict[str, Transform]:
    """The transforms to suggest: of the columns that most cells of all silos show as skewed, unless they have one."""
    found: dict[str, Transform] = {}
    for name, column in numbers.items():
        shape = column.majority(lambda part: part.shape, NORMAL_SCORES)
        if shape and name not in transforms and declared.transform_of(name) is None:
            found[name] = "log" if shape == "log" and not (column.negative or column.zeros) else NORMAL_SCORES
    return found


def scales_of(schema: Schema, new: Schema) -> dict[str, Any]:
    """The transforms, counts and suggestions of `schema` for the variables of `new`, which describes fewer rows."""
    names = new.variables
    return {
        "transforms": {name: one for name, one in schema.transforms.items() if name in names},
        "dates": {name: one for name, one in schema.dates.items() if name in names},
        "derived": {name: one for name, one in schema.derived.items() if name in names},
        "counts": tuple(name for name in schema.counts if name in names),
        "skewed": {name: one for name, one in schema.skewed.items() if name in names},
    }


def with_transforms(data: FederatedData, reading: Reading) -> FederatedData:
    """`data` in memory with the requested transforms, or the suggested ones of its schema.

    Raises `BadInput` for a transform of a column that has labels or does not exist, and of numbers below its domain.
    """
    schema, names = data.schema, [name for name in data.schema.variables if name not in data.schema.levels]
    requested = reading.transform != "none" or reading.transforms
    if schema.kind == "discrete" or (schema.kind == "time-series" and not requested):
        return data
    parts: dict[str, dict[str, ColumnProfile]] = {name: {} for name in names}
    for silo, table in data.tables.items():
        sample = thin_rows(table, SAMPLED_ROWS)
        sample = sample[:: max(1, len(sample) // SAMPLED_ROWS)]
        columns = sample[:, [schema.variables.index(name) for name in names]].astype(np.float64)
        lows = reduce(np.fmin, (np.fmin.reduce(rows, axis=0) for rows in chunks(table))) if requested else None
        for v, (name, shape) in enumerate(zip(names, suggested_transforms(columns), strict=True)):
            low = columns[:, v] if lows is None else lows[schema.variables.index(name)]
            parts[name][silo] = ColumnProfile(
                0,
                len(table) if isinstance(table, np.ndarray) else table.shape[0],
                0,
                whole=False,
                negative=bool(np.any(low < 0)),
                zeros=int(np.any(low == 0)),
                shape=shape,
            )
    declared = declarations({"kind": "mixed"}, reading)
    numbers = {name: JointColumn(part, None, "") for name, part in parts.items()}
    transforms = transforms_of("data", numbers, {}, declared)
    skewed = skewed_columns(numbers, transforms, declared)
    return replace(data, schema=replace(schema, transforms=transforms, skewed=skewed))


def check_series_domains(path: Path, variables: tuple[str, ...], values: FloatArray, declared: Declared) -> None:
    """Raise `BadInput` for the first number of time series `[n_rows, d]` that its requested transform cannot take."""
    for name, column in zip(variables, values.T, strict=True):
        requested = declared.transform_of(name)
        if requested is None:
            continue
        row = below_domain(column, requested)
        if row is None and requested == "log" and (column == 0).any():
            raise BadInput(f"{path}: column {shown(name)}: 0 has no logarithm: use --transform sqrt or normal-scores")
        if row is not None:
            raise BadInput(domain_fault(f"{path}: column {shown(name)}", column[row], requested))
