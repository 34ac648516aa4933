"""The style of edges by category, their line widths, and the order in which they are laid out.

Categories differ in colour, dash and marker, so that a picture remains readable in greyscale. The colours are from the
palette of Okabe and Ito, which colour-blind readers can distinguish.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fedbnsl.algorithms.graphs.edges import Category, Edge, count
from fedbnsl.algorithms.graphs.strengths import Strengths

from .layout import Arc


@dataclass(frozen=True)
class Style:
    """Colour, dash pattern in line widths (None: solid), marker in the heat map and line width in points."""

    colour: str
    dash: tuple[float, ...] | None
    marker: str
    width: float

    @property
    def line(self) -> Any:
        """The dash pattern in matplotlib's form."""
        return (0, self.dash) if self.dash else "solid"


STYLES: dict[Category, Style] = {
    "learned": Style("#1f5a96", None, "s", 1.0),
    "right": Style("#0b7d62", None, "s", 1.0),
    "extra": Style("#d1400b", (1.0, 1.0), "X", 2.0),
    "missing": Style("#6f6f6f", (4.5, 2.5), "o", 1.2),
    "reversed": Style("#8a2da5", (5.0, 1.6, 1.2, 1.6), "^", 1.5),
    "half-directed": Style("#2779b8", (6.0, 1.5), "D", 1.5),
}

LABELS: dict[Category, str] = {"right": "correct"}
"""names in legends, where they differ from the category"""

INK = "#16202c"


def legend_entries(edges: Sequence[Edge], compared: bool) -> list[tuple[Category, str]]:
    """The categories that occur, and the default one in any case, each with its label and count.

    `compared` is whether there was a true graph to compare with.
    """
    always = "right" if compared else "learned"
    return [
        (category, f"{number} {LABELS.get(category, category)}")
        for category, number in count(edges).items()
        if number or category == always
    ]


def layout_order(variables: Sequence[str], edges: Sequence[Edge]) -> tuple[list[Edge], list[Arc]]:
    """The edges in their order of priority for the layout, and the arc that represents each there.

    True edges come first, and a reversed edge is laid out in its true direction. Undirected edges come last and follow
    the order that the others determine.
    """
    index = {name: place for place, name in enumerate(variables)}
    rank: dict[Category, int] = dict.fromkeys(STYLES, 0) | {"extra": 1}
    ordered = sorted(edges, key=lambda edge: (not edge.directed, not edge.one_way, rank[edge.category]))
    arcs = []
    for edge in ordered:
        source, target = index[edge.source], index[edge.target]
        arcs.append((target, source) if edge.category == "reversed" and edge.one_way else (source, target))
    return ordered, arcs


def truncate(name: str, longest: int) -> str:
    """`name`, cut to `longest` characters with an ellipsis if it is longer."""
    return name if len(name) <= longest else name[: longest - 1] + "…"


Thickness = Callable[[Edge], float]
"""edge -> its line width in points"""


def thickness(edges: Iterable[Edge], strengths: Strengths | None) -> Thickness:
    """The line widths of `edges`: by strength only or, without `strengths`, by category and weight."""
    if strengths is not None:
        return lambda edge: 0.5 + 2.0 * strengths.of(edge)[0]
    heaviest = max((abs(edge.weight or 0.0) for edge in edges), default=0.0) or 1.0
    return lambda edge: STYLES[edge.category].width + 0.9 * abs(edge.weight or 0.0) / heaviest
