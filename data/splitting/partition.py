"""A table of somebody's, of numbers or of labels, split among silos."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import Kind
from fedbnsl.algorithms.errors import BadInput, shown
from fedbnsl.algorithms.graphs.structure import Structure

from ..federated import LEAST_ROWS, FederatedData, continuous, dealt, silo_names
from ..folder.about import ABOUT, read_about
from ..folder.check import check_silo_name, check_table
from ..folder.columns import read_names
from ..folder.declared import Declared, Reading, declared
from ..folder.federation import agreed
from ..folder.scan import check_apart
from ..folder.series import has_time
from ..folder.table import read_table
from ..folder.truth import read_truth
from .parts import by_column, by_sizes, dirichlet, equal, label_skew

__all__ = ["by_column", "by_sizes", "deal", "dirichlet", "equal", "label_skew", "split_table"]

DEALT = ("continuous", "discrete")
"""the kinds of data whose rows are dealt one by one"""
WHOLE = "whole"
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
    whole, owners = _read(path, kind, by)
    chosen = {"silos": silos, "sizes": sizes, "concentration": concentration, "by": by, "skew": skew}
    how = {name: value for name, value in chosen.items() if value is not None}
    about = {"generator": "split", "parameters": {"table": path.name} | how}
    schema = whole.schema
    graph = read_truth(truth, schema.variables, tuple(schema.aside))[0] if truth is not None else None
    whole = replace(whole, truth=graph, about=whole.about | about)
    rows = len(whole.tables[WHOLE])
    if by is not None:
        return _give(whole, _silos_of(path, by, owners))
    rng = np.random.default_rng(seed)
    if skew is not None:
        parts = label_skew(
            _codes_of(path, whole, skew), silos or 0, SKEW if concentration is None else concentration, rng
        )
    elif sizes is not None:
        parts = by_sizes(rows, sizes, rng)
    elif concentration is not None:
        parts = dirichlet(rows, silos or 0, concentration, rng)
    else:
        parts = equal(rows, silos or 0, rng)
    whole = replace(whole, about=whole.about | {"seed": seed})
    return _give(whole, dict(zip(silo_names(len(parts)), parts, strict=True)))


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


def _read(path: Path, kind: Kind | None, by: str | None) -> tuple[FederatedData, list[str]]:
    """Return the rows of the table as those of one silo, and what the column `by` says of each, which is left out."""
    beside = read_about(path.parent) if (path.parent / ABOUT).is_file() else {}
    about = beside if path.name in beside.get("checksums", {}) else {}
    if kind is not None:
        about = {"kind": kind, "levels": about.get("levels", {}) if kind == "discrete" else {}}
    said = declared(about)
    by_itself = replace(said, reading=Reading(ignore=(by,) if by is not None else ()))
    if said.kind == "time-series" or (said.may_be_series and has_time(path, by_itself)):
        raise BadInput(
            f"{path}: its column 'time' or its about.json makes it time series, whose rows are not dealt one by one: "
            "deal whole series with `prepare series`, or say that its kind is continuous"
        )
    owners: list[str] = []
    if by is not None:
        check_apart(path, read_names(path, said.form), by)
        owners = read_table(path, Declared(form=said.form, reading=Reading(only=(by,)))).labels(by)
    table = read_table(path, by_itself)
    found = agreed(str(path), lambda asked: {WHOLE: table.profile()}, by_itself, {WHOLE: str(path)})
    whole = FederatedData(found.schema, {WHOLE: table.rows(found.schema)}, None, {}, {"kind": found.schema.kind})
    return replace(whole, notes=found.notes), owners


def _give(whole: FederatedData, parts: Mapping[str, NDArray[np.intp]]) -> FederatedData:
    """Give every silo its rows. Raises `BadInput` for a column that would be set aside, as no silo has two values."""
    made = dealt(whole, parts, {})
    return replace(made, notes=whole.notes)


def _codes_of(path: Path, whole: FederatedData, skew: str) -> NDArray[np.int64]:
    if not whole.schema.levels:
        raise BadInput(f"skew: {path} holds numbers; the levels of a column can be skewed in discrete data only")
    if skew not in whole.schema.levels:
        named = ", ".join(list(whole.schema.levels)[:8])
        raise BadInput(f"{path}: column {shown(skew)} is missing; there are {named}")
    codes = whole.tables[WHOLE][:, whole.schema.variables.index(skew)]
    return np.asarray(np.nan_to_num(codes, nan=-1.0), dtype=np.int64)


def _silos_of(path: Path, by: str, labels: Sequence[str]) -> dict[str, NDArray[np.intp]]:
    parts = by_column(labels)
    for silo, rows in parts.items():
        check_silo_name(f"{path}: column {shown(by)}", silo)
        if len(rows) < LEAST_ROWS:
            raise BadInput(f"{path}: column {shown(by)}: only one row has the value {shown(silo)}; a silo needs two")
    return parts
