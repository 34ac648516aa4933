"""Tables in runs with an ε: neither the description nor the success of a run depends on any cell.

A silo describes the names of its columns and its number of rows; kinds, levels and lengths of time series come from
`about.json` alone (`declared_schema`). Two tables that differ in one row are therefore described alike.

Every row can be read. A cell that is empty or invalid counts as 0 or as the first declared level, and a number beyond
±`LARGEST` counts as this bound. A line with too few or too many cells is filled up or cut. The noise of the run also
hides these values, so they need not be refused.

Rows keep the order of the file. In a text file every line is a row, so a quotation mark that is never closed cannot
swallow the rows below it. Rows of time series are not sorted by their times, because times are data, too.
"""

import csv
import io
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import FloatArray, Kind, Schema
from fedbnsl.algorithms.errors import BadInput, quoted

from .about import Declared
from .batches import cells_in, exceeds_memory, numbers_in
from .cells import codes_of, labels_of
from .check import distinct_names, is_repeated, written_name
from .formats import Form, is_text, kind_of, open_bytes
from .harmonise import HarmonisedSource, check_harmonised, factor_of, harmonised_cells
from .parquet import ParquetParts
from .profile import LARGEST, Profile
from .query import QuerySource
from .sources import open_source
from .text import SEPARATORS

csv.field_size_limit(sys.maxsize)  # by default, a long cell is an error

SERIES_KEYS = ("series", "time")
"""the columns of time series that are not variables"""
ORDER_NOTE = (
    "a run with an ε does not read times: the rows of a silo are one series in the order of its file, or the stretches "
    "that about.json declares"
)
"""the note on time series"""
LINES = 1 << 14
"""number of lines of a text file that are parsed at once"""
NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?$"
"""pattern of cells that are numbers, without the spaces around them"""


@dataclass(frozen=True)
class _Text:
    """The lines of a text file as rows of cells, read without looking at more than one line at a time."""

    path: Path
    form: Form

    @cached_property
    def encoding(self) -> str:
        """The declared encoding; otherwise UTF-16 if the file begins with its byte order mark, else UTF-8."""
        with self._binary() as file:
            start = file.read(2)
        return self.form.encoding or ("utf-16" if start in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")

    @cached_property
    def header(self) -> tuple[str, str]:
        """The first line that is not blank, and its separator.

        Raises `BadInput` for a file without such a line, and for a line that several separators divide.
        """
        with self._lines() as lines:
            line = next((line for line in lines if line.strip()), "").rstrip("\n")
        if not line:
            raise BadInput(f"{self.path}: the file is empty")
        found = [mark for mark in SEPARATORS if len(_cells(line, mark)) > 1]
        if self.form.separator is None and len(found) > 1:
            marks = " or ".join(SEPARATORS[mark] for mark in found)
            raise BadInput(
                f"{self.path}: its columns may be separated by {marks}; declare which in about.json, such as "
                f'{{"separator": "{found[0]}"}}'
            )
        return line, self.form.separator or (found[0] if found else ",")

    @property
    def names(self) -> list[str]:
        """The names of the columns, without empty names at the end; the cells of such columns are cut off."""
        names = [name.strip() for name in _cells(*self.header)]
        while len(names) > 1 and not names[-1]:
            names.pop()
        return names

    def batches(self) -> Iterator[list[Any]]:
        """Yield the rows, some at a time: the cells of each column as an arrow array of text."""
        width, (_, mark) = len(self.names), self.header
        with self._lines() as lines:
            next((line for line in lines if line.strip()), "")
            while batch := list(islice(lines, LINES)):
                yield _columns(batch, mark, width)

    def rows(self) -> int:
        """The number of lines below the header."""
        with self._lines() as lines:
            next((line for line in lines if line.strip()), "")
            return sum(1 for _ in lines)

    def _binary(self) -> Any:
        return open_bytes(self.path)

    def _lines(self) -> Any:
        return io.TextIOWrapper(self._binary(), encoding=self.encoding, errors="replace", newline=None)


def _cells(line: str, separator: str) -> list[str]:
    return next(csv.reader([line], delimiter=separator), [])


def _columns(lines: Sequence[str], separator: str, width: int) -> list[Any]:
    """The cells of `lines` by column; each row is filled up or cut to `width` cells."""
    import pyarrow

    if any('"' in line for line in lines):
        rows = [_cells(line.rstrip("\n"), separator) for line in lines]
    else:
        rows = [line.rstrip("\n").split(separator) for line in lines]
    padding = [""] * width
    return [pyarrow.array(cells) for cells in zip(*((*row, *padding)[:width] for row in rows), strict=True)]


def _readable(column: Any) -> Any:
    """The arrow `column` with U+FFFD for bytes that are not UTF-8, and empty where Python cannot read a cell."""
    import pyarrow
    import pyarrow.compute as pc

    if pyarrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pyarrow.types.is_nested(column.type):
        column = pyarrow.array([None if cell is None else str(cell) for cell in column.to_pylist()], pyarrow.string())
    is_text = pyarrow.types.is_string(column.type) or pyarrow.types.is_large_string(column.type)
    try:
        column.validate(full=True)
        if not is_text and (pyarrow.types.is_temporal(column.type) or not pyarrow.types.is_primitive(column.type)):
            column.to_pylist()
    except (ValueError, OverflowError):  # also pyarrow.ArrowInvalid
        if is_text:
            cells = column.cast(pyarrow.binary()).to_pylist()
            return pyarrow.array([None if cell is None else cell.decode(errors="replace") for cell in cells])
        return pc.if_else(pyarrow.array([_is_readable(cell) for cell in column]), column, None)
    return column


def _is_readable(cell: Any) -> bool:
    try:
        cell.as_py()
    except (ValueError, OverflowError):
        return False
    return True


@dataclass(frozen=True)
class PrivateSource:
    """The rows of a silo in a run with an ε: a `Source` that no cell makes fail."""

    path: Path
    declared: Declared
    part: ParquetParts | None = None
    """the part of the rows that is read; if None, all rows are read"""
    words: frozenset[str] = frozenset()
    labelled: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()

    def profile(self) -> Profile:
        """The description of the table: its columns, and its number of rows."""
        if self.declared.form.join:
            raise BadInput(f"{self.path}: about.json: join: a run with an ε needs the variable as one column: write it")
        check_harmonised(self.path, self.declared.form, list(map(self.declared.form.name_in_file, self.header)))
        left_out = [name for name in self.header if is_repeated(name) or not self.declared.keeps(name)]
        read = [name for name in self.variables if name not in left_out]
        return Profile.of_names(read, self.count, tuple(dict.fromkeys(map(written_name, left_out))))

    @property
    def streamed(self) -> bool:
        """Whether the rows are read in passes, because they exceed the limit of tables in memory."""
        large = exceeds_memory(8 * self.count * len(self.header))
        return large or self.path.is_dir() or isinstance(self._source, QuerySource)

    @cached_property
    def _source(self) -> _Text | ParquetParts | QuerySource:
        if self.part is not None:
            return self.part
        if not is_text(self.path) and not self.path.is_dir() and kind_of(self.path) not in ("parquet", "query"):
            raise BadInput(
                f"{self.path}: a run with an ε reads only CSV and Parquet files, because no cell makes these fail: "
                "convert it"
            )
        source = open_source(self.path, Form(rename=self.declared.form.rename), self.declared.keeps)
        source = source.source if isinstance(source, HarmonisedSource) else source
        return source if isinstance(source, ParquetParts | QuerySource) else _Text(self.path, self.declared.form)

    @cached_property
    def header(self) -> tuple[str, ...]:
        """The columns, including columns with the same name, which are marked (see `is_repeated`)."""
        if isinstance(self._source, QuerySource):
            with self._redacted():
                return self._renamed(self._source.names)
        if isinstance(self._source, ParquetParts):
            return self._renamed(self._source.header)
        return tuple(distinct_names(str(self.path), self._renamed(self._source.names), self.declared.keeps))

    def _renamed(self, names: Sequence[str]) -> tuple[str, ...]:
        return tuple(map(self.declared.form.name_in_data, names))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that can be read."""
        return tuple(name for name in self.header if not is_repeated(name))

    @property
    def variables(self) -> tuple[str, ...]:
        """The columns, except for times and series identifiers if the data are declared as time series."""
        series = self.declared.kind == "time-series"
        return tuple(name for name in self.names if not (series and name.lower() in SERIES_KEYS))

    @cached_property
    def count(self) -> int:
        """The number of rows."""
        source = self._source
        if isinstance(source, QuerySource):
            with self._redacted():
                return sum(batch.num_rows for batch in source.batches(source.names[:1]))
        return source.rows() if isinstance(source, _Text) else source.rows

    def batches(self, names: Sequence[str], words: Collection[str] = ()) -> Iterator[Any]:
        """Yield the rows (see `Source.batches`); a text file yields text."""
        import pyarrow

        if isinstance(self._source, _Text):
            places = [self.header.index(name) for name in names]
            for columns in self._source.batches():
                yield pyarrow.RecordBatch.from_arrays([columns[place] for place in places], names=list(names))
        else:
            with self._redacted():
                for batch in self._source.batches([self.declared.form.name_in_file(name) for name in names]):
                    yield pyarrow.RecordBatch.from_arrays(list(map(_readable, batch.columns)), names=list(names))

    def place(self, row: int) -> str:
        """The file, because messages of a run with an ε name no row."""
        return str(self.path)

    def parts(self, columns: int) -> Sequence[tuple["PrivateSource", int]]:
        """Parts that can be read separately, in order, with their numbers of rows; empty unless there are several."""
        if not isinstance(self._source, ParquetParts):
            return ()
        with self._redacted():
            return [(replace(self, part=part), rows) for part, rows in self._source.parts(columns)]

    @contextmanager
    def _redacted(self) -> Iterator[None]:
        """Raise each `BadInput` of the block without its reason, because the reason may quote rows."""
        try:
            yield
        except BadInput:
            raise BadInput(
                f"{self.path}: its rows cannot be read; a run with an ε discloses no reason, but `fedbnsl inspect` "
                "shows it to the owner of the rows"
            ) from None


def clipped_codes(name: str, column: Any, levels: Sequence[str], declared: Declared) -> NDArray[np.int64]:
    """The codes of a column `[n_rows]`: a cell that is not one of the `levels` counts as the first."""
    texts, codes = cells_in(column)
    texts = harmonised_cells(declared.form, name, texts)
    of_cell = np.array(codes_of(labels_of(texts, levels), levels), dtype=np.int64)
    return np.asarray(np.maximum(of_cell, 0)[codes])


def clipped_numbers(name: str, column: Any, declared: Declared) -> FloatArray:
    """The numbers of a column `[n_rows]`: a cell that is no number counts as 0, and numbers are clipped to `LARGEST`.

    A number that is declared to mark a missing value counts as 0, too.
    """
    import pyarrow

    form = declared.form
    if name in dict(form.recode) or name in dict(form.unit):
        texts, codes = cells_in(column)
        column = pyarrow.array(harmonised_cells(replace(form, scale=()), name, texts)).take(pyarrow.array(codes))
    values = numbers_in(column)
    if values is None:
        values = _parsed(column, form.decimal == ",")
    marks = [float(mark) for mark in declared.marks.get(name, ()) if re.fullmatch(NUMBER, mark)]
    values = np.where(np.isin(values, marks), 0.0, values * factor_of(form, name))
    return np.clip(np.nan_to_num(values, nan=0.0, posinf=LARGEST, neginf=-LARGEST), -LARGEST, LARGEST)


def _parsed(column: Any, decimal_comma: bool) -> FloatArray:
    """The numbers in a column of text, NaN for a cell that is not a number."""
    import pyarrow
    import pyarrow.compute as pc

    if pyarrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not (pyarrow.types.is_string(column.type) or pyarrow.types.is_large_string(column.type)):
        column = pyarrow.array(
            [None if value is None else str(value) for value in column.to_pylist()], pyarrow.string()
        )
    text = pc.utf8_trim_whitespace(column)
    if decimal_comma:
        text = pc.replace_substring(text, ",", ".")
    number = pc.match_substring_regex(text, NUMBER)
    plain = pc.replace_substring_regex(pc.if_else(number, text, None), r"^\+", "")
    return np.asarray(plain.cast(pyarrow.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)


def declared_schema(place: str, profiles: Mapping[str, Profile], declared: Declared) -> Schema:
    """The schema of a run with an ε: silos describe names and numbers of rows, `declared` has everything else.

    All `profiles` must have the same columns. Raises `BadInput` for a column without a declared kind, for a discrete
    column without declared levels, for time series with labels, and for declared lengths of time series that do not add
    up to a silo's rows.
    """
    profiles = dict(sorted(profiles.items()))
    variables = next(iter(profiles.values())).variables
    rows = {silo: profile.rows for silo, profile in profiles.items()}
    draft = "`fedbnsl inspect FOLDER --write` drafts it"
    if declared.kind == "time-series":
        for name in declared.levels_among(variables):
            raise BadInput(f"{place}: column {quoted(name)}: no algorithm learns from series with labels with an ε")
        return Schema(variables, rows, "time-series", stretches=_stretches(place, rows, declared))
    for name in variables:
        kind = declared.kind_of(name)
        if kind is None:
            raise BadInput(
                f"{place}: column {quoted(name)}: a run with an ε takes the kind of every column from about.json, "
                f"as cells may not decide it, and so does a run with owners at level sums; {draft}"
            )
        if kind == "discrete" and name not in declared.levels:
            raise BadInput(
                f"{place}: column {quoted(name)}: its levels must be declared in about.json for a run with an ε: those "
                f"that occur in the rows would disclose a label of a single row; {draft}"
            )
    levels = {name: tuple(declared.levels[name]) for name in variables if declared.kind_of(name) == "discrete"}
    table: Kind = "discrete" if len(levels) == len(variables) else "mixed" if levels else "continuous"
    return Schema(variables, rows, "mixed" if declared.kind == "mixed" else table, levels)


def _stretches(place: str, rows: Mapping[str, int], declared: Declared) -> dict[str, tuple[int, ...]]:
    """The lengths of the unbroken series of each silo; without a declaration, all rows of a silo are one series.

    Raises `BadInput` if declared lengths do not add up to the rows of a silo.
    """
    found = {}
    for silo, count in rows.items():
        lengths = declared.stretches.get(silo, (count,))
        if sum(lengths) != count:
            raise BadInput(
                f"{place}: about.json: stretches of {quoted(silo)} add up to {sum(lengths)} rows, not {count}; "
                "`fedbnsl inspect FOLDER --write` drafts them"
            )
        found[silo] = tuple(lengths)
    return found
