"""What the report says of each silo: its rows, its own structure and how near that is to the truth."""

from fedbnsl.algorithms.graphs.edge_classes import classify
from fedbnsl.algorithms.graphs.lagged_edges import classify_lagged

from ..result import RunResult
from .page import paragraph, section, table


def silo_section(result: RunResult) -> str:
    """Return the section on the silos: their rows, and what is known of their own structures and weights."""
    figures = list(dict.fromkeys(name for silo in result.refit.values() for name in silo))
    local = bool(result.local_structures)
    counted = (classify, classify_lagged) if result.structure.lags else (classify,)
    rows = []
    for silo in result.schema.silos:
        own = result.local_structures.get(silo)
        edges = [len(of(own, None)) if own else None for of in counted] if local else []
        refit = [result.refit.get(silo, {}).get(name) for name in figures]
        rows.append((silo, result.schema.rows[silo], *edges, *refit))
    names = (
        "silo",
        "rows",
        *(("edges of its own structure", "lagged edges")[: len(counted)] if local else ()),
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
