"""Completed partially directed graphs (CPDAGs), background knowledge imposed on graphs, and Markov blankets.

A partially directed graph is a boolean adjacency `[n_variables, n_variables]`: `[i, j]` alone is i → j, `[i, j]` and
`[j, i]` are i — j. The module holds, in this order:

- Meek's rules, the CPDAG of a DAG, and a DAG in the class of a CPDAG, compiled in `kernels.py`.
- `impose_knowledge`: makes any learned graph agree with background knowledge (Meek 1995: the knowledge, then rules R1
  to R4). It is for graphs whose search did not use the knowledge, such as votes and fusions. A search that uses the
  knowledge finds better graphs.
- `markov_blanket`: causal feature selection, the variables that make all others irrelevant for predicting a target
  (Wang, Ma & Wang 2023, §7.5).
- `dag_extension`: the DAG for which parameters are estimated: a learned DAG itself, or a member of a CPDAG's class.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..errors import BadInput
from .dag import directed_part, edges_on_cycles, is_acyclic
from .kernels import ALL_RULES, class_of_dag, closure, extension
from .pag import ARROW, TAIL
from .structure import GraphKind, Structure

Bools = NDArray[np.bool_]
NO_PAIRS: Bools = np.empty((0, 0), np.bool_)


def meek_closure(pdag: Bools, rules: Bools = ALL_RULES) -> Bools:
    """`pdag` closed under Meek's rules R1-R4, or those in `rules` `[4]`: none applies to an edge left undirected.

    If some DAG satisfies the directed edges (v-structures and background knowledge), each edge left undirected can have
    either direction (Meek 1995, Theorem 4), and the order of the rules does not matter. If no DAG satisfies them, as
    can happen with a learned graph, the result depends on the order, which is deterministic.
    """
    return np.asarray(closure(np.ascontiguousarray(pdag), rules))


def cpdag(dag: Bools, separated: Bools = NO_PAIRS) -> Bools:
    """The CPDAG of a DAG: an edge is directed if it has the same direction in all Markov-equivalent DAGs.

    `separated` `[d, d]` has the pairs of which an experiment targets exactly one variable (`Prior.separated`). With it,
    the result is the interventional essential graph: edges of these pairs have the direction of `dag`, and Meek's rules
    give the directions that follow (Hauser, Bühlmann 2012, Theorem 18; Meek 1995, Theorem 4). Raises `ValueError` if
    `dag` has a directed cycle.
    """
    if not is_acyclic(dag):
        raise ValueError("a graph with a directed cycle has no CPDAG")
    found = np.asarray(class_of_dag(np.ascontiguousarray(dag)))
    return pdag_with_knowledge(found, dag & separated, ~np.eye(len(dag), dtype=np.bool_)) if len(separated) else found


def extend(pdag: Bools) -> Bools | None:
    """A DAG with the skeleton, the directed edges and the v-structures of `pdag`, or None if there is none.

    Source: Dor & Tarsi 1992.
    """
    dag, complete = extension(np.ascontiguousarray(pdag), False)
    return np.asarray(dag) if complete else None


def member_of(pdag: Bools) -> Bools:
    """The DAG of the class `pdag` that searches score; raises ValueError if the class is empty.

    `extend` often finds another member.
    """
    dag, complete = extension(np.ascontiguousarray(pdag), True)
    if not complete:
        raise ValueError("the partially directed graph has no consistent extension")
    return np.asarray(dag)


def impose_knowledge(structure: Structure, required: Bools, possible: Bools) -> Structure:
    """`structure` with all `required` arcs and no impossible arcs; `required` and `possible` are `[d, d]`.

    A required arc that was not learned gets the weight 1. If required arcs close a cycle in a DAG, the weakest other
    edges of the cycle are removed. In a CPDAG, whose edges have no strength, the other edges of the cycle lose their
    direction; an edge that may not have the other direction is removed. Lagged edges do not change.
    """
    if not required.any() and possible[~np.eye(len(possible), dtype=np.bool_)].all():
        return structure
    if structure.kind == "pag":
        return replace(structure, weights=_pag(structure.weights, required, possible))
    if structure.kind == "cpdag":
        found = pdag_with_knowledge(structure.adjacency, required, possible)
        cycles = edges_on_cycles(directed_part(found)) & ~required
        found = (found & ~(cycles & ~possible.T)) | (cycles.T & possible)
        return replace(structure, weights=found.astype(np.float64))
    return replace(structure, weights=_dag(structure.weights, required, possible))


def truth_with_knowledge(truth: Structure, kind: GraphKind, required: Bools, possible: Bools) -> Structure:
    """The true structure to compare with a structure of this `kind` that was learned with background knowledge.

    A class learned with background knowledge has directed edges that are undirected in the CPDAG of the `truth`. So a
    true DAG that satisfies the knowledge is replaced by its CPDAG with the directions that the knowledge implies. Other
    structures do not change.
    """
    edges = truth.adjacency
    agrees = not (required & ~edges).any() and not (edges & ~possible).any()
    if kind != "cpdag" or truth.kind != "dag" or not truth.acyclic or truth.lagged is not None or not agrees:
        return truth
    directed = pdag_with_knowledge(cpdag(edges), required, possible)
    return replace(truth, weights=np.where(directed, truth.weights + truth.weights.T, 0.0), kind="cpdag")


def experimental_arcs(pdag: Bools, separated: Bools, required: Bools, possible: Bools) -> tuple[Bools, Bools]:
    """The arcs of an interventional class `pdag` `[d, d]` that rest on experiments, and those that follow from them.

    `separated` `[d, d]` has the pairs of which an experiment targets exactly one variable. An arc rests on experiments
    if its ends are such a pair, and if v-structures and background knowledge alone would leave it undirected. An arc
    follows if Meek's rules direct it because of arcs that rest on experiments. Without a DAG in the class, there are
    none of either.
    """
    dag = extend(pdag)
    if dag is None or not len(separated):
        return np.zeros_like(pdag), np.zeros_like(pdag)
    without = pdag_with_knowledge(cpdag(dag), required & dag, possible)
    arcs = directed_part(pdag) & without & without.T
    return arcs & separated, arcs & ~separated


def _dag(weights: NDArray[np.float64], required: Bools, possible: Bools) -> NDArray[np.float64]:
    found = np.where(required & (weights == 0), 1.0, np.where(possible | required, weights, 0.0))
    if not required.any():
        return found
    while (on_cycle := edges_on_cycles(found != 0) & ~required).any() and (found[on_cycle] != 0).any():
        strengths = np.where(on_cycle, np.abs(found), np.inf)
        found[np.unravel_index(int(np.argmin(strengths)), found.shape)] = 0.0
    return found


def pdag_with_knowledge(pdag: Bools, required: Bools, possible: Bools) -> Bools:
    """The Meek closure of `pdag` with all `required` arcs and no arcs that are not `possible`.

    A graph that already has the required arcs and no impossible ones is returned unchanged.
    """
    directed = pdag & ~pdag.T
    reversible = directed & ~possible & possible.T
    constrained = ((pdag & possible) | reversible.T | required) & ~required.T
    if np.array_equal(constrained, pdag):
        return pdag
    return meek_closure(constrained)


def _pag(marks: NDArray[np.float64], required: Bools, possible: Bools) -> NDArray[np.float64]:
    found = marks.copy()
    joined = (found != 0) & (possible | possible.T | required | required.T)
    found[~joined] = 0.0
    for i, j in np.argwhere(required):
        found[i, j], found[j, i] = ARROW, TAIL
    for i, j in np.argwhere((found != 0) & ~possible & ~required & ~required.T & possible.T):
        # i cannot cause j: the edge has an arrow at i.
        found[j, i] = ARROW
    return found


@dataclass(frozen=True)
class MarkovBlanket:
    """The Markov blanket of a variable by names; in a CPDAG a neighbour may be a parent or a child."""

    parents: tuple[str, ...]
    children: tuple[str, ...]
    neighbours: tuple[str, ...]
    spouses: tuple[str, ...]
    """other parents of the children"""

    @property
    def all(self) -> tuple[str, ...]:
        """The variables of the blanket, sorted by name."""
        return tuple(sorted({*self.parents, *self.children, *self.neighbours, *self.spouses}))


def markov_blanket(structure: Structure, target: str) -> MarkovBlanket:
    """Parents, children, undirected neighbours and spouses of `target` in a DAG or a CPDAG.

    All DAGs of a CPDAG's class have this blanket: parents that share a child are joined or form a v-structure, which
    the CPDAG directs. Raises BadInput for an unknown variable and for a PAG.
    """
    if target not in structure.variables:
        raise BadInput(f"there is no variable '{target}': available: {', '.join(structure.variables)}")
    if structure.kind == "pag":
        raise BadInput("a PAG does not distinguish parents from spouses: select features by a DAG or a CPDAG")
    t = structure.variables.index(target)
    edges = structure.adjacency
    directed = directed_part(edges)
    children = directed[t]
    spouses = directed[:, children].any(axis=1) & ~edges[t] & ~edges[:, t]
    spouses[t] = False

    def names(chosen: NDArray[np.bool_]) -> tuple[str, ...]:
        return tuple(structure.variables[v] for v in np.flatnonzero(chosen))

    return MarkovBlanket(names(directed[:, t]), names(children), names(edges[t] & edges[:, t]), names(spouses))


@dataclass(frozen=True)
class Extension:
    """A DAG `[n_variables, n_variables]` and a text on how it was chosen; or no DAG, and the reason."""

    dag: NDArray[np.bool_] | None
    how: str = ""


def dag_extension(structure: Structure) -> Extension:
    """The DAG for which the parameters of `structure` are estimated.

    For a CPDAG this is a member of its class (Dor & Tarsi 1992). All members have the same likelihood, unless there are
    lags. A graph learned from data may have the form of a CPDAG without being the class of a DAG. Then the DAG is that
    of `nearest_dag`.
    """
    if structure.kind == "pag":
        return Extension(None, "a PAG leaves causes and confounding undecided: it is no Bayesian network")
    if structure.kind == "dag":
        cycle = structure.cycle
        if cycle:
            return Extension(None, f"a cycle is left: {' → '.join([*cycle, cycle[0]])}")
        return Extension(structure.adjacency)
    dag = extend(structure.adjacency)
    if dag is not None:
        alike = " (all DAGs of the class fit the data equally well)" * (not structure.lags)
        return Extension(dag, f"for one DAG of the CPDAG's class{alike}")
    dag = nearest_dag(structure.adjacency)
    differ = cpdag(dag) != structure.adjacency
    changed = int(np.triu(differ | differ.T).sum())
    return Extension(
        dag,
        f"the CPDAG is that of no DAG: the model is that of one with the same skeleton, in whose CPDAG {changed} "
        f"edge{'s differ' if changed != 1 else ' differs'}",
    )


def nearest_dag(pdag: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """A DAG with the skeleton of `pdag`, by Dor & Tarsi's method; if there is no valid sink, the best one is used.

    The best sink reverses the fewest arrows. Of several such sinks, it adds the fewest v-structures, and of several of
    these, it is the first.
    """
    rest, dag = pdag.copy(), np.zeros_like(pdag)
    cost = {v: _sink_cost(rest, v) for v in range(len(pdag))}
    while cost:
        sink = min(cost, key=cost.__getitem__)
        neighbours = rest[:, sink] | rest[sink]
        dag[neighbours, sink] = True
        rest[sink] = rest[:, sink] = False
        del cost[sink]
        cost |= {int(v): _sink_cost(rest, int(v)) for v in np.flatnonzero(neighbours)}
    assert is_acyclic(dag)
    return dag


def _sink_cost(pdag: NDArray[np.bool_], v: int) -> tuple[int, int]:
    """The numbers of reversed arrows out of v and of new v-structures if v becomes a sink."""
    out, undirected = pdag[v] & ~pdag[:, v], pdag[v] & pdag[:, v]
    neighbours = np.flatnonzero(pdag[v] | pdag[:, v])
    joined = pdag | pdag.T
    not_adjacent = ~joined[np.ix_(neighbours, neighbours)]
    new_parents = np.asarray((undirected | out)[neighbours])
    # a neighbour is not adjacent to itself
    new = (not_adjacent & (new_parents[:, None] | new_parents[None, :])).sum() - new_parents.sum()
    return int(out.sum()), int(new) // 2
