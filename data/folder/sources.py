"""The source of a silo's rows: `source_of` opens any file or folder that a silo may have (`formats.py`).

A source yields its rows in batches (`batches.Source`), in the same order in every pass. A source that fits into memory
is a `CachedSource`, which keeps the columns that were read and yields all rows in one batch.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from fedbnsl.algorithms.errors import BadInput

from .about import Declared
from .batches import Source, WrappedSource, exceeds_memory, keep_all
from .check import Keep, written_name
from .formats import NO_FORM, Form, is_sheet, is_text, kind_of
from .harmonise import HarmonisedSource
from .parquet import ParquetParts, cell_count
from .query import QuerySource
from .sheets import SheetSource
from .text import TextFile


@dataclass(frozen=True)
class CachedSource(WrappedSource):
    """The rows of a `source` that fits into memory, in one batch; a column is read once."""

    columns: dict[tuple[str, bool], Any] = field(default_factory=dict)
    """the columns that were read, by name and by whether they were read as text"""

    def batches(self, names: Sequence[str], words: Collection[str] = ()) -> Iterator[Any]:
        """Yield the rows (see `Source.batches`)."""
        import pyarrow

        keys = [(name, name in words or self._is_only_text(name)) for name in names]
        missing = [key for key in keys if key not in self.columns]
        read = [*self.source.batches([name for name, _ in missing], words)] if missing else []
        if missing and not read:
            return
        for number, key in enumerate(missing):
            chunks = [batch.column(number) for batch in read]
            whole = chunks[0] if len(chunks) == 1 else pyarrow.chunked_array(chunks).unify_dictionaries()
            self.columns[key] = whole if len(chunks) == 1 else whole.combine_chunks()
        if names:
            yield pyarrow.RecordBatch.from_arrays([self.columns[key] for key in keys], names=list(names))

    def _is_only_text(self, name: str) -> bool:
        """Whether the column was read as text and not as numbers: then it is not read again."""
        return (name, True) in self.columns and (name, False) not in self.columns

    def place(self, row: int) -> str:
        """The place of row `row` (from 0)."""
        return self.source.place(row)


def open_source(path: Path, form: Form = NO_FORM, keep: Keep = keep_all) -> Source:
    """The rows at `path`, of which those columns are read that `keep` accepts, with the dialect, rows, recoding and
    units of `form`.

    Raises `BadInput` for a file that does not exist.
    """
    if not path.exists():
        raise BadInput(f"{path}: no such file")
    source: Source
    if form.rename or form.join:
        keep = partial(_keeps_renamed, form, keep)
    if path.is_dir() or kind_of(path) == "parquet":
        source = ParquetParts(path, keep)
    elif kind_of(path) == "query":
        source = QuerySource(path)
    else:
        source = SheetSource(path, form, keep) if is_sheet(path) else TextFile(path, form, keep)
    return (
        HarmonisedSource(source, form)
        if any((form.rename, form.recode, form.join, form.unit, form.scale, form.rows))
        else source
    )


def _keeps_renamed(form: Form, keep: Keep, name: str) -> bool:
    """Whether `keep` accepts the variable of the column that is called `name` in the file."""
    return keep(form.joined_name(form.name_in_data(name)))


def reading_quantities(source: Source, units: Mapping[str, str]) -> Source:
    """`source`, in whose columns with `units` numbers may have other marks beside them (see `cells.quantity_of`)."""
    plain = source.source if isinstance(source, CachedSource) else source
    form = plain.form if isinstance(plain, HarmonisedSource) else NO_FORM
    further = tuple((name, unit) for name, unit in units.items() if (name, unit) not in form.unit)
    if not further:
        return source
    form = replace(form, unit=(*form.unit, *further))
    own = replace(plain, form=form) if isinstance(plain, HarmonisedSource) else HarmonisedSource(plain, form)
    return CachedSource(own) if isinstance(source, CachedSource) else own


def read_in_passes(path: Path) -> bool:
    """Whether the rows at `path` must be read in passes.

    Folders of Parquet parts are always read in passes. Parquet files are read in passes if they have more than
    `IN_MEMORY_BYTES` / 8 cells, and text files if they have more than `IN_MEMORY_BYTES` bytes.
    """
    if path.is_dir():
        return True
    if kind_of(path) == "parquet":
        return exceeds_memory(8 * cell_count(path))
    return is_text(path) and path.is_file() and exceeds_memory(path.stat().st_size)


def source_of(path: Path, declared: Declared) -> Source:
    """The rows at `path` as `declared`: a `CachedSource` if they fit into memory. Raises as `open_source`."""
    source = open_source(path, declared.form, declared.keeps)
    plain = source.source if isinstance(source, HarmonisedSource) else source
    in_passes = not plain.fits_memory if isinstance(plain, QuerySource) else read_in_passes(path)
    return source if in_passes else CachedSource(source)


def left_out_names(source: Source, selected: Sequence[str]) -> tuple[str, ...]:
    """The columns of `source` that are not `selected`; the column that names the silo of each row (`--by`) is last."""
    plain = source.source if isinstance(source, CachedSource) else source
    owner = plain.form.rows[:1] if isinstance(plain, HarmonisedSource) and plain.form.rows else ()
    others = [written_name(name) for name in source.header if name not in selected and name not in owner]
    return (*dict.fromkeys(others), *owner)
