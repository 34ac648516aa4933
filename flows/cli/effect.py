"""`fedbnsl effect`: the effect of changing a variable on an outcome, in the graph of a finished run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedbnsl.algorithms.errors import BadInput, quoted

if TYPE_CHECKING:
    from fedbnsl.algorithms.effects.answer import Effect, EffectReport, Values


def compared_values(given: str | None) -> Values | None:
    """The two values in `given`, separated by a comma; raises `BadInput` unless there are two different values."""
    if given is None:
        return None
    words = tuple(word.strip() for word in given.split(","))
    if len(words) != 2 or not all(words) or words[0] == words[1]:
        raise BadInput(f"--compare is {quoted(given)}: give two different values, such as 0,1 or no,yes")
    return words[0], words[1]


def show(report: EffectReport) -> None:
    """Print the effects in descending order of size, then the effects that are zero by the graph, and the assumptions.

    Zero effects with results of resamples, silos or placebos are among the first.
    """
    from fedbnsl.algorithms.effects.answer import effect_row, variability_lines

    from ..terminal.console import console

    out, explained = console(), set[tuple[str, str]]()
    ranked = strongest_first(report)
    zero = [one for one in ranked if one.status == "zero" and not any(variability_lines(one))]
    for one in ranked:
        if one in zero:
            continue
        change, measure, estimate, reason = effect_row(one)
        out.print(f"{one.kind} effect of {change} on {measure}: {estimate}", soft_wrap=True)
        # Several contrasts of a treatment have the same adjustment, which is printed once.
        known = (one.treatment, reason) in explained
        for line in (*(() if known else (reason,)), *variability_lines(one)):
            out.print(f"  {line}", soft_wrap=True)
        explained.add((one.treatment, reason))
    for line in zero_lines(zero):
        out.print(line, soft_wrap=True)
    out.print()
    for line in report.rests_on:
        out.print(line, soft_wrap=True)


def zero_lines(effects: Sequence[Effect]) -> Iterator[str]:
    """Lines on the effects that are zero by the graph: two lines for each group of treatments with the same reason."""
    together: dict[tuple[str, str, str], dict[str, str]] = {}
    for one in effects:
        reason = one.reason.replace(f" {one.treatment} to ", " X to ", 1)
        together.setdefault((one.kind, one.outcome, reason), {})[one.treatment] = one.reason
    for (kind, outcome, reason), treatments in together.items():
        named, *more = treatments
        yield f"{kind} effect{'s' * bool(more)} of {', '.join(treatments)} on {outcome}: 0 by the graph"
        yield f"  {reason.replace(' X to ', ' them to ', 1) if more else treatments[named]}"


def strongest_first(report: EffectReport) -> list[Effect]:
    """The effects in descending order of their absolute values; effects that are not identified come last."""
    return sorted(report.effects, key=lambda one: -max(map(abs, one.bounds or (0.0,))))


PICTURES = (".svg", ".png", ".pdf")


def write_forest(report: EffectReport, file: Path) -> None:
    """Write a forest plot of the effects to `file`; raises `BadInput` unless its ending is in `PICTURES`."""
    from fedbnsl.tracking.pictures.forest import draw_forest

    if file.suffix.lower() not in PICTURES:
        raise BadInput(f"--picture {file}: a picture ends in {', '.join(PICTURES)}")
    first = report.effects[0]
    draw_forest(strongest_first(report), f"{first.kind} effects on {first.outcome}").savefig(file)


Rows = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Folder of the run's data: estimate from the rows, by masked sums. Default: compute from the model.",
    ),
]

Resamples = Annotated[
    int,
    typer.Option(
        metavar="N",
        help="Learn a graph from each of N resamples of the rows. The interval then includes the uncertainty of the "
        "graph, and the output has the share of graphs in which X is not a cause of Y. Needs --data.",
    ),
]

BySilo = Annotated[
    bool,
    typer.Option(
        "--by-silo", help="Also estimate the effect at each silo, and the heterogeneity of these effects. Needs --data."
    ),
]

Placebos = Annotated[
    int,
    typer.Option(
        "--placebo",
        metavar="N",
        help="Also permute the treatment within each silo N times, and estimate effects that should be near 0. "
        "Needs --data.",
    ),
]

DoublyRobust = Annotated[
    bool,
    typer.Option(
        "--doubly-robust",
        help="Model the treatment, too: the effect is right if one of the two models is. For a treatment of labels, "
        "and an outcome of numbers or two labels. Needs --data.",
    ),
]

By = Annotated[
    str | None,
    typer.Option(
        "--by",
        metavar="COLUMN",
        help="Also estimate the effect by level of this covariate, which has labels. Needs --doubly-robust.",
    ),
]

app = typer.Typer(add_completion=False)


@app.command()
def effect(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run, such as runs/NAME.")],
    outcome: Annotated[str, typer.Option(metavar="Y", help="The variable whose change is of interest.")],
    treatment: Annotated[
        list[str] | None,
        typer.Option(metavar="X", help="The variable to change; repeat the option to change several together."),
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="The two values of X to compare. Default: 0,1 for numbers; each further label with the first label.",
        ),
    ] = None,
    direct: Annotated[bool, typer.Option("--direct", help="The direct effect: other parents of Y held fixed.")] = False,
    every: Annotated[
        bool, typer.Option("--all", help="Estimate the effect of every other variable, one at a time.")
    ] = False,
    data: Rows = None,
    bootstrap: Resamples = 0,
    by_silo: BySilo = False,
    placebo: Placebos = 0,
    doubly_robust: DoublyRobust = False,
    by: By = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the effects as a forest plot: .svg, .png or .pdf.")
    ] = None,
    track: Annotated[
        bool, typer.Option("--track", help="Add the effects as metrics to the MLflow run, to compare runs by them.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the effects as JSON.")] = False,
) -> None:
    """Estimate the effect of changing X on Y in the graph of a finished run, and state the assumptions.

    Example: fedbnsl effect runs/NAME --treatment dose --outcome response --compare 0,10
    """
    from ..api.loading import load
    from ..inference.effects import effects

    if track:
        from fedbnsl.tracking.mlflow.run import log_effects
    result = load(run).result
    if every and treatment:
        raise BadInput("--all takes every other variable as the treatment: omit --treatment")
    if not every and not treatment:
        raise BadInput("no treatment: give --treatment X, or --all for every other variable")
    treatments = treatment or [name for name in result.schema.variables if name != outcome]
    report = effects(
        result,
        treatments,
        outcome,
        kind="direct" if direct else "total",
        values=compared_values(compare),
        joint=not every and len(treatments) > 1,
        data=data,
        bootstrap=bootstrap,
        by_silo=by_silo,
        placebo=placebo,
        doubly_robust=doubly_robust,
        by=by,
    )
    if picture is not None:
        write_forest(report, picture)
    link = log_effects(result.name, run.resolve().name, report.effects) if track else ""
    if as_json:
        print(json.dumps({"run": str(run), **report.as_json()}, indent=1, ensure_ascii=False))
    else:
        show(report)
        if link:
            print(f"MLflow: {link}")
