"""What the report says of changes since the run before, where a run is repeated."""

from collections.abc import Iterator

from ..comparison import COUNTED, Comparison
from ..result import RunResult
from .page import Markup, paragraph, section, table, tiles

DRIFT = (
    "Parameter drift is how much worse the model of the run before explains what the model of this run says: the "
    "Kullback-Leibler divergence, in nats a row, of all variables together and of each by itself. 0 means that the two "
    "say the same. It takes in changed weights, levels and spreads as well as changed edges; a turned edge that nobody "
    "could tell from the data adds nothing to the whole."
)
MOST = 12
"""rows from which on a table scrolls"""


def changes_section(result: RunResult) -> list[str]:
    """Return the section on what has changed: none for a run that follows no other."""
    found = result.changes
    if found is None:
        return []
    counts: list[tuple[str, object]] = [(f"edges {fate}", found.structure.count(fate)) for fate in COUNTED.values()]
    counts += [("parameter drift, nats a row", found.drift.total)] if found.drift else []
    parts = [paragraph(f"Compared with the run {found.earlier}."), tiles(counts)]
    parts += [paragraph(f"New variables: {', '.join(found.structure.joined)}.")] * bool(found.structure.joined)
    parts += [paragraph(f"Variables that are gone: {', '.join(found.structure.left)}.")] * bool(found.structure.left)
    rows = list(_edges(found))
    weights = ["before", "now", "moved by"] * found.weighted
    if rows:
        parts += [table(("edge", "", *weights), rows, scrolling=len(rows) > MOST)]
    return [section("Changes since the run before", *parts, *_drifted(found))]


def _edges(found: Comparison) -> Iterator[tuple[object, ...]]:
    """Yield a row for each edge: those that have changed first, then by how far their weights have moved."""
    edges = [one for one in found.structure.edges if one.fate != "kept" or found.weighted]
    for one in sorted(edges, key=lambda one: (one.fate == "kept", -(one.moved or 0.0))):
        fate = Markup(f'<span class="{one.fate.split()[0]}">{one.fate}</span>')
        yield (one.edge.text, fate, *((one.before, one.after, one.moved) if found.weighted else ()))


def _drifted(found: Comparison) -> list[str]:
    if found.drift is None:
        return [paragraph(f"Parameter drift is not known: {found.no_drift}.", "soft")]
    terms = sorted(found.drift.by_variable.items(), key=lambda one: -one[1])
    listed = table(("variable", "drift, nats a row"), terms, scrolling=len(terms) > MOST)
    return [paragraph(DRIFT, "soft"), listed]
