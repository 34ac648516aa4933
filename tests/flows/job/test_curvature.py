"""Curved effects in a run: the finding, its advice, and `auto`, which needs one more masked sum."""

import re

import numpy as np
import pytest

from fedbnsl import learn
from fedbnsl.algorithms.moments import secure_additive
from fedbnsl.data.federated import FederatedData, continuous
from fedbnsl.data.folder.folder import write_folder
from fedbnsl.flows.job import continuation
from tests.algorithms.curved import curved, wrong_edges

NAMES = tuple("abcdefgh")


def data_of(effect, seed, **other):
    given, truth = curved(effect, seed, **other)
    return FederatedData(continuous(given, NAMES), given), truth


def named(result):
    return [one.name for one in result.diagnosed.findings]


@pytest.mark.parametrize("effect", ["tanh", "quadratic", "linear + quadratic"])
def test_the_advice_on_curved_effects_leads_to_the_graph(effect):
    data, truth = data_of(effect, 70, silos=3)
    linear = learn(data, "secure-linear", parameters=False).result
    (found,) = (one for one in linear.diagnosed.findings if one.name == "not linear")
    (advised,) = re.findall(r"--algorithm ([\w-]+)", found.advice)
    result = learn(data, advised, parameters=False).result
    assert wrong_edges(result.structure.adjacency, truth) <= 1
    assert wrong_edges(linear.structure.adjacency, truth) > 1
    assert "not linear" not in named(result)
    assert "no better than empty" not in named(result)


def test_auto_follows_the_advice_and_gives_the_reason():
    data, _ = data_of("tanh", 71, silos=3)
    found, advised = learn(data), learn(data, "secure-additive")
    result = found.result
    assert (result.algorithm, result.asked) == ("secure-additive", "auto")
    np.testing.assert_array_equal(result.structure.weights, advised.result.structure.weights)
    assert "further masked sum: " in result.basis[0]
    assert "squares and cubes explain" in result.basis[0]
    assert result.basis[1:] == advised.result.basis
    assert "not linear" not in named(result)
    assert result.secure
    assert "linear, though the learner is nonlinear" in result.parameters.how
    without = learn(data, diagnose=False).result
    assert without.algorithm == "secure-linear"


@pytest.mark.parametrize("effect", ["tanh", "quadratic", "linear + quadratic"])
def test_findings_on_a_graph_describe_the_graph_of_the_result(effect):
    """The graph of the linear model, which is not the result, once had the arrows that a finding named."""
    wrong = 0
    for seed in (70, 71, 72, 73):
        given, _ = curved(effect, seed, silos=3)
        names = tuple("age" if k == 4 else f"sex {k}" if k == 2 else name for k, name in enumerate(NAMES))
        result = learn(FederatedData(continuous(given, names), given), parameters=False, bootstrap=0).result
        arrows = {edge.text for edge in result.edges}
        shown = [one.message.partition(": ")[0] for one in result.diagnosed.findings if one.name == "impossible cause"]
        listed = {arrow for text in shown for arrow in text.split(", ")}
        assert listed <= arrows
        assert bool(listed) == bool(result.doubted)
        wrong += len(listed)
    assert wrong > 3


def test_auto_stays_linear_on_linear_data():
    for errors in ("normal", "exponential", "t3"):
        data, _ = data_of("linear", 72, silos=3, errors=errors)
        found = learn(data, parameters=False)
        assert found.result.algorithm == "secure-linear"
        assert "not linear" not in named(found.result)


@pytest.mark.slow
@pytest.mark.parametrize("choice", ["secure-additive", "auto"])
def test_both_engines_learn_the_same(server, choice, tmp_path):
    given, _ = curved("tanh", 66, rows=1500, silos=3)
    write_folder(tmp_path / "data", FederatedData(continuous(given, NAMES), given))
    one, other = (learn(tmp_path / "data", choice, engine=engine).result for engine in ("inline", "prefect"))
    np.testing.assert_array_equal(one.structure.weights, other.structure.weights)
    assert one.basis == other.basis
    assert one.algorithm == "secure-additive"
    assert "linear, though the learner is nonlinear" in one.parameters.how


def test_a_sum_that_does_not_support_the_model_is_reported(monkeypatch):
    monkeypatch.setattr(secure_additive, "curvature_gain", lambda blocks, dag: -1.0)
    monkeypatch.setattr(continuation, "MAX_DEPENDENT", 2.0)  # linear effects leave errors that depend on the causes
    data, _ = data_of("tanh", 73, silos=3)
    tried, linear = learn(data, parameters=False).result, learn(data, "secure-linear", parameters=False).result
    assert tried.algorithm == "secure-linear"
    np.testing.assert_array_equal(tried.structure.weights, linear.structure.weights)
    (found,) = (one for one in tried.diagnosed.findings if one.name == "not linear")
    assert found.message.endswith(
        "One further masked sum for an additive model did not support it, so the result is linear."
    )
    assert tried.diagnosed.bytes_sent > linear.diagnosed.bytes_sent
