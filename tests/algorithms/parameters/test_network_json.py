"""Networks as JSON are read back as written, and contradictory files are refused."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters.network_json import network_as_json, network_from_json
from fedbnsl.algorithms.parameters.networks import linear_network
from tests.algorithms.parameters.networks import discrete, mixed


def network(d, seed):
    rng = np.random.default_rng(seed)
    order = rng.permutation(d)
    weights = np.triu(rng.normal(size=(d, d)) * (rng.random((d, d)) < 0.5), 1)[np.ix_(order, order)]
    names = tuple(f"v {number}" for number in range(d))
    return linear_network(Structure(names, weights), rng.normal(size=d), rng.exponential(size=d))


@given(st.integers(1, 7), st.integers(0, 2**32))
@settings(max_examples=50, deadline=None)
def test_what_is_written_is_read_back_bit_for_bit(d, seed):
    written = network(d, seed)
    read = network_from_json(json.loads(json.dumps(network_as_json(written))), "n.json")
    assert read.structure.variables == written.structure.variables
    for one, other in (
        (read.structure.weights, written.structure.weights),
        (read.intercepts, written.intercepts),
        (read.variances, written.variances),
    ):
        np.testing.assert_array_equal(one, other)


def test_arcs_without_coefficients_are_refused():
    content = network_as_json(network(4, 1))
    content["arcs"] = content["arcs"][1:]
    with pytest.raises(BadInput, match=r"n\.json: the arcs do not match the coefficients"):
        network_from_json(content, "n.json")


@pytest.mark.parametrize("written", [discrete(), mixed()], ids=["discrete", "mixed"])
def test_labels_are_read_back_with_their_tables_and_coefficients(written):
    content = json.loads(json.dumps(network_as_json(written)))
    read = network_from_json(content, "n.json")
    assert network_as_json(read) == content
    assert read.levels == written.levels
    assert read.parents == written.parents
    rows, _ = written.sample(50, np.random.default_rng(1))
    np.testing.assert_array_equal(read.log_likelihood(rows), written.log_likelihood(rows))


@pytest.mark.parametrize(
    "wrong",
    [
        {"nodes": ["g", "x", "h", "h"]},
        {"nodes": ["g", "x"]},
        {"variables": ["g"], "lags": 10**9},
        {"variables": ["g"], "lags": -4},
        {"levels": {"g": ["a", "b", "c"], "h": ["no", "yes"]}},
        {"levels": {"g": ["a", "b"]}},
        {"cpds": {}},
        {"adjustment": {"nothing": 1}},
    ],
    ids=str,
)
def test_content_that_does_not_fit_together_is_refused(wrong):
    with pytest.raises(BadInput, match=r"^n\.json: "):
        network_from_json(network_as_json(mixed()) | wrong, "n.json")
