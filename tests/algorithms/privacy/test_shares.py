"""Shares of noise: after drop-outs, and after a silo subtracts its own share, the rest still suffices for ε."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.constraint.fed_pc import privacy_plan
from fedbnsl.algorithms.constraint.orientation import PC
from fedbnsl.algorithms.core.promise import Cost, ReplaceOne
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.moments import secure_sum
from fedbnsl.algorithms.privacy.gram import gram_sensitivity
from fedbnsl.algorithms.privacy.private_scales import counts_sensitivity
from fedbnsl.algorithms.privacy.zcdp import epsilon, guaranteed_shares, share_variance
from fedbnsl.algorithms.secure.masks import default_threshold

SILOS = st.integers(2, 40)


def schema_of(silos):
    return Schema(("a", "b", "c"), {f"s{k:02}": 500 for k in range(silos)})


def seen_by_a_silo(silos, settings):
    """The ε against a silo that subtracts its own share, after the maximum number of drop-outs."""
    schema, shares = schema_of(silos), secure_sum.secure_sum_plan(settings, schema_of(silos))
    left = max(default_threshold(silos) - 1, 1)
    rho = Fraction(gram_sensitivity(shares.bits)) ** 2 / (2 * left * shares.gram_variance)
    rho += Fraction(counts_sensitivity(3)) ** 2 / (2 * left * shares.count_variance)
    return epsilon(Cost(float(rho), ReplaceOne), settings.promise(schema, "").delta)


class TestASilo:
    @settings(max_examples=40, deadline=None)
    @given(SILOS)
    def test_that_subtracts_its_own_share_learns_no_more_than_was_promised(self, silos):
        found = seen_by_a_silo(silos, registry.specify("secure-sum", {"epsilon": 1.0}).settings)
        assert 0.9 < found <= 1.0 + 1e-3

    @pytest.mark.parametrize(("silos", "true"), [(2, 1.45), (3, 1.24)])
    def test_would_learn_more_if_it_was_trusted_with_it(self, silos, true):
        found = seen_by_a_silo(silos, registry.specify("secure-sum", {"epsilon": 1.0, "colluders": 0}).settings)
        assert found == pytest.approx(true, abs=0.02)

    @given(SILOS)
    def test_costs_one_share(self, silos):
        alone, watched = guaranteed_shares(silos, 0)[0], guaranteed_shares(silos, 1)[0]
        assert (alone, watched) == (default_threshold(silos), default_threshold(silos) - 1)

    @pytest.mark.parametrize("silos", [2, 3, 8])
    def test_of_fed_pc_as_well(self, silos):
        settings = registry.specify("fed-pc", {"epsilon": 1.0}).settings
        plan = privacy_plan(settings, PC, schema_of(silos).rows)
        assert plan.certain_shares == default_threshold(silos) - 1
        assert plan.variance(3, 12) >= share_variance(6**0.5, plan.exchange_cost, plan.certain_shares, 64)


class TestWhatIsSaid:
    def test_against_a_silo_by_default(self):
        for name in ("secure-sum", "fed-pc"):
            algorithm = registry.build(registry.specify(name, {"epsilon": 1.0}))
            assert algorithm.private.promise(schema_of(8)).protects == (
                "from everyone, including any other silo, which knows its own noise, as long as 6 of 8 silos follow "
                "the protocol"
            )

    def test_not_against_a_silo_with_no_colluders(self):
        assert guaranteed_shares(8, 0) == (
            6,
            "from the coordinator and readers of the result, but not from another silo, which knows its own noise, "
            "as long as 6 of 8 silos follow the protocol",
        )

    def test_of_more(self):
        assert guaranteed_shares(9, 3)[0] == 4

    def test_colluders_who_see_single_vectors(self):
        assert guaranteed_shares(64, 19)[0] == default_threshold(64) - 19 == 24
        assert [guaranteed_shares(64, colluders)[0] for colluders in (20, 30, 42)] == [1, 1, 1]
        assert guaranteed_shares(32, 20)[0] == default_threshold(32) - 20 == 2

    def test_including_others(self):
        assert "including any 3 other silos together" in guaranteed_shares(9, 3)[1]

    def test_too_many(self):
        with pytest.raises(BadInput, match="parameter colluders is 2: of 2 guaranteed shares none would remain"):
            guaranteed_shares(2, 2)

    def test_one_silo_has_nobody_beside_it(self):
        assert guaranteed_shares(1, 1) == (1, "from everyone but the silo that has the record")


def test_a_release_of_its_own_rests_on_one_share():
    settings = registry.specify("dp-covariance", {"epsilon": 1.0}).settings
    assert secure_sum.dp_covariance_plan(settings, schema_of(8)).silos == 1
