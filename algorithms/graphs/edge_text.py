"""How edges are written: with symbols for people, and with the types that files of graphs use.

In files an edge of a CPDAG is `directed` or `undirected`; an edge of a PAG is both of its marks, such as `o->`.
"""

from collections.abc import Iterator

from .edges import edges_of
from .marks import ARROW, CIRCLE, TAIL
from .structure import Structure

SYMBOLS = {
    (TAIL, ARROW): "→",
    (TAIL, TAIL): "—",
    (ARROW, ARROW): "↔",
    (CIRCLE, ARROW): "o→",
    (CIRCLE, CIRCLE): "o—o",
    (CIRCLE, TAIL): "o—",
    (TAIL, CIRCLE): "—o",
}
"""marks at source and target of an edge -> how it is shown to people"""

AT_SOURCE = {"-": TAIL, "<": ARROW, "o": CIRCLE}
AT_TARGET = {"-": TAIL, ">": ARROW, "o": CIRCLE}
PAG_TYPES = {f"{left}-{right}": (one, other) for left, one in AT_SOURCE.items() for right, other in AT_TARGET.items()}
"""type of an edge in a file of a PAG -> its marks at source and target"""
CPDAG_TYPES = {"directed": (TAIL, ARROW), "undirected": (TAIL, TAIL)}
"""type of an edge in a file of a CPDAG -> its marks at source and target"""


def typed_edges(structure: Structure) -> Iterator[tuple[int, int, str]]:
    """Yield source, target and type of every edge: of a PAG both marks, else `directed` or `undirected`."""
    types = PAG_TYPES if structure.kind == "pag" else CPDAG_TYPES
    type_of = {marks: type_ for type_, marks in types.items()}
    for source, target, *marks in edges_of(structure).tolist():
        yield source, target, type_of[marks[0], marks[1]]
