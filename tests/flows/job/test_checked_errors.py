"""`auto` checks the errors of the model that it has found, and the rows, before directions and strengths are shown."""

import re
import shlex

import numpy as np
import pytest

from fedbnsl import learn
from fedbnsl.algorithms.diagnosis import findings
from fedbnsl.algorithms.graphs.cpdag import cpdag
from fedbnsl.data.federated import FederatedData, continuous
from fedbnsl.flows.job import continuation
from fedbnsl.flows.job.continuation import MIN_SHARE
from tests.algorithms.curved import curved

D, NAMES = 8, tuple("abcdefgh")
EDGES = ((0, 2), (1, 2), (2, 3), (3, 4), (1, 5), (4, 6), (5, 6), (6, 7))
DAG = np.zeros((D, D), bool)
DAG[tuple(np.transpose(EDGES))] = True


def data_of(seed, n=3000, spread=0.0, times=1, strange=0.0):
    """Silos of a linear model; errors have e^(`spread`·z) times their size, rows occur several `times`."""
    rng = np.random.default_rng(seed)
    X = np.zeros((n // times, D))
    for j in range(D):
        causes = X[:, DAG[:, j]]
        z = causes[:, :1].sum(axis=1) / max(causes[:, :1].std(), 1e-9) if causes.shape[1] else np.zeros(len(X))
        X[:, j] = causes @ rng.choice([-1.0, 0.8], causes.shape[1]) + rng.normal(size=len(X)) * np.exp(
            spread * np.clip(z, -2, 2)
        ) * rng.uniform(0.5, 1.5)
    X = np.repeat(X, times, axis=0)
    odd = rng.random(len(X)) < strange
    X[odd] = 3 * X.std(axis=0) * (rng.normal(size=(odd.sum(), D)) @ rng.normal(size=(D, D)) / np.sqrt(D))
    tables = dict(zip(("s1", "s2", "s3", "s4"), np.split(X, 4), strict=True))
    return FederatedData(continuous(tables, NAMES), tables)


def named(result):
    return [one.name for one in result.diagnosed.findings]


def wrong(result, truth=DAG):
    found = result.structure.adjacency
    found = cpdag(found) if result.structure.kind == "dag" else found
    differ = found != cpdag(truth)
    return int(np.triu(differ | differ.T).sum())


@pytest.mark.parametrize("seed", range(4))
def test_errors_whose_size_depends_on_causes_direct_no_edge(seed):
    data = data_of(seed, spread=0.6)
    result = learn(data, bootstrap=0).result
    assert result.algorithm == "secure-linear"
    assert findings.ERRORS_DEPEND in named(result)
    assert "not linear" not in named(result)
    assert "conditional independences only" in result.basis[0]
    assert result.params["error_variances"] == "free"
    assert result.params["min_share"] in (0.0, MIN_SHARE)
    assert ("An edge had to explain 5 %" in result.basis[0]) == (result.params["min_share"] > 0)
    assert not any(line.startswith("All directions rest on equal") for line in result.basis)
    assert wrong(result) <= 1


def test_an_additive_model_whose_errors_depend_on_the_causes_is_given_up(monkeypatch):
    given, _ = curved("quadratic", 70, silos=3)
    data = FederatedData(continuous(given, NAMES), given)
    assert learn(data, bootstrap=0).result.algorithm == "secure-additive"
    monkeypatch.setattr(continuation, "MAX_EXPLAINED", -1.0)
    result = learn(data, bootstrap=0).result
    assert result.algorithm == "secure-linear"


def test_clean_data_raise_no_alarm():
    named_findings = [name for seed in range(20) for name in named(learn(data_of(seed), bootstrap=0).result)]
    of_checks = {findings.ERRORS_DEPEND, findings.ROWS_DEPEND, findings.ROWS_ELSEWHERE}
    assert not of_checks & set(named_findings)


def test_repeated_rows_count_once_in_scores_strengths_and_intervals():
    result, once = learn(data_of(5, times=5), bootstrap=20).result, learn(data_of(5), bootstrap=20).result
    assert findings.ROWS_DEPEND in named(result)
    assert 0.15 < result.independent_share < 0.25
    assert once.independent_share == 1
    (found,) = (one for one in result.diagnosed.findings if one.name == findings.ROWS_DEPEND)
    assert re.search(r"have as much evidence as about [56]\d0 independent ones", found.message)
    assert "weights differ" not in named(result)
    assert wrong(result) <= 1
    assert result.confidence is not None


def test_the_advice_on_rows_from_elsewhere_leads_to_the_graph():
    data = data_of(6, strange=0.03)
    result = learn(data, bootstrap=0).result
    (found,) = (one for one in result.diagnosed.findings if one.name == findings.ROWS_ELSEWHERE)
    (option, value) = shlex.split(re.search(r"--outliers set-aside", found.advice).group())
    advised = learn(data, bootstrap=0, **{option.lstrip("-"): value}).result
    assert wrong(result) > 2
    assert wrong(advised) <= 1
    assert findings.ROWS_ELSEWHERE not in named(advised)


def test_no_weights_of_the_silos_own_are_tried_for_rows_from_elsewhere(capsys):
    """Such rows look like weights that differ, but a search by the silos' own scores would take long and not help."""
    result = learn(data_of(5, strange=0.03), bootstrap=0, parameters=False, progress=True).result
    said = capsys.readouterr().err
    assert findings.ROWS_ELSEWHERE in named(result)
    assert "checking errors" in said
    assert "trying weights of the silos' own" not in said


def test_effects_of_repeated_rows_have_the_intervals_of_rows_that_occur_once():
    """600 rows five times are 600 rows: their intervals are √5 times as wide as those of 3,000 rows."""
    ends = {}
    for times in (1, 5):
        learned = learn(data_of(5, times=times), bootstrap=0, required=[("a", "c")])
        ends[times] = learned.effect("a", "c").effects[0].candidates[0].estimate.interval
    low, high = ends[5]
    assert np.diff(ends[5])[0] / np.diff(ends[1])[0] == pytest.approx(np.sqrt(5), rel=0.25)
    assert low < -1 < high or low < 0.8 < high


def test_repeated_rows_add_no_edges():
    """The same rows, all counted, add edges in some of these data sets."""
    by_default, counted = 0, 0
    for seed in (0, 3, 7):
        data = data_of(seed, times=5)
        by_default += wrong(learn(data, bootstrap=0, parameters=False).result)
        counted += wrong(learn(data, "secure-linear", parameters=False, diagnose=False).result)
    assert by_default == 0
    assert counted > 10
