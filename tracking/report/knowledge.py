"""The section of a report that says what was known of the graph beforehand, and what of it is there for that reason."""

from collections.abc import Sequence

from fedbnsl.algorithms.core.knowledge import Arc, arrow

from ..result import RunResult
from .page import paragraph, section

SHOWN = 20
"""arcs listed, at most"""


def knowledge_section(result: RunResult) -> list[str]:
    """Return the section, or none where nothing was known."""
    known, structure = result.knowledge, result.structure
    if not known:
        return []
    place = {name: number for number, name in enumerate(structure.variables)}
    there = [arc for arc in known.required if structure.weights[place[arc[0]], place[arc[1]]]]
    kept = [paragraph(f"In the structure because they were required: {listed(there)}.")] if there else []
    return [
        section(
            "Background knowledge",
            paragraph(
                "Given beforehand, not learned from the data: nothing here confirms it. What was required is in the "
                "structure, what was forbidden is not, and the search decided the rest within that."
            ),
            paragraph(f"Required arcs: {counted(known.required)}."),
            paragraph(f"Forbidden arcs: {counted(known.forbidden)}."),
            *kept,
        )
    ]


def counted(arcs: Sequence[Arc]) -> str:
    """Return how many arcs there are, and the first of them."""
    return f"{len(arcs)}: {listed(arcs)}" if arcs else "none"


def listed(arcs: Sequence[Arc]) -> str:
    """Return the first arcs, and how many more there are."""
    more = f" and {len(arcs) - SHOWN} more" if len(arcs) > SHOWN else ""
    return ", ".join(arrow(arc) for arc in arcs[:SHOWN]) + more


def knowledge_line(result: RunResult) -> list[str]:
    """Return the same in one line for the terminal, or none."""
    known = result.knowledge
    if not known:
        return []
    return [f"background knowledge: required arcs {len(known.required)}, forbidden arcs {len(known.forbidden)}"]
