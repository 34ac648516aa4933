"""AUROC and average precision against scikit-learn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from fedbnsl.algorithms.graphs.compare import auroc, average_precision

# few distinct values: ties everywhere
pairs = st.lists(
    st.tuples(st.one_of(st.sampled_from([0.0, 0.5, 1.0, 2.0]), st.floats(0, 1e6)), st.booleans()), min_size=2
)


@settings(deadline=None, max_examples=50)
@given(pairs)
def test_as_scikit_learn_says(drawn):
    strengths = np.array([strength for strength, _ in drawn])
    positive = np.array([label for _, label in drawn])
    if positive.any():
        assert average_precision(strengths, positive) == pytest.approx(average_precision_score(positive, strengths))
    if positive.any() and not positive.all():
        assert auroc(strengths, positive) == pytest.approx(roc_auc_score(positive, strengths))


def test_hand_made():
    strengths = np.array([3.0, 2.0, 2.0, 1.0])
    positive = np.array([True, True, False, False])
    assert auroc(strengths, positive) == pytest.approx((2 + 1.5) / 4)
    assert average_precision(strengths, positive) == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)


def test_undefined_without_positives_or_negatives():
    strengths = np.array([1.0, 2.0])
    none, every = np.zeros(2, dtype=bool), np.ones(2, dtype=bool)
    assert auroc(strengths, none) is None
    assert auroc(strengths, every) is None
    assert average_precision(strengths, none) is None
    assert average_precision(strengths, every) == 1
    nothing = np.zeros(0)
    assert auroc(nothing, nothing.astype(bool)) is None
    assert average_precision(nothing, nothing.astype(bool)) is None
