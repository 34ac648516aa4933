"""A federated data set in memory: each silo's table, the public schema, and the true graph if it is known."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import EVENT_COLUMNS, Schema
from fedbnsl.algorithms.errors import BadInput, pluralize, quoted
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.privacy.disclosure_control import MIN_COUNT, share_class
from fedbnsl.algorithms.statistics.outliers import without_far_cells

POOLED = "pooled"
MIN_SILO_ROWS = 2
"""minimum number of rows of a silo"""
SHOWN = 5
"""number of columns that a note lists"""


Stamp = tuple[tuple[str | int, ...], ...]
"""for each file: name, size, modification time, change time, inode, device"""


@dataclass(frozen=True)
class Fingerprint:
    """Identifies the content of the rows at a path. A fingerprint must not leave the silo (`folder/fingerprint.py`)."""

    stamp: Stamp
    settled: bool
    """whether equal stamps imply equal content"""
    digest: bytes = b""
    """the digest of the content, if it was computed; always present if the stamps have not settled"""

    def matches(self, now: "Fingerprint") -> bool:
        """Whether `now`, a later fingerprint of the same path, has the same content."""
        if self.digest and now.digest:
            return self.digest == now.digest
        return self.settled and self.stamp == now.stamp


@dataclass(frozen=True, eq=False)
class FederatedData:
    """The tables of all silos, for experiments; in a real federation nobody has the tables of all silos.

    `tables[silo]` is [n_rows, n_variables], with its columns in the order of `schema.variables`. It is float64 for
    continuous data and time series; for discrete data it has int64 codes, where k means `schema.levels[variable][k]`.
    Tables of mixed data are float64, with numbers in continuous columns and codes in discrete columns. Tables of events
    have the columns `EVENT_COLUMNS`, and further columns with the neighbours of devices. An empty cell is NaN, or −1 in
    discrete data; `schema.empty` counts the empty cells. The silos in `schema.streamed` read their tables in passes
    (`algorithms/statistics/moments.py`).

    If silos have true weights of their own (heterogeneous data, Fassy El Fehri et al., B.1.2), `silo_weights[silo]` has
    them, [n_variables, n_variables]. If the truth is dynamic, these weights are [lags + 1, n_variables, n_variables],
    with lag k at index k. In pooled data, `silo_weights` keeps the names of the original silos. `about` describes the
    origin of the data, in the form of `about.json`.
    """

    schema: Schema
    tables: dict[str, Any]
    truth: Structure | None = None
    silo_weights: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """findings on how the tables were read, one line each"""
    fingerprints: dict[str, Fingerprint] = field(default_factory=dict)
    """the fingerprints of the silos' files before they were read; empty for tables that do not come from files"""
    clusters: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    """by silo, the number of the cluster of each row, `[n_rows]`; empty unless a column names clusters"""
    survival: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    """by silo, the columns of survival outcomes, `[n_rows, schema.survival_columns]`; empty without such outcomes"""

    def __repr__(self) -> str:
        """One line: the kind and the size of the data, and the true graph if it is known."""
        amount = (
            pluralize(len(self.schema.variables), "variable"),
            pluralize(len(self.schema.silos), "silo"),
            pluralize(sum(self.schema.rows.values()), "row"),
        )
        truth = f", truth: {self.truth}" if self.truth is not None else ""
        return f"FederatedData({self.schema.kind}: {', '.join(amount)}{truth})"

    def whole_table(self, silo: str) -> Any:
        """The table of a silo with the columns of survival outcomes, if there are any, after the others."""
        return with_survival_columns(self.tables[silo], self.survival[silo]) if self.survival else self.tables[silo]

    def __post_init__(self) -> None:
        """Raise `ValueError` for tables, weights or a truth that do not fit the schema: a programming error."""
        d = len(self.schema.variables)
        if sorted(self.tables) != list(self.schema.silos):
            raise ValueError(f"tables of {sorted(self.tables)}, schema of {list(self.schema.silos)}")
        for silo, table in self.tables.items():
            shape = (self.schema.rows[silo], len(self.schema.table_columns))
            if self.schema.kind == "events":  # any further columns have the neighbours of devices
                table = table[:, : shape[1]]
            if table.shape != shape:
                raise ValueError(f"{silo}: a table of {table.shape}, not {shape}")
            if isinstance(table, np.ndarray) == (silo in self.schema.streamed):
                raise ValueError(f"{silo}: the table and the schema disagree on whether it is read in passes")
            if silo in self.schema.streamed:
                continue
            if self.schema.kind == "discrete" and not np.issubdtype(table.dtype, np.integer):
                raise ValueError(f"{silo}: a table of {table.dtype}, not of level codes")
        if self.schema.kind == "time-series":
            lengths = {silo: sum(stretches) for silo, stretches in self.schema.stretches.items()}
            if lengths != self.schema.rows:
                raise ValueError(f"stretches of {lengths} rows in total, tables of {self.schema.rows}")
        lags = 0 if self.truth is None else self.truth.lags
        owners = {*self.tables, *self.about.get("pooled_from", ())}
        for silo, weights in self.silo_weights.items():
            if silo not in owners or weights.shape != ((lags + 1, d, d) if lags else (d, d)):
                raise ValueError(f"{silo}: true weights of {weights.shape} for a silo of {d} variables")
        if self.truth is not None and self.truth.variables != self.schema.nodes:
            raise ValueError("the truth's variables are not the schema's")


def pool(data: FederatedData) -> FederatedData:
    """`data` with the single silo "pooled": all rows, silo after silo in sorted order.

    The centralised baselines learn from pooled data. If the rows are continuous or mixed and have no conditions,
    `stretches` has the number of rows of each silo, for learners that centre rows by silo as federated learners do. The
    truth and `weights_after_pooling` stay. Raises `BadInput` for a silo that reads its rows in passes.
    """
    for silo in data.schema.streamed[:1]:
        raise BadInput(f"silo {quoted(silo)} reads its rows in passes: there are too many to pool in memory")
    tables = [data.tables[silo] for silo in data.schema.silos]
    table = np.concatenate(renumbered_devices(tables) if data.schema.kind == "events" else tables)
    stretches = tuple(length for silo in data.schema.silos for length in data.schema.stretches.get(silo, ()))
    if data.schema.kind in ("continuous", "mixed") and not data.schema.condition_names:
        stretches = tuple(len(data.tables[silo]) for silo in data.schema.silos)
    counts = tuple(map(sum, zip(*data.schema.empty.values(), strict=True)))
    schema = replace(
        data.schema,
        rows={POOLED: len(table)},
        stretches={POOLED: stretches} if stretches else {},
        empty={POOLED: counts} if counts else {},
        targets={},
        condition_names={},
        survival={},
        survival_empty={},
    )
    about = {key: value for key, value in data.about.items() if key != "checksums"}
    about |= {"pooled_from": list(data.schema.silos)}
    return FederatedData(
        schema, {POOLED: table}, data.truth, weights_after_pooling(data.silo_weights), about, data.notes
    )


def weights_after_pooling(silo_weights: Mapping[str, NDArray[np.float64]]) -> dict[str, NDArray[np.float64]]:
    """The silos' own true weights that remain meaningful for pooled rows: the weights of time series.

    Structures of time series are always scored by the mean over the silos' true graphs. Other weights are used only to
    score a silo's refit, which pooled rows do not have.
    """
    return {silo: weights for silo, weights in silo_weights.items() if weights.ndim == 3}


def continuous(tables: dict[str, NDArray[np.float64]], variables: tuple[str, ...]) -> Schema:
    """The public schema of continuous `tables`, each [n_rows, n_variables]."""
    return Schema(variables, {silo: len(tables[silo]) for silo in sorted(tables)}, kind="continuous")


def time_series(
    tables: Mapping[str, NDArray[np.float64]], stretches: Mapping[str, tuple[int, ...]], variables: tuple[str, ...]
) -> Schema:
    """The public schema of `tables` [n_rows, n_variables] that consist of unbroken `stretches` of these lengths."""
    silos = sorted(tables)
    rows, lengths = {silo: len(tables[silo]) for silo in silos}, {silo: stretches[silo] for silo in silos}
    return Schema(variables, rows, kind="time-series", stretches=lengths)


def events(tables: Mapping[str, NDArray[np.float64]], types: tuple[str, ...]) -> Schema:
    """The public schema of `tables` of events `[n_events, len(EVENT_COLUMNS)]` of these `types`."""
    return Schema(types, {silo: len(tables[silo]) for silo in sorted(tables)}, kind="events")


def renumbered_devices(tables: Iterable[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
    """The `tables` of events, as wide as the widest, with numbers of devices that are distinct over all tables."""
    found, devices, whole = [], 0.0, list(tables)
    width = max(table.shape[1] for table in whole)
    for table in whole:
        renumbered = np.pad(table, ((0, 0), (0, width - table.shape[1])), constant_values=-1.0)
        numbers = renumbered[:, [0, *range(len(EVENT_COLUMNS), width)]]
        renumbered[:, [0, *range(len(EVENT_COLUMNS), width)]] = np.where(numbers < 0, numbers, numbers + devices)
        found.append(renumbered)
        devices += numbers.max(initial=-1.0) + 1
    return found


def discrete(
    tables: Mapping[str, NDArray[np.int64]], variables: tuple[str, ...], levels: Mapping[str, tuple[str, ...]]
) -> Schema:
    """The public schema of discrete `tables`, level codes [n_rows, n_variables] each."""
    rows = {silo: len(tables[silo]) for silo in sorted(tables)}
    return Schema(variables, rows, kind="discrete", levels={name: tuple(levels[name]) for name in variables})


def mixed(
    tables: Mapping[str, NDArray[np.float64]], variables: tuple[str, ...], levels: Mapping[str, tuple[str, ...]]
) -> Schema:
    """The public schema of mixed `tables` [n_rows, n_variables]; columns without `levels` are continuous."""
    rows = {silo: len(tables[silo]) for silo in sorted(tables)}
    return Schema(variables, rows, kind="mixed", levels={name: tuple(levels[name]) for name in levels})


def with_gaps(schema: Schema, tables: Mapping[str, NDArray[Any]]) -> Schema:
    """`schema` with the counts of the empty cells of `tables` [n_rows, n_variables]."""
    counts = {
        silo: (tables[silo] < 0 if schema.kind == "discrete" else np.isnan(tables[silo])).sum(axis=0)
        for silo in sorted(tables)
    }
    if not any(count.any() for count in counts.values()):
        return replace(schema, empty={})
    return replace(schema, empty={silo: tuple(map(int, count)) for silo, count in counts.items()})


def without_outliers(data: FederatedData) -> FederatedData:
    """`data` with empty cells in place of numbers that are far from the other numbers of their column and silo."""
    schema, tables, counts = data.schema, dict(data.tables), dict[str, tuple[int, ...]]()
    for silo, table in tables.items():
        columns = [
            column if name in schema.levels else without_far_cells(column, schema.transforms.get(name))
            for name, column in zip(schema.variables, table.T, strict=True)
        ]
        tables[silo] = np.column_stack(columns)
        counts[silo] = tuple(map(int, np.isnan(tables[silo]).sum(axis=0) - np.isnan(table).sum(axis=0)))
    notes = (*data.notes, *outlier_notes(schema, counts))
    return replace(data, schema=with_gaps(schema, tables), tables=tables, notes=notes)


def outlier_notes(schema: Schema, counts: Mapping[str, tuple[int, ...]]) -> tuple[str, ...]:
    """A line on outliers that were set aside, with the approximate share for each column and silo."""
    found = [
        (counts[silo][v] / schema.rows[silo], name, silo)
        for silo in sorted(counts)
        for v, name in enumerate(schema.variables)
        if counts[silo][v] >= MIN_COUNT
    ]
    if not found:
        return ("outliers: hardly any cell is far from the others of its column",) if counts else ()
    most = [f"{name} of {silo} ({share_class(share)})" for share, name, silo in sorted(found, reverse=True)[:SHOWN]]
    total = sum(map(sum, counts.values())) / (sum(schema.rows.values()) * len(schema.variables))
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return (f"outliers: {share_class(total)} of the cells are set aside, mostly {', '.join(most)}{more}",)


def silo_names(count: int) -> tuple[str, ...]:
    """The names silo-1, silo-2, ..., padded with zeros so that they sort by number."""
    return tuple(f"silo-{number:0{len(str(count))}d}" for number in range(1, count + 1))


def deal_rows(whole: FederatedData, parts: Mapping[str, NDArray[np.intp]], about: Mapping[str, Any]) -> FederatedData:
    """`whole` with its rows, silo after silo in sorted order, redistributed; `parts` has the row numbers by silo.

    Raises `BadInput` for rows with a column of conditions.
    """
    if whole.schema.condition_names:
        raise BadInput("rows with a column of conditions cannot be divided: declare the conditions after the division")
    all_rows = np.concatenate([whole.tables[silo] for silo in whole.schema.silos])
    tables = {silo: all_rows[rows] for silo, rows in parts.items()}
    schema = replace(whole.schema, rows={silo: len(table) for silo, table in tables.items()}, empty={})
    if whole.schema.gaps:
        schema = with_gaps(schema, tables)
    if not whole.survival:
        return FederatedData(schema, tables, whole.truth, {}, {**whole.about, **about})
    all_times = np.concatenate([whole.survival[silo] for silo in whole.schema.silos])
    survival = {silo: all_times[rows] for silo, rows in parts.items()}
    empty = {silo: tuple(np.isnan(own).sum(axis=0).tolist()) for silo, own in survival.items()}
    schema = replace(schema, survival_empty=empty if any(map(any, empty.values())) else {})
    return FederatedData(schema, tables, whole.truth, {}, {**whole.about, **about}, survival=survival)


def with_survival_columns(table: Any, survival: NDArray[np.float64]) -> NDArray[np.float64]:
    """`table` `[n_rows, d]` of numbers or codes, and the columns of survival outcomes; empty cells are NaN."""
    codes = np.issubdtype(table.dtype, np.integer)
    return np.column_stack([np.where(table < 0, np.nan, table) if codes else table, survival])


def survival_apart(
    schema: Schema, rows: dict[str, Any], places: Mapping[str, object]
) -> tuple[dict[str, Any], dict[str, NDArray[np.float64]]]:
    """By silo, the columns of the variables of `schema`, and those of its survival outcomes, which come last.

    Raises `BadInput`, naming one of the `places`, for outcomes of a silo that reads its rows in passes.
    """
    if not schema.survival:
        return rows, {}
    d, tables = len(schema.variables), dict[str, Any]()
    for silo, found in rows.items():
        if not isinstance(found, np.ndarray):
            raise BadInput(
                f"{places[silo]}: its rows exceed the memory limit, and survival outcomes need them in memory"
            )
        codes = schema.kind == "discrete"
        tables[silo] = np.nan_to_num(found[:, :d], nan=-1.0).astype(np.int64) if codes else found[:, :d]
    return tables, {silo: found[:, d:] for silo, found in rows.items()}
