"""The printed ε equals the ledgers' totals, of this run and of all, for the silo that spent most."""

import math
from dataclasses import replace

import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.promise import Charge
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.flows.engines.inline import job_inline, run_inline
from fedbnsl.flows.job.privacy_spent import privacy_metrics, privacy_spent
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.tracking.result import PrivacySpent

DELTA = 1e-5
SPENT = PrivacySpent(
    epsilon=3.0,
    delta=DELTA,
    adjacency="replace-one",
    protects="from everyone",
    broken="",
    run={"north": 0.75, "south": 2.25},
    ever={"north": 6.5, "south": 4.5},
    releases=(("second moments", 1, 0.01),),
)


@pytest.fixture(scope="module")
def data():
    return homogeneous(variables=3, silos=2, rows=4000, seed=1)  # noise is not seeded: it must not hide the scales


@pytest.fixture(scope="module")
def job(data):
    given = {"data": "two", "algorithm": "dp-covariance", "epsilon": 3.0, "delta": DELTA}
    return job_inline(LearnSettings(**given), "this", data)


KNOWN = {"kind": "continuous", "checksums": {"a.csv": "ab" * 32}}


class Ledgers:
    """Silos, one of which has spent more and has also spent in other runs."""

    def __init__(self, schema):
        self.schema = schema
        charge = Charge("this", 1, "", "second moments", 0.001, DELTA, "", b"")
        self.here = {"silo-1": (charge,), "silo-2": (charge, replace(charge, number=2, rho=0.004))}
        self.other = replace(charge, run="other", rho=0.02)

    def charges(self, run=None):
        return self.here if run == "this" else {silo: (*lines, self.other) for silo, lines in self.here.items()}


class TestTheLedgersAreTheSource:
    def test_of_this_run_and_of_all(self, job, data):
        found = privacy_spent(job, registry.build(job.spec), Ledgers(data.schema))
        assert found.run["silo-1"] < found.run["silo-2"] < found.ever["silo-1"] < found.ever["silo-2"]
        assert (found.spent, found.spent_ever) == (found.run["silo-2"], found.ever["silo-2"])
        assert found.spent < found.epsilon == 3.0
        assert found.releases == (("second moments", 2, pytest.approx(0.005)),)

    def test_the_greatest_counts(self):
        assert (SPENT.spent, SPENT.spent_ever) == (2.25, 6.5)
        assert replace(SPENT, broken="known seed").spent == math.inf

    def test_in_the_metrics(self, job):
        found = privacy_metrics(SPENT, job)
        assert (found["epsilon"], found["epsilon_all_runs"], found["delta"]) == (2.25, 6.5, DELTA)
        assert privacy_metrics(replace(SPENT, broken="known seed"), job)["epsilon"] is None


class TestChecksums:
    """With a digest of a file, an attacker could test guesses of its last unknown row."""

    def test_are_not_told_by_a_private_run(self, job):
        assert replace(job, about=KNOWN).description.about == {"kind": "continuous"}

    def test_are_told_by_an_exact_one(self, job):
        exact = replace(job, about=KNOWN, spec=registry.specify("fed-sparse"))
        assert exact.description.about == KNOWN

    def test_are_in_nothing_that_a_private_run_gives(self, job, data):
        result = run_inline(job, replace(data, about=KNOWN))
        assert "checksums" not in result.about
