"""What the report says of each silo: its rows, its own structure and how near that is to the truth."""

from collections.abc import Iterable

from fedbnsl.algorithms.graphs.edge_classes import classify
from fedbnsl.algorithms.graphs.lagged_edges import LaggedEdge, classify_lagged

from ..result import RunResult, radius_of
from ..silo_edges import SiloEdge, silo_edges
from .page import paragraph, section, table

SHARED = (
    "How many silos have each edge in their own structure, with the mean and the range of its weight at those. What "
    "most of them have is common to all; what a few have is theirs. The weight at every silo is in silo_edges.csv."
)
TURNED = "Where some silos have an edge one way round and some the other, its direction is not settled."


def shared_edges(result: RunResult) -> list[str]:
    """Return the section on how many silos have each edge: none without structures of their own."""
    if not result.local_structures:
        return []
    edges, silos = silo_edges(result.local_structures), len(result.local_structures)
    lagged = [one for one in edges if isinstance(one.edge, LaggedEdge)]
    kinds = {
        "within one time step": [one for one in edges if not one.lag],
        "across time": [one for one in lagged if one.edge.source != one.edge.target],
        "own past": [one for one in lagged if one.edge.source == one.edge.target],
    }
    if not result.structure.lags:
        kinds = {"edge": edges}
    tables = [_shared(kind, silos, of_kind) for kind, of_kind in kinds.items() if of_kind]
    said = [paragraph(SHARED, "soft"), *[paragraph(TURNED, "soft")] * any(one.turned for one in edges)]
    return [section("Edges of the silos", *said, *(tables or [paragraph("No silo has an edge.")]))]


def _shared(kind: str, silos: int, edges: Iterable[SiloEdge]) -> str:
    """Return a table of these edges, with a column for the opposite direction where a silo has it."""
    edges = list(edges)
    turned = any(one.turned for one in edges)
    rows = [
        (
            one.edge.text,
            len(one.weights),
            *([one.turned] if turned else []),
            one.mean,
            min(one.known, default=None),
            max(one.known, default=None),
        )
        for one in edges
    ]
    other = ["the other way round"] * turned
    header = (kind, f"silos of {silos}", *other, "mean weight", "least", "greatest")
    return table(header, rows, scrolling=len(rows) > 12)


def silo_section(result: RunResult) -> str:
    """Return the section on the silos: their rows, and what is known of their own structures and weights."""
    figures = list(dict.fromkeys(name for silo in result.refit.values() for name in silo))
    local = bool(result.local_structures)
    counted = (classify, classify_lagged) if result.structure.lags else (classify,)
    rows = []
    for silo in result.schema.silos:
        own = result.local_structures.get(silo)
        edges: list[object] = [len(of(own, None)) if own else None for of in counted] if local else []
        edges += [radius_of(own) if own else None] if local and result.structure.lags else []
        refit = [result.refit.get(silo, {}).get(name) for name in figures]
        rows.append((silo, result.schema.rows[silo], *edges, *refit))
    names = (
        "silo",
        "rows",
        *(("edges of its own structure", "lagged edges", "spectral radius") if local and result.structure.lags else ()),
        *(("edges of its own structure",) if local and not result.structure.lags else ()),
        *(n.replace("_", " ") for n in figures),
    )
    explained = (
        [
            paragraph(
                "Normalised mean squared errors: of the consensus weights, and of weights refitted on the "
                "silo's own rows.",
                "soft",
            )
        ]
        if figures
        else []
    )
    return section("Silos", *explained, table(names, rows, scrolling=len(rows) > 12), *_silo_scores(result))


def _silo_scores(result: RunResult) -> list[str]:
    """Return a table of the scores of each silo's own structure, if there are such."""
    if not result.silo_scores:
        return []
    labels = {"shd": "SHD", "tpr": "TPR", "fdr": "FDR", "auroc": "AUROC"}
    labels |= {f"lagged_{name}": f"{label}, lagged" for name, label in labels.items()}
    known = [name for name in labels if any(name in one for one in result.silo_scores.values())]
    rows = [(silo, *(one.get(name) for name in known)) for silo, one in sorted(result.silo_scores.items())]
    said = "The structure of each silo, held against its own truth where it has one, else against that of all."
    header = ("silo", *(labels[name] for name in known))
    return [paragraph(said, "soft"), table(header, rows, scrolling=len(rows) > 12)]
