"""A silo's summand leaves room for those of all other silos, and the silos' secrets differ."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import Summand
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.secure import participant
from fedbnsl.algorithms.secure.masked_round import Encoding, check_range, encoding_of, masked_round
from fedbnsl.algorithms.secure.masks import Aborted, SecureSession
from fedbnsl.algorithms.secure.messages import public_keys


class TestRange:
    @pytest.mark.parametrize(("epsilon", "value"), [(0.0, 2.0**30), (1.0, 2**62)])
    def test_is_that_of_one_summand_among_all(self, epsilon, value):
        """Sums reach 2³¹ for fixed-point numbers and 2⁶³ for integers; for three silos, half of that is too large."""
        algorithm = registry.build(registry.specify("secure-sum", {"epsilon": epsilon} if epsilon else {}))
        reply = Summand(np.array([value], np.int64 if epsilon else np.float64))
        vector = algorithm.summand(reply)
        assert len(Encoding(1, algorithm.whole_numbers).encode(vector)) == 1
        with pytest.raises(BadInput, match="so that a sum of 3 cannot overflow"):
            Encoding(3, algorithm.whole_numbers).encode(vector)


class TestColumns:
    @pytest.mark.parametrize(("size", "fits"), [(2.0**-9, False), (2.0**-7, True), (2.0**11, True), (2.0**13, False)])
    def test_too_small_and_too_large_ones_are_refused(self, size, fits):
        """Without units, mean squares are from 2⁻¹⁶ to 2²⁴; the message names the column and not the value."""
        table, schema = np.array([[1.0, size], [-1.0, -size]]), Schema(("a", "b"), {"s": 2})
        algorithm = registry.build(registry.specify("secure-sum"))
        if fits:
            check_range(algorithm, table, schema, "s")
            return
        with pytest.raises(BadInput, match="silo s, column 'b': its mean square does not fit"):
            check_range(algorithm, table, schema, "s")


def test_the_formula_counts_the_vectors_of_those_that_sent_one(lab):
    """By the papers' formula all silos get the broadcast, and a silo that is lost before phase 3 sends no vector."""
    silos = lab.silos(lab.vectors(5), {"mask": {"silo 03"}})
    algorithm = SimpleNamespace(cost=lambda broadcast: 7)
    replies, traffic = masked_round(algorithm, lab.session(5), silos, None, 0, Encoding(5, whole=True))
    assert len(replies.silos) == 4
    assert traffic.formula == 5 * 7 + 4 * 8 * len(replies.total)


class TestKeys:
    def test_each_secret_of_a_session_has_its_own_commitment(self, lab):
        """What is revealed after a dropout, the shares of the escrow key, must not be those of the self-mask's seed."""
        session = SecureSession("run", 1, 1, ("a", "b", "c"), 2)
        _, answer = participant.advertise(session, "a", bytes(range(32)), lab.key("a"))
        keys = public_keys(answer, "a")
        assert len({keys.agreement, keys.seed, keys.escrow}) == 3
        state, _ = participant.advertise(session, "a", bytes(range(32)), lab.key("a"))
        assert participant._secrets(state).seed != participant._secrets(state).escrow


class TestCounts:
    def test_need_the_smallest_ring_that_holds_all_rows(self):
        """Counts of tables have the number of all rows as their bound; second moments and noisy counts have none."""
        levels = {"a": ("x", "y"), "b": ("x", "y")}
        schema = Schema(("a", "b"), {"s": 300, "t": 200}, "discrete", levels)
        for name in ("secure-boss", "fed-pc"):
            algorithm = registry.build(registry.specify(name))
            broadcast = algorithm.broadcast(algorithm.open_server(schema))
            assert encoding_of(algorithm, schema, broadcast).greatest == 500
            few = replace(schema, rows={"s": 30, "t": 20})
            assert encoding_of(algorithm, few, broadcast).encode(np.array([50.0])).dtype == np.uint8
        private = registry.build(registry.specify("fed-pc", {"epsilon": 1.0}))
        assert encoding_of(private, schema, private.broadcast(private.open_server(schema))).greatest is None
        numbers = Schema(("a", "b"), {"s": 300, "t": 200})
        moments = registry.build(registry.specify("secure-boss"))
        assert encoding_of(moments, numbers, moments.broadcast(moments.open_server(numbers))).greatest is None

    def test_a_sum_in_another_ring_is_no_sum_of_this_round(self):
        encoding = Encoding(2, whole=True, greatest=70_000)
        assert encoding.decode(np.array([7], np.uint32)).tolist() == [7]
        with pytest.raises(Aborted, match="the silos sent uint16, but this sum needs uint32"):
            encoding.decode(np.array([7], np.uint16))
