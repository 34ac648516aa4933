"""The law of the papers: the learners with the preset `paper` compute what the papers' algorithms as printed compute.

The preset's terms are those of a mean over the silos, where some papers have a sum, so ρ and λ are translated. The
tolerance of convergence is set to nearly zero, because the printed loops run for a given number of rounds.
"""

import json
from collections import Counter
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.knowledge import no_prior
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.dynamic.pfdbnl import Acyclic, Pfdbnl, draw_participants, solve
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.papers.fdbnl import fdbnl, pfdbnl, windows
from fedbnsl.algorithms.papers.fed_c2sl import chi_square, decides, fed_ci, pc
from fedbnsl.algorithms.papers.fed_ges import fed_ges
from fedbnsl.algorithms.papers.fed_sparse import fed_sparse
from fedbnsl.algorithms.papers.notears_admm import notears_admm
from fedbnsl.algorithms.score.discrete import score_rows
from fedbnsl.algorithms.score.families import no_families
from fedbnsl.algorithms.score.ges import WARY, finish, search_from
from fedbnsl.algorithms.score.knowledge_constraints import consistent_member
from fedbnsl.algorithms.score.settings import ScoreSettings
from fedbnsl.data.federated import discrete as discrete_schema
from fedbnsl.data.federated import silo_names, time_series
from fedbnsl.data.generators.discrete import discrete
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.tasks.transport.in_process import InProcessFederation, federate

ROUNDS = 15
EXACTLY = {"rounds": ROUNDS, "tolerance": 1e-15}


def run(name: str, data: Any, tables: Any = None, **params: Any) -> tuple[Any, Any]:
    """The structure and the last server of the learner `name` with its preset `paper` and `params`."""
    algorithm = registry.build(registry.specify(name, {"preset": "paper", **params}))
    schema, tables = (data, tables) if tables is not None else (data.schema, data.tables)
    *_, last = rounds(algorithm, InProcessFederation(schema, tables))
    return algorithm.structure(last.server), last.server


def series(seed: int, silos: int = 3, d: int = 4, n: int = 150) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    W, A = np.triu(rng.uniform(0.4, 0.8, (d, d)) * (rng.random((d, d)) < 0.5), 1), 0.4 * np.eye(d)
    tables = {f"s{k}": np.zeros((n, d)) for k in range(silos)}
    for table in tables.values():
        for t in range(1, n):
            table[t] = (table[t - 1] @ A + rng.normal(size=d)) @ np.linalg.inv(np.eye(d) - W)
    return tables


def scheme(tables: dict[str, Any]) -> Any:
    d = next(iter(tables.values())).shape[1]
    return time_series(tables, {silo: (len(table),) for silo, table in tables.items()}, tuple("abcdef"[:d]))


@pytest.mark.parametrize("seed", [1, 2])
def test_fed_sparse(seed: int) -> None:
    data = homogeneous(5, 4, 400, seed)
    printed = fed_sparse(list(data.tables.values()), rho1=500.0, rounds=ROUNDS)
    _, server = run("fed-sparse", data, rho1=500.0 / 4, **EXACTLY)
    np.testing.assert_allclose(server.W, printed, atol=5e-3)
    assert (np.abs(printed) > 0.3).any()


@pytest.mark.parametrize("seed", [1, 2])
def test_notears_admm(seed: int) -> None:
    data = homogeneous(5, 4, 400, seed)
    printed = notears_admm([table - table.mean(axis=0) for table in data.tables.values()], rounds=ROUNDS)
    _, server = run("notears-admm", data, **EXACTLY)
    np.testing.assert_allclose(server.W, printed, atol=5e-3)
    assert (np.abs(printed) > 0.3).any()


@pytest.mark.parametrize("seed", [1, 2])
def test_fdbnl(seed: int) -> None:
    tables = series(seed)
    printed = fdbnl(list(tables.values()), l1=0.3, l1_lagged=0.15, rounds=ROUNDS)
    terms = {"rho1": 1 / 3, "rho2": 1.0, "l1": 0.3 / 3, "lagged_price": 0.5}
    _, server = run("fdbnl", scheme(tables), tables, lags=1, **terms, **EXACTLY)
    np.testing.assert_allclose(server.W, printed, atol=1e-3)
    assert (np.abs(printed) > 0.1).any()


@pytest.mark.parametrize("participants", [0, 2])
def test_pfdbnl(participants: int) -> None:
    tables = series(3)
    settings = Pfdbnl(participants=participants, participant_seed=5)

    def draw(number: int) -> list[int]:
        drawn = draw_participants(SimpleNamespace(silos=tuple(tables), number=number), settings)  # type: ignore[arg-type]
        return [list(tables).index(silo) for silo in drawn]

    consensus, own = pfdbnl(list(tables.values()), rounds=ROUNDS, draw=draw)
    others = {"participants": participants, "participant_seed": 5, "local_steps": 5000, "h_tolerance": 1e-15}
    _, server = run("pfdbnl", scheme(tables), tables, lags=1, **others, **EXACTLY)
    np.testing.assert_allclose(server.B, consensus, atol=1e-3)
    np.testing.assert_allclose(server.own, np.array(own), atol=1e-3)


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_fed_pc(seed: int) -> None:
    """The preset's test is a random projection, so the graphs are compared with the statistic that it estimates."""
    data = discrete(7, 3, 700, seed)
    levels = [len(data.schema.levels[name]) for name in data.schema.variables]
    printed = pc(7, decides(partial(chi_square, list(data.tables.values()), levels), alpha=0.05))
    structure, _ = run("fed-pc", data, mode="exact")
    np.testing.assert_array_equal(structure.adjacency != 0, printed)


def test_the_projections_of_fed_ci_estimate_chi_square() -> None:
    data = discrete(5, 3, 300, 3)
    levels, tables = [len(data.schema.levels[name]) for name in data.schema.variables], list(data.tables.values())
    for x, y, given in ((0, 1, ()), (1, 3, (2,)), (2, 4, (0, 1))):
        statistic, dof = chi_square(tables, levels, x, y, given)
        estimates = [fed_ci(tables, levels, x, y, given, np.random.default_rng(k)) for k in range(300)]
        values = np.array([one[0] for one in estimates])
        assert {one[1] for one in estimates} == {dof}
        assert abs(values.mean() - statistic) < 4 * values.std() / np.sqrt(len(values))


@pytest.mark.parametrize("quota", [0.0, 0.5])
def test_fed_ges(quota: float) -> None:
    data = discrete(8, 3, 500, 6)
    levels = np.array([len(data.schema.levels[name]) for name in data.schema.variables])

    def ges(table: Any) -> Any:
        columns = np.ascontiguousarray(table.T, np.int16)

        def scores(batch: Any) -> Any:
            return score_rows(columns, levels, batch, ScoreSettings())

        def search(start: Any) -> Any:
            graph, _ = finish(search_from(start, WARY, 2), no_families(), scores)
            return consistent_member(graph, no_prior(len(levels)))

        return search

    fused, own = fed_ges([ges(table) for table in data.tables.values()], data.schema.variables, quota=quota)
    structure, server = run("fed-ges", data, quota=quota, limit=2, client_quota=0.0)
    np.testing.assert_array_equal(server.own, np.array(own))
    np.testing.assert_array_equal(structure.adjacency != 0, fused)
    assert fused.any()


def frozen(name: str) -> list[dict[str, Any]]:
    """The outputs of a published program, with their input; its file states the provenance."""
    content = json.loads((Path(__file__).parents[2] / "references" / f"{name}.json").read_text())
    return list(content["cases"])


@pytest.mark.parametrize("case", range(3))
def test_the_program_of_ng_and_zhang(case: int) -> None:
    """Its L-BFGS takes subgradients of λ‖W‖₁ and stops early, so weights differ, and with them edges near τ."""
    one = frozen("notears_admm")[case]
    rows, published = np.array(one["rows"]), np.array(one["weights"])
    tables = {f"s{k:02}": table for k, table in enumerate(np.split(rows, one["silos"]))}
    names = tuple(f"x{v}" for v in range(rows.shape[1]))
    algorithm = registry.build(registry.specify("notears-admm", {"preset": "paper"}))
    *_, last = rounds(algorithm, federate(tables, names))
    np.testing.assert_allclose(last.server.W, published, atol=0.1)
    ours, theirs = algorithm.structure(last.server).weights != 0, np.zeros(published.shape, bool)
    theirs[tuple(np.array(one["edges"]).T)] = True
    assert (np.abs(np.abs(published[ours != theirs]) - 0.3) < 0.1).all()


@pytest.mark.parametrize("case", range(3))
def test_the_program_of_ng_and_zhang_for_mlps(case: int) -> None:
    """Its graph depends on the random start, so wrong edges are compared: ours are no more than its worst start's.

    Weights differ, because its silos start apart, and units that do not correspond cancel each other in the mean; its
    ℓ₁ term is the sum of the weights, not of their absolute values.
    """
    one = frozen("notears_mlp_admm")[case]
    tables = {f"s{k:02}": table for k, table in enumerate(np.split(np.array(one["rows"]), one["silos"]))}
    names = tuple(f"x{v}" for v in range(len(one["rows"][0])))
    truth = np.zeros((len(names), len(names)))
    truth[tuple(np.array(one["truth"]).T)] = 1.0

    def wrong(edges: Any) -> int:
        graph = np.zeros(truth.shape)
        graph[tuple(np.array(edges).T)] = 1.0
        return int(compare(Structure(names, graph), Structure(names, truth))["shd"] or 0)

    algorithm = registry.build(registry.specify("notears-mlp-admm", {"preset": "paper"}))
    *_, last = rounds(algorithm, federate(tables, names))
    found = np.argwhere(algorithm.structure(last.server).weights)
    assert wrong(found) <= max(wrong(run["edges"]) for run in one["runs"])


@pytest.mark.parametrize("case", range(3))
def test_the_program_of_chen_ma_and_yue(case: int) -> None:
    """It stops once h vanishes, before the silos agree, and updates β with the W before the step."""
    one = frozen("fdbnl")[case]
    tables = {f"s{k}": np.array(table) for k, table in enumerate(one["tables"])}
    silos, d = len(tables), len(one["W"])
    terms = {"l1": one["lambda_w"] / silos, "lagged_price": one["lambda_a"] / one["lambda_w"], "rho1": 1.0 / silos}
    _, server = run("fdbnl", scheme(tables), tables, lags=1, **terms)
    np.testing.assert_allclose(server.W, np.vstack([one["W"], one["A"]]), atol=0.03)
    np.testing.assert_array_equal(np.abs(server.W[:d]) > 0.3, np.abs(np.array(one["W"])) > 0.3)


@pytest.mark.parametrize("case", range(3))
def test_the_program_of_pfdbnl(case: int) -> None:
    """It agrees in round 1. Later, it draws each silo's network to zero (B̃_k = 0), and not to the consensus."""
    one = frozen("pfdbnl")[case]
    tables = {f"s{k}": np.array(table) for k, table in enumerate(one["tables"])}
    _, server = run("pfdbnl", scheme(tables), tables, lags=1, rounds=1, local_steps=5000)
    np.testing.assert_allclose(server.own, np.array(one["first"]), atol=1e-4)
    for table, published in zip(tables.values(), one["third"], strict=True):
        X, zero = windows(table, 1), np.zeros(np.shape(published))
        acyclic = Acyclic(one["alpha"], one["rho1"])
        own = solve(X.T @ X / len(X), zero, zero, 0.1, np.full(len(zero), 0.1), acyclic, 5000)
        np.testing.assert_allclose(own, published, atol=1e-4)


@pytest.mark.parametrize("case", range(3))
def test_the_program_of_fed_c2sl(case: int) -> None:
    """Its graph depends on the random projections, so the most frequent graphs of several seeds are compared."""
    one = frozen("fed_c2sl")[case]
    rows = np.array([[int(level) for level in row] for row in one["rows"]])
    tables = dict(zip(silo_names(one["silos"]), np.array_split(rows, one["silos"]), strict=True))
    names = tuple("abcdef"[: rows.shape[1]])
    levels = {name: tuple("012"[: top + 1]) for name, top in zip(names, rows.max(axis=0), strict=True)}
    schema = discrete_schema(tables, names, levels)
    graphs = [run("fed-pc", schema, tables, projection_seed=seed)[0].adjacency != 0 for seed in range(5)]
    found = Counter(tuple(map(tuple, np.argwhere(graph).tolist())) for graph in graphs)
    published = max(one["runs"], key=lambda graph: graph["runs"])["edges"]
    assert found.most_common(1)[0][0] == tuple(map(tuple, published))
