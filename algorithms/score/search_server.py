"""The server's state in GES and BOSS on the rows of all silos, and the structure, measures and basis read from it.

The basis of a structure is the sentences of a report on what its edges and directions rest on.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray

from ..core.knowledge import Prior
from ..core.protocol import TimedState
from ..core.schema import FloatArray
from ..errors import BadInput
from ..graphs.structure import Structure
from ..secure.masks import ring_of
from ..statistics.coding import Coding
from .boss_starts import Starts
from .experiment_scores import experiment_basis
from .families import Batch, Families
from .gaussian import score_covariance
from .ges import EquivalenceSearch
from .known_counts import KnownCounts
from .procedures import ScoreSearch, State
from .refinement import RefinedSearch
from .settings import SecureSearch


@dataclass(frozen=True)
class Server(TimedState, Generic[State]):
    """The server's state: the state of the search, and the known scores."""

    variables: tuple[str, ...]
    """the columns that are searched: those of the table, or of the windows of time series"""
    present: int
    """number of variables of the table, which are the first of `variables`; the others are lagged"""
    kind: str
    cardinalities: NDArray[np.int64]
    coding: Coding
    rows: int
    worth: int
    """if cells are empty or rows depend on each other, the number of complete, independent rows with as much
    information; otherwise 0"""
    filled: bool
    """whether the silos have imputed their empty cells, or have none"""
    prior: Prior
    """background knowledge of the graph"""
    families: Families
    state: State
    found: NDArray[np.bool_]
    """the CPDAG, `[d, d]`, once the search is done"""
    done: bool
    exchanges: int
    S: FloatArray
    """weights=own: the covariance within the silos `[d, d]`, which predicts scores; empty before the first sum"""
    freedom: int
    """the degrees of freedom of `S`"""
    own_price: float
    """weights=own: the penalty of a parent, Σ_p ½ ln n_p over the silos"""
    group: NDArray[np.int64]
    """the number of the sum from which each variable is scored, `[d]`; all 0 without experiments"""
    sum_rows: NDArray[np.int64]
    """the number of rows of each sum, then of the rows that each sum leaves out, `[2·n_sums]`; empty without
    experiments"""
    compares: bool
    """experiments: whether each sum except the first is of one condition, because the targets are not known"""
    known: KnownCounts
    """labels in complete rows without experiments: the counts of all exchanges so far"""

    @property
    def in_corners(self) -> bool:
        """Whether silos send corners of count tables, from which whole tables follow (`known_counts.py`)."""
        return self.kind == "discrete" and not len(self.sum_rows) and (not self.worth or self.filled)


@dataclass(frozen=True)
class GesServer(Server[EquivalenceSearch]):
    """The server's state in a GES."""

    state: EquivalenceSearch


@dataclass(frozen=True)
class RefinedServer(Server[RefinedSearch]):
    """The server's state in a GES that BOSS refines."""

    state: RefinedSearch


@dataclass(frozen=True)
class BossServer(Server[Starts]):
    """The server's state in a BOSS."""

    state: Starts


LEAST_CANDIDATES = 5
"""minimum number of candidates of each variable if the limit on bytes determines the number"""


def with_candidates(
    server: Server[Any], silos: int, procedure: ScoreSearch[Any], settings: SecureSearch
) -> Server[Any]:
    """The server of a search with sparse candidates, if `settings` request them or all pairs would need too many bytes.

    Sparse candidates (`ges.py`) limit the variables that an edge may join. The number of bytes is an estimate: about d
    edges are inserted, and for each the silos send tables of three variables, for as many pairs as a variable has
    candidates. Half of the allowed bytes are reserved for what follows the insertions, and tables of pairs are
    subtracted from the other half.
    """
    if procedure.with_candidates is None or settings.candidates == 0:
        return server
    if settings.candidates != "auto":
        return replace(server, state=procedure.with_candidates(server.state, settings.candidates))
    d, levels = len(server.variables), server.cardinalities - 1.0
    typical = math.sqrt(float((levels**2).mean()))  # above the mean, because large tables dominate the bytes
    bytes_a_cell = silos * ring_of(server.rows).itemsize
    left = server.most_bytes / 2 / bytes_a_cell - d * d / 2 * float(levels.mean()) ** 2
    room = left / (2 * d * typical**3)  # pairs are symmetric, so a variable is in up to twice as many pairs
    if room >= d:
        return server
    return replace(server, state=procedure.with_candidates(server.state, max(LEAST_CANDIDATES, int(room))))


def refuse_candidates(server: Server[Any], procedure: ScoreSearch[Any], settings: SecureSearch) -> None:
    """Raise `BadInput` for a number of sparse candidates that this search would not use."""
    if settings.candidates in ("auto", 0) or (procedure.with_candidates is not None and server.in_corners):
        return
    raise BadInput(
        f"parameter candidates is {settings.candidates}, but only secure-ges uses it, on labels without experiments "
        "and without empty cells (or with filled ones)"
    )


def structure(server: Server[Any]) -> Structure:
    """The CPDAG that was found; for time series, with lagged edges, and as a DAG if every edge has a direction."""
    graph, d = server.found.astype(np.float64), server.present
    if d == len(server.variables):
        return Structure(server.variables, graph, "cpdag")
    undirected = bool((server.found & server.found.T).any())
    lagged = graph[d:, :d].reshape(-1, d, d)
    return Structure(server.variables[:d], graph[:d, :d], "cpdag" if undirected else "dag", lagged=lagged)


def measures(server: Server[Any]) -> dict[str, float]:
    """The numbers of scored families and of edges of the graph."""
    edges = server.found if server.done or isinstance(server.state, Starts) else server.state.graph
    return {"families": float(server.families.used[1]), "edges": float(np.triu(edges | edges.T).sum())}


def basis(server: Server[Any], settings: SecureSearch) -> tuple[str, ...]:
    """Sentences on what the graph rests on: limits of the search, gains of a refined search, experiments, time.

    There are none for an ordinary complete search with common weights.
    """
    lines = [_refined(server.state)] if isinstance(server.state, RefinedSearch) and server.state.done else []
    greedy = server.state.greedy if isinstance(server.state, RefinedSearch) else server.state
    if isinstance(greedy, EquivalenceSearch) and greedy.candidates:
        lines.append(
            f"Edges were tried only between a variable and the {greedy.candidates} variables most strongly associated "
            "with it in pairs. Other pairs were not tried."
        )
    if server.cut:
        lines.append("The search did not come to its end: the class is the best one that was found until then.")
    if len(server.sum_rows):
        return (*lines, *experiment_basis(server.found, server.variables, server.group, server.prior))
    if not settings.own_scores and len(server.variables) == server.present:
        return tuple(lines)
    where = " within the silos" if settings.own_scores else ""
    if settings.own_scores:
        parts = f" to each of {settings.segments} parts of its series" if settings.segments > 1 else ""
        lines.append(
            f"Each silo fits weights of its own{parts}, and the sum of the silos' scores determines the structure."
        )
    if len(server.variables) > server.present:
        lines.append(
            "Lagged edges point from earlier to later rows; a variable's past directs edges within a step, too."
        )
        if server.kind != "continuous":
            coded = "counted" if server.kind == "discrete" else "indicators of their levels beside the numbers"
            lines.append(f"In the windows of {server.present} variables, labels are {coded}.")
    directions = "those of v-structures, and those that follow"
    return (*lines, f"Directions rest on conditional independences{where}: {directions}.")


def _refined(search: RefinedSearch) -> str:
    """A sentence on what the search over orders near GES's graph found."""
    tried = "A search over orders with parents near those of the greedy search"
    if search.gain:
        return f"{tried} found a class whose log score is greater by {search.gain:.1f}: it is the result."
    return f"{tried} found no class that scores better, so the greedy search's is the result."


def common_scores(server: Server[Any], batch: Batch, price: float) -> FloatArray:
    """The scores of `batch` with common weights, from the summed moments.

    `price` is the penalty of each parent and of the residual variance, in place of that of BIC. Constants are left out.
    """
    n, size = server.freedom, np.diff(batch.first)
    return (
        score_covariance(n, server.S, batch)
        + 0.5 * n * (math.log(2 * math.pi) + 1)
        + (0.5 * math.log(n) * (size + 1) - price * size)
    )
