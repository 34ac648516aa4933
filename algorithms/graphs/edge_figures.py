"""The figures of a graph's edges: what each edge adds to the fit, and its p-values (`diagnosis/edge_figures.py`)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from .edges import Edge, LaggedEdge

EdgeKey = tuple[str, str, int]
"""the two variables of an edge and its lag; source first if the lag is above 0, otherwise sorted by name"""
MIN_EXPONENT = -300
"""exponent of the smallest power of ten that is published as a bound of a p-value"""
DIGITS = 3
"""significant digits of a published figure"""


@dataclass(frozen=True)
class EdgeFigures:
    """The figures of one edge; a figure that is not known is None."""

    log_likelihood: float | None = None
    bic: float | None = None
    p_value: float | None = None
    score: float | None = None
    largest_p_value: float | None = None


FIGURES = tuple(one.name for one in fields(EdgeFigures))
"""the names of the figures, in the order of the columns of `structure.csv`"""
NO_FIGURES: Mapping[EdgeKey, EdgeFigures] = {}


def key_of(edge: Edge) -> EdgeKey:
    """The key of `edge` among the figures of a graph."""
    if isinstance(edge, LaggedEdge):
        return edge.source, edge.target, edge.lag
    first, second = sorted((edge.source, edge.target))
    return first, second, 0


def known_figures(figures: Mapping[EdgeKey, EdgeFigures]) -> tuple[str, ...]:
    """The names of the figures that at least one edge has."""
    return tuple(name for name in FIGURES if any(getattr(one, name) is not None for one in figures.values()))


def with_largest_p_values(
    figures: Mapping[EdgeKey, EdgeFigures], largest: Mapping[EdgeKey, float], *, magnitude: bool
) -> dict[EdgeKey, EdgeFigures]:
    """The `figures` with the `largest` p-values of a search; with `magnitude`, rounded up to a power of ten.

    A search over labels tests exact counts. If small cells are not published, only the magnitude of the p-values is
    published, because more digits would disclose information about single rows.
    """
    bound = _power_of_ten if magnitude else short
    return {
        key: replace(figures.get(key, EdgeFigures()), largest_p_value=bound(largest[key]) if key in largest else None)
        for key in {**figures, **largest}
    }


def _power_of_ten(p: float) -> float:
    return float(10.0 ** max(math.ceil(math.log10(p) - 1e-9), MIN_EXPONENT)) if p > 0 else 10.0**MIN_EXPONENT


def short(value: float) -> float:
    """`value` rounded to `DIGITS` significant digits."""
    return float(f"{value:.{DIGITS}g}")
