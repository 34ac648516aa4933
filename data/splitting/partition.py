"""A table of somebody's, of numbers or of labels, split among silos."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import Kind
from fedbnsl.algorithms.errors import BadInput, shown
from fedbnsl.algorithms.graphs.structure import Structure

from ..federated import LEAST_ROWS, FederatedData, continuous, dealt, silo_names
from ..folder.about import ABOUT, declared_levels, read_about
from ..folder.check import check_silo_name, check_table
from ..folder.kind import kind_of
from ..folder.labels import LabelTable, read_labels
from ..folder.levels import joint_schema
from ..folder.table import Table, read_table
from ..folder.truth import read_truth
from .parts import by_column, by_sizes, dirichlet, equal, label_skew

__all__ = ["by_column", "by_sizes", "deal", "dirichlet", "equal", "label_skew", "split_table"]

DEALT = ("continuous", "discrete")
"""the kinds of data whose rows are dealt one by one"""
SKEW = 0.5
"""the concentration of skewed labels if none is given"""


def split_table(
    path: Path,
    seed: int,
    silos: int | None = None,
    sizes: Sequence[int] | None = None,
    concentration: float | None = None,
    by: str | None = None,
    skew: str | None = None,
    kind: Kind | None = None,
    truth: Path | None = None,
) -> FederatedData:
    """Split the table in `path` (.csv, .csv.gz or .parquet) among silos; `truth` is a file of the true graph, if known.

    Give one of: `silos` (equal parts), `silos` and `concentration` (Dirichlet-skewed sizes), `silos` and `skew` (each
    level of that column spread by Dirichlet shares of its own, discrete data only), `sizes`, or `by` (a silo per value
    of that column, which is dropped). The kind of data is the given one, else that of the federated data set that the
    table is a silo of, with its levels, else what it looks like. Raises `BadInput` as `read_table` or `read_labels` do,
    for time series, for a choice that is none of these, and for a silo that would have fewer than two rows or, of
    numbers, a constant column.
    """
    _check_choice(silos, sizes, concentration, by, seed, skew, kind)
    table = _read(path, kind, by)
    chosen = {"silos": silos, "sizes": sizes, "concentration": concentration, "by": by, "skew": skew}
    how = {name: value for name, value in chosen.items() if value is not None}
    about = {"generator": "split", "parameters": {"table": path.name} | how}
    graph = read_truth(truth, table.variables)[0] if truth is not None else None
    if by is not None:
        return _give(path, table, _silos_of(path, by, table.apart), graph, about)
    rng = np.random.default_rng(seed)
    if skew is not None:
        parts = label_skew(
            _codes_of(path, table, skew), silos or 0, SKEW if concentration is None else concentration, rng
        )
    elif sizes is not None:
        parts = by_sizes(len(table), sizes, rng)
    elif concentration is not None:
        parts = dirichlet(len(table), silos or 0, concentration, rng)
    else:
        parts = equal(len(table), silos or 0, rng)
    return _give(path, table, dict(zip(silo_names(len(parts)), parts, strict=True)), graph, about | {"seed": seed})


def deal(
    values: NDArray[np.float64],
    variables: tuple[str, ...],
    parts: Mapping[str, NDArray[np.intp]],
    truth: Structure | None,
    about: dict[str, Any],
    origin: str,
) -> FederatedData:
    """Give every silo its rows of `values` [n_rows, n_variables]. Raises `BadInput` if one cannot be learned from."""
    tables = {silo: values[rows] for silo, rows in parts.items()}
    for silo, table in tables.items():
        check_table(f"{origin}: silo {shown(silo)}", variables, table)
    return FederatedData(continuous(tables, variables), tables, truth, {}, about)


def _check_choice(
    silos: int | None,
    sizes: Sequence[int] | None,
    concentration: float | None,
    by: str | None,
    seed: int,
    skew: str | None,
    kind: str | None,
) -> None:
    given = [silos is not None, sizes is not None, by is not None]
    if sum(given) != 1 or (silos is None and (concentration is not None or skew is not None)):
        raise BadInput("split: give one of silos (with or without concentration), sizes, or by")
    if seed < 0:
        raise BadInput(f"seed: {seed} is less than 0")
    if kind is not None and kind not in DEALT:
        raise BadInput(f"kind: {kind!r} is not one of {', '.join(DEALT)}")


def _read(path: Path, kind: Kind | None, by: str | None) -> Table | LabelTable:
    """Read the table as what it is said to be, or looks like, the column `by` apart."""
    beside = read_about(path.parent) if (path.parent / ABOUT).is_file() else {}
    about = beside if path.name in beside.get("checksums", {}) else {}
    if kind is not None:
        about = {"kind": kind, "levels": about.get("levels", {}) if kind == "discrete" else {}}
    found = kind_of([path], about, by)
    if found == "time-series":
        raise BadInput(
            f"{path}: its column 'time' or its about.json makes it time series, whose rows are not dealt one by one: "
            "deal whole series with `prepare series`, or say that its kind is continuous"
        )
    return read_labels(path, declared_levels(about), by) if found == "discrete" else read_table(path, by)


def _give(
    path: Path,
    table: Table | LabelTable,
    parts: Mapping[str, NDArray[np.intp]],
    truth: Structure | None,
    about: dict[str, Any],
) -> FederatedData:
    if isinstance(table, Table):
        return deal(table.values, table.variables, parts, truth, {"kind": "continuous", **about}, str(path))
    schema = joint_schema(str(path), [table.schema("whole")], {})
    whole = FederatedData(schema, {"whole": table.codes}, truth, {}, {"kind": "discrete", **about})
    return dealt(whole, parts, {})


def _codes_of(path: Path, table: Table | LabelTable, skew: str) -> NDArray[np.int64]:
    if isinstance(table, Table):
        raise BadInput(f"skew: {path} holds numbers; the levels of a column can be skewed in discrete data only")
    if skew not in table.variables:
        raise BadInput(f"{path}: column {shown(skew)} is missing; there are {', '.join(table.variables[:8])}")
    return table.codes[:, table.variables.index(skew)]


def _silos_of(path: Path, by: str, labels: Sequence[str]) -> dict[str, NDArray[np.intp]]:
    parts = by_column(labels)
    for silo, rows in parts.items():
        check_silo_name(f"{path}: column {shown(by)}", silo)
        if len(rows) < LEAST_ROWS:
            raise BadInput(f"{path}: column {shown(by)}: only one row has the value {shown(silo)}; a silo needs two")
    return parts
