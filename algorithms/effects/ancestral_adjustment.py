"""Identification in a PAG: adjustment sets that are valid even with unmeasured common causes.

The generalised adjustment criterion (Perković, Textor, Kalisch & Maathuis 2018, "Complete graphical characterization
and construction of adjustment sets in Markov equivalence classes of ancestral graphs", Definition 4 and Theorem 5)
holds for a set Z, a treatment x and an outcome y if

- amenability: every possibly directed path from x to y begins with a visible edge out of x;
- forbidden set: no variable of Z is a possible descendant of a variable, other than x, on such a path;
- blocking: Z blocks all definite status paths from x to y that are not possibly directed.

If any set satisfies the criterion, so does the set of all possible ancestors of x and y except x, y and forbidden
variables (ibid., Corollary 27). A minimal subset of this set is used; variables far from the outcome are removed
first. An edge i → j is visible if some variable c that is not adjacent to j has an edge into i, or a path into i
whose inner variables are all colliders and parents of j (Zhang 2008, "Causal reasoning with ancestral graphs",
Definition 8). Then no unmeasured variable can be a cause of both i and j.

Blocking is decided in one maximal ancestral graph (MAG) of the class, without the edges out of x that begin a
possibly directed path. Given the first two conditions, blocking holds in one graph of the class if and only if it
holds in all (Perković et al. 2018, §4.1). To construct the MAG, a circle becomes a tail if the other end of its edge
is no circle. The edges with two circles are directed as a DAG without unshielded colliders (Zhang 2008, Theorem 2).
Two variables are connected given Z if there is a walk between them on which all colliders are ancestors of Z and no
other inner variable is in Z.

Cost: O(d²) for a set, O(d³) for a minimal subset.
"""

from collections import deque
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..graphs.cpdag import extend
from ..graphs.dag import reachable
from ..graphs.pag import ARROW, CIRCLE, NO_EDGE, TAIL, Marks, directed_edges, potentially_directed

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
