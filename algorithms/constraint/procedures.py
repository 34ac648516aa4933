"""PC and FCI: which stages the search has, and how its result is oriented."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..graphs.pag import orient_pag
from ..graphs.structure import Structure
from .orientation import classify, orient
from .possible_d_sep import possible_d_sep
from .search import Pools, SeparatorSearch, separating_sets
from .settings import Orientation


@dataclass(frozen=True)
class ConstraintMethod:
    """A constraint-based algorithm: the stages of its search follow from `pools`; the rest is orientation."""

    kind: Literal["cpdag", "pag"]
    pools: Pools | None
    """the possible-d-sep sets, for algorithms that allow for latent variables"""
    graph: Callable[[SeparatorSearch, tuple[str, ...], Orientation], Structure]
    """(search, variables, how colliders are identified) -> the graph; the search may be unfinished"""


def _cpdag(search: SeparatorSearch, variables: tuple[str, ...], orientation: Orientation) -> Structure:
    edges = orient(search.joined, classify(search, orientation))
    return Structure(variables, edges.astype(np.float64), "cpdag")


def _pag(search: SeparatorSearch, variables: tuple[str, ...], orientation: Orientation) -> Structure:
    triples = classify(search, orientation)
    first = {pair: sets[0] for pair, sets in separating_sets(search).items()}
    marks = orient_pag(search.joined, triples.colliders, first, triples.ambiguous)
    return Structure(variables, marks.astype(np.float64), "pag")


PC = ConstraintMethod("cpdag", None, _cpdag)
"""PC-stable (Colombo & Maathuis 2014) -> CPDAG"""
FCI = ConstraintMethod("pag", possible_d_sep, _pag)
"""FCI-stable with possible-d-sep (ibid.; Spirtes et al. 2000) and all of Zhang's rules -> PAG"""
