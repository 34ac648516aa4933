"""The styles of edges by their category, the order in which edges are laid out, and pens by strength.

Categories differ in colour, dash and marker, so that a picture remains readable in greyscale. The colours are from the
palette of Okabe and Ito, which colour-blind readers can distinguish.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fedbnsl.algorithms.graphs.edges import Category, Edge, count
from fedbnsl.algorithms.graphs.strengths import Strengths

from .layout import IndexArc, reverse_feedback_arcs, topological


@dataclass(frozen=True)
class Style:
    """Colour, dash pattern in line widths (None for a solid line), marker in the heat map, line width in points."""

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

LEGEND_NAMES: dict[Category, str] = {"right": "correct"}
"""names in legends, where they differ from the category"""

INK = "#16202c"


def legend_entries(edges: Sequence[Edge], compared: bool) -> list[tuple[Category, str]]:
    """The categories that occur, each with its label and count.

    `compared` is whether there was a true graph to compare with. Correct edges or, without a true graph, learned edges
    are always included.
    """
    always = "right" if compared else "learned"
    return [
        (category, f"{number} {LEGEND_NAMES.get(category, category)}")
        for category, number in count(edges).items()
        if number or category == always
    ]


def layout_order(variables: Sequence[str], edges: Sequence[Edge]) -> tuple[list[Edge], list[IndexArc]]:
    """The edges in their order of priority for the layout, and the arc that represents each edge in the layout.

    Directed edges come first; among them, extra edges come last. A reversed edge is laid out in its true direction.
    Undirected edges come after the directed edges, which determine their order in the layout.
    """
    index = {name: place for place, name in enumerate(variables)}
    rank: dict[Category, int] = dict.fromkeys(STYLES, 0) | {"extra": 1}
    ordered = sorted(edges, key=lambda edge: (not edge.directed, not edge.one_way, rank[edge.category]))
    arcs = []
    for edge in ordered:
        source, target = index[edge.source], index[edge.target]
        arcs.append((target, source) if edge.category == "reversed" and edge.one_way else (source, target))
    return ordered, arcs


def causal_order(variables: Sequence[str], edges: Sequence[Edge]) -> list[int]:
    """The variables, causes before effects: by the true edges first, then by learned edges that are consistent."""
    _, arcs = layout_order(variables, edges)
    return topological(len(variables), reverse_feedback_arcs(len(variables), arcs))


def truncate(name: str, longest: int) -> str:
    """`name`, cut to `longest` characters with an ellipsis if it is longer."""
    return name if len(name) <= longest else name[: longest - 1] + "…"


UNSTABLE_OPACITY = 0.4
"""opacity of edges that are in at most half of the resamples"""


@dataclass(frozen=True)
class Pen:
    """The line width of an edge in points, its opacity from 0 to 1, and whether its arrowheads are hollow."""

    width: float
    opacity: float = 1.0
    hollow: bool = False


def pens(edges: Iterable[Edge], strengths: Strengths | None) -> Callable[[Edge], Pen]:
    """The pens of `edges`: by strength, and paler for unstable edges; without `strengths`, by category and weight.

    Arrowheads are hollow if the direction is doubtful.
    """
    if strengths is not None:
        return lambda edge: Pen(
            0.5 + 2.0 * strengths.strength_and_direction(edge)[0],
            UNSTABLE_OPACITY if strengths.unstable(edge) else 1.0,
            strengths.doubtful(edge),
        )
    heaviest = max((abs(edge.weight or 0.0) for edge in edges), default=0.0) or 1.0
    return lambda edge: Pen(STYLES[edge.category].width + 0.9 * abs(edge.weight or 0.0) / heaviest)


def count_doubtful(edges: Iterable[Edge], strengths: Strengths | None) -> int:
    """The number of learned edges whose direction is doubtful; 0 without `strengths`."""
    return sum(map(strengths.doubtful, edges)) if strengths else 0


def count_unstable(edges: Iterable[Edge], strengths: Strengths | None) -> int:
    """The number of learned edges that are in at most half of the resamples; 0 without `strengths`."""
    return sum(strengths.unstable(edge) for edge in edges if edge.category != "missing") if strengths else 0
