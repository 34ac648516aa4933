"""The types of edges in a file of a graph (`fedbnsl.algorithms.graphs.edge_text`), read and checked."""

from collections.abc import Sequence

from fedbnsl.algorithms.errors import BadInput, shown
from fedbnsl.algorithms.graphs.edge_text import CPDAG_TYPES, PAG_TYPES
from fedbnsl.algorithms.graphs.structure import GraphKind


def kind_of_types(types: Sequence[tuple[str, str]]) -> GraphKind:
    """Return the kind of graph whose edges have these types, each given with its place; without edges, a CPDAG.

    Raises `BadInput` for a type that is none, and for those of a CPDAG and of a PAG in one graph.
    """
    kind: GraphKind | None = None
    for place, type_ in types:
        if type_ not in CPDAG_TYPES and type_ not in PAG_TYPES:
            known = ", ".join((*CPDAG_TYPES, *PAG_TYPES))
            raise BadInput(f"{place}, column 'type': {shown(type_)} is not one of {known}")
        found: GraphKind = "cpdag" if type_ in CPDAG_TYPES else "pag"
        if kind not in (None, found):
            raise BadInput(
                f"{place}, column 'type': {shown(type_)}, but the edges above have types of a {kind.upper()}"
            )
        kind = found
    return kind or "cpdag"
