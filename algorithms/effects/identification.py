"""Identification: which covariates to adjust for, so that a regression or a table gives the effect of X on Y.

- In a DAG the total effect of X on Y is zero if Y is not a descendant of X. Otherwise let cn be the variables except X
  on the directed paths from X to Y. The optimal adjustment set O = pa(cn) ∖ (cn ∪ {X}) is valid and has the least
  asymptotic variance of all valid sets (Henckel, Perković & Maathuis 2022, "Graphical criteria for efficient total
  effect estimation via adjustment in causal linear models", Definition 3.4 and Theorem 3.10; for one treatment, the
  descendants of cn that are parents of cn are in cn themselves). The direct effect is the effect of X while the other
  parents of Y are held fixed; it is zero if X is not a parent of Y.
- In a CPDAG the effect may differ between the DAGs of the class. As in IDA (Maathuis, Kalisch & Bühlmann 2009), only
  the undirected edges at X (at Y for direct effects) are oriented, in all ways that create no new v-structure and no
  cycle. Meek's rules complete each orientation. All DAGs of a completed orientation have the same optimal set (Witte,
  Henckel, Maathuis & Didelez 2020, "On efficient adjustment in causal graphs", §5), so one of these DAGs suffices. If
  all orientations give the same set, the graph is amenable and the effect is identified; otherwise the sets give a
  range. With background knowledge, the completion excludes orientations that are not possible (Perković, Kalisch &
  Maathuis 2017).
- In a PAG, total effects are identified by the generalised adjustment criterion
  (`ancestral_adjustment.py`). The edges of a PAG say nothing about direct effects.

Cost: O(d³) for each clique among the undirected neighbours of one variable.
"""

from collections.abc import Collection
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..graphs.cpdag import extend, meek_closure
from ..graphs.dag import reachable, v_structures
from ..graphs.structure import Structure
from .ancestral_adjustment import ancestral_adjustment, may_act

EffectKind = Literal["total", "direct"]
MAX_OPEN_EDGES = 14
"""maximum number of undirected edges at one variable, because all their subsets are examined"""


@dataclass(frozen=True, order=True)
class AdjustmentSet:
    """The covariates, ascending, that identify an effect; `causal` is False if the effect is zero by the graph."""

    causal: bool
    covariates: tuple[int, ...] = ()


@dataclass(frozen=True)
class Identification:
    """The distinct adjustment sets over the graphs of a class: one if the effect is identified, several for a range."""

    sets: tuple[AdjustmentSet, ...]
    reason: str
    """the reason why the set is valid, or why there are several sets or none"""

    @property
    def unique(self) -> bool:
        """Whether the graph determines the effect."""
        return len(self.sets) == 1


def optimal_adjustment_set(dag: NDArray[np.bool_], x: int, y: int) -> AdjustmentSet:
    """The optimal adjustment set for the total effect of `x` on `y` in a `dag` `[d, d]`."""
    causal = reachable(dag, (x,)) & reachable(dag.T, (y,))
    if not causal[y]:
        return AdjustmentSet(causal=False)
    causal[x] = False
    forbidden = reachable(dag, np.flatnonzero(causal).tolist())
    forbidden[x] = True
    covariates = dag[:, causal].any(axis=1) & ~forbidden
    return AdjustmentSet(causal=True, covariates=tuple(np.flatnonzero(covariates).tolist()))


def other_parents(dag: NDArray[np.bool_], x: int, y: int) -> AdjustmentSet:
    """The parents of `y` besides `x`, which the direct effect of `x` on `y` in a `dag` `[d, d]` holds fixed."""
    if not dag[x, y]:
        return AdjustmentSet(causal=False)
    return AdjustmentSet(causal=True, covariates=tuple(v for v in np.flatnonzero(dag[:, y]).tolist() if v != x))


def orientations(pdag: NDArray[np.bool_], v: int) -> list[NDArray[np.bool_]]:
    """One DAG `[d, d]` of the class of `pdag` for each possible set of parents of `v`.

    The undirected neighbours that become parents must be joined to each other and to the directed parents, or there
    would be a new v-structure.
    """
    undirected = np.flatnonzero(pdag[v] & pdag[:, v]).tolist()
    parents = np.flatnonzero(pdag[:, v] & ~pdag[v])
    joined, colliders = pdag | pdag.T, v_structures(pdag)
    found = []
    for size in range(len(undirected) + 1):
        for chosen in combinations(undirected, size):
            into = [*chosen, *parents]
            if any(joined[a, into].sum() != len(into) - 1 for a in chosen):
                continue
            oriented = pdag.copy()
            oriented[v, list(chosen)] = False
            oriented[[u for u in undirected if u not in chosen], v] = False
            dag = extend(meek_closure(oriented))
            if dag is not None and v_structures(dag) == colliders:
                found.append(dag)
    return found


def identify(structure: Structure, x: int, y: int, kind: EffectKind = "total") -> Identification:
    """The adjustment sets for the effect of variable `x` on `y` in a learned graph.

    Parameters
    ----------
    structure
        A DAG, CPDAG or PAG without lags.
    x, y
        The indices of treatment and outcome.
    kind
        "total" for the effect along all directed paths, "direct" for the effect of the edge x → y.

    Returns
    -------
    Identification
        One set, several for a range, or none with the reason.

    Raises
    ------
    ValueError
        If `x` and `y` are the same variable.
    """
    if x == y:
        raise ValueError("treatment and outcome are the same variable")
    names = structure.variables
    if structure.kind == "pag":
        return _identify_in_pag(structure, x, y, kind)
    if structure.kind == "dag" and structure.cycle:
        return Identification((), f"the graph has a cycle: {' → '.join([*structure.cycle, structure.cycle[0]])}")
    edges, centre = structure.adjacency, x if kind == "total" else y
    if structure.kind == "dag":
        return _with_reason(_adjustment_set(edges, x, y, kind), names, x, y, kind, "the DAG")
    open_edges = int((edges[centre] & edges[:, centre]).sum())
    if open_edges > MAX_OPEN_EDGES:
        return Identification((), f"{names[centre]} has {open_edges} undirected edges, more than {MAX_OPEN_EDGES}")
    sets = sorted({_adjustment_set(dag, x, y, kind) for dag in orientations(edges, centre)})
    if not sets:
        return Identification((), "the learned graph is the class of no DAG: its directions contradict each other")
    if len(sets) > 1:
        open_directions = f"the class leaves directions at {names[centre]} open"
        return Identification(tuple(sets), f"{open_directions}: {len(sets)} adjustment sets are possible")
    return _with_reason(sets[0], names, x, y, kind, "every DAG of the class")


def open_edge(structure: Structure, causes: Collection[int], effects: Collection[int]) -> tuple[int, int] | None:
    """An undirected edge that leaves open what setting the `causes` does to the `effects`; None if nothing is open.

    In a CPDAG the distribution of the effects after the intervention is identified if and only if no path that may be
    causal leads from a cause, first along an undirected edge and past no other cause, to an effect (Perković 2020,
    "Identifying causal effects in maximally oriented partially directed acyclic graphs", Proposition 3.2).
    """
    edges = structure.adjacency
    if structure.kind != "cpdag":
        return None
    forwards = edges.copy()
    forwards[:, list(causes)] = False
    for x in causes:
        for v in np.flatnonzero(forwards[x] & edges[:, x]).tolist():
            if reachable(forwards, [v])[list(effects)].any():
                return x, int(v)
    return None


def _identify_in_pag(structure: Structure, x: int, y: int, kind: EffectKind) -> Identification:
    """The adjustment set in a PAG, or no set and, as the reason, the edge or path that violates the criterion."""
    names, marks = structure.variables, structure.marks
    if not may_act(marks, x, y):
        reason = f"no possibly directed path leads from {names[x]} to {names[y]} in the PAG, so the effect is zero"
        return Identification((AdjustmentSet(causal=False),), reason)
    if kind == "direct":
        return Identification((), "an edge of a PAG may stand for several paths: it has no direct effects")
    try:
        covariates, reason = ancestral_adjustment(marks, names, x, y)
    except ValueError:
        return Identification((), "the learned PAG describes no graph: its marks contradict each other")
    return Identification(() if covariates is None else (AdjustmentSet(causal=True, covariates=covariates),), reason)


def _adjustment_set(dag: NDArray[np.bool_], x: int, y: int, kind: EffectKind) -> AdjustmentSet:
    return optimal_adjustment_set(dag, x, y) if kind == "total" else other_parents(dag, x, y)


def _with_reason(
    found: AdjustmentSet, names: tuple[str, ...], x: int, y: int, kind: EffectKind, graph: str
) -> Identification:
    """The identification by the set `found`, which is that of `graph`, with its reason."""
    if not found.causal:
        absent = "no directed path leads" if kind == "total" else "no edge leads"
        reason = f"{absent} from {names[x]} to {names[y]} in {graph}, so the effect is zero"
    elif kind == "direct":
        reason = f"the other parents of {names[y]} in {graph} are held fixed"
    else:
        reason = f"the optimal adjustment set in {graph} (Henckel, Perković, Maathuis 2022)"
    return Identification((found,), reason)
