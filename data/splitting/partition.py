"""Splitting a user's table among silos; its columns are numbers, labels or both.

Rows can be dealt in equal parts, in parts of given or of Dirichlet-skewed sizes, by the values of a column, with skewed
labels, or by a hidden child of some columns, whose value is the silo.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import Kind
from fedbnsl.algorithms.errors import BadInput, listed, quoted
from fedbnsl.algorithms.graphs.structure import Structure

from ..defaults import SmallSilos
from ..federated import MIN_SILO_ROWS, FederatedData, continuous, deal_rows, silo_names, survival_apart
from ..folder.about import ABOUT, Reading, declarations, read_about
from ..folder.batches import labels_in
from ..folder.check import check_label_column, check_table
from ..folder.harmonise import OTHERS, silos_of
from ..folder.schema_inference import negotiate_schema
from ..folder.series import has_regular_time
from ..folder.sources import open_source
from ..folder.table import open_table
from ..folder.truth import read_truth

Parts = list[NDArray[np.intp]]


def equal(rows: int, silos: int, rng: np.random.Generator) -> Parts:
    """Shuffle `rows` rows and deal them in parts whose sizes differ by at most one, larger parts first.

    Returns the row numbers of each part. Raises `BadInput` if a silo would get fewer than two rows.
    """
    _check_silos(rows, silos)
    sizes = [rows // silos + (number < rows % silos) for number in range(silos)]
    return by_sizes(rows, sizes, rng)


def by_sizes(rows: int, sizes: Sequence[int], rng: np.random.Generator) -> Parts:
    """Shuffle `rows` rows and deal them in parts of these `sizes`.

    Raises `BadInput` for a size of fewer than two rows, and unless the `sizes` add up to `rows`.
    """
    for size in sizes:
        if size < MIN_SILO_ROWS:
            raise BadInput(f"sizes: {size} is less than {MIN_SILO_ROWS} rows")
    if sum(sizes) != rows:
        raise BadInput(f"sizes: {'+'.join(map(str, sizes)) or 0} = {sum(sizes)}, but the table has {rows} rows")
    return [np.sort(part) for part in np.split(rng.permutation(rows), np.cumsum(sizes)[:-1])]


def dirichlet(rows: int, silos: int, concentration: float, rng: np.random.Generator) -> Parts:
    """Shuffle `rows` rows and deal them in parts whose shares come from Dirichlet(concentration, ...).

    A small concentration gives one silo nearly all rows, and a large concentration gives nearly equal parts. Every silo
    gets two rows first. Raises `BadInput` for a concentration that is not positive, and for too few rows.
    """
    _check_concentration(concentration)
    _check_silos(rows, silos)
    shares = rng.dirichlet(np.full(silos, concentration)) * (rows - MIN_SILO_ROWS * silos)
    sizes = np.floor(shares).astype(int)
    largest_rests = np.argsort(sizes - shares, kind="stable")[: rows - MIN_SILO_ROWS * silos - sizes.sum()]
    sizes[largest_rests] += 1
    return by_sizes(rows, [int(size) + MIN_SILO_ROWS for size in sizes], rng)


def by_column(labels: Sequence[str]) -> dict[str, NDArray[np.intp]]:
    """The row numbers of each value of a column, without shuffling; values are sorted."""
    codes, owner = np.unique(np.asarray(labels, dtype=object).astype(str), return_inverse=True)
    return {str(code): np.flatnonzero(owner == number) for number, code in enumerate(codes)}


def label_skew(codes: NDArray[np.int64], silos: int, concentration: float, rng: np.random.Generator) -> Parts:
    """Deal the rows so that the levels of one column, `codes` [n_rows], have different distributions over the silos.

    Every silo first gets two rows of any levels. The silos' shares of the other rows of each level are drawn from
    Dirichlet(concentration, ...) (Hsu, Qi, Brown 2019). A small concentration gives each level to a few silos. Raises
    `BadInput` for a concentration that is not positive, and for too few rows.
    """
    _check_concentration(concentration)
    _check_silos(len(codes), silos)
    shuffled = rng.permutation(len(codes))
    owner = np.empty(len(codes), dtype=np.intp)
    owner[shuffled[: MIN_SILO_ROWS * silos]] = np.tile(np.arange(silos), MIN_SILO_ROWS)
    rest = shuffled[MIN_SILO_ROWS * silos :]
    for level in np.unique(codes):
        rows = rest[codes[rest] == level]
        ends = np.cumsum(rng.dirichlet(np.full(silos, concentration)))[:-1] * len(rows)
        owner[rows] = np.searchsorted(np.rint(ends), np.arange(len(rows)), side="right")
    return [np.flatnonzero(owner == silo) for silo in range(silos)]


def by_hidden_child(codes: NDArray[np.int64], silos: int, concentration: float, rng: np.random.Generator) -> Parts:
    """Draw the silo of each row given its values in some columns, `codes` [n_rows, n_columns].

    For every configuration of the columns that occurs, P(silo | configuration) is drawn from Dirichlet(concentration,
    ...). The silo is a hidden child of the columns: the surrogate variable of Wang, Ma & Wang 2023, Def. 1. Raises
    `BadInput` for a concentration that is not positive, and for a silo with fewer than two rows.
    """
    _check_concentration(concentration)
    _check_silos(len(codes), silos)
    configurations, configuration = np.unique(codes, axis=0, return_inverse=True)
    ends = np.cumsum(rng.dirichlet(np.full(silos, concentration), len(configurations)), axis=1)[:, :-1]
    owner = (rng.random(len(codes))[:, None] >= ends[configuration.reshape(-1)]).sum(axis=1)
    parts = [np.flatnonzero(owner == silo) for silo in range(silos)]
    least = min(map(len, parts))
    if least < MIN_SILO_ROWS:
        raise BadInput(
            f"silos: one of {silos} would get {least} of {len(codes)} rows, a silo needs {MIN_SILO_ROWS}: give fewer "
            "silos or a larger concentration"
        )
    return parts


def _check_silos(rows: int, silos: int) -> None:
    if silos < 1:
        raise BadInput(f"silos: {silos} is less than 1")
    if rows < MIN_SILO_ROWS * silos:
        needed = MIN_SILO_ROWS * silos
        raise BadInput(
            f"silos: {silos} silos of at least {MIN_SILO_ROWS} rows need {needed} rows, the table has {rows}"
        )


def _check_concentration(concentration: float) -> None:
    if not 0 < concentration < np.inf:
        raise BadInput(f"concentration: {concentration} is not a positive number")


__all__ = ["by_column", "by_sizes", "deal", "dirichlet", "equal", "label_skew", "split_table"]

SUPPORTED_KINDS = ("continuous", "discrete")
"""the values of `kind`; without it, tables of numbers and labels can be split, too"""
WHOLE = "whole"
DEFAULT_CONCENTRATION = 0.5
"""the default concentration for skewed labels and for a hidden child"""


def split_table(
    path: Path,
    seed: int,
    silos: int | None = None,
    sizes: Sequence[int] | None = None,
    concentration: float | None = None,
    by: str | None = None,
    small_silos: SmallSilos = "leave-out",
    skew: str | None = None,
    surrogate: int | None = None,
    kind: Kind | None = None,
    truth: Path | None = None,
) -> FederatedData:
    """Split the table in `path` among silos; `truth` is a file of the true graph, if known.

    Give one of these combinations:

    - `silos`: equal parts.
    - `silos` and `concentration`: Dirichlet-skewed sizes.
    - `silos` and `skew`, optionally `concentration`: each level of the column `skew` has its own Dirichlet shares.
    - `silos` and `surrogate`, optionally `concentration`: the silo is a hidden child of `surrogate` random
      columns. Of a numeric column, it depends only on whether the value is above the median.
    - `sizes`: parts of these sizes.
    - `by`: a silo for each value of the column `by`, which is dropped. Rows without a value, or with one that no other
      row has, are left out; with `small_silos` "merge", they form one silo.

    `kind` is the kind of the data. By default, kind and levels come from the about.json beside the table, if it has a
    checksum of the table. If not, kind and levels are inferred. Raises `BadInput` for time series, for other
    combinations of arguments, for a silo with fewer than two rows, and as `open_table` does.
    """
    _check_choice(silos, sizes, concentration, by, seed, skew, surrogate, kind)
    whole, owners = _read(path, kind, by)
    choices = {
        "silos": silos,
        "sizes": sizes,
        "concentration": concentration,
        "by": by,
        "skew": skew,
        "surrogate": surrogate,
    }
    given = {name: value for name, value in choices.items() if value is not None}
    about = {"generator": "split", "parameters": {"table": path.name} | given}
    schema = whole.schema
    graph = read_truth(truth, schema.nodes, tuple(schema.aside))[0] if truth is not None else None
    whole = replace(whole, truth=graph, about=whole.about | about)
    if by is not None:
        parts, notes = _silos_of(path, by, owners, small_silos)
        return _deal(replace(whole, notes=(*notes, *whole.notes)), parts)
    dealt = _parts(path, whole, np.random.default_rng(seed), silos, sizes, concentration, skew, surrogate)
    whole = replace(whole, about=whole.about | {"seed": seed})
    return _deal(whole, dict(zip(silo_names(len(dealt)), dealt, strict=True)))


def _parts(
    path: Path,
    whole: FederatedData,
    rng: np.random.Generator,
    silos: int | None,
    sizes: Sequence[int] | None,
    concentration: float | None,
    skew: str | None,
    surrogate: int | None,
) -> Parts:
    """The row numbers of each silo, for all choices except `by`."""
    rows, uneven = len(whole.tables[WHOLE]), DEFAULT_CONCENTRATION if concentration is None else concentration
    if skew is not None:
        return label_skew(_codes_of(path, whole, skew), silos or 0, uneven, rng)
    if surrogate is not None:
        return by_hidden_child(_surrogate_codes(whole, surrogate, rng), silos or 0, uneven, rng)
    if sizes is not None:
        return by_sizes(rows, sizes, rng)
    if concentration is not None:
        return dirichlet(rows, silos or 0, concentration, rng)
    return equal(rows, silos or 0, rng)


def deal(
    values: NDArray[np.float64],
    variables: tuple[str, ...],
    parts: Mapping[str, NDArray[np.intp]],
    truth: Structure | None,
    about: dict[str, Any],
    origin: str,
) -> FederatedData:
    """Give every silo its rows of `values` [n_rows, n_variables]. Raises `BadInput` for an unusable table of a silo."""
    tables = {silo: values[rows] for silo, rows in parts.items()}
    for silo, table in tables.items():
        check_table(f"{origin}: silo {quoted(silo)}", variables, table)
    return FederatedData(continuous(tables, variables), tables, truth, {}, about)


def _check_choice(
    silos: int | None,
    sizes: Sequence[int] | None,
    concentration: float | None,
    by: str | None,
    seed: int,
    skew: str | None,
    surrogate: int | None,
    kind: str | None,
) -> None:
    given = [silos is not None, sizes is not None, by is not None]
    with_silos = [concentration is not None, skew is not None, surrogate is not None]
    if sum(given) != 1 or (silos is None and any(with_silos)):
        raise BadInput("split: give one of silos, sizes, or by; concentration, skew and surrogate only with silos")
    if skew is not None and surrogate is not None:
        raise BadInput("split: give skew or surrogate, not both")
    if seed < 0:
        raise BadInput(f"seed: {seed} is less than 0")
    if kind is not None and kind not in SUPPORTED_KINDS:
        raise BadInput(f"kind: {kind!r} is not one of {', '.join(SUPPORTED_KINDS)}")


def _read(path: Path, kind: Kind | None, by: str | None) -> tuple[FederatedData, list[str]]:
    """The table as the data of a single silo, without the column `by`, and the labels of that column.

    Raises `BadInput` for time series.
    """
    beside = read_about(path.parent) if (path.parent / ABOUT).is_file() else {}
    about = beside if path.name in beside.get("checksums", {}) else {}
    if kind is not None:
        about = {"kind": kind, "levels": about.get("levels", {}) if kind == "discrete" else {}}
    declared = declarations(about)
    without_by = replace(declared, reading=Reading(ignore=(by,) if by is not None else ()))
    if declared.kind == "time-series" or (declared.may_be_series and has_regular_time(path, without_by)):
        raise BadInput(
            f"{path}: its column 'time' or its about.json makes it time series, whose rows cannot be dealt singly: "
            "deal whole series with `prepare series`, or declare that its kind is continuous"
        )
    owners: list[str] = []
    if by is not None:
        source = open_source(path, declared.form, lambda name: name == by)
        check_label_column(path, source.names, by)
        owners = labels_in(source, by, allow_empty=True)
    table = open_table(path, without_by)
    inferred = negotiate_schema(str(path), lambda _: {WHOLE: table.profile()}, without_by, {WHOLE: str(path)})
    schema, rows = inferred.schema, table.view(inferred.schema.with_survival_columns(), WHOLE).array()
    tables, survival = survival_apart(schema, {WHOLE: rows}, {WHOLE: path})
    excluded = {name: reason for name, reason in schema.aside.items() if name != by}
    notes = (*(f"{name} was left out: {reason}" for name, reason in excluded.items()), *inferred.notes)
    return FederatedData(schema, tables, None, {}, {"kind": schema.kind}, notes, survival=survival), owners


def _deal(whole: FederatedData, parts: Mapping[str, NDArray[np.intp]]) -> FederatedData:
    """Give every silo its rows; the schema lists no excluded columns, because the tables do not have these columns."""
    dealt = deal_rows(whole, parts, {})
    return replace(dealt, schema=replace(dealt.schema, aside={}), notes=whole.notes)


def _codes_of(path: Path, whole: FederatedData, skew: str) -> NDArray[np.int64]:
    if not whole.schema.levels:
        raise BadInput(f"skew: {path} has no column of labels, and only labels can be skewed")
    if skew not in whole.schema.levels:
        raise BadInput(f"skew: {path} has no column of labels {quoted(skew)}; it has {listed(whole.schema.levels)}")
    codes = whole.tables[WHOLE][:, whole.schema.variables.index(skew)]
    return np.asarray(np.nan_to_num(codes, nan=-1.0), dtype=np.int64)


def _surrogate_codes(whole: FederatedData, columns: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Codes [n_rows, columns] of random columns: levels, 1 for numbers above the median and else 0, or -1 if empty.

    Raises `BadInput` for a number of `columns` that the table does not have.
    """
    variables = whole.schema.variables
    if not 1 <= columns <= len(variables):
        raise BadInput(f"surrogate: {columns} is not between 1 and {len(variables)}, the number of columns")
    chosen = np.sort(rng.choice(len(variables), size=columns, replace=False))
    codes = whole.tables[WHOLE][:, chosen].astype(np.float64)
    for k, v in enumerate(chosen):
        if variables[v] not in whole.schema.levels:
            codes[:, k] = np.where(np.isnan(codes[:, k]), np.nan, codes[:, k] > np.nanmedian(codes[:, k]))
    return np.asarray(np.nan_to_num(codes, nan=-1.0), dtype=np.int64)


def _silos_of(
    path: Path, by: str, labels: Sequence[str], small_silos: SmallSilos
) -> tuple[dict[str, NDArray[np.intp]], tuple[str, ...]]:
    """The row numbers of each silo, and a note on rows whose silo has too few rows or no name, if there are any.

    Raises `BadInput` as `silos_of`.
    """
    whole = by_column(labels)
    counts = {silo: len(rows) for silo, rows in whole.items()}
    found = silos_of(str(path), by, counts, merge_small=small_silos == "merge")
    parts = {silo: whole.get(silo, np.empty(0, np.intp)) for silo in found.silos}
    if found.merges:
        few = [whole[label] for label in found.small]
        parts[OTHERS] = np.sort(np.concatenate([parts[OTHERS], *few]))
    return parts, (found.note,) if found.note else ()
