"""The posterior over graphs against the enumeration of all DAGs, with scores against their formulas."""

from itertools import combinations
from math import comb, lgamma, log, pi

import numpy as np
import pytest

from fedbnsl.algorithms.core.knowledge import Knowledge, no_prior
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.posterior import partition_sampler
from fedbnsl.algorithms.posterior.bdeu import bdeu_scores, counted_families
from fedbnsl.algorithms.posterior.bge import bge_scores, gaussian_posterior
from fedbnsl.algorithms.posterior.family_space import family_space, with_prior
from fedbnsl.algorithms.posterior.sampling import Posterior, largest_r_hat, sample_posterior
from fedbnsl.algorithms.score.discrete import score_rows
from fedbnsl.algorithms.score.settings import ScoreSettings
from fedbnsl.algorithms.statistics.count_tables import count
from fedbnsl.algorithms.statistics.moments import SummedMomentsWithin
from tests.algorithms.score.small_dags import all_dags

NAMES = ("a", "b", "c", "d", "e")
D = len(NAMES)
NO_EDGES = np.zeros((D, D), bool)


def numbers(seed, n, d=D, density=0.5):
    """The posterior of rows of a linear model on a random DAG of `d` variables in shuffled order."""
    rng = np.random.default_rng(seed)
    weights = np.triu(rng.random((d, d)) < density, 1) * rng.uniform(0.2, 0.9, (d, d))
    rows = (rng.standard_normal((n, d)) @ np.linalg.inv(np.eye(d) - weights))[:, rng.permutation(d)]
    rows = (rows - rows.mean(axis=0)) * rng.uniform(0.1, 10, d)
    return gaussian_posterior(SummedMomentsWithin(n, np.zeros(d), rows.T @ rows / n), 1)


def bge(posterior, v, parents):
    """Kuipers, Moffa & Heckerman 2014 by determinants, with the prior of the number of parents."""
    n, p, d, R = posterior.rows, len(parents), len(posterior.R), posterior.R

    def logdet(members):
        return np.linalg.slogdet(R[np.ix_(members, members)])[1] if members else 0.0

    a = 2 + p + 1  # α_w − d + p + 1
    score = -n / 2 * log(pi) + 0.5 * log(1 / (n + 1)) + lgamma((n + a) / 2) - lgamma(a / 2)
    score += (a * (p + 1) - (a - 1) * p) / 2 * log(0.5)
    score += (n + a - 1) / 2 * logdet(list(parents)) - (n + a) / 2 * logdet([*parents, v])
    return score - log(comb(d - 1, p))


def scored(posterior, candidates, prior=None):
    prior = prior or no_prior(D)
    space = family_space(NO_EDGES, np.abs(posterior.R), prior, candidates)
    return space, with_prior(bge_scores(posterior, space), space, prior)


def exact(space, scores):
    """The posterior of every DAG, by its bytes."""
    by_parents = {
        (v, space.parents(v, mask, slot)): scores[v, mask, slot]
        for v in range(D)
        for mask in range(space.shape[1])
        for slot in range(space.shape[2])
        if np.isfinite(scores[v, mask, slot])
    }
    dags, totals = all_dags(D), []
    for dag in dags:
        families = [(v, tuple(np.flatnonzero(dag[:, v]).tolist())) for v in range(D)]
        totals.append(sum(by_parents.get(family, -np.inf) for family in families))
    weights = np.exp(np.array(totals) - max(totals))
    return dict(zip((dag.tobytes() for dag in dags), weights / weights.sum(), strict=True))


def distance(dags, expected):
    """The total variation distance of the shares of the sampled `dags` from the `expected` distribution."""
    shares = dict.fromkeys(expected, 0.0)
    for dag in dags:
        shares[dag.tobytes()] += 1 / len(dags)
    return sum(abs(shares[key] - expected[key]) for key in expected) / 2


@pytest.mark.parametrize("candidates", [4, 2, 1])
def test_every_family_has_its_bge_score(candidates):
    posterior = numbers(0, 60)
    space, scores = scored(posterior, candidates)
    assert space.shape == (D, 1 << candidates, D - candidates)
    for v in range(D):
        for mask in range(space.shape[1]):
            for slot in range(space.shape[2]):
                expected = bge(posterior, v, space.parents(v, mask, slot))
                assert scores[v, mask, slot] == pytest.approx(expected, abs=1e-8)


def test_equivalent_graphs_have_equal_scores_and_units_do_not_matter():
    rows = np.random.default_rng(1).standard_normal((80, 3)) @ [[1, 0.5, 0], [0, 1, 2], [0, 0, 1]]
    rows = rows - rows.mean(axis=0)
    ours, scaled = (
        gaussian_posterior(SummedMomentsWithin(80, np.zeros(3), x.T @ x / 80), 1) for x in (rows, rows * [1, 1e3, 1e-4])
    )
    for one in (ours, scaled):
        chain = bge(one, 0, ()) + bge(one, 1, (0,)) + bge(one, 2, (1,))
        fork = bge(one, 1, ()) + bge(one, 0, (1,)) + bge(one, 2, (1,))
        assert chain == pytest.approx(fork, abs=1e-8)
        assert chain == pytest.approx(bge(ours, 0, ()) + bge(ours, 1, (0,)) + bge(ours, 2, (1,)), abs=1e-8)


@pytest.mark.compiles
@pytest.mark.parametrize(
    ("seed", "rows", "candidates"), [(1, 1000, 4), (4, 5000, 3), (5, 10_000, 2), (3, 200, 2), (7, 10_000, 4)]
)
def test_sampled_graphs_have_their_exact_probabilities(seed, rows, candidates):
    """The total variation from the enumeration of all 29,281 DAGs is at most .02."""
    space, scores = scored(numbers(seed, rows), candidates)
    found = sample_posterior(scores, space, NO_EDGES, 10_000, np.random.default_rng(0))
    expected = exact(space, scores)
    error = np.sqrt(np.array(list(expected.values()))).sum() / np.sqrt(2 * np.pi * 10_000)
    assert distance(found.dags, expected) <= max(0.02, 1.5 * error)
    edges = sum(share * np.frombuffer(key, bool).reshape(D, D) for key, share in expected.items())
    np.testing.assert_allclose(found.dags.mean(axis=0), edges, atol=0.025)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_many_graphs_are_within_two_hundredths_of_the_enumeration(seed):
    space, scores = scored(numbers(seed, 1000), 4)
    found = sample_posterior(scores, space, NO_EDGES, 100_000, np.random.default_rng(seed))
    assert distance(found.dags, exact(space, scores)) <= 0.02


def test_background_knowledge_holds_in_every_graph():
    known = Knowledge(required=(("a", "b"), ("c", "b")), forbidden=(("d", "e"), ("e", "d"), ("a", "c")))
    prior = known.prior(NAMES)
    space, scores = scored(numbers(2, 300), 2, prior)
    found = sample_posterior(scores, space, NO_EDGES, 5000, np.random.default_rng(0))
    assert found.dags[:, prior.required].all()
    assert not found.dags[:, ~prior.possible].any()
    assert distance(found.dags, exact(space, scores)) <= 0.05


def test_more_required_parents_than_a_family_has_are_an_error():
    known = Knowledge(required=tuple((one, "e") for one in "abc"))
    with pytest.raises(BadInput, match="requires 3 parents of one variable"):
        scored(numbers(2, 300), 1, known.prior(NAMES))


def test_chains_from_different_starts_agree_on_twenty_variables():
    d = 20
    posterior, prior = numbers(11, 2000, d, 0.15), no_prior(d)
    space = family_space(np.zeros((d, d), bool), np.abs(np.linalg.inv(posterior.R)), prior)
    scores = with_prior(bge_scores(posterior, space), space, prior)
    found = [
        sample_posterior(scores, space, np.zeros((d, d), bool), 300, np.random.default_rng(seed)) for seed in (0, 1)
    ]
    assert all(one.r_hat < 1.05 for one in found)
    assert np.abs(found[0].dags.mean(axis=0) - found[1].dags.mean(axis=0)).max() < 0.2


def test_r_hat_sees_chains_that_disagree():
    alike = np.random.default_rng(0).random((200, 3, 2, 2)) < 0.5
    apart = alike.copy()
    apart[:, 0] = True
    assert largest_r_hat(alike) < 1.05 < largest_r_hat(apart)
    one_sided = np.zeros((200, 3, 2, 2), bool)
    one_sided[:, 0] = True
    assert largest_r_hat(one_sided) == np.inf


def test_labels_have_the_bdeu_scores_of_their_rows():
    rng, levels = np.random.default_rng(3), np.array([2, 3, 2, 4, 3])
    columns = np.array([rng.integers(0, r, 200) for r in levels], np.int16)
    space = family_space(NO_EDGES, rng.random((D, D)), no_prior(D), 2)
    families = counted_families(space, levels)
    scores = bdeu_scores(count(columns, levels, families.sets), families, space, levels, 2.0)
    own = score_rows(columns, levels, families.batch, ScoreSettings(ess=2.0, expected_parents=0))
    prices = [log(comb(D - 1, len(families.batch.family(m)[1]))) for m in range(len(families.batch))]
    np.testing.assert_allclose(scores[families.place], own - prices, atol=1e-8)


def test_tables_of_many_levels_are_smaller_or_refused():
    space = family_space(np.zeros((12, 12), bool), np.zeros((12, 12)), no_prior(12), 8)
    few, many = (counted_families(space, np.full(12, levels)) for levels in (2, 12))
    assert few.sets.shape[1] == 5
    assert many.sets.shape[1] < 4
    with pytest.raises(BadInput, match="more than 500,000"):
        counted_families(space, np.full(12, 150))


def test_drawn_weights_have_the_posterior_of_the_regression():
    """Mean and covariance of a multivariate t with α_w + N − d + p + 1 degrees of freedom."""
    posterior = numbers(6, 40)
    dag = NO_EDGES.copy()
    dag[[0, 3], 2] = True
    drawn = posterior.drawn_weights(np.stack([dag] * 20_000), np.random.default_rng(0))[:, [0, 3], 2]
    A, scales = [0, 3], posterior.scales
    inverse = np.linalg.inv(posterior.R[np.ix_(A, A)])
    mean = inverse @ posterior.R[A, 2]
    residual = posterior.R[2, 2] - posterior.R[2, A] @ mean
    units = scales[2] / scales[A]
    covariance = residual * inverse / (posterior.rows + 2 + 3 - 2) * np.outer(units, units)
    np.testing.assert_allclose(drawn.mean(axis=0), mean * units, atol=4 * np.sqrt(covariance.max() / 20_000))
    np.testing.assert_allclose(np.cov(drawn.T), covariance, rtol=0.1, atol=0.02 * covariance.max())


def test_paths_and_effects_follow_from_the_graphs():
    weights = np.zeros((2, 3, 3))
    weights[0, 0, 1], weights[0, 1, 2], weights[1, 0, 2] = 2.0, 3.0, -1.0
    found = Posterior(("a", "b", "c"), weights, True, 1.0, 1)
    assert found.edges[0].tolist() == [0.0, 0.5, 0.5]
    assert found.paths[0].tolist() == [0.0, 0.5, 1.0]
    assert found.effects[:, 0, 2].tolist() == [6.0, -1.0]
    assert found.joined[2, 0] == 0.5
    assert found.effect_quantiles(0, 2)[0] == 2.5
    assert Posterior(("a", "b", "c"), weights, False, 1.0, 1).effect_quantiles(0, 2) is None


def test_a_partition_has_the_layers_of_its_longest_paths():
    for dag in all_dags(4)[::17]:
        layers = partition_sampler.layers_of(dag)
        for v, w in combinations(range(4), 2):
            assert not dag[v, w] or layers[v] < layers[w]
            assert not dag[w, v] or layers[w] < layers[v]
        for v in range(4):
            parents = np.flatnonzero(dag[:, v])
            assert layers[v] == (layers[parents].max() + 1 if len(parents) else 0)
