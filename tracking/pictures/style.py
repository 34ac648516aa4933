"""How the edges of each category look: in colour, dash and marker, so that a picture survives a grey printer.

The colours are taken from Okabe and Ito's, which colour-blind readers can tell apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fedbnsl.algorithms.graphs.edge_classes import Category, Edge, count

from .layering import Arc


@dataclass(frozen=True)
class Style:
    """Colour, dash pattern in line widths (None: solid), marker in the heat map, and a line width in points."""

    colour: str
    dash: tuple[float, ...] | None
    marker: str
    width: float

    @property
    def line(self) -> Any:
        """The dash pattern as matplotlib takes it."""
        return (0, self.dash) if self.dash else "solid"


STYLES: dict[Category, Style] = {
    "learned": Style("#1f5a96", None, "s", 1.0),
    "right": Style("#0b7d62", None, "s", 1.0),
    "extra": Style("#d1400b", (1.0, 1.0), "X", 2.0),
    "missing": Style("#6f6f6f", (4.5, 2.5), "o", 1.2),
    "reversed": Style("#8a2da5", (5.0, 1.6, 1.2, 1.6), "^", 1.5),
    "half-directed": Style("#2779b8", (6.0, 1.5), "D", 1.5),
}

INK = "#16202c"


def legend_entries(edges: Sequence[Edge], compared: bool) -> list[tuple[Category, str]]:
    """Return the categories that occur, with their counts in words, and the first one in any case.

    `compared` tells whether there was a truth to compare with.
    """
    always = "right" if compared else "learned"
    return [
        (category, f"{number} {category}") for category, number in count(edges).items() if number or category == always
    ]


def in_order_of_trust(variables: Sequence[str], edges: Sequence[Edge]) -> tuple[list[Edge], list[Arc]]:
    """Return the edges in the order in which they decide where variables go, each with the arc it is laid out as.

    True edges come first; a reversed edge is laid out as the truth has it; edges without a direction come last and
    follow the order that the others leave.
    """
    index = {name: place for place, name in enumerate(variables)}
    rank: dict[Category, int] = dict.fromkeys(STYLES, 0) | {"extra": 1}
    ordered = sorted(edges, key=lambda edge: (not edge.directed, not edge.one_way, rank[edge.category]))
    arcs = []
    for edge in ordered:
        source, target = index[edge.source], index[edge.target]
        arcs.append((target, source) if edge.category == "reversed" and edge.one_way else (source, target))
    return ordered, arcs


def shortened(name: str, longest: int) -> str:
    """Return `name`, cut to `longest` characters with an ellipsis if it is longer."""
    return name if len(name) <= longest else name[: longest - 1] + "…"
