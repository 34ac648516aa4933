"""PC and FCI: which stages the search has, and how its result is oriented."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..core.knowledge import Prior, reaches
from ..graphs.marks import ARROW, CIRCLE, TAIL, Marks
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
    graph: Callable[[SeparatorSearch, tuple[str, ...], Orientation, Prior], Structure]
    """(search, variables, how colliders are identified, what is known) -> the graph; the search may be unfinished"""


def _cpdag(search: SeparatorSearch, variables: tuple[str, ...], orientation: Orientation, prior: Prior) -> Structure:
    edges = orient(search.joined, classify(search, orientation), prior.one_way)
    return Structure(variables, edges.astype(np.float64), "cpdag")


def _pag(search: SeparatorSearch, variables: tuple[str, ...], orientation: Orientation, prior: Prior) -> Structure:
    triples = classify(search, orientation)
    first = {pair: sets[0] for pair, sets in separating_sets(search).items()}
    marks = orient_pag(search.joined, triples.colliders, first, triples.ambiguous, known_marks(prior))
    return Structure(variables, marks.astype(np.float64), "pag")


def known_marks(prior: Prior) -> Marks:
    """Return the marks that background knowledge gives to edges wherever there are such, `[d, d]`, else circles.

    A required cause has a tail and its effect an arrow. A variable from which no way of possible arcs leads to another
    is no ancestor of it, so an edge between them has an arrow there. That an arc is forbidden alone does not tell this:
    in a PAG its cause may still be an ancestor by way of other variables.
    """
    marks = np.full(prior.possible.shape, CIRCLE, np.int8)
    marks[~reaches(prior.possible).T] = ARROW
    marks[prior.required] = ARROW
    marks[prior.required.T] = TAIL
    return marks


PC = ConstraintMethod("cpdag", None, _cpdag)
"""PC-stable (Colombo & Maathuis 2014) -> CPDAG"""
FCI = ConstraintMethod("pag", possible_d_sep, _pag)
"""FCI-stable with possible-d-sep (ibid.; Spirtes et al. 2000) and all of Zhang's rules -> PAG"""
