"""What a section of a result consists of: blocks of the page, lines of the terminal, files, and tables of Prefect.

The sections themselves are in `sections.py`. The writers know these forms and no field of a result.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ..result import RunResult
from .statements import Statement
from .tables import ReportTable


@dataclass(frozen=True)
class Heading:
    """A heading of level 1, 2 or 3; one of level 2 begins a part of the page."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    """One or more sentences; a `soft` paragraph explains what stands beside it."""

    text: str
    style: Literal["", "soft", "warning"] = ""


def note(text: str) -> Paragraph:
    """A soft paragraph."""
    return Paragraph(text, "soft")


@dataclass(frozen=True)
class Tiles:
    """Figures side by side, each with its label."""

    figures: Sequence[tuple[str, object]]


@dataclass(frozen=True)
class Pictures:
    """Pictures as SVG side by side, each after its caption; a single picture has no caption."""

    captioned: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class StatementList:
    """Sentences on edges."""

    sentences: Sequence[Statement]


@dataclass(frozen=True)
class TablesBeside:
    """Tables side by side."""

    tables: Sequence[ReportTable]


@dataclass(frozen=True)
class Explorer:
    """The interactive view of the graph (`explore.py`)."""

    opened: bool


@dataclass(frozen=True)
class Fold:
    """Pictures below a line that opens them."""

    summary: str
    pictures: Pictures


Block = Heading | Paragraph | Tiles | Pictures | StatementList | TablesBeside | Explorer | Fold | ReportTable
FileContent = str | bytes | None


@dataclass(frozen=True)
class NamedTable:
    """A table of Prefect: its key and its description."""

    key: str
    description: str
    table: ReportTable


def _nothing(_: RunResult) -> Iterable[Any]:
    return ()


@dataclass(frozen=True)
class Section:
    """One part of a result."""

    name: str
    page: Callable[[RunResult], Iterable[Block]] = _nothing
    lines: Callable[[RunResult], Iterable[str | ReportTable]] = _nothing
    """what the terminal prints of it in any case"""
    details: Callable[[RunResult], Iterable[str | ReportTable]] = _nothing
    """what the terminal prints in addition if details are asked for"""
    files: Mapping[str, Callable[[RunResult], FileContent]] = field(default_factory=dict)
    """the files by name; a file without content is not written"""
    tables: Callable[[RunResult], Iterable[NamedTable]] = _nothing
    specialist: bool = False
    """whether the page folds the section"""
