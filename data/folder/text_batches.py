"""A text file as the rows of a silo that are read in passes."""

import codecs
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fedbnsl.algorithms.errors import BadInput

from .cells import DECIMAL_COMMA, is_empty, number_of
from .columns import EMPTY, HEADER
from .form import LOOKED_AT, Form, Text, text_of
from .scan import first_rows, read_header

NO_FORM = Form()
HEAD = 1 << 20
"""bytes from which it is told how a file is written"""
BLOCK = 1 << 24
"""bytes that are parsed at once"""


@dataclass(frozen=True)
class TextFile:
    """Rows in a text file, a header above them; `form` is what is declared of how it is written."""

    path: Path
    form: Form = NO_FORM

    @cached_property
    def _head(self) -> Text:
        """The first lines, and how they are written."""
        import pyarrow  # type: ignore[import-untyped]

        try:
            with pyarrow.input_stream(str(self.path), compression="detect") as stream:
                content: bytes = stream.read(HEAD)
        except (pyarrow.ArrowException, OSError) as error:
            raise BadInput(f"{self.path}: cannot be read: {str(error).splitlines()[0]}") from error
        if len(content) == HEAD and b"\n" in content:
            content = content[: content.rindex(b"\n") + 1]
        if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise BadInput(f"{self.path}: a file in UTF-16 of this size cannot be read: write it as UTF-8 or Parquet")
        return text_of(str(self.path), content, self.form)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns that the header names."""
        return tuple(read_header(self.path, self._head))

    @cached_property
    def words(self) -> frozenset[str]:
        """The columns of which not all of the first cells are numbers."""
        rows = first_rows(self._head, LOOKED_AT)[1:]
        columns = dict(zip(self.names, zip(*rows, strict=True), strict=bool(rows)))
        return frozenset(name for name, cells in columns.items() if not all(map(self._is_number, cells)))

    def _is_number(self, cell: str) -> bool:
        label = cell.strip()
        if self._head.decimal == "," and DECIMAL_COMMA.fullmatch(label):
            label = label.replace(",", ".")
        return is_empty(label) or not math.isnan(number_of(label))

    @property
    def notes(self) -> tuple[str, ...]:
        """How the file is read where that is not beyond doubt."""
        return ("it is read as cp1252",) * self._head.legacy

    def batches(self, names: Sequence[str], words: Collection[str] = ()) -> Iterator[Any]:
        """Yield the rows (see `Source.batches`)."""
        import pyarrow
        import pyarrow.csv  # type: ignore[import-untyped]

        head, text = self._head, pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
        header = HEADER.match(head.content)
        assert header is not None
        try:
            with pyarrow.csv.open_csv(
                self.path,
                read_options=pyarrow.csv.ReadOptions(
                    column_names=list(self.names),
                    skip_rows=len(header[0].splitlines()),
                    use_threads=False,
                    block_size=BLOCK,
                    encoding=self.form.encoding or ("cp1252" if head.legacy else "utf8"),
                ),
                parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True, delimiter=head.separator),
                convert_options=pyarrow.csv.ConvertOptions(
                    column_types={name: text if name in words else pyarrow.float64() for name in self.names},
                    strings_can_be_null=False,
                    quoted_strings_can_be_null=False,
                    null_values=EMPTY,
                    decimal_point=head.decimal,
                    include_columns=list(names),
                ),
            ) as stream:
                yield from stream
        except pyarrow.ArrowInvalid as error:
            declare = "; if the column holds labels, declare it in about.json" * ("conversion error" in str(error))
            raise BadInput(f"{self.path}: not a table: {str(error).splitlines()[0]}{declare}") from error
        except (pyarrow.ArrowException, OSError) as error:
            raise BadInput(f"{self.path}: cannot be read: {str(error).splitlines()[0]}") from error
