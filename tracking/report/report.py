"""The report of a run: one self-contained HTML file, readable without the internet.

The content is that of `sections.py`; this module and its template give every form of block (`blocks.py`) its HTML. A
Content-Security-Policy forbids the browser to load other files, and to run scripts other than those of the graph
explorer, which it identifies by their hashes. An installation stores the template in compiled form.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from ..result import RunResult
from .blocks import Block, Heading
from .explore import explore_scripts
from .sections import SECTIONS, title_of
from .tables import display

if TYPE_CHECKING:
    from jinja2 import BytecodeCache, Template


DIRECTION_MARKS = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""characters that change the direction of the text that follows (Unicode's embeddings, overrides and isolates)"""
INSTALLATION_FILES = Path(sys.prefix) / "share" / "fedbnsl"
"""the folder of an installation with the files that `fedbnsl.flows.cli.warm` prepares once"""


@dataclass(frozen=True)
class PagePart:
    """Blocks within one HTML element; without a tag, they stand in the page itself."""

    tag: str
    blocks: list[Block] = field(default_factory=list)


def report_html(result: RunResult) -> str:
    """The report of `result` as one HTML document that loads nothing from other files or sites.

    No name of a column, label or silo changes the direction of the text around it: it is shown with code points in
    place of the marks that would.
    """
    main, specialists = (list(_parts(result, specialist=one)) for one in (False, True))
    titles = [one.text for part in specialists for one in part.blocks if isinstance(one, Heading) and one.level == 2]
    page = report_template().render(
        title=title_of(result),
        main=main,
        specialists=specialists,
        folded=", ".join(title[:1].lower() + title[1:] for title in titles),
        scripts=explore_scripts(result),
    )
    return DIRECTION_MARKS.sub(lambda mark: f"[U+{ord(mark[0]):04X}]", page)


def _parts(result: RunResult, *, specialist: bool) -> Iterator[PagePart]:
    """The blocks of the sections, in a part for each heading of level 2 and for what stands before the first."""
    for section in SECTIONS:
        if section.specialist is not specialist:
            continue
        part = PagePart("")
        for block in section.page(result):
            if isinstance(block, Heading) and block.level < 3:
                if part.blocks:
                    yield part
                part = PagePart("header" if block.level == 1 else "section")
            part.blocks.append(block)
        if part.blocks:
            yield part


@cache
def report_template() -> "Template":
    """The template of the report, with its style sheet; jinja2 compiles them if they are not stored in this form."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    folder = files(__package__).joinpath("templates")
    environment = Environment(
        loader=FunctionLoader(lambda name: folder.joinpath(name).read_text("utf-8")),
        bytecode_cache=_cached_templates(INSTALLATION_FILES / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"display": display, "zip": zip}
    environment.tests["block"] = lambda value, name: type(value).__name__ == name
    return environment.get_template("report.html.j2")


def _cached_templates(folder: Path) -> "BytecodeCache":
    """A cache of compiled templates in `folder`, by name and content; it raises no error if `folder` is read-only."""
    from jinja2.bccache import Bucket, FileSystemBytecodeCache

    class TemplateCache(FileSystemBytecodeCache):
        def load_bytecode(self, bucket: Bucket) -> None:
            with suppress(Exception):  # a damaged file is written again
                super().load_bytecode(bucket)

        def dump_bytecode(self, bucket: Bucket) -> None:
            with suppress(OSError):
                folder.mkdir(parents=True, exist_ok=True)
                super().dump_bytecode(bucket)

    return TemplateCache(str(folder))
