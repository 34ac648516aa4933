"""Learning from experiments with targets of silos and of conditions, for every search and kind of data."""

from dataclasses import replace

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.experiments import experiments_of, smallest_group
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.cpdag import cpdag
from fedbnsl.algorithms.graphs.imposed_knowledge import experimental_arcs
from fedbnsl.tasks.transport.in_process import InProcessFederation
from tests.algorithms.score.small_dags import all_dags

NAMES = tuple("abcdef")
DAG = np.zeros((6, 6), bool)
DAG[[0, 1, 1, 2, 4], [1, 2, 3, 4, 5]] = True
"""a → b → c → e → f and b → d: without v-structures, so nothing but experiments directs its edges"""
TARGETS = {"p": (("b",),), "q": (("c", "e"),), "r": (("b", "d"),)}
LEVELS = ("low", "middle", "high")
LABELLED = {"continuous": 0, "mixed": 3, "discrete": 6}


def draw(rows, targets, seed, kind="continuous", factor=0.0, silos="pqrst"):
    """Rows over `DAG` in silos of different sizes and offsets; `factor` scales the effects on targets.

    A label equals that of its parent in three rows of four. In mixed data, the first three columns are labels.
    """
    rng, tables = np.random.default_rng(seed), {}
    for place, silo in enumerate(silos):
        n = rows + 31 * place
        X = np.zeros((n, 6))
        for j in range(6):
            kept = factor if any(NAMES[j] in own for own in targets.get(silo, ())) else 1.0
            if j < LABELLED[kind]:
                copies = (rng.random(n) < 0.75 * kept) if DAG[:, j].any() else np.zeros(n, bool)
                X[:, j] = np.where(copies, X @ DAG[:, j], rng.integers(3, size=n))
            else:
                X[:, j] = kept * X @ DAG[:, j] + (0.6 + 0.3 * (j % 3)) * rng.normal(size=n)
        X[:, LABELLED[kind] :] += rng.normal(0, 3, 6 - LABELLED[kind])
        tables[silo] = X.astype(np.int16) if kind == "discrete" else X
    return tables


def schema_of(tables, targets, kind="continuous", names=NAMES, **other):
    levels = dict.fromkeys(NAMES[: LABELLED[kind]], LEVELS)
    return Schema(names, {silo: len(X) for silo, X in tables.items()}, kind, levels, targets=targets, **other)


def learned(tables, targets, algorithm="secure-boss", kind="continuous", **params):
    return run(InProcessFederation(schema_of(tables, targets, kind), tables), algorithm, **params)


def run(federation, algorithm, **params):
    built = registry.build(registry.specify(algorithm, params))
    *_, last = rounds(built, federation)
    return built.structure(last.server), built.basis(last.server), last


def in_conditions(tables, targets):
    """One silo whose conditions are the `tables`, with the targets of these."""
    whole = np.vstack([tables[silo] for silo in sorted(tables)])
    sizes = tuple(len(tables[silo]) for silo in sorted(tables))
    own = tuple(targets.get(silo, ((),))[0] for silo in sorted(tables))
    return whole, sizes, own


SEARCHES = [
    ("secure-linear", "continuous", {}),
    ("secure-boss", "continuous", {}),
    ("secure-ges", "continuous", {}),
    ("secure-boss", "mixed", {}),
    ("secure-ges", "mixed", {}),
    ("secure-boss", "mixed", {"mixed_score": "conditional-gaussian"}),
    ("secure-boss", "discrete", {}),
    ("secure-ges", "discrete", {"refine": True}),
    ("secure-boss", "discrete", {"score": "bic"}),
]


@pytest.mark.parametrize(("algorithm", "kind", "params"), SEARCHES)
class TestEverySearch:
    def test_silos_are_as_conditions_of_one_silo(self, algorithm, kind, params) -> None:
        tables = draw(400, TARGETS, 1, kind)
        federated, *_ = learned(tables, TARGETS, algorithm, kind, **params)
        whole, sizes, own = in_conditions(tables, TARGETS)
        schema = schema_of({"all": whole}, {"all": own}, kind, stretches={"all": sizes})
        pooled, *_ = run(InProcessFederation(schema, {"all": whole}), algorithm, **params)
        np.testing.assert_allclose(federated.weights, pooled.weights, atol=1e-9)

    def test_the_class_is_that_of_the_experiments(self, algorithm, kind, params) -> None:
        """One silo sets both c and e, so c → e follows from b → c; all other edges are directed by a target."""
        tables = draw(4000, TARGETS, 2, kind)
        found, basis, _ = learned(tables, TARGETS, algorithm, kind, **params)
        truth = cpdag(DAG, experiments_of(NAMES, dict.fromkeys(tables, 1), TARGETS).separated)
        without, *_ = learned(tables, {}, algorithm, kind, **params)
        np.testing.assert_array_equal(found.adjacency, truth)
        assert not np.array_equal(without.adjacency, truth)
        assert "4 rest on experiments" in basis[-1]
        assert "1 follows from these" in basis[-1]

    def test_targets_matter_by_name_and_not_by_the_order_of_columns(self, algorithm, kind, params) -> None:
        tables = draw(400, TARGETS, 3, kind)
        found, *_ = learned(tables, TARGETS, algorithm, kind, **params)
        order = [3, 5, 0, 2, 4, 1]
        turned = {silo: X[:, order] for silo, X in tables.items()}
        schema = schema_of(turned, TARGETS, kind, tuple(NAMES[v] for v in order))
        other, *_ = run(InProcessFederation(schema, turned, secure=True), algorithm, **params)
        np.testing.assert_allclose(other.reordered(NAMES).weights, found.weights, atol=1e-6)


class TestScores:
    @pytest.mark.parametrize("target_rows", ["own", "left-out"])
    def test_boss_finds_the_best_class_of_all_graphs(self, target_rows) -> None:
        """The reference is least squares for each of the 543 DAGs over four variables, on the rows of each child."""
        names, rng = tuple("abcd"), np.random.default_rng(4)
        targets = {"p": (("a", "c"),), "q": (("b",),)}
        tables = {silo: rng.normal(size=(60, 4)) @ rng.normal(size=(4, 4)) for silo in "pqr"}
        schema = Schema(names, dict.fromkeys(tables, 60), targets=targets)
        found, *_ = run(InProcessFederation(schema, tables), "secure-boss", target_rows=target_rows)

        def residual(silos, child, parents):
            centred = np.vstack([tables[silo] - tables[silo].mean(axis=0) for silo in silos])
            X, y = centred[:, parents], centred[:, child]
            return ((y - X @ np.linalg.lstsq(X, y)[0]) ** 2).sum() if len(parents) else (y**2).sum()

        def score(dag):
            total = 0.0
            for child in range(4):
                parents = np.flatnonzero(dag[:, child])
                targeting = [silo for silo in targets if names[child] in targets[silo][0]]
                for silos, own in ((sorted(set(tables) - set(targeting)), False), (targeting, True)):
                    n, k = 59 * len(silos), len(parents)
                    if not n or (own and target_rows == "left-out"):
                        continue
                    v = residual(silos, child, parents) / (n - k * own)
                    total -= n / 2 * np.log(v) + k * (np.log(n) / 2 + (not own) * np.log(4))
            return total

        best = max(all_dags(4), key=score)
        np.testing.assert_array_equal(found.adjacency, cpdag(best, schema.experiments.separated))

    @pytest.mark.parametrize("kind", ["continuous", "discrete", "mixed"])
    def test_rows_left_out_reward_wrong_directions_where_a_dependence_remains(self, kind) -> None:
        """The effect of a on b is weaker at p: separate parameters direct a → b, and leaving rows out does not."""
        targets = {"p": (("b",),)}
        tables = draw(3000, targets, 5, kind, factor=0.5 if kind == "continuous" else 0.8, silos="pq")
        own, *_ = learned(tables, targets, kind=kind)
        out, *_ = learned(tables, targets, kind=kind, target_rows="left-out")
        assert own.adjacency[0, 1]
        assert not own.adjacency[1, 0]
        assert out.adjacency[1, 0]


class TestSums:
    def test_one_sum_for_each_set_left_out(self) -> None:
        found = experiments_of(
            NAMES, dict.fromkeys("pqrst", 1), {"p": (("b", "d"),), "q": (("e",),), "r": (("b", "d"),)}
        )
        assert found.n_sums == 3
        assert found.group.tolist() == [0, 1, 0, 1, 2, 0]
        assert found.rows({"p": (10,), "q": (20,), "r": (30,), "s": (40,), "t": (50,)}).tolist() == [145, 107, 126]

    def test_a_variable_that_is_targeted_everywhere_is_refused(self) -> None:
        with pytest.raises(BadInput, match="every silo that is left targets 'b', so no row shows its causes"):
            experiments_of(NAMES, {"p": 1, "q": 2}, {"p": (("b",),), "q": (("b", "c"), ("b",))})

    def test_what_a_combination_of_sums_discloses(self) -> None:
        a, b, c, d = (("a", 0), ("b", 0), ("c", 0), ("d", 0))
        assert smallest_group([(a, b, c, d), (b, c, d)]) == ("a",)
        assert smallest_group([(a, b, c, d), (c, d)]) == ("a", "b")
        assert smallest_group([(a, b, c, d), (a, b), (b, c), (a, c)]) == ("a",)  # (ab + ac − bc)/2
        assert smallest_group([(("a", 0), ("a", 1), b), (("a", 1), b)]) == ("a",)
        assert smallest_group([(a, b, c, d), (a, b, c, d)]) == ("a", "b", "c", "d")
        assert smallest_group([]) == ()

    def test_a_lost_silo_that_alone_showed_a_mechanism_is_named(self) -> None:
        targets = {"p": (("b",),), "q": (("b",),)}
        tables = draw(200, targets, 6, silos="pqr")
        schema = schema_of(tables, targets)
        built = registry.build(registry.specify("secure-linear", {}))
        federation = InProcessFederation(schema, tables)
        server = built.open_server(schema)
        replies, _ = federation.exchange(built, 1, built.broadcast(server))
        assert built.structure(built.aggregate(server, replies)).adjacency.any()
        with pytest.raises(BadInput, match="every silo that is left targets 'b'"):
            built.aggregate(server, replace(replies, silos=("p", "q")))


def test_arcs_that_rest_on_experiments_and_those_that_follow():
    separated = np.zeros((6, 6), bool)
    separated[0, 1] = separated[1, 0] = True
    every = ~np.eye(6, dtype=bool)
    fixed, following = experimental_arcs(cpdag(DAG, separated), separated, np.zeros((6, 6), bool), every)
    assert np.argwhere(fixed).tolist() == [[0, 1]]
    assert np.argwhere(following).tolist() == [[1, 2], [1, 3], [2, 4], [4, 5]]
    required = np.zeros((6, 6), bool)
    required[1, 2] = True
    fixed, following = experimental_arcs(cpdag(DAG, separated), separated, required, every)
    assert np.argwhere(following).tolist() == [[1, 3]]
