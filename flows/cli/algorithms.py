"""`fedbnsl algorithms`: the table of all algorithms, and the page of one."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedbnsl.algorithms.errors import BadInput, choices_text

from ..options.parameters import parameters
from .completion import one_algorithm

if TYPE_CHECKING:
    from fedbnsl.algorithms.core.spec import Entry


def algorithm_json(entry: Entry) -> dict[str, Any]:
    """All there is to know of an algorithm, as JSON."""
    known = parameters(entry.config)
    return {
        "summary": entry.summary,
        "source": entry.source,
        "leaves": entry.disclosure,
        "kinds": list(entry.kinds),
        "pooled": entry.pooled,
        "needs_truth": entry.needs_truth,
        "parameters": {one.name: one.default for one in known},
        "types": {one.name: one.kind for one in known},
        "meanings": {one.name: one.meaning for one in known},
        "presets": list(entry.presets),
    }


def preset_changes(entry: Entry, preset: str) -> dict[str, Any]:
    """The parameters whose values in a preset differ from their defaults."""
    settings = asdict(entry.presets[preset])
    return {one.name: settings[one.name] for one in parameters(entry.config) if settings[one.name] != one.default}


def show_algorithms(*, as_json: bool) -> None:
    """Print every algorithm: what it is, the data it learns from, and exactly what leaves a silo."""
    from rich.table import Table

    from fedbnsl.algorithms.registry import ALGORITHMS, STEPS

    from ..terminal.summary import console

    if as_json:
        print(json.dumps({name: algorithm_json(entry) for name, entry in ALGORITHMS.items()}, indent=1))
        return
    out = console()
    table = Table("algorithm", "what it is", "data", "what leaves a silo", show_lines=True)
    for name, entry in ALGORITHMS.items():
        table.add_row(name, f"{entry.summary}\n{entry.source}", "\n".join(entry.kinds), entry.disclosure)
    out.print(table)
    steps = Table("after a run", "what it is", "what leaves a silo", show_lines=True)
    for name, entry in STEPS.items():
        steps.add_row(name, f"{entry.summary}\n{entry.source}", entry.disclosure)
    out.print(steps)
    out.print("`fedbnsl algorithms NAME` explains the settings of one.")


def show_algorithm(name: str, *, as_json: bool) -> None:
    """Print the page of one algorithm; raises `BadInput` naming the algorithms if there is none of that name."""
    from rich.table import Table

    from fedbnsl.algorithms.registry import ALGORITHMS

    from ..terminal.summary import console

    if name not in ALGORITHMS:
        raise BadInput(f"unknown algorithm '{name}': {choices_text(name, ALGORITHMS)}")
    entry = ALGORITHMS[name]
    if as_json:
        print(json.dumps(algorithm_json(entry), indent=1))
        return
    out = console()
    page = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    page.add_row("what it is", entry.summary)
    page.add_row("source", entry.source)
    page.add_row("leaves a silo", entry.disclosure)
    page.add_row("data", " or ".join(entry.kinds) + (", all rows in one place" if entry.pooled else ""))
    for preset in entry.presets:
        values = " ".join(f"{key}={value}" for key, value in preset_changes(entry, preset).items())
        page.add_row(f"preset={preset}", values or "the defaults")
    out.print(name, style="bold")
    out.print(page)
    table = Table("parameter", "type", "default", "meaning")
    for one in parameters(entry.config):
        table.add_row(one.name, one.kind, str(one.default), one.meaning)
    out.print(table)
    out.print(f"Change settings with -p, once for each: fedbnsl learn FOLDER -a {name} -p KEY=VALUE")


app = typer.Typer(add_completion=False)


@app.command()
def algorithms(
    name: Annotated[str | None, typer.Argument(help="The algorithm to explain.", autocompletion=one_algorithm)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the algorithms: what each does, and exactly what leaves a silo.

    With a NAME, explain that algorithm: its presets and its settings.
    """
    if name is None:
        show_algorithms(as_json=as_json)
    else:
        show_algorithm(name, as_json=as_json)
