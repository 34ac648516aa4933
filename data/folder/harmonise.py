"""Declarations of `about.json` about the rows of a single silo: replaced labels, and other units.

`{"recode": {"clinic": {"smokes": {"Ja": "yes"}}}}` replaces cells of a column at one silo; null stands for an empty
cell. `{"scale": {"clinic": {"weight": 0.4536}}}` multiplies the numbers of a column. The silo applies both declarations
cell by cell when it reads its rows, before anything is inferred or learned from the rows. First cells are replaced,
then missing values are recognised, then numbers are multiplied. `Declared.at_silo` puts the declarations of one silo
into the `Form` of the silo's file. `Form` also has the column that names the silo of each row (`--by`).
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.errors import BadInput, quoted, with_name_of

from .batches import WrappedSource, cells_in, numbers_in
from .cells import label_of, number_of
from .formats import Form

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
    declared = {"recode": [name for name, _ in form.recode], "scale": [name for name, *_ in form.scale]}
    for key, columns in declared.items():
        for name in columns:
            if name not in names:
                near = get_close_matches(name, list(names), 1)
                instead = f"; did you mean {quoted(near[0])}?" if near else ""
                raise BadInput(f"{path}: about.json: {key}: {quoted(name)} is not a column of the file{instead}")
    if form.rows is not None and form.rows[0] not in names:
        near = get_close_matches(form.rows[0], list(names), 1)
        instead = f"did you mean {quoted(near[0])}?" if near else f"available: {', '.join(list(names)[:8])}"
        raise BadInput(f"{path}: --by: column {quoted(form.rows[0])} is missing; {instead}")


def factor_of(form: Form, name: str) -> float:
    """The factor of a column's numbers."""
    return next((factor for column, factor, _ in form.scale if column == name), 1.0)


def harmonised_cells(form: Form, name: str, cells: Sequence[str]) -> list[str]:
    """The `cells` of a column with the recoding and the unit of `form`.

    A multiplied number is written with an exponent, so that it is never equal to a marker of missing values such as 99.
    """
    found = list(cells)
    for column, recoding in form.recode:
        if column == name:
            labels = dict(recoding)
            found = [labels.get(cell.strip(), labels.get(label_of(cell), cell)) for cell in found]
    for column, factor, marks in form.scale:
        if column == name:
            numbers = [np.nan if label_of(cell) in marks else number_of(cell.strip()) for cell in found]
            pairs = zip(found, numbers, strict=True)
            found = [cell if math.isnan(number) else f"{number * factor:.17e}" for cell, number in pairs]
    return found


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


@dataclass(frozen=True)
class HarmonisedSource(WrappedSource):
    """The rows of one silo in `source`, with the recoding and the units of its `form`."""

    form: Form

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that can be read. Raises `BadInput` if `about.json` names a column that does not exist."""
        check_harmonised(self.path, self.form, self.source.names)
        return self.source.names

    @property
    def words(self) -> frozenset[str]:
        """The columns to read as text, including recoded columns."""
        return self.source.words | {name for name, _ in self.form.recode}

    def batches(self, names: Sequence[str], words: Collection[str] = ()) -> Iterator[Any]:
        """Yield the rows of the silo (see `Source.batches`)."""
        import pyarrow

        by = () if self.form.rows is None else (self.form.rows[0],)
        text = frozenset(words) | {name for name, _ in self.form.recode} | set(by)
        for batch in self.source.batches([*names, *(one for one in by if one not in names)], text):
            own = (
                batch
                if self.form.rows is None
                else batch.filter(pyarrow.array(self._own(batch.column(batch.schema.names.index(*by)))))
            )
            yield self._harmonised(own.select(list(range(len(names)))), names)

    def place(self, row: int) -> str:
        """The place of row `row` (from 0) of the silo; in a file with the rows of several silos, after its name."""
        if self.form.rows is None:
            return self.source.place(row)
        (by, silo), start = self.form.rows, 0
        for batch in self.source.batches([by], [by]):
            own = np.flatnonzero(self._own(batch.column(0)))
            if row < len(own):
                return with_name_of(silo, self.source.place(start + int(own[row])))
            row, start = row - len(own), start + batch.num_rows
        return str(self.path)

    def _own(self, column: Any) -> NDArray[np.bool_]:
        """Whether each row belongs to the silo, by the `column` that names the silo."""
        cells, codes = cells_in(column)
        own = np.array([label_of(cell) == (self.form.rows or ("", ""))[1] for cell in cells], dtype=np.bool_)
        return np.asarray(own[codes])

    def _harmonised(self, batch: Any, names: Sequence[str]) -> Any:
        import pyarrow

        recoded = {name for name, _ in self.form.recode}
        columns = [
            harmonised_array(self.form, name, column, self.path)
            if name in recoded or factor_of(self.form, name) != 1.0
            else column
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
