"""Unusual public numbers from a coordinator are refused, or reveal no record by the failure of a round."""

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.admm.consensus import change_between
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.dp_fed_sparse.silo import Broadcast
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.moments import summed
from fedbnsl.algorithms.statistics.count_tables import count, offsets

SCHEMA = Schema(("a", "b", "c"), {"s": 40, "t": 40})
ODD = (0.0, -1.0, 1e-40, 1e40, np.inf, np.nan)


def solve(name, table, broadcast):
    algorithm = registry.build(registry.specify(name, {"epsilon": 1.0}))
    silo = algorithm.open_silo(table, SCHEMA, "s", np.random.default_rng(0))
    return algorithm.local_solve(algorithm.private.with_key(silo, bytes(32)), broadcast)[1]


def steps_from(W, scales=(1.0, 1.0, 1.0), spread=(1.0, 1.0, 1.0)):
    return Broadcast(np.array(scales), np.array(spread), change_between(np.zeros((3, 3)), W), np.arange(3))


@pytest.mark.parametrize("record", [0.0, 5.0])
def test_weights_that_make_the_residual_of_one_record_infinite(record):
    """1e308·5 − 1e308·5 is NaN: without the check, the round would fail only if the record is present."""
    table, W = np.random.default_rng(0).uniform(-1, 1, (40, 3)), np.zeros((3, 3))
    table[0], W[0, 2], W[1, 2] = record, 1e308, -1e308
    with pytest.raises(BadInput, match="the broadcast has weights above 1e\\+06"):
        solve("dp-fed-sparse", table, steps_from(W))


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("place", ["scales", "spread"])
def test_scales_of_steps(place, odd):
    with pytest.raises(BadInput, match="a scale is not from 1e-30 to 1e\\+30"):
        solve("dp-fed-sparse", np.ones((40, 3)), steps_from(np.zeros((3, 3)), **{place: (1.0, odd, 1.0)}))


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", ["secure-sum", "dp-covariance"])
def test_scales_of_second_moments(name, odd):
    with pytest.raises(BadInput, match="a scale is not from 1e-30 to 1e\\+30"):
        solve(name, np.ones((40, 3)), summed.Broadcast(np.array([1.0, odd, 1.0])))


def test_tables_whose_number_of_cells_would_overflow():
    """2⁶⁴ cells overflow to 0: such a query would be free, and would write beyond the end of the table."""
    sets, cardinalities = np.arange(64, dtype=np.int16)[None], np.full(64, 2)
    for call in (lambda: offsets(sets, cardinalities), lambda: count(np.zeros((64, 3), np.int16), cardinalities, sets)):
        with pytest.raises(BadInput, match="the count tables would have more than 2\\^40 cells"):
            call()


@pytest.mark.parametrize("odd", [[[0, 3]], [[-2, 1]], [[-1, 1]], [[1, 0]], [[1, 1]], [[-1, -1]], [[0, -1], [2, -2]]])
def test_sets_that_are_not_sets_of_variables(odd):
    """Compiled code does not check its indices: such a set would count, or write, outside the tables."""
    with pytest.raises(BadInput, match="is not one of increasing variables followed by padding"):
        count(np.zeros((3, 5), np.int16), np.array([2, 2, 4]), np.array(odd, np.int16))


@pytest.mark.parametrize("wrong", [1, 2, 4])
@pytest.mark.parametrize("name", ["secure-sum", "dp-covariance", "dp-fed-sparse"])
def test_another_number_of_scales_gives_no_reply(name, wrong):
    scales = np.ones(wrong)
    asked = steps_from(np.zeros((3, 3)), scales, scales) if name == "dp-fed-sparse" else summed.Broadcast(scales)
    with pytest.raises((BadInput, IndexError, ValueError)):
        solve(name, np.random.default_rng(0).normal(size=(40, 3)), asked)
