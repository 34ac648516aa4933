"""The report's template, which the installation stores in compiled form, and the format of the values in it."""

import sys
from contextlib import suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from fedbnsl.algorithms.core.schema import pluralize

from .tables import Mark

if TYPE_CHECKING:
    from jinja2 import BytecodeCache, Template

INSTALLATION_FILES = Path(sys.prefix) / "share" / "fedbnsl"
"""the folder of an installation with the files that `fedbnsl.flows.cli.warm` prepares once"""


@cache
def report_template() -> "Template":
    """The template of the report and the templates that it includes; jinja2 compiles those not stored in this form."""
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
    environment.filters |= {"display": display, "counted": pluralize}
    environment.tests["mark"] = lambda cell: isinstance(cell, Mark)
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


def display(value: object) -> str:
    """`value` as text: four significant digits for floats, a dash for None."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() and abs(value) < 1e9 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
