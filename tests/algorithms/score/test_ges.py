"""GES against another program, against all DAGs of five variables, and against itself without shortcuts."""

import zlib
from dataclasses import replace
from itertools import chain, combinations, pairwise, product

import networkx as nx
import numpy as np
import pytest

from fedbnsl.algorithms.graphs.cpdag import cpdag, member_of
from fedbnsl.algorithms.graphs.dag import is_acyclic
from fedbnsl.algorithms.score import ges
from fedbnsl.algorithms.score.cliques import NO_GAIN, open_path, workspace_with_successors
from fedbnsl.algorithms.score.families import Batch, no_families
from fedbnsl.algorithms.score.ges import CHICKERING, WARY, WITH_TURNS, best_move, finish, score_pending, search_from
from fedbnsl.algorithms.score.operators import DELETE, INSERT, TURN, WARY_INSERT, apply_operator, refresh
from tests.algorithms.score import plain_ges
from tests.algorithms.score.small_dags import all_dags


def found(drawn, plan, start=None, limit=-1, **settings):
    """The CPDAG a search ends in."""
    d = len(drawn.dag)
    begin = search_from(np.zeros((d, d), np.bool_) if start is None else start, plan, limit)
    return finish(begin, no_families(), drawn.scores(**settings))[0]


def families(d):
    """Every family of d variables, child first."""
    for child in range(d):
        others = [v for v in range(d) if v != child]
        for parents in chain.from_iterable(combinations(others, k) for k in range(d)):
            yield (child, *parents)


def all_scores(drawn, **settings):
    """The score of every family there is."""
    keys = list(families(len(drawn.dag)))
    first = np.cumsum([0, *map(len, keys)])
    scores = drawn.scores(**settings)(Batch(first, np.concatenate([np.array(key, np.uint16) for key in keys])))
    return dict(zip(keys, scores, strict=True))


def looked_up(scores, batch):
    found = ((batch.members[begin], *sorted(batch.members[begin + 1 : end])) for begin, end in pairwise(batch.first))
    return np.array([scores[family] for family in found])


def total(dag, scores):
    return sum(scores[v, *np.flatnonzero(dag[:, v]).tolist()] for v in range(len(dag)))


def best_total(d, scores):
    """The score of the best DAG of all, over every order of the variables (Silander & Myllymäki 2006)."""
    best = {frozenset(): 0.0}
    for size in range(1, d + 1):
        for chosen in map(frozenset, combinations(range(d), size)):
            best[chosen] = max(
                best[chosen - {sink}]
                + max(
                    scores[sink, *sorted(parents)] for k in range(size) for parents in combinations(chosen - {sink}, k)
                )
                for sink in chosen
            )
    return best[frozenset(range(d))]


@pytest.fixture(scope="module")
def classes():
    """Every class of DAGs on four variables with all of its members, by the bytes of its CPDAG: 185 of them."""
    members: dict[bytes, list[np.ndarray]] = {}
    for dag in all_dags(4):
        members.setdefault(cpdag(dag).tobytes(), []).append(dag)
    return members


def neighbours(members, kind):
    """The DAGs one step from any member: an edge added, removed, or reversed with a change of the class."""
    for dag in members:
        for x, y in product(range(len(dag)), repeat=2):
            other = dag.copy()
            if kind == INSERT and x != y and not dag[x, y] and not dag[y, x]:
                other[x, y] = True
            elif kind == DELETE and dag[x, y]:
                other[x, y] = False
            elif kind == TURN and dag[y, x]:
                other[y, x], other[x, y] = False, True
            else:
                continue
            if is_acyclic(other) and (kind != TURN or (cpdag(other) != cpdag(dag)).any()):
                yield other


class TestAnotherProgram:
    @pytest.mark.parametrize("plan", ["forward_backward", "turning"])
    def test_the_same_classes_on_200_random_cases(self, plan, drawing, other_ges):
        differ = []
        for case in other_ges["cases"]:
            drawn = drawing(case["d"], case["rows"], case["seed"], case["density"], case["most_levels"])
            assert drawn.table.sum() == pytest.approx(case["sum"], abs=1e-5)
            settings = {key: case[key] for key in ("ess", "expected_parents") if key in case}
            graph = found(drawn, CHICKERING if plan == "forward_backward" else WITH_TURNS, **settings)
            if np.argwhere(graph).tolist() != case[plan]:
                differ.append(case["seed"])
        assert differ == []
        assert len(other_ges["cases"]) == 200


class TestSpecification:
    @pytest.mark.parametrize("most_levels", [1, 3])
    @pytest.mark.parametrize("d", [2, 4, 5, 6])
    def test_it_ends_where_the_plain_search_by_the_papers_definitions_ends(self, d, most_levels, drawing):
        differ = []
        for seed in range(25):
            drawn = drawing(d, 60 + 40 * seed, 1000 * d + seed, density=0.2 + 0.1 * (seed % 7), most_levels=most_levels)
            scores = all_scores(drawn)
            plain = plain_ges.ges(d, lambda child, parents, of=scores: of[child, *sorted(parents)])
            if (plain != found(drawn, CHICKERING)).any():
                differ.append(seed)
        assert differ == []

    @pytest.mark.parametrize("d", [4, 5, 6])
    def test_so_it_does_by_scores_that_mean_nothing(self, d):
        """Random scores give dense graphs, in which a path often forbids an insertion."""
        for seed in range(25):
            rng = np.random.default_rng(seed)
            scores = {family: rng.normal(0.1 * len(family)) for family in families(d)}
            plain = plain_ges.ges(d, lambda child, parents, of=scores: of[child, *sorted(parents)])
            begin = search_from(np.zeros((d, d), np.bool_), CHICKERING)
            end, _ = finish(begin, no_families(), lambda batch, of=scores: looked_up(of, batch))
            np.testing.assert_array_equal(end, plain)


class TestAllThereIs:
    @pytest.mark.parametrize("kind", [INSERT, DELETE, TURN])
    def test_the_best_step_is_the_best_to_any_neighbour_of_any_member(self, kind, classes, drawing):
        """The operators reach exactly these neighbours: this tests the path condition, the cliques and the gain."""
        for seed, (name, members) in enumerate(list(classes.items())[kind % 2 :: 2]):
            drawn = drawing(4, 40, seed, most_levels=2 if seed % 2 else 1)
            scores = all_scores(drawn)
            here = np.frombuffer(name, np.bool_).reshape(4, 4).copy()
            x, y, gain, clique = _best(kind, here, drawn)
            options = [(total(other, scores) - total(members[0], scores), other) for other in neighbours(members, kind)]
            most = max((option[0] for option in options), default=NO_GAIN)
            if most <= 1e-9:
                assert gain <= 1e-9
                continue
            assert gain == pytest.approx(most, abs=1e-8)
            after = cpdag(apply_operator(kind, here, x, y, clique))
            assert after.tobytes() in classes
            assert total(member_of(after), scores) - total(members[0], scores) == pytest.approx(most, abs=1e-8)

    def test_a_wary_insertion_gains_without_turning_any_neighbour(self, classes, drawing):
        """Only pairs (x, y) that gain with all undirected edges at y but those to NA left pointing away from y."""
        fewer = 0
        for seed, name in enumerate(classes):
            drawn = drawing(4, 40, seed, most_levels=2)
            here = np.frombuffer(name, np.bool_).reshape(4, 4).copy()
            x, y, gain, _ = _best(WARY_INSERT, here, drawn)
            _, _, most, _ = _best(INSERT, here, drawn)
            assert gain <= most + 1e-12
            fewer += gain < most - 1e-9
            if gain > 0:
                scores = all_scores(drawn)
                joined = here | here.T
                parents = [p for p in range(4) if here[p, y] and (not here[y, p] or joined[p, x])]
                assert scores[y, *sorted([*parents, x])] > scores[y, *parents]
        assert fewer > 0

    def test_no_dag_of_five_variables_is_better_and_few_searches_miss_the_best(self, drawing):
        reached = 0
        for seed in range(40):
            drawn = drawing(5, 2000, seed, most_levels=3 if seed % 2 else 1)
            scores = all_scores(drawn)
            best = best_total(5, scores)
            mine = total(member_of(found(drawn, WITH_TURNS)), scores)
            assert mine <= best + 1e-8
            reached += mine > best - 1e-8
        assert reached >= 36

    def test_best_total_is_the_best_of_all_dags(self, drawing):
        scores = all_scores(drawing(4, 100, 3))
        assert best_total(4, scores) == pytest.approx(max(total(dag, scores) for dag in all_dags(4)))


def _best(kind, here, drawn):
    """The best move from the CPDAG `here`."""
    known, gain, stale = no_families(), np.full(here.shape, NO_GAIN), np.ones(here.shape, np.bool_)
    while refresh(kind, here, stale, gain, known.tables):
        known = score_pending(known, drawn.scores())
    return best_move(kind, here, gain, known.tables)


def noise(batch):
    """Scores that mean nothing: whatever is overlooked shows."""
    families = (batch.members[begin:end] for begin, end in pairwise(batch.first))
    return np.array([np.random.default_rng(zlib.crc32(one.tobytes())).standard_normal() for one in families])


class TestShortcuts:
    def check(self, plan, d, scores, monkeypatch):
        """After every move of a search what is not stale is what scoring everything anew gives; return how much."""
        checked = [0]
        apply = ges._apply

        def applied(search, kind, move):
            after = apply(search, kind, move)
            fresh, stale = np.full(after.gain.shape, NO_GAIN), np.ones(after.stale.shape, np.bool_)
            tables = no_families()
            while refresh(kind, after.graph, stale, fresh, tables.tables):
                tables = score_pending(tables, scores)
            kept = ~after.stale
            np.testing.assert_array_equal(after.gain[kept], fresh[kept])
            checked[0] += int(kept.sum())
            return after

        with monkeypatch.context() as patched:
            patched.setattr(ges, "_apply", applied)
            finish(search_from(np.zeros((d, d), np.bool_), plan), no_families(), scores)
        return checked[0]

    @pytest.mark.parametrize("plan", [CHICKERING, WITH_TURNS, WARY])
    def test_only_what_a_move_can_change_is_scored_anew(self, plan, drawing, monkeypatch):
        tables = [drawing(7, 150, seed, 0.5, most_levels=2) for seed in range(8)]
        assert sum(self.check(plan, 7, drawn.scores(ess=5.0), monkeypatch) for drawn in tables) > 1000

    @pytest.mark.parametrize("plan", [CHICKERING, WARY])
    def test_nor_is_anything_overlooked_that_scores_would_hide(self, plan, monkeypatch):
        for seed in range(6):
            order = np.random.default_rng(seed).permutation(7).astype(np.uint16)
            mixed = lambda batch, order=order: noise(Batch(batch.first, order[batch.members]))  # noqa: E731
            assert self.check(plan, 7, mixed, monkeypatch) > 50

    def test_an_edge_between_two_neighbours_of_a_variable_changes_every_operator_on_it(self):
        """0 — 1 — 2 becomes a triangle: the neighbours of 1 are the same, but they are a clique now."""
        path, triangle, stale = np.zeros((4, 4), np.bool_), np.zeros((4, 4), np.bool_), np.zeros((4, 4), np.bool_)
        triangle[:3, :3] = ~np.eye(3, dtype=np.bool_)
        path[[0, 1, 1, 2], [1, 0, 2, 1]] = True
        ges.make_stale(INSERT, path, triangle, stale)
        assert stale[1].all()

    def test_a_search_that_forgets_everything_finds_the_same(self, drawing, monkeypatch):
        drawn = [drawing(9, 300, seed, 0.4) for seed in range(10)]
        quick = [found(one, WITH_TURNS) for one in drawn]
        monkeypatch.setattr(ges, "make_stale", lambda kind, old, new, stale: stale.fill(True))
        for one, graph in zip(drawn, quick, strict=True):
            np.testing.assert_array_equal(found(one, WITH_TURNS), graph)

    @pytest.mark.parametrize("ahead", [1, 5, 50])
    def test_looking_ahead_changes_nothing_but_how_often_scores_are_asked_for(self, ahead, drawing):
        drawn = drawing(10, 500, 1)
        waits = {}
        for far in (0, ahead):
            search, known, waits[far] = search_from(np.zeros((10, 10), np.bool_), WITH_TURNS), no_families(), 0
            while True:
                search = ges.advance(search, known, far)
                if search.done:
                    break
                known, waits[far] = score_pending(known, drawn.scores()), waits[far] + 1
            np.testing.assert_array_equal(search.graph, found(drawn, WITH_TURNS))
        assert waits[ahead] < waits[0]

    @pytest.mark.parametrize("plan", [(WARY_INSERT, DELETE, INSERT), WITH_TURNS])
    def test_what_was_requested_ahead_is_remembered_and_nothing_else(self, plan, drawing):
        drawn = drawing(8, 2000, 5, 0.4)
        search, families = search_from(np.zeros((8, 8), np.bool_), plan), no_families()
        looks = 0
        while not search.done:
            remembering, forgetting = families.copy(), families.copy()
            after = ges.advance(search, remembering, 2)
            ges.advance(replace(search, next_kind=-1), forgetting, 2)
            assert np.array_equal(remembering.pending.first, forgetting.pending.first)
            assert np.array_equal(remembering.pending.members, forgetting.pending.members)
            looks += search.next_kind >= 0 and after.next_kind == search.next_kind
            families = score_pending(remembering, drawn.scores()) if not after.done else families
            search = after
        assert looks > 2

    def test_advance_leaves_the_search_it_was_given_as_it_was(self, drawing):
        search = search_from(np.zeros((5, 5), np.bool_), CHICKERING)
        before = replace(search, gain=search.gain.copy(), stale=search.stale.copy())
        known = no_families()
        ges.advance(search, known)
        known = score_pending(known, drawing(5, 100, 0).scores())
        ges.advance(search, known)
        np.testing.assert_array_equal(search.gain, before.gain)
        np.testing.assert_array_equal(search.stale, before.stale)


class TestStart:
    def test_it_may_start_anywhere_and_never_gets_worse(self, drawing, dag_of):
        for seed in range(15):
            drawn = drawing(6, 200, seed)
            start = dag_of(6, 0.5, np.random.default_rng(seed))
            scores = all_scores(drawn)
            end = member_of(found(drawn, WITH_TURNS, start))
            assert total(end, scores) >= total(start, scores) - 1e-8

    @pytest.mark.parametrize("limit", [0, 1, 3])
    def test_no_more_edges_are_inserted_than_allowed(self, limit, drawing):
        for seed in range(5):
            drawn = drawing(8, 1000, seed, 0.5)
            edges = class_edges(found(drawn, CHICKERING, limit=limit))
            assert edges <= limit
            assert class_edges(found(drawn, CHICKERING)) > 3

    def test_deletions_are_free(self, drawing):
        drawn = drawing(6, 2000, 2, density=0.0)
        full = np.triu(np.ones((6, 6), np.bool_), 1)
        assert class_edges(found(drawn, CHICKERING, full, limit=0)) <= 1

    def test_a_start_with_a_cycle_is_refused(self):
        with pytest.raises(ValueError, match="cycle"):
            search_from(~np.eye(3, dtype=np.bool_), CHICKERING)

    def test_of_many_rows_it_finds_the_class_they_were_drawn_from(self, drawing):
        right = 0
        for seed in range(10):
            drawn = drawing(6, 20_000, seed, most_levels=1 + 2 * (seed % 2))
            right += (found(drawn, WITH_TURNS) == cpdag(drawn.dag)).all()
        assert right >= 7


def class_edges(cpdag):
    return int(np.triu(cpdag | cpdag.T).sum())


class TestCandidates:
    """Sparse candidates: an edge joins a variable only to those of greatest gain by themselves."""

    def searched(self, drawn, candidates):
        """The search at its end, and the families that it has requested."""
        search = replace(search_from(np.zeros_like(drawn.dag), WITH_TURNS), candidates=candidates)
        known = no_families()
        while True:
            search = ges.advance(search, known, 8)
            if search.done:
                return search, known
            known = score_pending(known, drawn.scores())

    @pytest.mark.parametrize("seed", range(5))
    def test_all_others_are_no_restriction(self, seed, drawing):
        drawn = drawing(9, 500, seed, 0.4)
        np.testing.assert_array_equal(self.searched(drawn, 8)[0].graph, found(drawn, WITH_TURNS))

    @pytest.mark.parametrize("number", [1, 2, 3])
    def test_edges_and_tables_of_three_are_of_candidates_only(self, number, drawing):
        """The gain of y by x alone is its score with the parent x less its score without parents."""
        cut = 0
        for seed in range(5):
            drawn = drawing(10, 1000, seed, 0.5)
            d = len(drawn.dag)
            pairs = [(y, x) for y in range(d) for x in range(d) if x != y]
            first = np.cumsum([0, *[1] * d, *[2] * len(pairs)])
            members = np.array([*range(d), *chain.from_iterable(pairs)], np.uint16)
            scores = drawn.scores()(Batch(first, members))
            gains = np.full((d, d), -np.inf)
            for (y, x), score in zip(pairs, scores[d:], strict=True):
                gains[y, x] = score - scores[y]
            near = np.zeros((d, d), np.bool_)
            for y in range(d):
                near[y, sorted(range(d), key=lambda x: -gains[y, x])[:number]] = True
            near |= near.T
            search, known = self.searched(drawn, number)
            assert not (search.graph & ~near).any()
            everything = found(drawn, WITH_TURNS)
            cut += (everything & ~near).any()
            without = self.searched(drawn, 0)[1]
            assert known.used[0] < without.used[0]
        assert cut


@pytest.mark.parametrize("direct", [True, False])
def test_a_path_is_open_if_one_along_arrows_and_edges_avoids_the_blocked(direct):
    """Against networkx on random mixed graphs; without `direct`, the edge y → x itself is no path."""
    rng, seen = np.random.default_rng(0), set()
    for _ in range(400):
        d = int(rng.integers(3, 9))
        graph = rng.random((d, d)) < 0.25
        np.fill_diagonal(graph, False)
        y, x, *others = rng.permutation(d)
        blocked, also = (np.array(part, np.int64) for part in np.array_split(others[: int(rng.integers(0, d - 1))], 2))
        kept = graph.copy()
        kept[y, x] &= direct
        walk = nx.from_numpy_array(kept, create_using=nx.DiGraph)
        walk.remove_nodes_from([*blocked.tolist(), *also.tolist()])
        space = workspace_with_successors(graph)
        found = open_path(graph, y, x, blocked, also, np.bool_(direct), space)
        assert found == nx.has_path(walk, y, x)
        seen.add(found)
    assert seen == {True, False}


def test_full_tables_grow_to_what_did_not_fit_in_few_steps():
    """Before, they doubled, and each time the search went through all pairs and, with silos, needed an exchange."""
    known, d = no_families(16), 40
    graph, gain, stale = np.zeros((d, d), np.bool_), np.zeros((d, d)), np.ones((d, d), np.bool_)
    rooms = []
    while refresh(INSERT, graph, stale, gain, known.tables):
        known = known.with_scores(np.zeros(len(known.pending)))
        known = known.grown() if known.full else known
        rooms.append(len(known.score))
    assert rooms[0] == 256
    assert len(rooms) <= 4
    assert known.used[1] == d * d
