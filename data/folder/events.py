"""Event sequences: a silo's table with a row for each event, its time, its type and, optionally, its device.

The columns are `time`, `event`, `device` and `neighbours`, in capitals or not. A cell of `neighbours` lists the devices
that are linked with the device of the row, separated by semicolons. Times are numbers, quarters or months, which are
numbered, or dates, which are converted to seconds. Without a column `device`, all events of a silo belong to one
device. If `about.json` has `{"window": [begin, end]}`, in the unit of the times or as dates, all devices are observed
in this window. By default, a device is observed from its first to its last event. The variables of the public schema
are the types of events over all silos.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import EVENT_COLUMNS, FloatArray, Schema, check_names
from fedbnsl.algorithms.errors import BadInput, quoted

from .about import NO_DECLARATION, Declared
from .batches import Column, Source, check_cells, columns_in_memory
from .cells import canonical_order, cell_fault, empty_cells, fold_spelling, labels_of
from .check import check_label_column, check_labels
from .dates import periods_of, times_of
from .formats import BROKEN, kind_of
from .series import TIME, find_column
from .sources import left_out_names, source_of

NO_EPSILON = "--epsilon: no learner of event sequences is private"
EVENT, DEVICE, NEIGHBOURS = "event", "device", "neighbours"
"""columns of a silo's file besides the times"""


@dataclass(frozen=True)
class DescribedEvents:
    """The public description of event sequences: the types of events, and the number of events."""

    silo: str
    types: tuple[str, ...]
    rows: int
    linked: bool = False
    """whether devices have neighbours"""
    excluded: tuple[str, ...] = ()
    """the columns that the reader excluded"""
    are_dates: bool = False
    """whether the times are dates"""

    @property
    def variables(self) -> tuple[str, ...]:
        """The types of events."""
        return self.types


@dataclass(frozen=True, eq=False)
class EventTable:
    """A silo's events, sorted by device, time and code.

    The columns of `values` `[n, 5 + links]` are device, time, code of the type (an index into `types`), begin and end
    of the device's window, and the numbers of up to `links` neighbours of the device, filled up with -1.
    """

    types: tuple[str, ...]
    values: FloatArray
    excluded: tuple[str, ...] = ()
    """the columns that were not read"""
    are_dates: bool = False
    """whether the times are dates, which are read as seconds"""

    @property
    def linked(self) -> bool:
        """Whether any device has a neighbour."""
        return bool(self.values.shape[1] > len(EVENT_COLUMNS))

    def described(self, silo: str) -> DescribedEvents:
        """The public description of the events, which are those of `silo`."""
        return DescribedEvents(silo, self.types, len(self.values), self.linked, self.excluded, self.are_dates)

    def rows(self, schema: Schema, place: str | Path) -> FloatArray:
        """The table `[n, 5 + links]` with the codes of `schema`; raises `BadInput` for a type that it does not have."""
        unknown = [name for name in self.types if name not in schema.variables]
        if unknown:
            raise BadInput(f"{place}: column 'event': {quoted(unknown[0])} was not among the types when the run began")
        codes = np.array([schema.variables.index(name) for name in self.types], dtype=np.float64)
        table = self.values.copy()
        column = EVENT_COLUMNS.index("event")
        table[:, column] = codes[table[:, column].astype(np.intp)]
        return table


def refuse_undeclared(path: Path, declared: Declared) -> None:
    """Raise `BadInput` for a file with the columns of events if `about.json` declares no kind of data."""
    if not declared.may_be_series or path.is_dir() or kind_of(path) == "query":
        return
    try:
        found = sorted(name.lower() for name in source_of(path, declared).names if declared.keeps(name))
    except (BadInput, *BROKEN):
        return  # the error is raised when the rows are read
    if found in (sorted((TIME, EVENT)), sorted((TIME, EVENT, DEVICE)), sorted((TIME, EVENT, DEVICE, NEIGHBOURS))):
        advice = 'declare {"kind": "events"} in about.json, or {"kind": "time-series"}'
        raise BadInput(f"{path}: its columns {', '.join(found)} suggest event sequences: {advice}")


def read_events(path: Path, declared: Declared = NO_DECLARATION) -> EventTable:
    """Read a silo's file of events.

    The times are in the column that `--time` names, by default in `time`. Raises `BadInput` naming file, line, column
    and value for a missing or another column, an empty cell, an invalid time, a time outside the declared window, and a
    file with fewer than two events or without a device that is observed for any time.
    """
    if path.is_dir() or kind_of(path) == "query":
        raise BadInput(f"{path}: events cannot be read in passes: write them to one file")
    source = source_of(path, declared)
    columns = {column.name: column for column in columns_in_memory(source, declared.keeps)}
    for name in declared.reading.only:
        if name not in columns and not declared.is_key(name):
            raise BadInput(f"{path}: --only: {quoted(name)} is not a column; it selects columns, not types of events")
    keys = {word: find_column(path, list(columns), word) for word in (TIME, EVENT, DEVICE, NEIGHBOURS)}
    keys[TIME] = _named_time(path, columns, declared) or keys[TIME]
    for word in (TIME, EVENT):
        if keys[word] is None:
            raise BadInput(f"{path}: no column '{word}', which a table of events needs")
    other = next((name for name in columns if name not in keys.values()), None)
    if other is not None:
        raise BadInput(
            f"{path}: column {quoted(other)}: a table of events has time, event, device and neighbours; use --ignore"
        )
    if keys[NEIGHBOURS] is not None and keys[DEVICE] is None:
        raise BadInput(f"{path}: column {quoted(str(keys[NEIGHBOURS]))} needs a column 'device'")
    clock, event = columns[str(keys[TIME])], columns[str(keys[EVENT])]
    moments, faults = times_of(clock.cells)
    labels = [one for one in (keys[EVENT], keys[DEVICE]) if one is not None]
    invalid = {clock.name: faults} | {name: empty_cells(columns[name].cells) for name in labels}
    check_cells(source.place, list(columns.values()), invalid)
    n = len(clock)
    if n < 2:
        raise BadInput(f"{path}: fewer than two events")
    times = moments[clock.codes]
    names, devices = _codes(columns[str(keys[DEVICE])]) if keys[DEVICE] is not None else ((), np.zeros(n, np.intp))
    types, codes = _codes(event)
    order = np.lexsort((codes, times, devices))
    starts, ends = _windows(source, clock, times, devices, declared)
    if (starts == ends).all():
        remedy = 'declare {"window": [begin, end]} in about.json'
        raise BadInput(
            f"{path}: each device has all its events at one time, so none is observed for any time: {remedy}"
        )
    values = np.column_stack([devices, times, codes, starts, ends]).astype(np.float64)
    if keys[NEIGHBOURS] is not None:
        values = np.hstack([values, _links(names, devices, columns[str(keys[NEIGHBOURS])])[devices]])
    are_dates = any(map(cell_fault, clock.cells)) and periods_of(clock.cells) is None
    return EventTable(types, values[order], left_out_names(source, tuple(columns)), are_dates)


def _named_time(path: Path, names: Collection[str], declared: Declared) -> str | None:
    """The column that `--time` names, None without this option. Raises `BadInput` for several, and an unknown one."""
    chosen = declared.reading.time
    if len(chosen) > 1:
        raise BadInput(f"{path}: --time: events have one column of times, not {' and '.join(map(quoted, chosen))}")
    for name in chosen:
        check_label_column(path, list(names), name)
    return next(iter(chosen), None)


def _links(names: tuple[str, ...], devices: NDArray[np.intp], column: Column) -> FloatArray:
    """By device, the numbers of its neighbours, filled up with -1.

    The neighbours of a device are all devices that any of its rows lists. Devices without events are numbered last.
    """
    listed = [labels_of([part for part in map(str.strip, cell.split(";")) if part], None) for cell in column.cells]
    number = {name: place for place, name in enumerate(names)}
    for other in canonical_order({name for part in listed for name in part} - set(names)):
        number[other] = len(number)
    found: list[set[int]] = [set() for _ in names]
    for device, cell in np.unique(np.column_stack([devices, column.codes]), axis=0).tolist():
        found[device] |= {number[name] for name in listed[cell]} - {device}
    links = np.full((len(names), max(map(len, found))), -1.0)
    for device, others in enumerate(found):
        links[device, : len(others)] = sorted(others)
    return links


def events_schema(place: str, types: Mapping[str, tuple[str, ...]], rows: Mapping[str, int]) -> Schema:
    """The public schema of silos with these `types` and numbers of events. Raises `BadInput` for an invalid name."""
    names = canonical_order({name for own in types.values() for name in own})
    check_names(place, names)
    check_labels(place, EVENT, names)
    return Schema(names, dict(sorted(rows.items())), kind="events")


def check_same_times(are_dates: Mapping[str, bool]) -> None:
    """Raise `BadInput` if the times of some files or silos are dates, and those of others numbers or months.

    `are_dates` says it for each file or silo.
    """
    first = {kind: next((place for place, one in are_dates.items() if one == kind), "") for kind in (True, False)}
    if all(first.values()):
        raise BadInput(
            f"{first[False]}: its times are numbers or months, and those of {first[True]} are dates: write all as "
            "dates, or all as numbers in one unit"
        )


def event_notes(types: Sequence[str], linked: Iterable[str]) -> tuple[str, ...]:
    """Notes on types that differ only in capitals or spaces, and on silos whose devices are `linked`.

    Links have no effect by default.
    """
    spelled: dict[str, list[str]] = {}
    for name in types:
        spelled.setdefault(fold_spelling(name), []).append(name)
    alike = [names for names in spelled.values() if len(names) > 1]
    notes = [f"types that differ only in capitals or spaces are different types: {', '.join(one)}" for one in alike[:5]]
    silos = ", ".join(sorted(linked))
    if silos:
        notes.append(f"{silos}: links between devices (column 'neighbours') have an effect with -p hops=1 or more")
    return tuple(notes)


def _window_of(declared: Declared, place: Path) -> tuple[float, float] | None:
    """The declared window of observation; None if no window is declared. Raises `BadInput` for an invalid window."""
    if not declared.window:
        return None
    ends, faults = times_of(declared.window)
    if not faults and len(ends) == 2 and np.isfinite(ends).all() and ends[0] < ends[1]:
        return float(ends[0]), float(ends[1])
    given = ", ".join(declared.window)
    raise BadInput(f"{place}: the window [{given}] of about.json is not [begin, end], two times in order")


def write_events(path: Path, schema: Schema, table: FloatArray) -> None:
    """Write the events of `table` `[n, 5 + links]` to `path` (.csv or .parquet)."""
    import pandas as pd

    device, time, codes = (table[:, EVENT_COLUMNS.index(name)] for name in (DEVICE, TIME, EVENT))
    types = np.array(schema.variables, dtype=object)[codes.astype(np.intp)]
    frame = pd.DataFrame({TIME: time, EVENT: types, DEVICE: device.astype(np.int64) + 1})
    links = table[:, len(EVENT_COLUMNS) :].astype(np.int64)
    if links.size:
        frame[NEIGHBOURS] = [";".join(str(other + 1) for other in row if other >= 0) for row in links]
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, index=False)


def _codes(column: Column) -> tuple[tuple[str, ...], Any]:
    """The distinct labels of a column in canonical order, and the index of each row's label."""
    labels = labels_of(column.cells, None)
    names = canonical_order(set(labels))
    place = {name: code for code, name in enumerate(names)}
    return names, np.array([place[label] for label in labels], dtype=np.intp)[column.codes]


def _windows(
    source: Source, clock: Column, times: FloatArray, devices: Any, declared: Declared
) -> tuple[FloatArray, FloatArray]:
    """The begin and the end of the window of each event's device, `[n]` each.

    Raises `BadInput` for an event outside a declared window, and for an invalid window.
    """
    window = _window_of(declared, source.path)
    if window is None:
        number = int(devices.max()) + 1
        starts, ends = np.full(number, np.inf), np.full(number, -np.inf)
        np.minimum.at(starts, devices, times)
        np.maximum.at(ends, devices, times)
        return starts[devices], ends[devices]
    begin, end = window
    outside = np.flatnonzero((times < begin) | (times > end))
    if outside.size:
        row = int(outside[0])
        cell = clock.cells[clock.codes[row]]
        fault = f"{quoted(cell)} is outside the window of about.json"
        raise BadInput(f"{source.place(row)}, column {quoted(clock.name)}: {fault}")
    return np.full(len(times), begin), np.full(len(times), end)
