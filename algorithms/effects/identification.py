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
- In a PAG, total effects are identified by the generalised adjustment criterion (see below). The edges
  of a PAG say nothing about direct effects.

Cost: O(d³) for each clique among the undirected neighbours of one variable.
"""

from collections import deque
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..graphs.cpdag import extend, meek_closure
from ..graphs.dag import reachable, v_structures
from ..graphs.pag import ARROW, CIRCLE, NO_EDGE, TAIL, Marks, directed_edges, potentially_directed
from ..graphs.structure import Structure

# Identification in a PAG: adjustment sets that are valid even with unmeasured common causes.
#
# The generalised adjustment criterion (Perković, Textor, Kalisch & Maathuis 2018, "Complete graphical characterization
# and construction of adjustment sets in Markov equivalence classes of ancestral graphs", Definition 4 and Theorem 5)
# holds for a set Z, a treatment x and an outcome y if
#
# - amenability: every possibly directed path from x to y begins with a visible edge out of x;
# - forbidden set: no variable of Z is a possible descendant of a variable, other than x, on such a path;
# - blocking: Z blocks all definite status paths from x to y that are not possibly directed.
#
# If any set satisfies the criterion, so does the set of all possible ancestors of x and y except x, y and forbidden
# variables (ibid., Corollary 27). A minimal subset of this set is used; variables far from the outcome are removed
# first. An edge i → j is visible if some variable c that is not adjacent to j has an edge into i, or a path into i
# whose inner variables are all colliders and parents of j (Zhang 2008, "Causal reasoning with ancestral graphs",
# Definition 8). Then no unmeasured variable can be a cause of both i and j.
#
# Blocking is decided in one maximal ancestral graph (MAG) of the class, without the edges out of x that begin a
# possibly directed path. Given the first two conditions, blocking holds in one graph of the class if and only if it
# holds in all (Perković et al. 2018, §4.1). To construct the MAG, a circle becomes a tail if the other end of its edge
# is no circle. The edges with two circles are directed as a DAG without unshielded colliders (Zhang 2008, Theorem 2).
# Two variables are connected given Z if there is a walk between them on which all colliders are ancestors of Z and no
# other inner variable is in Z.
#
# Cost: O(d²) for a set, O(d³) for a minimal subset.


SYMBOLS = {TAIL: ("-", "-"), ARROW: ("<", ">"), CIRCLE: ("o", "o")}
"""the symbols of a mark at the left and at the right end of an edge"""


def visible(marks: Marks, i: int, j: int) -> bool:
    """Whether the edge i → j of a MAG or PAG `marks` `[d, d]` cannot hide an unmeasured common cause."""
    if marks[i, j] != ARROW or marks[j, i] != TAIL:
        return False
    parents = directed_edges(marks)[:, j]
    seen, stack = {i}, [i]
    while stack:
        inner = stack.pop()
        for outer in np.flatnonzero(marks[:, inner] == ARROW).tolist():
            if outer in seen or outer == j:
                continue
            if marks[outer, j] == NO_EDGE:
                return True
            if parents[outer] and marks[inner, outer] == ARROW:
                seen.add(outer)
                stack.append(outer)
    return False


def ancestral_adjustment(marks: Marks, names: tuple[str, ...], x: int, y: int) -> tuple[tuple[int, ...] | None, str]:
    """The covariates, ascending, for the total effect of `x` on `y` in the PAG `marks` `[d, d]`, and the reason.

    If no set satisfies the criterion, the covariates are None, and the reason is the edge or the path that violates it.
    The graph must allow an effect of `x` on `y` (`may_act`).
    """
    steps = potentially_directed(marks)
    without_x = steps.copy()
    without_x[:, x] = without_x[x] = False
    to_outcome = reachable(without_x.T, (y,))
    first = np.flatnonzero(steps[x] & to_outcome).tolist()
    for v in first:
        if not visible(marks, x, v):
            return None, _not_amenable(marks, names, x, v, y)
    on_paths = np.flatnonzero(to_outcome & reachable(without_x, first)).tolist()
    allowed = reachable(steps.T, (x, y)) & ~reachable(steps, on_paths)
    allowed[[x, y]] = False
    back_door = member_mag(marks)
    back_door[x, first] = back_door[first, x] = NO_EDGE
    path = connecting_walk(back_door, x, y, allowed)
    if path:  # does not occur in a true PAG with one treatment; the marks of a learned PAG may contradict each other
        reason = (
            f"no covariates block the path {_drawn(marks, names, path)}: those that could are possible effects of "
            f"{names[x]}, or open another path"
        )
        return None, reason
    for v in _from_far(marks, y):
        if allowed[v]:
            allowed[v] = False
            allowed[v] = bool(connecting_walk(back_door, x, y, allowed))
    reason = (
        "a minimal set that satisfies the generalised adjustment criterion in the PAG (Perković et al. 2018): it is "
        "valid in every graph of the class, whatever variables are unmeasured"
    )
    return tuple(np.flatnonzero(allowed).tolist()), reason


def may_act(marks: Marks, x: int, y: int) -> bool:
    """Whether a possibly directed path leads from `x` to `y` in the PAG `marks` `[d, d]`."""
    return bool(reachable(potentially_directed(marks), (x,))[y])


def member_mag(marks: Marks) -> Marks:
    """A MAG `[d, d]` of the class of the PAG `marks`, as the docstring of this module describes it.

    Raises `ValueError` if no PAG has these marks.
    """
    mag = marks.copy()
    circles = (marks == CIRCLE) & (marks.T == CIRCLE)
    mag[(marks == CIRCLE) & ~circles] = TAIL
    dag = extend(circles)
    if dag is None:
        raise ValueError("the circles of the PAG cannot be directed without a new collider")
    mag[dag], mag[dag.T] = ARROW, TAIL
    return mag


def connecting_walk(mag: Marks, x: int, y: int, given: NDArray[np.bool_]) -> list[int]:
    """A shortest walk that connects `x` and `y` in `mag` `[d, d]`, given the variables `given` `[d]`; empty if none."""
    collides = reachable(directed_edges(mag).T, np.flatnonzero(given).tolist()) if given.any() else given
    start = (x, False)
    before: dict[tuple[int, bool], tuple[int, bool] | None] = {start: None}
    queue = deque([start])
    while queue:
        state = queue.popleft()
        v, into_v = state
        if v == y:
            walk: list[int] = []
            last: tuple[int, bool] | None = state
            while last is not None:
                walk.append(last[0])
                last = before[last]
            return walk[::-1]
        for w in np.flatnonzero(mag[v] != NO_EDGE).tolist():
            collider = into_v and mag[w, v] == ARROW
            open_here = v == x or (collides[v] if collider else not given[v])
            following = (w, bool(mag[v, w] == ARROW))
            if w != x and open_here and following not in before:
                before[following] = state
                queue.append(following)
    return []


def _from_far(marks: Marks, y: int) -> list[int]:
    """The variables in descending order of their distance from `y` over edges of any kind."""
    joined, distance = marks != NO_EDGE, np.full(len(marks), len(marks))
    reached, frontier, steps = np.zeros(len(marks), np.bool_), np.zeros(len(marks), np.bool_), 0
    frontier[y] = True
    while frontier.any():
        distance[frontier], reached, steps = steps, reached | frontier, steps + 1
        frontier = joined[frontier].any(axis=0) & ~reached
    return [int(v) for v in np.argsort(-distance, kind="stable")]


def _not_amenable(marks: Marks, names: tuple[str, ...], x: int, v: int, y: int) -> str:
    """The reason why the possibly directed paths from `x` to `y` through `v` prevent identification."""
    edge = _drawn(marks, names, [x, v])
    if marks[v, x] == TAIL:
        why = f"may hide an unmeasured common cause of {names[x]} and {names[v]}: it is not visible"
    else:
        why = f"leaves open whether {names[x]} acts on {names[v]}"
    return f"the edge {edge}, with which paths from {names[x]} to {names[y]} begin, {why}"


def _drawn(marks: Marks, names: tuple[str, ...], path: list[int]) -> str:
    """The `path` with the marks of its edges, such as a o-> b <-> c."""
    text = names[path[0]]
    for i, j in pairwise(path):
        text += f" {SYMBOLS[int(marks[j, i])][0]}-{SYMBOLS[int(marks[i, j])][1]} {names[j]}"
    return text


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
        return _described([_set(edges, x, y, kind)], names, x, y, kind, "the DAG")
    open_edges = int((edges[centre] & edges[:, centre]).sum())
    if open_edges > MAX_OPEN_EDGES:
        return Identification((), f"{names[centre]} has {open_edges} undirected edges, more than {MAX_OPEN_EDGES}")
    sets = sorted({_set(dag, x, y, kind) for dag in orientations(edges, centre)})
    if not sets:
        return Identification((), "the learned graph is the class of no DAG: its directions contradict each other")
    return _described(sets, names, x, y, kind, "every DAG of the class" if len(sets) == 1 else f"at {names[centre]}")


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


def _set(dag: NDArray[np.bool_], x: int, y: int, kind: EffectKind) -> AdjustmentSet:
    return optimal_adjustment_set(dag, x, y) if kind == "total" else other_parents(dag, x, y)


def _described(
    sets: list[AdjustmentSet], names: tuple[str, ...], x: int, y: int, kind: EffectKind, place: str
) -> Identification:
    """The identification by `sets` with its reason."""
    if len(sets) > 1:
        reason = f"the class leaves directions {place} open: {len(sets)} adjustment sets are possible"
    elif not sets[0].causal:
        absent = "no directed path leads" if kind == "total" else "no edge leads"
        reason = f"{absent} from {names[x]} to {names[y]} in {place}, so the effect is zero"
    elif kind == "direct":
        reason = f"the other parents of {names[y]} in {place} are held fixed"
    else:
        reason = f"the optimal adjustment set in {place} (Henckel, Perković, Maathuis 2022)"
    return Identification(tuple(sets), reason)
