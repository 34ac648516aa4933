"""Tuning: which candidate is chosen, by which criterion, in how many exchanges, and which requests are refused."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fedbnsl import learn, load, prepare
from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.protocol import silo_generator
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.flows.cli.main import app
from fedbnsl.flows.job.tuning import choose_by_likelihood, choose_by_stability, instability
from fedbnsl.tasks.transport.in_process import federate
from tests.algorithms.unequal import unequal
from tests.conformance.test_settings import CHANGES, Change

QUICK = {"parameters": False, "diagnose": False, "bootstrap": 0}


@pytest.fixture(scope="module")
def numbers():
    return prepare("heterogeneous", variables=6, silos=3, rows=400, seed=3)


@pytest.fixture(scope="module")
def labels():
    return prepare("discrete", variables=5, silos=3, rows=500, seed=3)


def test_instability_is_that_of_the_shares_of_halves_that_join_a_pair():
    one, other = np.zeros((3, 3)), np.zeros((3, 3))
    one[0, 1] = other[1, 0] = 1.0  # joined either way: the direction does not count
    one[1, 2] = 1.0
    found = instability([Structure(("a", "b", "c"), each) for each in (one, other, other, other)])
    assert found == pytest.approx((2 * 0.25 * 0.75) / 3)


def test_the_densest_candidate_is_taken_up_to_the_first_unstable_one():
    edges = np.array([9.0, 3.0, 6.0, 12.0])
    assert choose_by_stability(np.array([0.06, 0.01, 0.04, 0.02]), edges) == 2
    assert choose_by_stability(np.array([0.01, 0.02, 0.03, 0.04]), edges) == 3
    assert choose_by_stability(np.array([0.6, 0.2, 0.3, 0.4]), edges) == 1


def test_the_greatest_mean_likelihood_is_taken_and_of_equal_ones_the_sparsest():
    scores = np.array([[-3.0, -1.0], [-2.0, -2.5], [-1.0, -3.0]])
    assert choose_by_likelihood(scores, np.array([5.0, 1.0, 4.0])) == 2
    assert choose_by_likelihood(np.zeros((3, 2)), np.array([5.0, 1.0, 4.0])) == 1


def test_every_exchange_of_a_comparison_counts_with_its_bytes(numbers, exchanged):
    for by, parts in (("stars", ["tuning-1"]), ("held-out", ["tuning-1", "halves", "whole"])):
        exchanged.clear()
        found = learn(numbers, "secure-sum", tune="threshold=0,50", tune_by=by, **QUICK).result.tuning
        compared = [(part, sent) for part, sent in exchanged if part in ("tuning-1", "tuning-2", "halves", "whole")]
        assert [part for part, _ in compared] == parts
        assert (found.exchanges, found.bytes_sent) == (len(parts), sum(sent for _, sent in compared))


def test_candidates_of_one_sum_share_its_exchange_and_get_what_they_would_alone(numbers):
    found = learn(numbers, "fed-pc", tune="alpha=.0001,.3", tune_by="stars", **QUICK).result.tuning
    assert found.exchanges == 1
    alone = [learn(numbers, "fed-pc", alpha=a, **{**QUICK, "bootstrap": 20}).result.confidence for a in (0.0001, 0.3)]
    for candidate, confidence in zip(found.candidates, alone, strict=True):
        theta = confidence.strengths.strength[np.triu_indices(6, 1)]
        assert candidate.instability == pytest.approx(float((2 * theta * (1 - theta)).mean()), rel=5e-4)
        assert candidate.edges == pytest.approx(theta.sum(), rel=5e-4)


def test_the_held_out_likelihood_is_that_of_the_other_halves(numbers):
    result = learn(numbers, "secure-sum", tune="threshold=0,50", **QUICK).result
    found, rng_of = result.tuning, {silo: silo_generator(0, silo) for silo in numbers.tables}
    assert (found.by, found.exchanges) == ("held-out", 3)
    # Without edges, the parameters of a half are the variances of its rows, by which the other half is scored.
    seeds = {silo: rng_of[silo].integers(2**63, size=20) for silo in numbers.tables}
    scores = []
    for k in range(20):
        half, whole, n_half, n = np.zeros(6), np.zeros(6), 0, 0
        for silo, table in numbers.tables.items():
            chosen = np.random.default_rng(seeds[silo][k]).permutation(len(table))[: len(table) - len(table) // 2]
            half += ((table[chosen] - table[chosen].mean(axis=0)) ** 2).sum(axis=0)
            whole += ((table - table.mean(axis=0)) ** 2).sum(axis=0)
            n_half, n = n_half + len(chosen), n + len(table)
        v = half / n_half
        scores.append(-0.5 * (np.log(2 * np.pi * v) + (whole - half) / (n - n_half) / v).sum())
    assert found.candidates[1].log_likelihood == float(f"{np.mean(scores):.4g}")
    assert found.candidates[0].log_likelihood > found.candidates[1].log_likelihood
    assert result.params["threshold"] == 0


def test_a_search_that_asks_something_else_has_exchanges_of_its_own(labels):
    found = learn(labels, "fed-pc", tune="alpha=.0001,.3", **QUICK).result.tuning
    assert found.by == "stars"
    assert found.exchanges > 1
    assert found.candidates[0].edges < found.candidates[1].edges


def test_the_run_has_the_chosen_settings_and_the_same_result_as_without_tuning(numbers, tmp_path):
    tuned = learn(numbers, "fed-pc", tune="alpha=.0001,.3", secure=True, out=tmp_path / "out", **QUICK).result
    alpha = float(tuned.tuning.candidates[tuned.tuning.chosen].params["alpha"])
    assert tuned.params["alpha"] == alpha
    alone = learn(numbers, "fed-pc", alpha=alpha, secure=True, **QUICK).result
    np.testing.assert_array_equal(tuned.structure.weights, alone.structure.weights)
    assert load(tmp_path / "out").result.tuning == tuned.tuning
    assert "chosen" in (tmp_path / "out" / "report.html").read_text()


REFUSED = {
    "auto": ("auto", {"tune": "alpha=.1,.2"}, "name it with algorithm"),
    "one candidate": ("fed-pc", {"tune": "alpha=.1"}, "has 1 candidates"),
    "a value twice": ("fed-pc", {"tune": "alpha=.1,.1"}, "twice"),
    "no values": ("fed-pc", {"tune": "alpha"}, "give each setting once"),
    "a fixed value as well": ("fed-pc", {"tune": "alpha=.1,.2", "alpha": 0.3}, "candidates and a fixed value"),
    "an unknown setting": ("fed-pc", {"tune": "alpa=.1,.2"}, "unknown parameter 'alpa'"),
    "with an ε": ("secure-sum", {"tune": "threshold=.1,.2", "epsilon": 3.0}, "another release"),
}


@pytest.mark.parametrize("which", REFUSED)
def test_bad_candidates_are_one_clear_line(which, numbers):
    algorithm, options, reason = REFUSED[which]
    with pytest.raises(BadInput, match=reason) as error:
        learn(numbers, algorithm, **options)
    assert "\n" not in str(error.value)


def test_labels_have_no_held_out_likelihood(labels):
    with pytest.raises(BadInput, match="tune_by='held-out' is for numbers"):
        learn(labels, "fed-pc", tune="alpha=.1,.2", tune_by="held-out")


def test_the_command_takes_lists_and_needs_one(tmp_path):
    prepare("homogeneous", tmp_path / "data", variables=4, silos=3, rows=200, seed=1)
    words = ["tune", str(tmp_path / "data"), "-a", "fed-pc", "--engine", "inline", "--out", str(tmp_path / "out")]
    failed = CliRunner().invoke(app, [*words, "-p", "alpha=.01"])
    assert isinstance(failed.exception, BadInput)
    assert "nothing to tune" in str(failed.exception)
    done = CliRunner().invoke(app, [*words, "-p", "alpha=.001,.1", "--no-diagnose", "--bootstrap", "0"])
    assert done.exit_code == 0, done.output
    assert "candidates, by held-out in 3 exchanges" in done.output
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert [one["params"]["alpha"] for one in config["tuning"]["candidates"]] == [".001", ".1"]


SERVER_ONLY = [(name, one) for name, entry in registry.ALGORITHMS.items() for one in entry.server_settings]


@pytest.mark.parametrize(("name", "setting"), SERVER_ONLY)
def test_silos_answer_alike_whatever_the_settings_of_the_server(name, setting):
    change = CHANGES[setting]
    if not isinstance(change, Change):
        change = change.get(name, change.get("", next(iter(change.values()))))
    tables = unequal()
    federation = federate(tables)
    rng, first = np.random.default_rng(0), None
    for params in ({}, {setting: change.value}):
        algorithm = registry.build(registry.specify(name, params))
        state = algorithm.open_silo(tables["a"], federation.schema, "a", rng)
        request = algorithm.broadcast(algorithm.open_server(federation.schema))
        answer = wire.encode(request), wire.encode(algorithm.local_solve(state, request)[1])
        first = first or answer
        assert answer == first


def test_frames_of_gaps_are_tuned_by_stability():
    rng = np.random.default_rng(2)
    frames = {
        f"s{k}": pd.DataFrame(rng.normal(size=(80, 3)), columns=list("abc")).mask(rng.random((80, 3)) < 0.1)
        for k in range(3)
    }
    found = learn(frames, "fed-pc", tune="alpha=.01,.2", **QUICK).result.tuning
    assert found.by == "stars"
