"""GES and BOSS behind one interface: a search over families that continues as scores come in, and has a graph."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from .boss import Boss, advance_boss, boss_from, graph_of
from .families import Families, no_families
from .ges import CHICKERING, WITH_TURNS, EquivalenceSearch, Scores, advance, answered, search_from
from .settings import SearchSettings

State = TypeVar("State", EquivalenceSearch, Boss)


@dataclass(frozen=True)
class ScoreSearch(Generic[State]):
    """A search from the empty graph."""

    begin: Callable[[int, SearchSettings], State]
    """(number of variables, settings) -> the state at the start"""
    advance: Callable[[State, Families, int], State]
    """(state, known scores, how far to look ahead) -> the state as far as the scores allow"""
    graph: Callable[[State, Families], NDArray[np.bool_]]
    """the CPDAG found, or found so far"""


GES: ScoreSearch[EquivalenceSearch] = ScoreSearch(
    begin=lambda d, settings: search_from(np.zeros((d, d), np.bool_), WITH_TURNS if settings.turning else CHICKERING),
    advance=advance,
    graph=lambda search, families: search.graph,
)
BOSS: ScoreSearch[Boss] = ScoreSearch(
    begin=lambda d, settings: boss_from(np.arange(d)),
    advance=advance_boss,
    graph=graph_of,
)


def search(procedure: ScoreSearch[Any], d: int, settings: SearchSettings, scores: Scores) -> NDArray[np.bool_]:
    """Return the CPDAG that `procedure` finds, with `scores` to score families."""
    state, families = procedure.begin(d, settings), no_families()
    while True:
        state = procedure.advance(state, families, 0)
        if state.done:
            return procedure.graph(state, families)
        families = answered(families, scores)
