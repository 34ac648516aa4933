"""Releases move by at most their stated sensitivity before noise, for any floats in a record."""

import math
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.dp_fed_sparse.clipping import huber, product
from fedbnsl.algorithms.dp_fed_sparse.silo import clip_to_scale, residuals
from fedbnsl.algorithms.dp_fed_sparse.step_noise import SLACK, shares_sensitivity, truncated_squares
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.moments import summed
from fedbnsl.algorithms.moments.summed import Broadcast
from fedbnsl.algorithms.privacy import gram, private_scales
from fedbnsl.tasks.transport.in_process import InProcessFederation

MOST, LEAST = np.finfo(float).max, 5e-324
D, ROWS = 3, 6
NAMES = ("a", "b", "c")
FLOATS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([MOST, -MOST, LEAST, -LEAST, 1e154, 1.4e154, 0.0, 1e-310]),
)
RECORDS = arrays(np.float64, D, elements=FLOATS)
REST = np.random.default_rng(0).normal(size=(ROWS - 1, D))
HUGE, MIXED_SIGNS, TINY = np.full(D, MOST), np.array([MOST, -MOST, 1.0]), np.full(D, LEAST)
CASES = {
    "continuous": Schema(NAMES, {"s": ROWS}),
    "mixed": Schema(NAMES, {"s": ROWS}, "mixed", {"c": ("no", "yes")}),
    "series": Schema(NAMES, {"s": ROWS}, "time-series", stretches={"s": (ROWS,)}),
}


def table_with(record, kind):
    """A table whose second row is `record`; the label of a mixed one is a code."""
    table = np.vstack([REST[:1], record, REST[1:]])
    if kind == "mixed":
        table[:, 2] = np.arange(ROWS) % 2
    return table


def summands(name, kind, record):
    """Return what a silo would add to both sums without its noise: bucket counts, and the triangle of products."""
    params = {"epsilon": 1.0, **({"protect": "row"} if kind == "series" else {})}
    params |= {"colluders": 0} if name == "secure-sum" else {}
    algorithm = registry.build(registry.specify(name, params))
    schema = CASES[kind]
    silo = algorithm.open_silo(table_with(record, kind), schema, "s", np.random.default_rng(0))
    of_scales = np.full(len(silo.measured), 1e-3)  # so small that the greatest float is infinite in its unit
    with patch.object(summed, "discrete_gaussian", lambda bits, variance, size: np.zeros(size, np.int64)):
        keyed = algorithm.private.with_key(silo, bytes(32))
        return [algorithm.local_solve(keyed, Broadcast(s))[1].values for s in (np.empty(0), of_scales)], silo


@pytest.mark.parametrize(
    ("name", "kind"),
    [("secure-sum", "continuous"), ("secure-sum", "mixed"), ("secure-sum", "series"), ("dp-covariance", "continuous")],
)
@settings(max_examples=60, deadline=None)
@given(RECORDS, RECORDS)
@example(HUGE, MIXED_SIGNS)
@example(MIXED_SIGNS, TINY)
@example(HUGE, -HUGE)
@example(np.array([1e154, 1.0, 0.0]), np.array([-1e154, 1e200, 0.0]))
def test_of_summed_moments(name, kind, one, other):
    (counts, moments), silo = summands(name, kind, one)
    (other_counts, other_moments), _ = summands(name, kind, other)
    group = 2 if kind == "series" else 1  # a row is in two windows of one lag
    assert (
        np.linalg.norm(counts - other_counts) <= group * private_scales.counts_sensitivity(silo.measured.sum()) * SLACK
    )
    i, j = np.triu_indices(len(silo.measured))
    twice = np.where(i == j, 1.0, 2.0)
    assert math.sqrt(twice @ (moments - other_moments).astype(float) ** 2) <= group * gram.gram_sensitivity(
        silo.plan.bits
    )


@settings(max_examples=100, deadline=None)
@given(RECORDS, RECORDS)
@example(HUGE, MIXED_SIGNS)
@example(TINY, HUGE)
@pytest.mark.filterwarnings("error:invalid")
def test_of_private_steps(one, other):
    """Gradients and the spread of residuals of dp-fed-sparse, under both ways of clipping."""
    scale, B = np.array([0.5, 1.0, 30.0]), np.array([[0.0, 0.7, -2.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0]])
    tables = [clip_to_scale(table_with(record, "continuous"), scale) for record in (one, other)]
    for clip in (huber(0.7 * scale, 0.7 * scale, scale, scale), product("product", 50.0, scale**2)):
        first, second = (clip.gradient(clip.factors(table), residuals(table, B), slice(None)) for table in tables)
        assert (np.abs(first - second) <= 2 * clip.reach / ROWS * SLACK).all()
    squares = [truncated_squares(residuals(table, B).T, 1.25 * scale) for table in tables]
    assert np.linalg.norm(squares[0] - squares[1]) <= shares_sensitivity(D, ROWS) * SLACK


@settings(max_examples=100, deadline=None)
@given(RECORDS, RECORDS)
@example(HUGE, TINY)
def test_of_clipped_mean_squares(one, other):
    caps = np.array([1e-150, 1.0, 1e150])
    with np.errstate(over="ignore"):
        squares = [truncated_squares(table_with(record, "continuous"), caps) for record in (one, other)]
    assert np.linalg.norm(squares[0] - squares[1]) <= shares_sensitivity(D, ROWS) * SLACK


def test_what_is_not_a_number_does_not_pass_the_clip():
    q = gram.clipped(np.array([[np.nan, 1.0, np.inf], [MOST, -MOST, MOST]]), np.full(3, 1e-9), 2.0, 12)
    norms = (q**2).sum(axis=1)
    assert (norms <= 4.0**12).all()
    assert (norms > 0.99 * 4.0**12).all()  # nor does it vanish: a long row has the maximum allowed weight


class TestMasksLookAtClippedValuesOnly:
    """Whether a record fits into fixed-point numbers must not be revealed without a charge."""

    def ask(self, table):
        schema = Schema(NAMES, {"s": 400, "t": 400})
        rest = np.random.default_rng(1).normal(size=(400, D))
        federation = InProcessFederation(schema, {"s": table, "t": rest}, secure=True)
        algorithm = registry.build(registry.specify("dp-fed-sparse", {"epsilon": 8.0, "rounds": 1}))
        federation.exchange(algorithm, 1, algorithm.broadcast(algorithm.open_server(schema)))
        return {silo: len(charges) for silo, charges in federation.charges().items()}

    @pytest.mark.parametrize("value", [1e9, MOST, 0.0])
    def test_a_private_run_goes_on(self, value):
        """One record of 1e9 makes the mean square too large for the masks, and a column of zeros too small."""
        table = np.random.default_rng(0).normal(size=(400, D))
        table[0 if value else slice(None), 1] = value
        assert self.ask(table) == {"s": 1, "t": 1}

    def test_an_exact_one_is_refused_without_the_figure(self):
        table = np.random.default_rng(0).normal(size=(400, D))
        table[0, 1] = 123456789.0
        schema = Schema(NAMES, {"s": 400, "t": 400})
        federation = InProcessFederation(schema, {"s": table, "t": table}, secure=True)
        algorithm = registry.build(registry.specify("fed-sparse"))
        with pytest.raises(BadInput) as refused:
            federation.exchange(algorithm, 1, algorithm.broadcast(algorithm.open_server(schema)))
        assert str(refused.value) == (
            "silo s, column 'b': its mean square does not fit the fixed-point numbers of a secure sum "
            "(1.53e-05 to 1.68e+07): use another unit or, if all rows of the silo are 0 there, leave the column out "
            "with --ignore b; if some numbers are wrong, --outliers set-aside treats outliers as empty cells"
        )
