"""dp-fed-sparse: the effect of one record, the charges, the absence of other output, and the learned graph."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedbnsl.algorithms.admm.pgcd import pgcd
from fedbnsl.algorithms.admm.problem import Lasso
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.promise import Cost, ReplaceOne
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.dp_fed_sparse import clipping, step_noise
from fedbnsl.algorithms.dp_fed_sparse import order_server as dp_order
from fedbnsl.algorithms.dp_fed_sparse import silo as dp_pgcd
from fedbnsl.algorithms.dp_fed_sparse import silo as dp_silo
from fedbnsl.algorithms.dp_fed_sparse.algorithm import PRESETS, DpFedSparse, build
from fedbnsl.algorithms.dp_fed_sparse.plan import plan, tight
from fedbnsl.algorithms.dp_fed_sparse.step_noise import GumbelGaussian, LaplacePair, gumbel_scale, pure_epsilon, release
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.privacy import private_scales
from fedbnsl.algorithms.privacy.discrete_gaussian import Bits
from fedbnsl.algorithms.privacy.ledger import total
from fedbnsl.algorithms.privacy.tight import Composition, tight_epsilon
from fedbnsl.algorithms.privacy.zcdp import epsilon
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.tasks.transport.in_process import InProcessFederation, federate
from tests.algorithms.privacy.audit import audit

D, ROWS = 3, 5
SCALES = np.array([0.5, 2.0, 30.0])
SPREAD = np.array([0.4, 1.0, 5.0])
HUBER = clipping.huber(0.7 * SCALES, 0.7 * SPREAD, SCALES, SPREAD)
PRODUCT = clipping.product("product", 3.0, SCALES**2)
AVERAGE = clipping.product("average", 3.0, SCALES**2)
VARIANTS = {
    "order": DpFedSparse(rounds=3),
    "known": DpFedSparse(rounds=3, smoothness="known", known_smoothness=2.0),
    "private": DpFedSparse(rounds=3, smoothness="private", second_moment_bound=9.0, clip="product"),
    "mangold": DpFedSparse(rounds=3, mechanism="mangold"),
    "notears": DpFedSparse(rounds=3, acyclicity="notears"),
    "paper": replace(PRESETS["paper"], rounds=3),
}
variants = pytest.mark.parametrize("name", sorted(VARIANTS))
extreme = st.one_of(st.floats(-100, 100), st.sampled_from([0.0, 1e-30, -1e300, 1e300]))
records = arrays(np.float64, D, elements=extreme)
rest = arrays(np.float64, (ROWS - 1, D), elements=st.floats(-50, 50))
weights = arrays(np.float64, (D, D), elements=st.floats(-3, 3))


def problem_with(clip, B):
    B = np.triu(B, 1)
    return dp_pgcd.PrivateProblem(
        linear=0.3 * B.T,
        r=0.2 * SCALES**2,
        M=1.2 * SCALES**2,
        l1=0.1 * SCALES,
        allowed=~np.eye(D, dtype=bool),
        start=B,
        clip=clip,
        weights=SPREAD.min() / SPREAD,
    )


def seen(problem, table):
    """The data term of the gradient and the scores, `[d, d]` each, that a step at the start looks at."""
    table = dp_pgcd.clip_to_scale(table, SCALES)
    R, factors, where = (
        dp_pgcd.residuals(table, problem.start),
        problem.clip.factors(table),
        dp_pgcd.entries(problem.allowed),
    )
    G, S = problem.clip.gradient(factors, R, slice(None)), np.zeros((D, D))
    for j in range(D):
        S[where.rows[where.column(j)], j] = dp_pgcd.scores(problem, G[:, j], problem.start[:, j], where, j)
    return G, S


def excess(problem, others, one, other):
    """How much more gradient and scores move than is allowed, when one record is replaced: at most 1, or not."""
    (G, S), (H, T) = (seen(problem, np.vstack([record, others])) for record in (one, other))
    allowed = 2 * problem.clip.reach / ROWS * (1 + 1e-9)
    return float(np.max(np.abs(G - H) / allowed)), float(
        np.max(np.abs(S - T)) / dp_pgcd.score_sensitivity(problem, ROWS)
    )


@pytest.mark.parametrize("clip", [HUBER, PRODUCT], ids=["huber", "product"])
@settings(max_examples=150, deadline=None)
@given(B=weights, others=rest, one=records, other=records)
def test_no_record_moves_a_gradient_or_a_score_by_more_than_is_paid_for(clip, B, others, one, other):
    gradient, score = excess(problem_with(clip, B), others, one, other)
    assert gradient <= 1
    assert score <= 1


@pytest.mark.parametrize("clip", [HUBER, PRODUCT], ids=["huber", "product"])
def test_the_worst_record_reaches_what_is_paid_for(clip):
    """The bounds are not just safe: noise is not wasted either."""
    one, other = np.array([1e5, 1e5, 1e5]), np.array([1e5, -1e5, 1e5])
    problem = replace(problem_with(clip, np.zeros((D, D))), l1=np.zeros(D), linear=np.zeros((D, D)))
    others = np.tile([[50.0, 50.0, 50.0]], (ROWS - 1, 1))  # keeps the score's sign
    gradient, score = excess(problem, others, one, other)
    assert gradient > 0.999
    assert score > 0.5


def test_clipping_the_average_is_caught():
    """Mutant, and the paper's own words: one record moves the mean over the whole range, n times what is claimed."""
    problem, others = replace(problem_with(AVERAGE, np.zeros((D, D))), l1=np.zeros(D)), np.zeros((ROWS - 1, D))
    up, down, still = np.array([1e5, 1e5, 1e5]), np.array([1e5, -1e5, 1e5]), np.zeros(D)
    assert excess(problem, others, up, down)[0] > ROWS * 0.999
    assert excess(problem, others, up, still)[1] > 1


def test_a_bound_on_values_alone_is_caught():
    """Mutant: residuals are not cut off."""
    loose = replace(HUBER, residuals=np.full(D, 1e9))
    mutant = problem_with(loose, np.zeros((D, D)))
    (G, _), (H, _) = (seen(mutant, np.tile(r, (ROWS, 1))) for r in ([1e3, 1e3, 1e3], [1e3, -1e3, 1e3]))
    assert (np.abs(G - H) > 2 * HUBER.reach / ROWS).any()


@settings(max_examples=100, deadline=None)
@given(rest, records, records)
def test_truncated_squares(others, one, other):
    shares = [step_noise.truncated_squares(np.vstack([record, others]), SCALES) for record in (one, other)]
    assert np.linalg.norm(shares[0] - shares[1]) <= step_noise.shares_sensitivity(D, ROWS) * (1 + 1e-9)


@pytest.mark.parametrize("deviation", [0.3, 1.0, 1.7])
def test_a_deviation_comes_back_from_its_truncated_square(deviation):
    values = np.random.default_rng(0).normal(0, deviation, (200_000, 1))
    (found,) = step_noise.deviations(step_noise.truncated_squares(values, np.ones(1)))
    assert found == pytest.approx(deviation, rel=0.02)


class TestNoise:
    def test_a_choice_and_a_gradient_cost_no_more_than_their_price(self):
        price = Cost(1e-4, ReplaceOne)
        noise = GumbelGaussian(price, price)
        assert 0.7**2 / (2 * gumbel_scale(0.7, price) ** 2) <= price.rho
        assert 1 / (2 * noise.deviation**2) <= price.rho
        drawn = noise.draw(Bits(bytes(32)), 20_000) * noise.grid
        assert drawn.std() == pytest.approx(1 / np.sqrt(2 * price.rho), rel=0.02)

    def test_a_released_gradient_is_on_the_grid(self):
        noise = GumbelGaussian(Cost(0.01, ReplaceOne), Cost(0.01, ReplaceOne))
        released = np.array([release(noise, value, drawn) for value, drawn in ((0.1, 5), (np.pi, -3), (-7.7, 0))])
        np.testing.assert_array_equal(released / noise.grid, np.rint(released / noise.grid))
        assert released[2] == pytest.approx(-7.7, abs=noise.grid)

    @pytest.mark.parametrize("noise", [GumbelGaussian(Cost(0.5, ReplaceOne), Cost(0.5, ReplaceOne)), LaplacePair(1.0)])
    def test_a_choice_has_the_law_that_its_price_is_for(self, noise):
        """Neighbouring scores, all moved by Δ: log-probabilities differ by no more than ε₀."""
        bits, runs = Bits(b"k" * 32), 4000
        scores = np.array([0.0, 0.3, 0.6])
        moved = scores + np.array([0.25, -0.25, 0.25])
        counts = [np.bincount([noise.select(bits, s, 0.25) for _ in range(runs)], minlength=3) for s in (scores, moved)]
        ratio = np.log(counts[0] / counts[1])
        pure = 2 * 0.25 / gumbel_scale(0.25, Cost(0.5, ReplaceOne)) if isinstance(noise, GumbelGaussian) else 1.0
        assert 0.05 < np.abs(ratio).max() < pure
        if isinstance(noise, GumbelGaussian):
            expected = np.exp(scores / 0.25) / np.exp(scores / 0.25).sum()
            np.testing.assert_allclose(counts[0] / runs, expected, atol=0.03)

    def test_laplace_noise_has_its_scale(self):
        noise = LaplacePair(0.2)
        drawn = noise.draw(Bits(bytes(32)), 20_000) * noise.grid
        assert np.abs(drawn).mean() == pytest.approx(1 / 0.2, rel=0.03)
        assert noise.deviation == pytest.approx(np.sqrt(2) / 0.2, rel=1e-3)

    @pytest.mark.parametrize(("target", "count"), [(1.0, 10), (5.0, 4000)])
    def test_advanced_composition(self, target, count):
        pure = pure_epsilon(target, 4e-8, count)
        reached = pure * np.sqrt(2 * count * np.log(1 / 4e-8)) + count * pure * np.expm1(pure)
        assert reached == pytest.approx(target, rel=1e-9)
        assert reached <= target

    def test_the_papers_mechanism_composes_a_selection_and_a_gradient_a_step(self):
        schema = Schema(("a", "b"), {"x": 5000, "y": 5000})
        settings = DpFedSparse(epsilon=5.0, mechanism="mangold", rounds=3, steps=7, acyclicity="notears")
        planned = plan(settings, schema)
        left = epsilon(planned.promise.cost.portion(1 - settings.smoothness_share), planned.promise.delta)
        assert planned.noise.pure == pytest.approx(pure_epsilon(left, planned.promise.delta, 2 * 3 * 7))

    def test_the_papers_mechanism_needs_less_noise_for_the_same_epsilon(self):
        """Fassy El Fehri et al., A.4: by at least √2."""
        schema = Schema(("a", "b"), {"x": 5000, "y": 5000})
        gumbel, laplace = (plan(DpFedSparse(share=0.5, mechanism=kind), schema) for kind in ("gumbel", "mangold"))
        assert laplace.noise.deviation > np.sqrt(2) * gumbel.noise.deviation


def tables(seed=0, silos=2, rows=60, d=4):
    return homogeneous(d, silos, rows, seed).tables


def run(name, given=None, **other):
    federation = federate(given or tables())
    algorithm = build(replace(VARIANTS[name], **({"epsilon": 50.0} | other)))
    return federation, algorithm, list(rounds(algorithm, federation))


class TestPrice:
    @variants
    def test_all_rounds_cost_what_is_promised_and_no_more(self, name):
        federation, algorithm, _ = run(name)
        promised = algorithm.private.promise(federation.schema).cost.rho
        for charges in federation.charges().values():
            spent = total(Cost(charge.rho, ReplaceOne) for charge in charges).rho
            assert spent <= promised
            assert spent > (0.1 if name == "mangold" else 0.999) * promised

    def test_a_round_is_priced_before_it_is_answered(self):
        settings = replace(VARIANTS["order"], epsilon=50.0)
        schema = federate(tables()).schema
        first, later = dp_order.open_server(schema, settings), None
        later = replace(first, number=1, scales=np.ones(4))
        silo = dp_silo.open_silo(tables()["silo-1"], schema, settings)
        prices = [dp_silo.releases(silo, dp_order.broadcast(server)) for server in (first, later)]
        assert [len(price) for price in prices] == [1, 3]
        each = total(r.cost for r in prices[0]).rho + settings.rounds * total(r.cost for r in prices[1]).rho
        assert each == pytest.approx(plan(settings, schema).promise.cost.rho)

    @pytest.mark.parametrize("epsilon", [0.5, 10.0])
    def test_tight_accounting_is_below_zcdp_and_above_each_part_alone(self, epsilon):
        settings = DpFedSparse(epsilon=epsilon)
        schema = Schema(tuple("abcdef"), {"x": 5000, "y": 6000})
        planned, found = plan(settings, schema), tight(settings, schema)
        choices = Composition(settings.rounds * planned.steps, np.sqrt(8 * planned.noise.selection.rho), 0.0)
        rest = 1 - settings.share * (1 - settings.smoothness_share - settings.spread_share)
        gaussians = Composition(0, 0.0, np.sqrt(2 * rest * planned.promise.cost.rho))
        delta = planned.promise.delta
        assert max(tight_epsilon(delta, part) for part in (choices, gaussians)) < found < 0.97 * epsilon
        whole = replace(gaussians, selections=choices.selections, bounded_range=choices.bounded_range)
        assert found == pytest.approx(tight_epsilon(delta, whole), rel=2e-3)

    @pytest.mark.parametrize("other", [{"mechanism": "mangold"}, {"clip": "average"}, {"steps": 20_000}])
    def test_tight_accounting_says_nothing_where_it_does_not_hold(self, other):
        assert tight(DpFedSparse(**other), Schema(("a", "b"), {"x": 5000})) is None

    def test_the_average_promises_nothing(self):
        federation, algorithm, _ = run("paper", clip="average")
        assert "clips the average" in algorithm.private.promise(federation.schema).broken
        assert all(np.isinf(c.rho) for charges in federation.charges().values() for c in charges)


class TestNothingElseGetsOut:
    """The noise gone, and every release scripted: whatever the rows are, each message must be the same, bit for bit."""

    def messages(self, name, given, monkeypatch, *, scripted=True):
        script = np.random.default_rng(5)
        if scripted:
            monkeypatch.setattr(dp_pgcd, "release", lambda noise, value, drawn: float(script.normal()))
            for kind in (GumbelGaussian, LaplacePair):
                monkeypatch.setattr(kind, "select", lambda self, bits, scores, sensitivity: int(script.integers(6)))
            monkeypatch.setattr(dp_silo, "private_squares", lambda bits, values, caps, cost: script.random(len(caps)))
            monkeypatch.setattr(
                private_scales,
                "bucket_counts",
                lambda table: np.rint(1e4 * private_scales.profiles()[[190, 195, 200, 205]]).astype(int),
            )
            monkeypatch.setattr(dp_silo, "release_on_grid", lambda bits, counts, sensitivity, rho, bound: counts)
        algorithm = build(replace(VARIANTS[name], epsilon=50.0, insecure_seed=3))
        sent = []

        def local_solve(silo, ask):
            silo, reply = algorithm.local_solve(silo, ask)
            sent.extend(
                [
                    wire.encode(ask),
                    wire.encode(reply),
                    wire.encode({k: getattr(silo, k) for k in dp_silo.PERSISTED_STATE}),
                ]
            )
            return silo, reply

        watched = rounds(replace(algorithm, local_solve=local_solve), federate(given))
        return [wire.encode(algorithm.measures(one.server)) for one in watched] + sent

    @variants
    def test_messages_follow_from_what_was_released(self, name, monkeypatch):
        mine = self.messages(name, tables(seed=1), monkeypatch)
        other = {silo: 3 * table**2 for silo, table in tables(seed=2).items()}
        assert mine == self.messages(name, other, monkeypatch)

    @pytest.mark.parametrize("leak", ["gradient", "stopping"])
    def test_a_leak_is_caught(self, leak, monkeypatch):
        """Mutants: an exact gradient moves B; steps stop when they no longer pay."""
        steps = dp_pgcd.dp_pgcd

        def leaky(problem, table, R, noise, count, gamma, key):
            if leak == "stopping":
                return steps(problem, table, R, noise, int(count * (R[0].std() > 1)), gamma, key)
            B = steps(problem, table, R, noise, count, gamma, key)
            return B + 1e-3 * problem.allowed * problem.clip.gradient(problem.clip.factors(table), R[:1], slice(1))

        monkeypatch.setattr(dp_silo, "dp_pgcd", leaky)
        small = {silo: 0.1 * table for silo, table in tables(seed=2).items()}
        assert self.messages("order", tables(seed=1), monkeypatch) != self.messages("order", small, monkeypatch)

    def test_without_the_script_messages_do_differ(self, monkeypatch):
        mine = self.messages("order", tables(seed=1), monkeypatch, scripted=False)
        assert mine != self.messages("order", tables(seed=2), monkeypatch, scripted=False)


class TestCanary:
    """Whole replies to one question, many times over: can one tell which of two worst records is in the table?"""

    EPSILON, DELTA = 1.0, 1e-3

    def outcomes(self, canary, **other):
        table = np.random.default_rng(0).normal(size=(100, 2))
        table[0] = canary
        asked = DpFedSparse(
            epsilon=self.EPSILON, delta=self.DELTA, rounds=1, steps=1, smoothness="known", known_smoothness=1.0, **other
        )
        algorithm, federation = build(asked), federate({"a": table})
        ask = algorithm.broadcast(algorithm.open_server(federation.schema))
        silo = algorithm.open_silo(table, federation.schema, "a", np.random.default_rng(0))
        changes, keys = [], np.random.default_rng(int(canary[1] > 0))
        for _ in range(400):
            _, part = algorithm.local_solve(replace(silo, key=keys.bytes(32)), ask)
            changes.append(part.B.put(np.zeros((2, 2)))[0, 1])
        return np.array(changes)

    def bound(self, **other):
        one, gone = (self.outcomes(np.array([1e6, sign * 1e6]), **other) for sign in (1, -1))
        return audit(one, gone, self.DELTA, 0.999)

    @pytest.mark.parametrize("clip", ["huber", "product"])
    def test_the_canary_is_hidden(self, clip):
        assert self.bound(clip=clip, l1=0.0) <= self.EPSILON

    def test_clipping_the_average_gives_it_away(self):
        assert self.bound(clip="average", l1=0.0) > self.EPSILON


class TestLearning:
    def test_without_noise_and_clipping_the_steps_are_those_of_pgcd(self):
        table = homogeneous(6, 1, 400, 3).tables["silo-1"]
        S, d = table.T @ table / 400, 6
        r, l1 = 0.3 * np.diag(S), np.full(d, 0.1)
        linear = np.random.default_rng(0).normal(0, 0.1, (d, d))
        allowed, zero, wide = ~np.eye(d, dtype=bool), np.zeros((d, d)), np.full(d, 1e7)
        problem = dp_pgcd.PrivateProblem(
            linear, r, np.diag(S) + r, l1, allowed, zero, clipping.Clip("huber", wide, wide, zero, 1.0), np.ones(d)
        )
        nearly = Cost(1e31, ReplaceOne)
        B = dp_pgcd.dp_pgcd(
            problem, table, dp_pgcd.residuals(table, zero), GumbelGaussian(nearly, nearly), 600, 1.0, bytes(32)
        )
        np.testing.assert_allclose(B, pgcd(Lasso(linear, r, l1, allowed, zero, S), 1.0, 1e-6, 10_000), atol=1e-3)

    @pytest.mark.parametrize(("epsilon", "most"), [(5.0, 2), (1.0, 6)])
    def test_a_graph_of_twelve_is_found(self, epsilon, most):
        data = homogeneous(12, 8, 5000, 100)
        algorithm = build(DpFedSparse(epsilon=epsilon, insecure_seed=1))
        *_, last = rounds(algorithm, InProcessFederation(data.schema, data.tables))
        assert compare(algorithm.structure(last.server), data.truth)["shd"] <= most
        assert last.outcome == "converged"

    @pytest.mark.slow
    def test_the_paper_s_own_finds_edges_too(self):
        data = homogeneous(8, 4, 5000, 101)
        algorithm = build(replace(PRESETS["paper"], epsilon=50.0, clip_total=50.0, rounds=40, insecure_seed=1))
        *_, last = rounds(algorithm, InProcessFederation(data.schema, data.tables))
        found = compare(algorithm.structure(last.server), data.truth)
        assert found["shd"] <= 3
        assert found["tpr"] >= 0.6

    def test_a_wrong_order_is_turned_by_its_own_model(self):
        """x → y with equal errors, regressed the wrong way round: the residuals' spread gives it away."""
        weight = 0.6
        variance = 1 + weight**2
        wrong = np.array([[0.0, 0.0], [weight / variance, 0.0]])  # y → x, as least squares has it
        residual = np.sqrt([1 - weight**2 / variance, variance])
        W, place = dp_order.refit_order(wrong, residual, 0.1, DpFedSparse())
        assert place.tolist() == [0, 1]
        np.testing.assert_allclose(W, [[0, weight], [0, 0]], atol=1e-12)

    def test_steps_of_few_silos_count_as_much_as_they_are_told_to(self, monkeypatch):
        change, moving, lone = np.full((1, 1), 1.0), np.full((1, 1), 1.0), np.zeros((1, 1))
        for solo, expected in ((1.0, 1.0), (0.0, 0.25), (0.5, 0.4)):
            monkeypatch.setattr(dp_order, "PARTIAL_STEP_WEIGHT", solo)
            moved = dp_order.apply_steps(np.zeros((1, 1)), change, moving, 4.0, lone)
            assert moved[0, 0] == pytest.approx(expected)
        monkeypatch.setattr(dp_order, "PARTIAL_STEP_WEIGHT", 1.0)
        drawn = dp_order.apply_steps(np.zeros((1, 1)), change, moving, 4.0, lone + 0.6)
        assert drawn[0, 0] == pytest.approx(0.4)

    def test_a_seed_gives_the_same_run_again_and_no_seed_does_not(self):
        def learned(seed):
            return wire.encode(run("order", insecure_seed=seed)[2][-1].server)

        assert learned(1) == learned(1)
        assert learned(1) != learned(2)
        assert learned(-1) != learned(-1)


class TestRefused:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("epsilon", 0.0),
            ("epsilon", -1.0),
            ("delta", 1.0),
            ("rounds", 0),
            ("share", 1.0),
            ("spread_share", 0.95),
            ("clip_total", 0.0),
        ],
    )
    def test_settings_out_of_range(self, name, value):
        with pytest.raises(BadInput, match=f"parameter {name} is {value}"):
            DpFedSparse(**{name: value})

    @pytest.mark.parametrize("smoothness", ["private", "known"])
    def test_curvatures_without_their_public_number(self, smoothness):
        with pytest.raises(BadInput, match="a public number"):
            DpFedSparse(smoothness=smoothness)

    @variants
    def test_a_silo_of_one_row(self, name):
        with pytest.raises(BadInput, match="silo tiny has 1 row"):
            run(name, tables() | {"tiny": np.ones((1, 4))})
