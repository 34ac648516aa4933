"""A forest plot: effects on one outcome with their intervals, in one row each, with the silos' effects below them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedbnsl.algorithms.effects.answer import Effect, value_text

from .style import INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ESTIMATE, RESAMPLED, SILO = "#1f5a96", "#d1400b", "#6f6f6f"
ROW_INCHES = 0.3


@dataclass(frozen=True)
class ForestRow:
    """A row: its label, the range of estimates (with equal ends for a single estimate), and the interval or None."""

    label: str
    low: float
    high: float
    interval: tuple[float, float] | None
    colour: str


def draw_forest(effects: Sequence[Effect], title: str = "") -> "Figure":
    """A figure of the `effects`, one row each, with a row for resamples and for each silo where they are known.

    An estimate is a dot, a range over a class of graphs is a thick bar, and a 95 % interval is a thin line. A hollow
    dot is an effect that is zero by the graph. An effect that is not identified has a row with the text "not
    identified" and without marks.
    """
    from matplotlib.figure import Figure

    rows = [row for one in effects for row in _rows(one)]
    labels = max((len(row.label) for row in rows), default=0)
    figure = Figure(figsize=(4.2 + 0.075 * labels, 1.1 + ROW_INCHES * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    axes.axvline(0.0, color=INK, linewidth=0.8, alpha=0.6)
    for place, row in enumerate(rows):
        _draw_row(axes, len(rows) - 1 - place, row)
    axes.set_yticks(range(len(rows)), [row.label for row in reversed(rows)])
    axes.set_ylim(-0.7, len(rows) - 0.3)
    axes.tick_params(axis="y", length=0)
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    measures = sorted({one.measure for one in effects})
    axes.set_xlabel(f"change of the {measures[0]}" if len(measures) == 1 else "change of the measure")
    axes.set_title(title, loc="left", fontsize=10)
    return figure


def _rows(one: Effect) -> list[ForestRow]:
    changed = f"{one.treatment}: {' → '.join(value_text(value) for value in one.values)}"
    name = changed if one.measure.startswith("mean of ") else f"{changed}, {one.measure}"
    if one.bounds is None:
        rows = [ForestRow(f"{name} (not identified)", float("nan"), float("nan"), None, ESTIMATE)]
    else:
        rows = [ForestRow(name, *one.bounds, one.interval, ESTIMATE)]
    again = one.resampled
    if again is not None and again.interval is not None and again.median is not None:
        rows.append(ForestRow("graphs of resamples", again.median, again.median, again.interval, RESAMPLED))
    if one.silos is not None:
        rows += [
            ForestRow(f"silo {silo}", own.value, own.value, own.interval, SILO)
            for silo, own in one.silos.estimates.items()
        ]
    return rows


def _draw_row(axes: "Axes", height: int, row: ForestRow) -> None:
    if row.interval is not None:
        axes.plot(row.interval, [height, height], color=row.colour, linewidth=1.4, solid_capstyle="butt")
    if row.low != row.high:
        axes.plot([row.low, row.high], [height, height], color=row.colour, linewidth=5, solid_capstyle="butt")
    else:
        hollow = row.interval is None and row.low == 0
        axes.plot(
            [row.low],
            [height],
            marker="o",
            markersize=6,
            color=row.colour,
            markerfacecolor="white" if hollow else row.colour,
            linestyle="none",
        )
