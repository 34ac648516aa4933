"""The E-step from the precision of all columns equals that from the precisions of the observed columns."""

import numpy as np
import pytest

from fedbnsl.algorithms.statistics import expected_moments
from fedbnsl.algorithms.statistics.expected_moments import observed_precision


@pytest.mark.parametrize("missing", [0, 1, 5, 12, 29])
def test_the_precision_of_observed_columns_is_the_same_both_ways(missing):
    rng = np.random.default_rng(missing)
    R = np.corrcoef(rng.normal(size=(200, 30)) @ rng.normal(size=(30, 30)), rowvar=False)
    observed = np.ones(30, np.bool_)
    observed[rng.choice(30, missing, replace=False)] = False
    direct = observed_precision(R, np.empty((0, 0)), observed)
    assert np.allclose(direct[np.ix_(observed, observed)] @ R[np.ix_(observed, observed)], np.eye(30 - missing))
    assert np.allclose(observed_precision(R, np.linalg.inv(R), observed), direct, rtol=1e-6, atol=1e-9)
    assert not direct[~observed].any()


def test_an_imprecise_inverse_is_not_used():
    rows = np.random.default_rng(0).normal(size=(50, 4))
    rows[:, 1] = rows[:, 0] + 1e-5 * rows[:, 1]
    assert not len(expected_moments.inverse_of_all(np.corrcoef(rows, rowvar=False)))
    assert len(expected_moments.inverse_of_all(np.eye(3)))
    assert not len(expected_moments.inverse_of_all(np.zeros((2, 2))))
