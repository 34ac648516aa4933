import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbnsl.algorithms.core.promise import NO_SEED, SEEDED, Charge, Cost, Promise, Release, ReplaceOne
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.privacy.ledger import (
    Budget,
    ChargeRequest,
    MemoryLedger,
    Overspent,
    PrivateSettings,
    decide,
    spent,
)
from fedbnsl.algorithms.privacy.zcdp import budget

DELTA = 1e-6
costs = st.floats(1e-6, 0.2)


def promise(epsilon=1.0, broken=""):
    return Promise(epsilon, DELTA, budget(epsilon, DELTA, ReplaceOne), "from everyone", broken)


def request(number, rho, run="run", binding="broadcast", limit=math.inf, **promised):
    release = Release("a number", Cost(rho, ReplaceOne))
    budgets = (Budget(limit, DELTA),)
    return ChargeRequest(run, number, binding, (release,), promise(**promised), 1000, DELTA, budgets)


@given(st.lists(costs, min_size=1, max_size=30))
def test_a_run_never_spends_more_than_it_promised_and_stops_only_when_it_would(asked):
    ledger, allowed = MemoryLedger(), promise().cost.rho
    for number, rho in enumerate(asked, 1):
        before = sum(charge.rho for charge in ledger.charges())
        try:
            ledger.reserve(request(number, rho), b"key")
        except Overspent:
            assert before + rho > allowed
            assert sum(charge.rho for charge in ledger.charges()) == before
    assert spent(ledger.charges(), DELTA) <= 1.0 * (1 + 1e-6)


@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from("ab"), costs), max_size=20))
def test_all_runs_together_stay_within_the_budget(asked):
    ledger = MemoryLedger()
    for number, run, rho in asked:
        with suppress(Overspent):
            ledger.reserve(request(number, rho, run, limit=1.5, epsilon=1.2), b"key")
        assert spent(ledger.charges(), DELTA) <= 1.5 * (1 + 1e-6)


def test_the_same_round_again_is_the_same_charge_and_the_same_key():
    ledger = MemoryLedger()
    assert ledger.reserve(request(1, 0.01), b"first") == b"first"
    assert ledger.reserve(request(1, 0.01), b"second") == b"first"
    assert len(ledger.charges()) == 1


def test_the_same_round_for_another_broadcast_is_refused():
    ledger = MemoryLedger()
    ledger.reserve(request(1, 0.001), b"key")
    with pytest.raises(Overspent, match="round 1 of run run was charged for another broadcast"):
        ledger.reserve(request(1, 0.001, binding="another"), b"key")
    assert len(ledger.charges()) == 1


def test_a_refusal_names_round_and_figures():
    ledger = MemoryLedger()
    with pytest.raises(Overspent, match=r"round 7 would increase .* ρ = 5, above the 0\.0\d+ that its ε = 1 allows"):
        ledger.reserve(request(7, 5.0), b"key")
    with pytest.raises(
        Overspent, match=r"all runs on these rows would spend ε = 1 at the budget's δ = 1e-06, above the budget of 0\.2"
    ):
        ledger.reserve(request(7, 0.01, limit=0.2), b"key")


def test_a_run_that_cannot_be_afforded_to_its_end_is_refused_in_its_first_round():
    ledger = MemoryLedger()
    ledger.reserve(request(1, 0.02, epsilon=1.0, limit=1.2), b"key")
    with pytest.raises(Overspent, match="round 1: including this run"):
        ledger.reserve(request(1, 1e-9, run="another", epsilon=1.1, limit=1.2), b"key")
    ledger.reserve(request(1, 1e-9, run="another", epsilon=0.2, limit=1.2), b"key")


def test_a_broken_promise_costs_everything():
    ledger = MemoryLedger()
    ledger.reserve(request(1, 0.01, broken="its noise is drawn from a known seed"), b"key")
    assert spent(ledger.charges(), DELTA) == math.inf
    with pytest.raises(Overspent, match=r"ε = inf at .* above the budget of 100"):
        ledger.reserve(request(1, 1e-9, run="another", limit=100.0), b"key")


@pytest.mark.parametrize("seed", [NO_SEED, 0, 1, 2**40])
@pytest.mark.parametrize("others", [(), ("too few silos",)])
def test_a_promise_is_broken_by_every_seed_and_says_all_that_breaks_it(seed, others):
    made = PrivateSettings(epsilon=1.0, insecure_seed=seed).promise(Schema(("x",), {"a": 50}), "all", broken=others)
    assert made.broken == "; ".join([SEEDED] * (seed != NO_SEED) + [*others])


def test_no_key_is_shown():
    charge = Charge("run", 1, "digest", "what", 0.1, DELTA, "", b"secret")
    assert "secret" not in repr(charge)


@given(costs, costs)
def test_more_is_never_less(one, other):
    small, large = sorted((one, other))
    charge = [Charge("run", 1, "", "", rho, DELTA, "", b"") for rho in (small, large)]
    assert spent(charge[:1], DELTA) <= spent(charge[1:], DELTA) <= spent(charge, DELTA)


def without_a_check(charges, request, key):
    """Mutant: a ledger that records charges but never refuses one."""
    return Charge(request.run, request.number, request.binding, "", request.cost.rho, DELTA, "", key)


def test_a_ledger_that_never_refuses_is_caught(monkeypatch):
    monkeypatch.setattr("fedbnsl.algorithms.privacy.ledger.decide", without_a_check)
    with pytest.raises(AssertionError):
        test_a_run_never_spends_more_than_it_promised_and_stops_only_when_it_would.hypothesis.inner_test([0.2, 0.2])


class TestBudget:
    """A budget has its own δ and is compared in ρ, so a run cannot gain by choosing another δ."""

    ROWS = 1000

    def asked(self, epsilon, delta, *budgets, usual=DELTA):
        made = Promise(epsilon, delta, budget(epsilon, delta, ReplaceOne), "from everyone")
        release = (Release("a number", Cost(1e-9, ReplaceOne)),)
        return ChargeRequest("run", 1, "binding", release, made, self.ROWS, usual, budgets)

    def test_a_large_delta_does_not_make_it_larger(self):
        ledger = MemoryLedger()
        with pytest.raises(Overspent, match=r"run's δ = 0\.99 is above the 1e-06 that the budget allows"):
            ledger.reserve(self.asked(0.99, 0.99, Budget(1.0)), b"key")
        with pytest.raises(Overspent, match=r"ε = \d\d\.\d+ at the budget's δ = 1e-06, above the budget of 1:"):
            ledger.reserve(self.asked(0.99, 0.99, Budget(1.0), usual=0.99), b"key")
        assert ledger.charges() == ()

    def test_its_own_delta_is_one_over_the_rows_squared(self):
        assert Budget(1.0).cost(1000) == Budget(1.0, 1e-6).cost(7)
        MemoryLedger().reserve(self.asked(1.0, 1e-6, Budget(1.0)), b"key")
        with pytest.raises(Overspent, match="above the budget of 1"):
            MemoryLedger().reserve(self.asked(1.0, 1e-5, Budget(1.0), usual=1e-5), b"key")

    def test_a_run_with_a_larger_delta_is_refused_however_little_it_costs(self):
        with pytest.raises(Overspent, match=r"δ = 1e-05 is above the 1e-06 that the budget allows"):
            MemoryLedger().reserve(self.asked(1e-3, 1e-5, Budget(10.0, 1e-6), usual=1e-5), b"key")
        MemoryLedger().reserve(self.asked(1e-3, 1e-5, Budget(10.0), usual=1e-5), b"key")

    @pytest.mark.parametrize("order", [1, -1])
    def test_the_smaller_of_two_holds(self, order):
        budgets = (Budget(5.0, DELTA), Budget(0.5, DELTA))[::order]
        with pytest.raises(Overspent, match=r"above the budget of 0\.5"):
            MemoryLedger().reserve(self.asked(1.0, DELTA, *budgets), b"key")

    @given(st.floats(1e-3, 50), st.integers(2, 10**6))
    def test_what_it_allows_is_within_it(self, limit, rows):
        allowed = Budget(limit).cost(rows)
        charge = Charge("run", 1, "", "", allowed.rho, DELTA, "", b"")
        assert 0.999 * limit < spent([charge], 1 / rows**2) <= limit

    @pytest.mark.parametrize("wrong", [(0.0, 0.0), (-1.0, 0.0), (math.nan, 0.0), (1.0, 1.0), (1.0, -0.1)])
    def test_what_means_nothing_is_refused(self, wrong):
        with pytest.raises(ValueError, match="of the budget is"):
            Budget(*wrong)


def test_charges_elsewhere_count_and_are_not_repeated():
    made = decide((), request(1, 0.02), b"key")
    with pytest.raises(Overspent, match="above the budget"):
        decide((), request(1, 0.02, limit=1.2), b"other", other_ledgers=(made,))
    assert decide((), request(1, 0.02, limit=2.0), b"other", other_ledgers=(made,)).key == b"other"


def test_a_finished_round_is_not_repeated():
    ledger = MemoryLedger()
    ledger.reserve(request(1, 0.01), b"key")
    ledger.finish("run")
    with pytest.raises(Overspent, match="round 1 of run run is over, and its noise erased"):
        ledger.reserve(request(1, 0.01), b"key")
    assert [charge.rho for charge in ledger.charges()] == [0.01]
