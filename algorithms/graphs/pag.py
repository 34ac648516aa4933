"""Ancestral graphs as matrices of end marks: Zhang's orientation rules, MAGs and PAGs of DAGs with latent variables.

A matrix of marks is int8, `[n_variables, n_variables]`: `[i, j]` is the mark at j of the edge between i and j, so that
i → j is `[i, j] = ARROW`, `[j, i] = TAIL`. `Structure.marks` of a PAG is such a matrix. A PAG has a tail or an arrow
where all Markov-equivalent MAGs have it, and a circle elsewhere.

The rules R1 to R10 (Zhang 2008, §3.2 and §4) are applied all at once. The letters a, b, c, t are the paper's α, β, γ
and θ. `*` is any mark, `o` a circle. R5 to R7 concern selection bias: a true PAG without selection bias never matches
their patterns.

Sources: Richardson & Spirtes 2002 (maximal ancestral graphs, MAG); Zhang 2008, "On the completeness of orientation
rules ..." (partial ancestral graphs, PAG).
"""

from collections.abc import Collection, Mapping
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from .dag import VStructure, d_separated, is_acyclic, reachable

Marks = NDArray[np.int8]
NO_EDGE, TAIL, ARROW, CIRCLE = 0, 1, 2, 3


Orientations = tuple[NDArray[np.bool_], NDArray[np.bool_]]
"""(where a rule puts a tail, where it puts an arrow), each `[n_variables, n_variables]` like `marks`"""


def applicable_orientations(
    marks: Marks, separators: Mapping[tuple[int, int], Collection[int]], unclear: set[tuple[int, int, int]]
) -> Orientations:
    """The tails and arrows that the rules imply, given `marks`; the caller replaces only circles by them.

    `separators` holds a separating set for each pair (i, j), i < j, that is not joined. Triples in `unclear`, listed in
    both directions, count neither as colliders nor as non-colliders.
    """
    tails, arrows = np.zeros(marks.shape, np.bool_), np.zeros(marks.shape, np.bool_)
    for a, c in np.argwhere(marks == CIRCLE).tolist():  # a *-o c
        if rule_2(marks, a, c) or rule_3(marks, a, c, unclear):
            arrows[a, c] = True
        if rule_1(marks, c, a, unclear):
            tails[a, c] = arrows[c, a] = True
        if rule_6(marks, c) or rule_7(marks, c, a, unclear):
            tails[a, c] = True
        rule_4(marks, c, a, separators, tails, arrows)
        if marks[c, a] == CIRCLE and rule_5(marks, a, c):
            tails[a, c] = tails[c, a] = True
        if marks[c, a] == ARROW and (rule_8(marks, c, a) or rule_9(marks, c, a) or rule_10(marks, c, a)):
            tails[a, c] = True
    return tails, arrows


def rule_1(marks: Marks, b: int, c: int, unclear: set[tuple[int, int, int]]) -> bool:
    """R1: a *→ b o-* c, a and c not joined: b → c, or b would be a collider."""
    into_b = (marks[:, b] == ARROW) & (marks[:, c] == NO_EDGE)
    into_b[c] = False
    return any((a, b, c) not in unclear for a in np.flatnonzero(into_b).tolist())


def rule_2(marks: Marks, a: int, c: int) -> bool:
    """R2: a → b *→ c or a *→ b → c, and a *-o c: a *→ c, or there would be an (almost) directed cycle."""
    path = (marks[a] == ARROW) & (marks[:, c] == ARROW)
    return bool((path & ((marks[:, a] == TAIL) | (marks[c] == TAIL))).any())


def rule_3(marks: Marks, t: int, b: int, unclear: set[tuple[int, int, int]]) -> bool:
    """R3: a *→ b ←* c, a *-o t o-* c, a and c not joined, t *-o b: t *→ b."""
    between = np.flatnonzero((marks[:, b] == ARROW) & (marks[:, t] == CIRCLE))
    return any(marks[a, c] == NO_EDGE and (a, t, c) not in unclear for a, c in combinations(between.tolist(), 2))


def rule_4(
    marks: Marks,
    b: int,
    c: int,
    separators: Mapping[tuple[int, int], Collection[int]],
    tails: NDArray[np.bool_],
    arrows: NDArray[np.bool_],
) -> None:
    """R4: on a discriminating path (t, ..., a, b, c), b o-* c: b → c if b separates t and c, otherwise a ↔ b ↔ c.

    On such a path, every variable between t and b is a collider and a parent of c, and t is not joined to c. b
    separates t and c if it is in their separating set. The marks are written to `tails` and `arrows`.
    """
    parents = (marks[:, c] == ARROW) & (marks[c] == TAIL)
    parents[b] = False
    for a in np.flatnonzero(parents & (marks[b] == ARROW)):
        for t in _path_starts(marks, int(a), b, c, parents):
            separator = separators.get((min(t, c), max(t, c)))
            if separator is None:
                continue
            arrows[b, c] = True
            if b in separator:
                tails[c, b] = True
            else:
                arrows[c, b] = arrows[a, b] = True


def _path_starts(marks: Marks, a: int, b: int, c: int, parents: NDArray[np.bool_]) -> list[int]:
    """The starts t of discriminating paths (t, ..., a, b, c)."""
    starts, visited, stack = set(), {a}, [a]
    while stack:
        current = stack.pop()
        for previous in np.flatnonzero(marks[:, current] == ARROW).tolist():
            if previous in (b, c) or previous in visited:
                continue
            if marks[previous, c] == NO_EDGE:
                starts.add(previous)
            elif parents[previous] and marks[current, previous] == ARROW:
                visited.add(previous)
                stack.append(previous)
    return sorted(starts)


def rule_5(marks: Marks, a: int, b: int) -> bool:
    """R5: a o-o b on an uncovered cycle of o-o edges (the outer ends of successive edges are not joined): a - b."""
    circles = (marks == CIRCLE) & (marks.T == CIRCLE)
    last = np.flatnonzero(circles[b] & (marks[a] == NO_EDGE))
    return any(
        c != b and marks[b, c] == NO_EDGE and _walks(marks, circles, a, int(c))[last, b].any()
        for c in np.flatnonzero(circles[a])
    )


def rule_6(marks: Marks, b: int) -> bool:
    """R6: a - b o-* c: b -* c."""
    return bool(((marks[:, b] == TAIL) & (marks[b] == TAIL)).any())


def rule_7(marks: Marks, b: int, c: int, unclear: set[tuple[int, int, int]]) -> bool:
    """R7: a -o b o-* c, a and c not joined: b -* c."""
    onto_b = (marks[:, b] == CIRCLE) & (marks[b] == TAIL) & (marks[:, c] == NO_EDGE)
    onto_b[c] = False
    return any((a, b, c) not in unclear for a in np.flatnonzero(onto_b).tolist())


def rule_8(marks: Marks, a: int, c: int) -> bool:
    """R8: a → b → c or a -o b → c, and a o→ c: a → c."""
    out_of_a = (marks[:, a] == TAIL) & ((marks[a] == ARROW) | (marks[a] == CIRCLE))
    return bool((out_of_a & (marks[:, c] == ARROW) & (marks[c] == TAIL)).any())


def rule_9(marks: Marks, a: int, c: int) -> bool:
    """R9: a o→ c, and an uncovered potentially directed path (a, b, ..., c) with b, c not joined: a → c."""
    steps = potentially_directed(marks)
    return any(
        b != c and marks[b, c] == NO_EDGE and _walks(marks, steps, a, int(b))[:, c].any()
        for b in np.flatnonzero(steps[a])
    )


def rule_10(marks: Marks, a: int, c: int) -> bool:
    """R10: a o→ c, b → c ← t, uncovered potentially directed paths from a to b and to t: a → c.

    The first variables of the two paths must differ and not be joined.
    """
    parents = np.flatnonzero((marks[:, c] == ARROW) & (marks[c] == TAIL))
    if len(parents) < 2:
        return False
    steps = potentially_directed(marks)
    by_first = {
        int(m): set(parents[_walks(marks, steps, a, int(m))[:, parents].any(axis=0)].tolist())
        for m in np.flatnonzero(steps[a])
        if m != c
    }
    return any(
        marks[m, w] == NO_EDGE and by_first[m] and by_first[w] and len(by_first[m] | by_first[w]) > 1
        for m, w in combinations(by_first, 2)
    )


def potentially_directed(marks: Marks) -> NDArray[np.bool_]:
    """The edges along which i may be a cause of j: no arrow at i, no tail at j."""
    return np.asarray(((marks == ARROW) | (marks == CIRCLE)) & (marks.T != ARROW))


def _walks(marks: Marks, steps: NDArray[np.bool_], a: int, b: int) -> NDArray[np.bool_]:
    """The last edges (i, j) of the uncovered paths along `steps` that start with a, b: `[d, d]`.

    On an uncovered path, the outer two of any three successive variables are not joined. A path does not return to a.
    """
    reached = np.zeros_like(steps)
    reached[a, b] = True
    stack = [(a, b)]
    while stack:
        previous, current = stack.pop()
        onward = steps[current] & (marks[previous] == NO_EDGE) & ~reached[current]
        onward[[previous, a]] = False
        for following in np.flatnonzero(onward).tolist():
            reached[current, following] = True
            stack.append((current, following))
    return reached


def unshielded_triples(joined: NDArray[np.bool_]) -> list[VStructure]:
    """All (i, k, j), i < j, where k is joined to i and to j, and i and j are not joined; `joined` is symmetric."""
    neighbours = [np.flatnonzero(row).tolist() for row in joined]
    return [
        (i, k, j) for k, adjacent in enumerate(neighbours) for i, j in combinations(adjacent, 2) if not joined[i, j]
    ]


Separators = Mapping[tuple[int, int], Collection[int]]
"""pair (i, j), i < j, that is not joined -> a set that separates it"""


def orient_pag(
    joined: NDArray[np.bool_],
    colliders: Collection[VStructure],
    separators: Separators,
    ambiguous: Collection[VStructure] = (),
    initial_marks: Marks | None = None,
) -> Marks:
    """The PAG of the skeleton `joined`: arrows at the `colliders`, then closed under Zhang's rules R1 to R10.

    `colliders` and `ambiguous` are unshielded triples (i, k, j), i < j. Ambiguous triples count neither as colliders
    nor as non-colliders. Each pass applies all rules to the same marks. If one rule makes a mark a tail and another
    rule makes it an arrow, as can happen with independences learned from data, the mark stays a circle. So the order of
    the variables does not matter.

    `initial_marks` are marks from background knowledge, and circles where there is no knowledge. A triple with such a
    tail at its middle variable is no collider (Andrews, Spirtes & Cooper 2020). A discriminating path is used only if a
    separating set of its ends is available.
    """
    marks = np.where(joined, CIRCLE if initial_marks is None else initial_marks, NO_EDGE).astype(np.int8)
    for i, k, j in colliders:
        if TAIL not in (marks[i, k], marks[j, k]):
            marks[i, k] = marks[j, k] = ARROW
    unclear = {triple for i, k, j in ambiguous for triple in ((i, k, j), (j, k, i))}
    disputed = np.zeros_like(joined)
    while True:
        tails, arrows = applicable_orientations(marks, separators, unclear)
        undecided = (marks == CIRCLE) & ~disputed
        disputed |= undecided & tails & arrows
        undecided &= tails | arrows
        if not undecided.any():
            return marks
        marks[undecided] = np.where(tails, TAIL, ARROW)[undecided]


def mag_of(dag: NDArray[np.bool_], latent: Collection[int] = ()) -> tuple[Marks, Separators]:
    """The MAG of `dag` over the variables that are not `latent`, in their order, and its separating sets.

    Two variables are joined if their observed ancestors do not separate them. The mark at a variable is a tail if the
    variable is an ancestor of the other one, otherwise an arrow (Richardson & Spirtes 2002, §4.2, without selection).
    Raises `ValueError` if `dag` has a directed cycle.
    """
    if not is_acyclic(dag):
        raise ValueError("a graph with a directed cycle has no ancestral graph")
    observed = [v for v in range(len(dag)) if v not in set(latent)]
    position = {v: index for index, v in enumerate(observed)}
    ancestors = [reachable(dag.T, (v,)) for v in observed]
    marks = np.zeros((len(observed),) * 2, np.int8)
    separators = {}
    for i, v in enumerate(observed):
        for j, w in enumerate(observed[:i]):
            given = [u for u in observed if (ancestors[i][u] or ancestors[j][u]) and u not in (v, w)]
            if d_separated(dag, v, w, given):
                separators[j, i] = frozenset(position[u] for u in given)
            else:
                marks[i, j] = TAIL if ancestors[i][w] else ARROW
                marks[j, i] = TAIL if ancestors[j][v] else ARROW
    return marks, separators


def pag_of(dag: NDArray[np.bool_], latent: Collection[int] = ()) -> Marks:
    """The PAG of `dag` over the variables that are not `latent`.

    Raises ValueError if `dag` has a directed cycle.
    """
    mag, separators = mag_of(dag, latent)
    joined = mag != NO_EDGE
    colliders = [(i, k, j) for i, k, j in unshielded_triples(joined) if k not in separators[i, j]]
    return orient_pag(joined, colliders, separators)


def directed_edges(marks: Marks) -> NDArray[np.bool_]:
    """The edges i → j, tail at i and arrow at j, `[n_variables, n_variables]`."""
    return np.asarray((marks == ARROW) & (marks.T == TAIL))
