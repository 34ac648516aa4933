"""The units of masked sums are powers of two near the columns' deviations, for every kind of summand."""

from dataclasses import replace

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import gather, rounds
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.secure import masked_round
from fedbnsl.algorithms.statistics.moments import (
    Units,
    build,
    column_units,
    moment_units,
    pooled_moments,
    product_units,
    units_of,
)
from fedbnsl.algorithms.statistics.packing import triangle
from fedbnsl.tasks.transport.in_process import InProcessFederation, federate

SCALE = np.array([1e-6, 1.0, 1e6, 3e-3])


def tables(seed=0, silos=3, rows=50):
    rng = np.random.default_rng(seed)
    return {f"s{k}": rng.normal(size=(rows + 7 * k, 4)) * SCALE for k in range(silos)}


def found_units(federation):
    (only,) = rounds(build(Units()), federation)
    return units_of(only.server)


def test_units_are_powers_of_two_near_the_deviations():
    found = found_units(federate(tables()))
    np.testing.assert_array_equal(np.log2(found), np.rint(np.log2(found)))
    assert (np.abs(np.log2(found / SCALE)) < 0.8).all()


def test_units_are_the_rounded_geometric_mean_over_the_silos():
    rng = np.random.default_rng(1)
    spread = {"a": 2.0, "b": 2.0**4, "c": 2.0**9}
    given = {}
    for silo, sd in spread.items():
        X = rng.normal(size=(40, 1))
        given[silo] = (X - X.mean()) / X.std() * sd + 1000
    assert found_units(federate(given)).tolist() == [2.0**5]


def test_a_constant_column_has_unit_one_and_means_do_not_matter():
    given = tables()
    moved = {silo: table + 1e5 * SCALE for silo, table in given.items()}
    np.testing.assert_array_equal(found_units(federate(moved)), found_units(federate(given)))
    constant = {silo: np.column_stack([table, np.full(len(table), 0.1)]) for silo, table in given.items()}
    assert found_units(federate(constant))[-1] == 1.0


def test_a_lost_silo_does_not_count():
    given = tables(silos=3)
    given["s2"] = given["s2"] * 2.0**20
    algorithm, schema = build(Units()), federate(given).schema
    replies = {
        silo: algorithm.local_solve(algorithm.open_silo(given[silo], schema, silo, None), None)[1]
        for silo in ("s0", "s1")
    }
    found = units_of(algorithm.aggregate(algorithm.open_server(schema), gather(algorithm, replies)))
    np.testing.assert_array_equal(found, found_units(federate({silo: given[silo] for silo in ("s0", "s1")})))


def test_sizes_of_moments_follow_their_columns():
    units = np.array([2.0, 8.0, 0.5])
    X = np.random.default_rng(2).normal(size=(20, 3))
    np.testing.assert_allclose(pooled_moments(X * units), pooled_moments(X) * moment_units(units))
    np.testing.assert_allclose(triangle((X * units).T @ (X * units)), triangle(X.T @ X) * product_units(units))
    schema = replace(federate({"a": X}).schema, units=tuple(units))
    assert column_units(schema, 2).tolist() == [2, 8, 0.5] * 3


# Every algorithm that begins with a sum of second moments, on columns that no common unit fits.
IN_UNITS = sorted(
    name
    for name in registry.ALGORITHMS
    if "voting" not in name
    and "continuous" in registry.entry(name).kinds
    and registry.build(registry.specify(name)).entry_units is not None
)


def test_the_learners_from_second_moments_travel_in_units():
    assert {"secure-linear", "secure-lingam", "secure-sum", "secure-boss", "secure-ges", "fed-pc"} <= set(IN_UNITS)


@pytest.mark.parametrize("name", IN_UNITS)
def test_masked_in_units_is_unmasked(name):
    given = tables(3)
    schema = replace(federate(given).schema, units=tuple(found_units(federate(given))))
    algorithm = registry.build(registry.specify(name))
    broadcast = algorithm.broadcast(algorithm.open_server(schema))
    units = masked_round.encoding_of(algorithm, schema, broadcast).units
    hidden, _ = InProcessFederation(schema, given, secure=True).exchange(algorithm, 1, broadcast)
    plain, _ = InProcessFederation(schema, given).exchange(replace(algorithm, needs_secure_sum=False), 1, broadcast)
    assert len(np.unique(units)) > 4
    np.testing.assert_allclose(hidden.total / units, plain.total / units, atol=1e-8)
    with pytest.raises(BadInput, match="does not fit the fixed-point numbers"):
        federate(given).exchange(replace(algorithm, needs_secure_sum=True), 1, broadcast)


def test_a_step_without_units_and_a_run_that_asked_for_none_have_none():
    schema = federate(tables()).schema
    linear = registry.build(registry.specify("secure-linear"))
    asked = linear.broadcast(linear.open_server(schema))
    assert masked_round.encoding_of(linear, schema, asked).units is None
    sized = replace(schema, units=(1.0, 2.0, 4.0, 8.0))
    assert masked_round.encoding_of(replace(linear, entry_units=None), sized, asked).units is None
    assert masked_round.encoding_of(linear, sized, asked).units.tolist() == [1, 2, 4, 8, 4, 8, 16, 16, 32, 64]


def test_a_mean_too_far_away_is_refused_by_name():
    given = {silo: table / SCALE for silo, table in tables().items()}
    given["s1"][:, 2] += 1e9
    schema = replace(federate(given).schema, units=(1.0,) * 4)
    linear = registry.build(registry.specify("secure-linear"))
    with pytest.raises(BadInput, match=r"silo s1, column 'x2': its mean is so large"):
        list(rounds(linear, InProcessFederation(schema, given)))
    given["s1"][:, 2] -= 0.9e9
    *_, last = rounds(linear, InProcessFederation(schema, given))
    assert isinstance(linear.structure(last.server), Structure)
