"""FedGES: its rounds, both convergence checks, the limit on the density of the fusion, and the one-shot baseline."""

from dataclasses import replace

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import Replies, rounds
from fedbnsl.algorithms.graphs.cpdag import cpdag, member_of
from fedbnsl.algorithms.graphs.dag import is_acyclic, moral_graph
from fedbnsl.algorithms.score import fed_ges
from fedbnsl.algorithms.score.arcs import arcs_of, dag_of
from fedbnsl.algorithms.score.families import no_families
from fedbnsl.algorithms.score.fed_ges import FedGes, Server, aggregate, consensus_dag, mean_distance
from fedbnsl.algorithms.score.fusion import fuse
from fedbnsl.algorithms.score.ges import CHICKERING, WARY, finish, search_from
from fedbnsl.tasks.transport.in_process import InProcessFederation
from tests.algorithms.score.conftest import Drawn


def every_round(federation, **params):
    algorithm = registry.build(registry.specify("fed-ges", params))
    return algorithm, list(rounds(algorithm, federation))


def alone(drawn, plan=WARY):
    """The graph that GES finds on the pooled rows."""
    d = len(drawn.dag)
    return finish(search_from(np.zeros((d, d), np.bool_), plan), no_families(), drawn.scores())[0]


def dag(d, *arcs):
    found = np.zeros((d, d), np.bool_)
    for x, y in arcs:
        found[x, y] = True
    return found


class TestRounds:
    def test_one_silo_is_ges_in_steps_of_l(self, drawing):
        for seed in range(5):
            drawn = drawing(8, 1000, seed)
            algorithm, run = every_round(drawn.dealt(), limit=2)
            end = algorithm.structure(run[-1].server)
            assert run[-1].outcome == "converged"
            again = finish(search_from(end.adjacency, WARY, 2), no_families(), drawn.scores())[0]
            np.testing.assert_array_equal(cpdag(end.adjacency), again)
            assert len(run) > end.adjacency.sum() / 2

    def test_with_l_out_of_reach_the_first_round_of_one_silo_is_ges(self, drawing):
        for plan, insertion in ((WARY, "wary"), (CHICKERING, "full")):
            drawn = drawing(8, 1000, 1)
            _, run = every_round(drawn.dealt(), limit=1000, insertion=insertion)
            np.testing.assert_array_equal(cpdag(run[0].server.own[0]), alone(drawn, plan))

    @pytest.mark.parametrize("limit", [1, 3])
    def test_a_silo_adds_at_most_l_edges_a_round(self, limit, drawing):
        _, run = every_round(drawing(9, 2000, 3, 0.5).dealt(3), limit=limit)
        start = np.zeros((9, 9), np.bool_)
        for one in run:
            for own in one.server.own:
                new = (own | own.T) & ~(start | start.T)
                assert new.sum() / 2 <= limit
            start = one.server.fused
        assert len(run) > 2

    @pytest.mark.parametrize("client", ["replace", "fuse"])
    def test_it_comes_near_what_is_learned_from_all_rows(self, client, drawing):
        wrong = wrong_pooled = there = 0
        for seed in range(6):
            drawn = drawing(7, 9000, seed, 0.3)
            algorithm, run = every_round(drawn.dealt(3), client=client)
            end = algorithm.structure(run[-1].server)
            assert end.acyclic
            wrong += (moral_graph(end.adjacency) ^ moral_graph(drawn.dag)).sum() / 2
            wrong_pooled += (moral_graph(member_of(alone(drawn))) ^ moral_graph(drawn.dag)).sum() / 2
            there += moral_graph(drawn.dag).sum() / 2
        assert there > 30
        assert wrong <= wrong_pooled + 0.1 * there

    @pytest.mark.parametrize("quota", [0.0, 0.25, 0.5, 0.8, 1.0])
    def test_the_server_fuses_what_the_silos_send_by_any_quota(self, quota, drawing):
        drawn = drawing(8, 900, 2, 0.5)
        algorithm, run = every_round(drawn.dealt(6), quota=quota, drift=1000.0, last_drift=1000.0)
        for one in run:
            np.testing.assert_array_equal(one.server.fused, fuse(one.server.own, quota, drawn.variables))
            assert is_acyclic(one.server.fused)
        np.testing.assert_array_equal(algorithm.structure(run[-1].server).adjacency, run[-1].server.fused)

    @pytest.mark.parametrize(("client_quota", "arcs"), [(0.0, [(0, 1), (1, 2)]), (0.5, [(0, 1), (1, 2)]), (1.0, [])])
    def test_a_silo_starts_from_its_own_graph_and_the_global_one(self, client_quota, arcs, drawing, monkeypatch):
        starts = []

        def search(start, plan, limit, prior):
            starts.append(start)
            return search_from(start, plan, 0)

        monkeypatch.setattr(fed_ges, "search_from", search)
        algorithm = registry.build(registry.specify("fed-ges", {"client": "fuse", "client_quota": client_quota}))
        federation = drawing(3, 50, 0).dealt()
        silo = algorithm.open_silo(federation.tables["s00"], federation.schema, "s00", np.random.default_rng(0))
        algorithm.local_solve(replace(silo, dag=dag(3, (0, 1))), arcs_of(dag(3, (1, 2))))
        np.testing.assert_array_equal(starts[0], dag(3, *arcs))


class TestConvergence:
    def server(self, *seen):
        empty = np.zeros((2, 2), np.bool_)
        return Server(("a", "b"), np.stack([empty]), empty, (seen,), True)

    def after(self, convergence, *sent):
        """Whether another round is needed after one silo has sent these graphs."""
        server = self.server()
        for one in sent:
            replies = Replies(("s",), each=(arcs_of(one),))
            server = aggregate(server, replies, FedGes(convergence=convergence))
        return server.news

    A, B, NONE = dag(2, (0, 1)), dag(2, (1, 0)), dag(2)

    def test_a_first_graph_is_news_and_the_same_again_is_not(self):
        for convergence in ("unchanged", "repeated"):
            assert self.after(convergence, self.A)
            assert not self.after(convergence, self.A, self.A)
            assert self.after(convergence, self.A, self.B)

    def test_a_cycle_of_graphs_is_news_only_to_the_first_check(self):
        assert self.after("unchanged", self.A, self.B, self.A)
        assert not self.after("repeated", self.A, self.B, self.A)
        assert self.after("repeated", self.A, self.B, self.NONE)

    @pytest.mark.parametrize("convergence", ["unchanged", "repeated"])
    def test_a_run_stops_as_soon_as_nothing_is_new(self, convergence, drawing):
        _, run = every_round(drawing(8, 600, 5, 0.5).dealt(6), convergence=convergence, quota=0.0)
        assert run[-1].outcome == "converged"
        seen = [set() for _ in range(6)]
        for one in run:
            fresh = [own.tobytes() not in known for own, known in zip(one.server.own, seen, strict=True)]
            for own, known in zip(one.server.own, seen, strict=True):
                known.add(own.tobytes())
            if convergence == "repeated":
                assert any(fresh) == (one is not run[-1])
        if convergence == "unchanged":
            np.testing.assert_array_equal(run[-1].server.own, run[-2].server.own)

    def test_no_more_rounds_than_asked_for(self, drawing):
        _, run = every_round(drawing(8, 600, 5, 0.5).dealt(6), rounds=2, limit=1)
        assert (len(run), run[-1].outcome) == (2, "out of rounds")


class TestDrift:
    CHAIN, OTHER = dag(5, (0, 1), (1, 2), (2, 3)), dag(5, (0, 1), (1, 2), (3, 4))
    FULL = np.triu(np.ones((5, 5), np.bool_), 1)

    def test_a_fusion_near_enough_is_kept(self):
        own = np.stack([self.CHAIN, self.CHAIN, self.OTHER])
        np.testing.assert_array_equal(consensus_dag(own, self.FULL, 1000.0), self.FULL)
        nearby = self.CHAIN | dag(5, (3, 4))
        assert mean_distance(nearby, [moral_graph(one) for one in own]) == 1
        np.testing.assert_array_equal(consensus_dag(own, nearby, 1 / 3), nearby)

    def test_one_that_drifted_gives_way_to_the_best_agreed(self):
        own = np.stack([self.OTHER, self.CHAIN, self.CHAIN])
        np.testing.assert_array_equal(consensus_dag(own, self.FULL, 1.0), self.CHAIN)
        np.testing.assert_array_equal(consensus_dag(own, self.CHAIN | dag(5, (3, 4)), 0.3), self.CHAIN)

    def test_a_union_of_noisy_graphs_does_not_run_away(self, drawing):
        """Without the guard, the union becomes far denser than the silos' graphs; with it, density is limited."""
        drawn = drawing(12, 900, 3, 0.25, most_levels=3)
        ends = {}
        for label, drift in (("guarded", {}), ("as in the paper", {"drift": 1000.0, "last_drift": 1000.0})):
            algorithm, run = every_round(drawn.dealt(15), quota=0.0, **drift)
            found, own = algorithm.structure(run[-1].server).adjacency, run[-1].server.own
            apart = mean_distance(found, [moral_graph(one) for one in own])
            ends[label] = apart / (own.sum() / len(own))
        assert ends["as in the paper"] > 0.5
        assert ends["guarded"] <= 0.5


class TestWhatLeaves:
    def test_arcs_and_nothing_else(self, drawing):
        federation = drawing(6, 200, 0).dealt(2)
        algorithm = registry.build(registry.specify("fed-ges", {}))
        silo = algorithm.open_silo(federation.tables["s00"], federation.schema, "s00", np.random.default_rng(0))
        _, reply = algorithm.local_solve(silo, arcs_of(np.zeros((6, 6), np.bool_)))
        assert list(vars(reply)) == ["arcs"]
        assert reply.arcs.shape[1] == 2

    def test_arcs_there_and_back(self, dag_of):
        for seed in range(10):
            one = dag_of(7, 0.5, np.random.default_rng(seed))
            np.testing.assert_array_equal(dag_of_arcs(one), one)


def dag_of_arcs(one):
    return dag_of(arcs_of(one), len(one))


class TestOneShot:
    def test_it_is_the_fusion_of_what_ges_finds_in_each_silo(self, drawing, learning):
        drawn = drawing(8, 900, 2)
        dealt = drawn.dealt(4)
        own = []
        for silo in dealt.schema.silos:
            part = replace(drawn, table=dealt.tables[silo])
            own.append(member_of(alone(part)))
        expected = fuse(np.stack(own), 0.0, drawn.variables)
        np.testing.assert_array_equal(learning("ges-union", dealt).adjacency, expected)
        assert expected.any()

    def test_pooled_ges_needs_one_silo_and_gives_a_class(self, drawing, learning):
        drawn = drawing(6, 900, 2)
        found = learning("ges", InProcessFederation(drawn.dealt().schema, drawn.dealt().tables))
        assert found.kind == "cpdag"
        np.testing.assert_array_equal(cpdag(member_of(found.adjacency)), found.adjacency)


def test_silos_that_find_different_edges_first_agree_if_each_continues_its_own_graph():
    """Thirty pairs have equally strong edges; in each round, a silo inserts the edge that fits its own rows best.

    If the global graph replaced the silos' graphs, no edge would be in enough of them, and each silo would insert the
    same edge again.
    """
    rng, pairs = np.random.default_rng(3), 30
    first = rng.integers(0, 2, (1000, pairs))
    table = np.column_stack([first, np.where(rng.random(first.shape) < 0.8, first, 1 - first)])
    dealt = Drawn(np.eye(2 * pairs, k=pairs, dtype=bool), table, np.full(2 * pairs, 2)).dealt(5)
    joined = {}
    for client in ("fuse", "replace"):
        algorithm, run = every_round(dealt, limit=1, client=client)
        found = algorithm.structure(run[-1].server).adjacency
        joined[client] = int((found | found.T)[np.arange(pairs), np.arange(pairs, 2 * pairs)].sum())
    assert joined["fuse"] == pairs
    assert joined["replace"] < pairs / 2
    assert registry.specify("fed-ges", {}).settings.client == "fuse"
