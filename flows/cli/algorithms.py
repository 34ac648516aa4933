"""`fedbnsl algorithms`: the table of all algorithms, and the page of a single algorithm."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedbnsl.algorithms.errors import BadInput, choices_text

from ..options.parameters import parameters
from .completion import one_algorithm

if TYPE_CHECKING:
    from fedbnsl.algorithms.core.spec import Entry


def algorithm_json(entry: Entry) -> dict[str, Any]:
    """The complete description of an algorithm, as JSON."""
    from fedbnsl.algorithms.registry import levels_of

    known = parameters(entry.config)
    return {
        "summary": entry.summary,
        "source": entry.source,
        "leaves": entry.disclosure,
        "levels": levels_of(entry),
        "kinds": list(entry.kinds),
        "takes": list(entry.takes),
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
    return {one.name: settings[one.name] for one in fields(entry.config) if settings[one.name] != one.default}


def preset_text(name: str, entry: Entry, preset: str) -> str:
    """The parameters of a preset that differ from the defaults; for one of a paper, also where the paper states them.

    Parameters without a place are those of our additions, which the papers do not have.
    """
    from fedbnsl.algorithms.published import PUBLISHED

    changes = {key: f"{key}={value}" for key, value in preset_changes(entry, preset).items()}
    one = PUBLISHED.get(name, {}).get(preset)
    if one is None:
        return " ".join(changes.values()) or "the defaults"
    stated = {key: f"{value:.6g}" if isinstance(value, float) else str(value) for key, (value, _) in one.values.items()}
    lines = [one.of]
    for place, keys in one.places.items():
        lines.append(f"{' '.join(f'{key}={stated[key]}' for key in keys)} ({place})")
    rest = " ".join(text for key, text in changes.items() if key not in one.values)
    return "\n".join([*lines, *([f"{rest} (without our additions)"] if rest else [])])


def show_algorithms(folder: Path | None = None, *, as_json: bool) -> None:
    """Print every algorithm by family: its summary, the data it learns from, and exactly what leaves a silo.

    With a `folder`, print only algorithms that learn from data of its kind. Raises `BadInput` as reading the folder
    does.
    """
    from fedbnsl.algorithms.registry import ALGORITHMS, STEPS, by_family

    from ..terminal.console import console

    kind = None if folder is None else kind_of(folder)
    suitable = {name: entry for name, entry in ALGORITHMS.items() if kind in (None, *entry.kinds)}
    if as_json:
        print(json.dumps({name: algorithm_json(entry) for name, entry in suitable.items()}, indent=1))
        return
    out = console()
    if kind:
        out.print(f"{folder}: {kind} data")
    for title, names in by_family().items():
        shown = {name: suitable[name] for name in names if name in suitable}
        if shown:
            out.print(f"\n{title}", style="bold underline")
            show_entries(shown)
    if not kind:
        out.print("\nafter a run", style="bold underline")
        show_entries(STEPS)
    out.print("\n`fedbnsl algorithms NAME` explains the settings of an algorithm.")


def kind_of(folder: Path) -> str:
    """The kind of the data in `folder`."""
    from fedbnsl.data.folder.folder import read_folder

    return read_folder(folder).schema.kind


def show_entries(entries: Mapping[str, Entry]) -> None:
    """Print the summary and the disclosure of each of the `entries`, in lines that fit the width of the terminal."""
    from rich.padding import Padding

    from fedbnsl.algorithms.registry import levels_of

    from ..terminal.console import console

    out = console()
    for name, entry in entries.items():
        out.print(name, style="bold")
        data = f"\ndata: {data_of(entry)}" if entry.kinds else ""
        levels = f"\nlevels of owners that allow it: {levels_of(entry)}"
        text = f"{entry.summary}\n{entry.source}{data}\nleaves a silo: {entry.disclosure}{levels}"
        out.print(Padding(text, (0, 0, 0, 2)))


def data_of(entry: Entry) -> str:
    """The kinds of data that an algorithm learns from, and the features that the data may have."""
    return " or ".join(entry.kinds) + (f"; may have {', '.join(entry.takes)}" if entry.takes else "")


def show_algorithm(name: str, *, as_json: bool) -> None:
    """Print the page of the algorithm `name`. Raises `BadInput`, with available names, for an unknown name."""
    from rich.table import Table

    from fedbnsl.algorithms.registry import ALGORITHMS, levels_of

    from ..terminal.console import console

    if name not in ALGORITHMS:
        raise BadInput(f"unknown algorithm '{name}': {choices_text(name, ALGORITHMS)}")
    entry = ALGORITHMS[name]
    if as_json:
        print(json.dumps(algorithm_json(entry), indent=1))
        return
    out = console()
    page = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    page.add_row("summary", entry.summary)
    page.add_row("source", entry.source)
    page.add_row("leaves a silo", entry.disclosure)
    page.add_row("levels of owners that allow it", levels_of(entry))
    page.add_row("data", data_of(entry) + (", all rows in one place" if entry.pooled else ""))
    for preset in entry.presets:
        page.add_row(f"preset={preset}", preset_text(name, entry, preset))
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
    data: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="List only algorithms for the kind of data in FOLDER.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the algorithms by family, with a summary and exactly what leaves a silo.

    With a NAME, explain that algorithm: its presets and its settings.
    """
    if name is None:
        show_algorithms(data, as_json=as_json)
    else:
        show_algorithm(name, as_json=as_json)
