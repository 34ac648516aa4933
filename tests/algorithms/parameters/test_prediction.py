"""Predictions of empty cells against enumeration, regressions, integrals and queries."""

import numpy as np
import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.parameters.inference import NetworkQuery, answer
from fedbnsl.algorithms.parameters.prediction import predictions
from tests.algorithms.parameters.networks import discrete, exact, mixed, normal

RNG = np.random.default_rng


def test_numbers_are_predicted_by_the_cells_that_are_there():
    network = normal()
    table = np.array([[2.0, np.nan, -3.0], [np.nan, np.nan, 1.0], [0.0, 1.0, 2.0], [1.0, np.nan, 4.0]])
    found = predictions(network, table, ("y", "x"), RNG(0))
    assert found["y"].rows.tolist() == [0, 1, 3]
    for row, best, sd in zip(found["y"].rows, found["y"].best, found["y"].certainty, strict=True):
        given = {name: table[row, v] for v, name in enumerate("xyz") if not np.isnan(table[row, v])}
        expected = answer(network, NetworkQuery(("y",), given=given))
        assert (best, sd) == (pytest.approx(expected.mean), pytest.approx(expected.sd))
    assert found["x"].rows.tolist() == [1]


def test_labels_are_predicted_from_their_markov_blanket_or_by_a_query():
    network = discrete(3)
    table = np.array([[0, np.nan, 1, 1], [1, np.nan, 0, 0], [np.nan, np.nan, 1, 0], [np.nan, 2, 1, 0]])
    found = predictions(network, table, ("a",), RNG(0))["a"]
    given = [{"c": "low", "b": "yes", "e": "1"}, {"c": "high", "b": "no", "e": "0"}, {"b": "yes", "e": "0"}]
    assert found.rows.tolist() == [0, 1, 2]
    for k, one in enumerate(given):
        shares = exact(network, ("a",), one)
        assert found.best[k] == shares.argmax()
        assert found.certainty[k] == pytest.approx(shares.max(), abs=1e-12)


def test_a_number_with_a_label_below_it_is_integrated():
    found = predictions(mixed(), np.array([[1.0, np.nan, 1.0], [0.0, np.nan, 0.0]]), ("x",), RNG(0))["x"]
    x = np.linspace(-8, 12, 20001)
    for k, (mean, offset, sign) in enumerate([(3, 0.5, 1), (1, 0, -1)]):
        weights = np.exp(-((x - mean) ** 2)) / (1 + np.exp(-sign * (0.8 * x + offset - 1)))
        expected = (weights @ x) / weights.sum()
        assert found.best[k] == pytest.approx(expected, abs=1e-6)
        assert found.certainty[k] == pytest.approx(np.sqrt(weights @ (x - expected) ** 2 / weights.sum()), abs=1e-6)


def test_rows_with_several_unknown_labels_and_numbers_are_sampled():
    found = predictions(mixed(), np.array([[np.nan, np.nan, 1.0]] * 2), ("g", "x"), RNG(0))
    expected = answer(mixed(), NetworkQuery(("x",), given={"h": "yes"}), RNG(5))
    assert found["x"].best[0] == pytest.approx(expected.mean, abs=0.05)
    assert found["x"].best[0] == found["x"].best[1]
    assert found["g"].best.tolist() == [0, 0]


def test_a_row_that_the_model_calls_impossible_has_no_prediction():
    network = discrete()
    network.tables["e"][:, :, :] = [1.0, 0.0]
    table = np.array([[0, np.nan, 1, 1], [np.nan, np.nan, 1, 1], [0, np.nan, 1, 0]])
    found = predictions(network, table, ("a",), RNG(0))["a"]
    assert np.isnan(found.best[:2]).all()
    assert np.isnan(found.certainty[:2]).all()
    assert not np.isnan(found.best[2])


def test_an_unknown_variable_is_refused():
    with pytest.raises(BadInput, match="there is no variable 'q'"):
        predictions(normal(), np.zeros((2, 3)), ("q",), RNG(0))
