"""Gaussian networks as JSON are read back as written, and contradictory files are refused."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters.network_json import gaussian_from_json
from fedbnsl.algorithms.parameters.networks import GaussianNetwork


def network(d, seed):
    rng = np.random.default_rng(seed)
    order = rng.permutation(d)
    weights = np.triu(rng.normal(size=(d, d)) * (rng.random((d, d)) < 0.5), 1)[np.ix_(order, order)]
    names = tuple(f"v {number}" for number in range(d))
    return GaussianNetwork(Structure(names, weights), rng.normal(size=d), rng.exponential(size=d))


@given(st.integers(1, 7), st.integers(0, 2**32))
@settings(max_examples=50, deadline=None)
def test_what_is_written_is_read_back_bit_for_bit(d, seed):
    written = network(d, seed)
    read = gaussian_from_json(json.loads(json.dumps(written.as_json())), "n.json")
    assert read.structure.variables == written.structure.variables
    for one, other in (
        (read.structure.weights, written.structure.weights),
        (read.intercepts, written.intercepts),
        (read.variances, written.variances),
    ):
        np.testing.assert_array_equal(one, other)


def test_arcs_without_coefficients_are_refused():
    content = network(4, 1).as_json()
    content["arcs"] = content["arcs"][1:]
    with pytest.raises(BadInput, match=r"n\.json: the arcs do not match the coefficients"):
        gaussian_from_json(content, "n.json")
