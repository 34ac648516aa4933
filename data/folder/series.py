"""A silo's time series: cut where times are missing into unbroken stretches, which follow each other in its table.

Times must be regular: the step is the least difference of two times of a series, and a difference of several steps is a
gap. So is a row in which a cell is empty: it is left out.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput, shown

from ..federated import LEAST_ROWS
from .check import check_table
from .columns import read_names
from .declared import NOTHING_DECLARED, Declared
from .large import source_of
from .profile import TOO_FAR, beyond
from .recording import SERIES, TIME, Recording, read_recording
from .scan import place_of_row
from .times import FloatArray

ROUNDING = 0.01
"""how far a time may be off, in steps: times are written rounded"""
NO_SERIES = '; if these rows are no time series, say so in about.json: {"kind": "continuous"}'


@dataclass(frozen=True, eq=False)
class SeriesTable:
    """A silo's table: unbroken stretches of rows, of these lengths, one after another; `step` lies between two rows."""

    variables: tuple[str, ...]
    values: FloatArray
    stretches: tuple[int, ...]
    step: float = 1.0

    def rows(self, schema: Schema) -> FloatArray:
        """Return the table [n_rows, n_variables] with the columns in the order of `schema`, which are the same."""
        return np.ascontiguousarray(self.values[:, [self.variables.index(name) for name in schema.variables]])


@dataclass(frozen=True, eq=False)
class Cut:
    """The complete `rows` of a recording in order, and the `lengths` of the stretches they make."""

    rows: NDArray[np.intp]
    lengths: tuple[int, ...]
    step: float


def read_series(path: Path, declared: Declared = NOTHING_DECLARED) -> SeriesTable:
    """Read a silo's file of time series, whose times lie as far apart as `declared`, or as the nearest two.

    Raises `BadInput` naming file, line, column and value as `read_recording`, `cut` and `check_table` do.
    """
    if path.is_dir() or path.suffix.lower() == ".sql":
        raise BadInput(
            f"{path}: time series are not read in passes: give them in one file, or, if 'time' is a variable like any "
            'other, say {"kind": "continuous"} in about.json'
        )
    recording = read_recording(path, form=declared.form, keep=declared.keeps)
    found = cut(recording, declared.step, NO_SERIES)
    values = recording.values[found.rows]
    check_table(path, recording.variables, values)
    if declared.reading.learned_from and not declared.reading.private:
        for name, column in zip(recording.variables, values.T, strict=True):
            if beyond(np.abs(column)):
                raise BadInput(f"{path}: column {shown(name)}: {TOO_FAR}")
    return SeriesTable(recording.variables, values, found.lengths, found.step)


def read_cut(path: Path, stretches: tuple[int, ...], declared: Declared = NOTHING_DECLARED) -> SeriesTable:
    """Read a silo's file of time series whose `stretches` are known. Raises `BadInput` if its rows are others now."""
    recording = read_recording(path, form=declared.form, keep=declared.keeps)
    values = recording.values[recording.complete]
    if len(values) != sum(stretches):
        raise BadInput(f"{path}: it has {len(values)} complete rows, not {sum(stretches)} as when the run began")
    return SeriesTable(recording.variables, values, stretches)


def cut(recording: Recording, step: float | None = None, remedy: str = "") -> Cut:
    """Return the unbroken stretches of `recording`, whose times lie `step` apart, or as far as the nearest two.

    Raises `BadInput` for a time that stands twice in a series, for times that are not regular, and if no stretch has
    two rows; `remedy` ends the message about times.
    """
    follows, step = _follows(recording, step, remedy)
    rows = np.flatnonzero(recording.complete)
    together = (np.diff(rows) == 1) & follows[rows[:-1]]
    edges = np.concatenate([[0], np.flatnonzero(~together) + 1, [len(rows)]]) if rows.size else np.zeros(1, np.intp)
    lengths = tuple(int(length) for length in np.diff(edges))
    if max(lengths, default=0) < LEAST_ROWS:
        raise BadInput(f"{recording.path}: no two consecutive rows{_left_out(recording)}")
    return Cut(rows, lengths, step)


def check_same_step(place: str, found: float, expected: float, by: str) -> None:
    """Raise `BadInput` unless a silo's rows are as far apart in time as those of the others. `by` is one of them."""
    if abs(found - expected) > ROUNDING * expected:
        step = "give about.json the step that all have in common"
        raise BadInput(f"{place}: its times are {found:g} apart, those of {by} {expected:g}; {step}")


def check_stretches(place: str | Path, variables: Sequence[str], stretches: Sequence[int]) -> None:
    """Raise `BadInput` for time series that could not be read again from the file at `place`."""
    if max(stretches) < LEAST_ROWS:
        raise BadInput(f"{place}: no two consecutive rows in any series")
    for name in variables:
        if name.lower() in (SERIES, TIME):
            raise BadInput(f"{place}: column {shown(name)}: a variable of time series cannot have this name")


def keys_of(stretches: Sequence[int]) -> dict[str, NDArray[np.int64]]:
    """Return the columns that tell a silo's `stretches` apart: each a series, with the times 0, 1, ..."""
    numbers = np.repeat(np.arange(1, len(stretches) + 1), stretches)
    return {SERIES: numbers, TIME: np.concatenate([np.arange(length) for length in stretches])}


def _follows(recording: Recording, step: float | None, remedy: str) -> tuple[NDArray[np.bool_], float]:
    """Return whether each row but the first is one step after the row before, `[n_rows - 1]`, and what a step is."""
    within = np.diff(recording.series) == 0
    apart = np.diff(recording.times)
    twice = np.flatnonzero(within & (apart == 0))
    if twice.size:
        raise BadInput(f"{_place(recording, twice[0] + 1)} stands in the series already{remedy}")
    if not within.any():
        return within, step or 1.0
    step = step or _step(apart[within])
    steps = apart / step
    irregular = np.flatnonzero(within & ((abs(steps - np.rint(steps)) > ROUNDING) | (steps < 0.5)))
    if irregular.size:
        row = irregular[0] + 1
        far = f"{apart[row - 1]:g} after the time before, not a whole number of steps of {step:g}"
        raise BadInput(f"{_place(recording, row)} is {far}{remedy}")
    return within & (np.rint(steps) == 1), step


def _step(apart: FloatArray) -> float:
    """Return the least difference between times, as the mean of all that are the same but for rounding."""
    return float(apart[apart <= apart.min() * (1 + ROUNDING)].mean())


def _place(recording: Recording, row: int) -> str:
    """Return file, line, series and time of a row, for a message."""
    name, column = recording.names[recording.series[row]], recording.keys.time or "time"
    series = f", series {shown(name)}" if name else ""
    place = place_of_row(recording.path, int(recording.rows[row]), recording.form)
    return f"{place}{series}, column {shown(column)}: {shown(str(recording.written[row]))}"


def _left_out(recording: Recording) -> str:
    """Return how many rows have an empty cell, and where the first of them is, for a message."""
    gone = np.flatnonzero(~recording.complete)
    if not gone.size:
        return " in any series"
    row = int(gone[np.argmin(recording.rows[gone])])
    column = recording.variables[int(np.argmax(np.isnan(recording.values[row])))]
    place = place_of_row(recording.path, int(recording.rows[row]), recording.form).removeprefix(f"{recording.path}: ")
    count = f"{len(gone)} of {len(recording.rows)} have an empty cell"
    return f" are complete: {count}, the first in {place}, column {shown(column)}"


def has_time(path: Path, declared: Declared = NOTHING_DECLARED) -> bool:
    """Say whether a file has a column `time`, in capitals or not, that is read; one that cannot be read has none."""
    try:
        source = source_of(path, declared)
        names = read_names(path, declared.form) if source is None else source.names
    except (BadInput, OSError, EOFError, zlib.error):
        return False
    return any(name.lower() == TIME and declared.keeps(name) for name in names)
