import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.compare import compare, compare_lagged
from fedbnsl.algorithms.graphs.structure import Structure

NAMES = tuple("dbca")


def dynamic(seed, lags=2, density=0.3, scores=False):
    rng = np.random.default_rng(seed)
    order = rng.permutation(4)
    W = (np.triu(rng.random((4, 4)) < 0.5, 1) * rng.uniform(0.3, 2, (4, 4)))[np.ix_(order, order)]
    A = (rng.random((lags, 4, 4)) < density) * rng.normal(size=(lags, 4, 4))
    strengths = rng.normal(size=A.shape).round(1) if scores else None
    return Structure(NAMES, W, lagged=A, lagged_scores=strengths)


def lagged(*entries, lags=1):
    A = np.zeros((lags, 4, 4))
    for k, i, j in entries:
        A[k, i, j] = 1.0
    return Structure(NAMES, np.zeros((4, 4)), lagged=A)


def test_a_case_made_by_hand():
    """Correct: the own pasts of d and b, and d → c. Extra: c → d and an edge of lag 2. Missing: the own past of a."""
    truth = lagged((0, 0, 0), (0, 1, 1), (0, 0, 2), (0, 3, 3))
    learned = lagged((0, 0, 0), (0, 1, 1), (0, 0, 2), (0, 2, 0), (1, 0, 2), lags=2)
    found = compare(learned, truth)
    expected = {"shd": 3, "edges": 5, "true_edges": 4, "correct": 3, "extra": 2, "missing": 1}
    expected |= {"tpr": 3 / 4, "fdr": 2 / 5, "precision": 3 / 5, "f1": 2 / 3}
    for name, value in expected.items():
        assert found[f"lagged_{name}"] == pytest.approx(value), name
    assert (found["shd"], found["edges"]) == (0, 0)


def test_a_turned_lagged_edge_is_one_too_many_and_one_too_few():
    found = compare(lagged((0, 0, 1)), lagged((0, 1, 0)))
    assert (found["lagged_shd"], found["lagged_extra"], found["lagged_missing"]) == (2, 1, 1)
    assert "lagged_reversed" not in found


def test_lags_that_are_not_there_are_empty():
    short, long = lagged((0, 0, 1)), lagged((0, 0, 1), (2, 0, 1), lags=3)
    assert compare(short, long)["lagged_missing"] == compare(long, short)["lagged_extra"] == 1
    static = Structure(NAMES, np.zeros((4, 4)))
    found = compare(static, long)
    assert (found["lagged_edges"], found["lagged_shd"], found["lagged_auroc"]) == (0, 2, 0.5)
    assert not [name for name in compare(static, static) if name.startswith("lagged")]


def test_without_own_lags_the_identity_has_learned_nothing():
    truth = lagged((0, 0, 0), (0, 1, 1), (0, 2, 2), (0, 3, 3), (0, 0, 1), (0, 2, 3))
    identity = Structure(NAMES, np.zeros((4, 4)), lagged=np.eye(4)[None])
    assert compare(identity, truth)["lagged_auroc"] == 0.5
    assert compare(identity, truth, own_lags=True)["lagged_auroc"] == pytest.approx(5 / 6)
    assert compare(identity, truth, own_lags=True)["lagged_shd"] == compare(identity, truth)["lagged_shd"] == 2


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 999), own=st.booleans(), lags=st.integers(1, 3), scores=st.booleans())
def test_the_ranking_is_that_of_scikit_learn(seed, own, lags, scores):
    metrics = pytest.importorskip("sklearn.metrics")
    learned, truth = dynamic(seed, lags, 0.5, scores), dynamic(seed + 1000, 2)
    most = max(lags, 2)
    strengths, true = np.zeros((most, 4, 4)), np.zeros((most, 4, 4), bool)
    strengths[:lags] = np.abs(learned.lagged_scores if scores else learned.lagged)
    true[:2] = truth.lagged != 0
    ranked = np.ones_like(true) if own else ~np.broadcast_to(np.eye(4, dtype=bool), true.shape)
    found = compare_lagged(learned, truth, own_lags=own)
    if true[ranked].any():
        assert found["lagged_auroc"] == pytest.approx(metrics.roc_auc_score(true[ranked], strengths[ranked]))
        assert found["lagged_aupr"] == pytest.approx(metrics.average_precision_score(true[ranked], strengths[ranked]))


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 999))
def test_nothing_is_nearer_than_itself(seed):
    one = dynamic(seed)
    found = compare(one, one)
    assert [found[name] for name in ("shd", "lagged_shd", "lagged_extra", "lagged_missing")] == [0, 0, 0, 0]
    assert found["lagged_tpr"] in (1.0, None)
    assert found["lagged_auroc"] in (1.0, None)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 999), order=st.permutations(NAMES), scores=st.booleans())
def test_the_order_of_the_variables_does_not_matter(seed, order, scores):
    learned, truth = dynamic(seed, 2, scores=scores), dynamic(seed + 1000, 1)
    expected = compare(learned, truth)
    for one, other in ((learned.reordered(order), truth), (learned, truth.reordered(order))):
        assert compare(one, other) == pytest.approx(expected)


def test_a_strength_that_is_no_number_is_refused():
    A = np.zeros((2, 4, 4))
    A[1, 0, 3] = np.nan
    learned = Structure(NAMES, np.zeros((4, 4)), lagged=np.zeros((2, 4, 4)), lagged_scores=A)
    with pytest.raises(BadInput, match=r"strength of d\[t-2\] -> a is NaN"):
        compare(learned, lagged((0, 0, 1)))
