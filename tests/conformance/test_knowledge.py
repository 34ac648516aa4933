"""Rules for background knowledge: every result agrees with it, and true knowledge never makes the result worse."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.knowledge import Knowledge, tier_arcs
from fedbnsl.algorithms.core.protocol import Algorithm, rounds
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.graphs.dag import is_acyclic, topological_order
from fedbnsl.algorithms.graphs.imposed_knowledge import truth_with_knowledge
from fedbnsl.algorithms.graphs.pag import ARROW, TAIL
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.data.generators.discrete import discrete
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.flows.job.preparation import with_knowledge
from fedbnsl.tasks.transport.in_process import InProcessFederation
from tests.conformance.test_laws import as_events

SMALL = {f"notears-mlp{kind}": {"units": 2, "steps": 5} for kind in ("", "-admm", "-best", "-voting")}
SMALL |= {"dp-covariance": {"epsilon": 50.0}, "dp-fed-sparse": {"epsilon": 50.0}}
SEEDS = (21, 22, 23)
DIRECTED_BY_KNOWLEDGE = [name for name, entry in registry.ALGORITHMS.items() if entry.directs_by_knowledge]


def built(name: str) -> Algorithm:
    params: dict[str, Any] = dict(SMALL.get(name, {}))
    known = registry.parameter_names(name)
    params |= {key: value for key, value in (("rounds", 12), ("insecure_seed", 1), ("lags", 1)) if key in known}
    return registry.build(registry.specify(name, params))


def true_of(truth: Structure, seed: int, share: float = 0.3) -> Knowledge:
    """Some true edges, some pairs that are not joined, and three tiers along an order of the true graph."""
    rng, edges, names = np.random.default_rng(seed), truth.adjacency, truth.variables
    required = edges & (rng.random(edges.shape) < share)
    forbidden = ~edges & ~edges.T & ~np.eye(len(edges), dtype=bool) & (rng.random(edges.shape) < share)
    tiers = np.array_split(np.array(topological_order(edges)), 3)
    no_arcs = [(names[i], names[j]) for i, j in np.argwhere(forbidden)]
    no_arcs += tier_arcs([[names[v] for v in tier] for tier in tiers])
    return Knowledge(tuple((names[i], names[j]) for i, j in np.argwhere(required)), tuple(dict.fromkeys(no_arcs)))


def as_learned(name: str, schema: Schema, tables: dict[str, np.ndarray]) -> tuple[Schema, dict[str, np.ndarray]]:
    """The rows as data of a kind that the learner `name` takes."""
    if registry.entry(name).kinds == ("time-series",):
        return replace(schema, kind="time-series", stretches=dict.fromkeys(schema.rows, (45, 45))), tables
    if registry.entry(name).kinds == ("events",):
        federation = as_events(tables, variables=schema.variables)
        return federation.schema, federation.tables
    return schema, tables


def learned(algorithm: Algorithm, schema: Schema, tables: dict[str, np.ndarray]) -> Structure:
    *_, last = rounds(algorithm, InProcessFederation(schema, tables))
    return with_knowledge(algorithm, schema).structure(last.server)


@pytest.mark.parametrize("name", sorted(registry.ALGORITHMS))
def test_what_is_learned_agrees_with_what_is_known(name: str) -> None:
    data = homogeneous(6, 3, 90, 7)
    known = true_of(data.truth, 7)
    schema, tables = as_learned(name, data.schema, data.tables)
    structure = learned(built(name), replace(schema, knowledge=known), tables)
    needed, possible = known.required_matrix(schema.variables), known.possible(schema.variables)
    assert needed.any()
    if structure.kind == "pag":
        arcs = (structure.marks == ARROW) & (structure.marks.T == TAIL)
        assert arcs[needed].all()
    else:
        arcs = structure.adjacency
        assert arcs[needed].all()
        assert not (arcs & needed.T).any()
        assert is_acyclic(arcs & ~arcs.T)
    assert not (arcs & ~possible).any()


@pytest.mark.parametrize("name", sorted(registry.ALGORITHMS))
def test_false_knowledge_closes_no_cycle(name: str) -> None:
    """What was learned contradicts the required arcs, which are those of other graphs."""
    data = homogeneous(6, 3, 90, 7, edges=9)
    algorithm = built(name)
    schema, tables = as_learned(name, data.schema, data.tables)
    *_, last = rounds(algorithm, InProcessFederation(schema, tables))
    for seed in range(20):
        other = homogeneous(6, 3, 2, seed, edges=8).truth
        known = Knowledge(tuple((other.variables[i], other.variables[j]) for i, j in np.argwhere(other.adjacency)[:3]))
        structure = with_knowledge(algorithm, replace(schema, knowledge=known)).structure(last.server)
        if structure.kind != "pag":
            assert is_acyclic(structure.adjacency & ~structure.adjacency.T)


@pytest.mark.parametrize("name", DIRECTED_BY_KNOWLEDGE)
def test_a_class_is_no_further_from_the_truth_for_true_knowledge_and_has_more_directions(name: str) -> None:
    without, with_it, directed = [], [], 0
    for seed in SEEDS:
        data = discrete(8, 2, 2000, seed)
        assert data.truth is not None
        known = true_of(data.truth, seed)
        prior = known.prior(data.schema.variables)
        plain, told = (
            learned(built_whole(name), schema, data.tables)
            for schema in (data.schema, replace(data.schema, knowledge=known))
        )
        truth = truth_with_knowledge(data.truth, told.kind, prior.required, prior.possible)
        without.append(compare(plain, truth)["shd"])
        with_it.append(compare(told, truth)["shd"])
        directed += lines(plain) - lines(told)
    assert all(one <= other for one, other in zip(with_it, without, strict=True)), (with_it, without)
    assert directed > 0


def built_whole(name: str) -> Algorithm:
    return registry.build(registry.specify(name, {}))


def lines(structure: Structure) -> int:
    """The number of undirected edges."""
    return int((structure.adjacency & structure.adjacency.T).sum() // 2)
