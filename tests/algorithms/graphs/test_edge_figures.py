"""The p-values of a search with the figures of edges, and the number of digits that are published."""

import pytest

from fedbnsl.algorithms.graphs.edge_figures import EdgeFigures, known_figures, with_largest_p_values

KEYS = ("a", "b", 0), ("b", "c", 1)


def test_numbers_keep_three_digits_and_labels_the_power_of_ten_above():
    figures = {KEYS[0]: EdgeFigures(log_likelihood=3.0)}
    p = {KEYS[0]: 0.0123456, KEYS[1]: 0.0}
    exact = with_largest_p_values(figures, p, magnitude=False)
    assert exact == {KEYS[0]: EdgeFigures(3.0, largest_p_value=0.0123), KEYS[1]: EdgeFigures(largest_p_value=0.0)}
    bound = with_largest_p_values(figures, p, magnitude=True)
    assert bound[KEYS[0]].largest_p_value == pytest.approx(0.1)
    assert bound[KEYS[1]].largest_p_value == pytest.approx(1e-300)


@pytest.mark.parametrize(("p", "bound"), [(1e-4, 1e-4), (1.01e-4, 1e-3), (0.9, 1.0)])
def test_the_bound_is_never_below_the_p_value(p, bound):
    assert with_largest_p_values({}, {KEYS[0]: p}, magnitude=True)[KEYS[0]].largest_p_value == pytest.approx(bound)


def test_only_figures_that_an_edge_has_are_columns():
    assert known_figures({}) == ()
    assert known_figures({KEYS[0]: EdgeFigures(bic=0.0), KEYS[1]: EdgeFigures(score=1.0)}) == ("bic", "score")
