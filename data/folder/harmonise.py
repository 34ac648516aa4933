"""Declarations of `about.json` about the rows of a single silo: other names of columns, replaced labels, other units.

`{"rename": {"clinic": {"Alter": "age"}}}` gives a column of one silo the name that it has in the data set.
`{"recode": {"clinic": {"smokes": {"Ja": "yes"}}}}` replaces cells of a column at one silo; null stands for an empty
cell. `{"unit": {"weight": "kg"}}` says that 70.3 kg is 70.3 at every silo, and `{"scale": {"clinic": {"weight":
0.4536}}}` multiplies the numbers of a column. The silo applies these declarations cell by cell when it reads its rows,
before anything is inferred or learned from the rows. First cells are replaced, then units are removed, then missing
values are recognised, then numbers are multiplied. `Declared.at_silo` puts the declarations of one silo
into the `Form` of the silo's file. `Form` also has the column that names the silo of each row (`--by`).
"""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.errors import BadInput, listed, pluralize, quoted, with_name_of

from ..federated import MIN_SILO_ROWS
from .batches import NotNumbersError, Source, WrappedSource, cells_in, numbers_in
from .cells import label_of, number_of, quantity_of
from .check import check_silo_name
from .formats import Form

OTHERS = "others"
"""the silo of the rows whose own silo has too few rows or no name"""
Recode = Mapping[str, Mapping[str, Mapping[str, str]]]
"""silo -> column -> cell -> its replacement"""
Scale = Mapping[str, Mapping[str, float]]
"""silo -> column -> factor"""


def check_silos(place: str, key: str, named: Collection[str], silos: Collection[str]) -> None:
    """Raise `BadInput` if one of the silos `named` under the `key` of `place` does not exist."""
    for silo in named:
        if silo not in silos:
            near = get_close_matches(silo, list(silos), 1)
            instead = f"did you mean {quoted(near[0])}?" if near else f"available: {', '.join(sorted(silos))}"
            raise BadInput(f"{place}: {key}: there is no silo {quoted(silo)}; {instead}")


def check_harmonised(path: Path, form: Form, names: Collection[str]) -> None:
    """Raise `BadInput` for a column of `form` that is not among the `names` of the columns of `path`."""
    renamed = [form.name_in_data(name) for name in names]
    declared = [("rename", name, names) for name, _ in form.rename]
    declared += [("join", column, renamed) for _, columns in form.join for column in columns]
    declared += [(key, name, renamed) for key in ("recode", "scale") for name, *_ in getattr(form, key)]
    for key, name, there in declared:
        if name not in there:
            raise BadInput(f"{path}: about.json: {key}: {quoted(name)} is not a column of the file{_near(name, there)}")
    twice = next((name for name in dict(form.rename).values() if renamed.count(name) > 1), None)
    if twice is not None:
        raise BadInput(f"{path}: about.json: rename: two columns would have the name {quoted(twice)}")
    if form.rows is not None and form.rows[0] not in names:
        by = form.rows[0]
        instead = _near(by, names) or f"; available: {', '.join(list(names)[:8])}"
        raise BadInput(f"{path}: --by: column {quoted(by)} is missing{instead}")


def _near(name: str, names: Collection[str]) -> str:
    """The end of a message with the name among `names` that is most like `name`; empty if none is."""
    near = get_close_matches(name, list(names), 1)
    return f"; did you mean {quoted(near[0])}?" if near else ""


def factor_of(form: Form, name: str) -> float:
    """The factor of a column's numbers."""
    return next((factor for column, factor, _ in form.scale if column == name), 1.0)


def harmonised_cells(form: Form, name: str, cells: Sequence[str]) -> list[str]:
    """The `cells` of a column with the recoding and the unit of `form`.

    A multiplied number is written with an exponent, so that it is never equal to a marker of missing values such as 99.
    """
    found = list(cells)
    recoding = dict(dict(form.recode).get(name, ()))
    if recoding:
        found = [recoding.get(cell.strip(), recoding.get(label_of(cell), cell)) for cell in found]
    unit = dict(form.unit).get(name)
    if unit is not None:
        found = [_without_unit(cell, unit) for cell in found]
    for factor, marks in [(factor, marks) for column, factor, marks in form.scale if column == name]:
        numbers = [np.nan if label_of(cell) in marks else number_of(_without_unit(cell)) for cell in found]
        pairs = zip(found, numbers, strict=True)
        found = [cell if math.isnan(number) else f"{number * factor:.17e}" for cell, number in pairs]
    return found


def _without_unit(cell: str, unit: str | None = None) -> str:
    """The number in `cell` if it is written in this `unit` (None: in any) or without a unit; else the cell."""
    found = quantity_of(cell.strip()) if math.isnan(number_of(cell)) else None
    if found is None or (unit is not None and found.unit.casefold() not in ("", unit.casefold())):
        return cell
    return f"{found.number:.17g}"


def harmonised(form: Form, name: str, cells: Sequence[str], path: Path) -> list[str]:
    """The distinct `cells` of a column with the recoding and the unit of this silo's `form`.

    Raises `BadInput` if `form` has a factor for the column, but the column has no numbers.
    """
    found = harmonised_cells(form, name, cells)
    if factor_of(form, name) != 1.0 and cells and found == harmonised_cells(replace(form, scale=()), name, cells):
        words = [cell for cell in cells if cell.strip()]
        if words:
            raise BadInput(f"{path}: about.json: scale: {quoted(name)} has no number, but {quoted(words[0])}")
    return found


TRUE = frozenset({"1", "yes", "y", "true", "t", "ja", "j", "oui", "si", "sí", "x"})
"""cells of indicators that say that a row has the level, in any case"""


def joined_labels(names: Sequence[str], columns: Sequence[Any]) -> Any:
    """The labels of a variable whose indicators, with these `names`, are the arrow `columns` of text.

    A row has the only level whose indicator is true; its cell is empty if none or several are.
    """
    import pyarrow

    codes, count = np.full(len(columns[0]), len(names)), np.zeros(len(columns[0]), np.int64)
    for k, column in enumerate(columns):
        cells, own = cells_in(column)
        true = np.array([label_of(cell).casefold() in TRUE for cell in cells], dtype=np.bool_)[own]
        codes[true], count = k, count + true
    codes[count > 1] = len(names)
    return pyarrow.array([*names, ""]).take(pyarrow.array(codes))


def silo_counts(source: Source, by: str) -> Counter[str]:
    """The number of rows of each label in the column `by`, which names the silo of each row; "" for empty cells."""
    counts = Counter[str]()
    for batch in source.batches([by], [by]):
        cells, codes = cells_in(batch.column(0))
        for cell, count in zip(cells, np.bincount(codes, minlength=len(cells)).tolist(), strict=True):
            counts[label_of(cell)] += count
    return +counts


@dataclass(frozen=True)
class SiloLabels:
    """Which labels of a column are silos: those with `MIN_SILO_ROWS` rows or more."""

    silos: tuple[str, ...]
    """the silos, sorted, with `OTHERS` if the rows of `small` labels form a silo"""
    small: frozenset[str]
    """labels with too few rows for a silo, and "" if rows have no label"""
    note: str
    """what happens to the rows of small labels; empty if there are none"""

    @property
    def merges(self) -> bool:
        """Whether the rows of small labels form a silo."""
        return OTHERS in self.silos and bool(self.small)


def silos_of(place: str, by: str, counts: Mapping[str, int], *, merge_small: bool) -> SiloLabels:
    """The silos that the column `by` names, from the number of rows of each label; `place` begins error messages.

    Rows without a label, or with a label that too few rows have, are left out or, with `merge_small`, form the silo
    `OTHERS`. Raises `BadInput` if there is no silo, and for an invalid name of a silo.
    """
    silos = {label for label, count in counts.items() if label and count >= MIN_SILO_ROWS}
    small = frozenset(counts) - silos
    merges = merge_small and sum(counts[label] for label in small) >= MIN_SILO_ROWS
    found = sorted(silos | ({OTHERS} if merges else set()))
    if not found:
        raise BadInput(f"{place}: column {quoted(by)}: no silo has {MIN_SILO_ROWS} rows or more")
    for silo in found:
        check_silo_name(f"{place}: column {quoted(by)}", silo)
    few = sorted(small - {""})
    parts = [f"{pluralize(counts[''], 'row')} without a cell in {by}"] if "" in small else []
    parts += [f"{pluralize(sum(counts[label] for label in few), 'row')} of silos with one row ({listed(few)})"] * bool(
        few
    )
    how = f"read as the silo {quoted(OTHERS)}" if merges else "left out"
    other = "" if merge_small else f"; --small-silos merge reads such rows as {quoted(OTHERS)}"
    return SiloLabels(tuple(found), small, f"{how}: {' and '.join(parts)}{other}" if parts else "")


@dataclass(frozen=True)
class HarmonisedSource(WrappedSource):
    """The rows of one silo in `source`, with the names, the recoding and the units of its `form`."""

    form: Form

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that can be read. Raises `BadInput` if `about.json` names a column that does not exist."""
        check_harmonised(self.path, self.form, self.source.names)
        return tuple(dict.fromkeys(self.form.joined_name(self.form.name_in_data(name)) for name in self.source.names))

    @property
    def header(self) -> tuple[str, ...]:
        """The columns of the source."""
        return tuple(dict.fromkeys(self.form.joined_name(self.form.name_in_data(name)) for name in self.source.header))

    @property
    def words(self) -> frozenset[str]:
        """The columns to read as text, including recoded columns."""
        recoded = {name for name, _ in (*self.form.recode, *self.form.join)}
        return frozenset(map(self.form.name_in_data, self.source.words)) | recoded

    @property
    def labelled(self) -> frozenset[str]:
        """The columns whose type is that of labels."""
        return frozenset(map(self.form.name_in_data, self.source.labelled))

    def batches(self, names: Sequence[str], words: Collection[str] = ()) -> Iterator[Any]:
        """Yield the rows of the silo (see `Source.batches`)."""
        import pyarrow

        by = () if self.form.rows is None else (self.form.rows[0],)
        joined = dict(self.form.join)
        columns = [column for name in names for column in joined.get(name, (name,))]
        in_file = [self.form.name_in_file(name) for name in columns]
        indicators = [column for name in names for column in joined.get(name, ())]
        text = {self.form.name_in_file(name) for name in (*words, *(name for name, _ in self.form.recode), *indicators)}
        try:
            for batch in self.source.batches([*in_file, *(one for one in by if one not in in_file)], text | set(by)):
                own = (
                    batch
                    if self.form.rows is None
                    else batch.filter(pyarrow.array(self._own(batch.column(batch.schema.names.index(*by)))))
                )
                yield self._joined(self._harmonised(own.select(list(range(len(columns)))), columns), names)
        except NotNumbersError as error:
            raise NotNumbersError(str(error), self.form.name_in_data(error.column)) from None

    def place(self, row: int) -> str:
        """The place of row `row` (from 0) of the silo; in a file with the rows of several silos, after its name."""
        if self.form.rows is None:
            return self.source.place(row)
        (by, label), start = self.form.rows, 0
        silo = OTHERS if label is None else label
        for batch in self.source.batches([by], [by]):
            own = np.flatnonzero(self._own(batch.column(0)))
            if row < len(own):
                return with_name_of(silo, self.source.place(start + int(own[row])))
            row, start = row - len(own), start + batch.num_rows
        return str(self.path)

    def _own(self, column: Any) -> NDArray[np.bool_]:
        """Whether each row belongs to the silo, by the `column` that names the silo."""
        cells, codes = cells_in(column)
        label = (self.form.rows or ("", ""))[1]
        others = self._small_silos if label is None else frozenset({label})
        own = np.array([label_of(cell) in others for cell in cells], dtype=np.bool_)
        return np.asarray(own[codes])

    @cached_property
    def _small_silos(self) -> frozenset[str]:
        """The labels of the rows that `OTHERS` has."""
        by = (self.form.rows or ("", ""))[0]
        counts = silo_counts(self.source, by)
        return silos_of(str(self.path), by, counts, merge_small=True).small | {OTHERS}

    def _joined(self, batch: Any, names: Sequence[str]) -> Any:
        """The `batch` with one column of labels for each set of indicators."""
        import pyarrow

        joined = dict(self.form.join)
        if not any(name in joined for name in names):
            return batch
        arrays, at = [], 0
        for name in names:
            indicators = joined.get(name, ())
            own = batch.columns[at : at + max(1, len(indicators))]
            arrays.append(joined_labels(indicators, own) if indicators else own[0])
            at += len(own)
        return pyarrow.RecordBatch.from_arrays(arrays, names=list(names))

    def _harmonised(self, batch: Any, names: Sequence[str]) -> Any:
        import pyarrow

        changed = {name for name, *_ in (*self.form.recode, *self.form.unit, *self.form.scale)}
        columns = [
            harmonised_array(self.form, name, column, self.path) if name in changed else column
            for name, column in zip(names, batch.columns, strict=True)
        ]
        return pyarrow.RecordBatch.from_arrays(columns, names=list(names)) if columns else batch


def harmonised_array(form: Form, name: str, column: Any, path: Path) -> Any:
    """An arrow column of numbers or text with the recoding and the units of this silo's `form`."""
    import pyarrow

    as_text = name in dict(form.recode) or any(marks for scaled, _, marks in form.scale if scaled == name)
    values = None if as_text else numbers_in(column)
    if values is not None:
        scaled = values * factor_of(form, name)
        return pyarrow.array(scaled, mask=np.isnan(scaled))
    cells, codes = cells_in(column)
    return pyarrow.array(harmonised(form, name, cells, path)).take(pyarrow.array(codes))
