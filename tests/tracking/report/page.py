"""A report read back: its sections by title, with their paragraphs and tables as text."""

from dataclasses import dataclass, field
from html import unescape
from html.parser import HTMLParser


@dataclass
class Section:
    """What stands below one heading; a table is its header and its rows, each a tuple of cells."""

    title: str
    paragraphs: list[tuple[str, str]] = field(default_factory=list)
    """style class and text"""
    tables: list[tuple[tuple[str, ...], list[tuple[str, ...]]]] = field(default_factory=list)
    tiles: dict[str, str] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    """the whole section as lines of text, from the top down"""

    @property
    def text(self):
        return " ".join(text for _, text in self.paragraphs)

    def table(self, *header):
        """The rows of the one table that has this header."""
        (found,) = [rows for names, rows in self.tables if names == header]
        return found

    def columns(self, number=0):
        """A table as {first cell of a row: {header: cell}}."""
        header, rows = self.tables[number]
        return {row[0]: dict(zip(header[1:], row[1:], strict=True)) for row in rows}


class Reader(HTMLParser):
    """Collects sections; pictures and scripts are left out."""

    def __init__(self):
        super().__init__()
        self.sections = [Section("")]
        self._outside, self._in_cell, self._in_item, self._text, self._kind = 0, False, False, [], ""
        self._header, self._rows, self._row, self._value = (), [], [], None

    def handle_starttag(self, tag, attrs):
        if tag in ("svg", "script", "style"):
            self._outside += 1
        starts = tag in ("h1", "h2", "h3", "p", "li", "td", "th", "summary", "figcaption")
        if starts or (tag == "b" and not self._in_item) or (tag == "span" and not self._in_cell):
            self._text, self._kind = [], dict(attrs).get("class") or ""
        if tag == "li":
            self._in_item = True
        if tag in ("td", "th"):
            self._in_cell = True
        elif tag == "table":
            self._header, self._rows = (), []
        elif tag == "tr":
            self._row = []

    def handle_data(self, data):
        if not self._outside:
            self._text.append(data)

    def handle_endtag(self, tag):
        if tag in ("svg", "script", "style"):
            self._outside -= 1
        if self._outside:
            return
        here, text = self.sections[-1], one_line("".join(self._text))
        if tag == "h2":
            here = Section(text, order=[f"\n## {text}"])
            self.sections.append(here)
        elif tag == "h1":
            here.order.append(f"# {text}")
        elif tag == "h3":
            here.order.append(f"### {text}")
        elif tag in ("p", "li", "summary", "figcaption"):
            self._in_item = False
            here.paragraphs.append((self._kind, text))
            here.order.append(f"({self._kind}) {text}" if self._kind else text)
        elif tag == "b" and not self._in_item:
            self._value = text
        elif tag == "div" and self._value is not None:
            here.tiles[text] = self._value
            here.order.append(f"[{text}: {self._value}]")
            self._value = None
        else:
            self._end_in_table(tag, here, text)

    def _end_in_table(self, tag, here, text):
        if tag in ("td", "th"):
            self._row.append(text)
            self._in_cell = False
        elif tag == "tr" and self._header:
            self._rows.append(tuple(self._row))
        elif tag == "tr":
            self._header = tuple(self._row)
        elif tag == "table":
            here.tables.append((self._header, self._rows))
            here.order += [" | ".join(row) for row in (self._header, *self._rows)]


def one_line(html):
    """A text without line breaks and indents, which browsers do not show."""
    return unescape(" ".join(html.split()))


def read(html):
    """The sections of a report by their titles; what stands above the first has the title ""."""
    reader = Reader()
    reader.feed(html[html.index("<body>") :])
    return {one.title: one for one in reader.sections}


def as_text(section):
    """A section that was read as lines of text, without its pictures."""
    return "\n".join(line for line in section.order if not line.startswith("\n## "))
