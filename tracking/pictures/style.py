"""The styles of edges by their category, the order in which edges are laid out, and pens by strength.

Categories differ in colour, dash and marker, so that a picture remains readable in greyscale. The colours are from the
palette of Okabe and Ito, which colour-blind readers can distinguish.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedbnsl.algorithms.core.knowledge import Arc
from fedbnsl.algorithms.graphs.edges import Category, Edge, EdgeKey, count, key_of
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


SET, CHANGED = "set by experiments", "with changed mechanisms"
"""names in the legend of targets that were given, and of targets that were found"""


@dataclass(frozen=True)
class Marks:
    """What a picture shows of a structure besides its edges, and of each edge besides its marks."""

    strengths: Strengths | None = None
    """shares of resamples, which determine the width of lines"""
    doubted: Collection[Arc] = ()
    """arcs whose direction is not believed, whatever the resamples say"""
    basis: Mapping[EdgeKey, str] = field(default_factory=dict)
    """what the direction of an edge rests on"""
    required: Collection[Arc] = ()
    """arcs that background knowledge required"""
    not_identified: Collection[Arc] = ()
    """pairs of variables that no row observes together"""
    labels: Collection[str] = ()
    """the variables with labels, if other variables have numbers"""
    targets: Collection[str] = ()
    """variables that experiments set or whose mechanisms changed, as `targets_label` says"""
    targets_label: str = SET

    def doubtful(self, edge: Edge) -> bool:
        """Whether the direction of a learned edge is not believed: too few resamples agree, or it is `doubted`."""
        doubted = edge.category != "missing" and (edge.source, edge.target) in self.doubted
        return doubted or (self.strengths is not None and self.strengths.doubtful(edge))

    def unstable(self, edge: Edge) -> bool:
        """Whether at most half of the resamples have the edge."""
        return self.strengths is not None and self.strengths.unstable(edge)

    def is_required(self, edge: Edge) -> bool:
        """Whether the edge was learned and is among the `required` arcs."""
        return edge.category != "missing" and (edge.source, edge.target) in self.required

    def bases(self, edges: Iterable[Edge]) -> list[tuple[str, int]]:
        """What the directions of the learned `edges` rest on, the most frequent first; without doubtful directions."""
        return Counter(basis for edge in edges if (basis := self.basis_of(edge))).most_common()

    def signed(self, edges: Iterable[Edge]) -> set[str]:
        """The bases of which lines have a sign: not the most frequent one, nor time, which columns show."""
        return {basis for basis, _ in self.bases(edges)[1:]} - {"time"}

    def basis_of(self, edge: Edge) -> str:
        """What the direction of a learned edge rests on; empty if it has none, and if it is doubtful."""
        known = edge.category != "missing" and not self.doubtful(edge)
        return self.basis.get(key_of(edge), "") if known else ""


NO_MARKS = Marks()


def pens(edges: Iterable[Edge], marks: Marks) -> Callable[[Edge], Pen]:
    """The pens of `edges`: by strength, and paler for unstable edges; without strengths, by category and weight.

    Arrowheads are hollow if the direction is doubtful.
    """
    strengths = marks.strengths
    heaviest = max((abs(edge.weight or 0.0) for edge in edges), default=0.0) or 1.0

    def pen(edge: Edge) -> Pen:
        if strengths is None:
            width = STYLES[edge.category].width + 0.9 * abs(edge.weight or 0.0) / heaviest
        else:
            strength = strengths.strength_and_direction(edge)[0]
            width = 0.5 + 2.0 * (1.0 if strength is None else strength)
        return Pen(width, UNSTABLE_OPACITY if marks.unstable(edge) else 1.0, marks.doubtful(edge))

    return pen
