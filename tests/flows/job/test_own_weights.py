"""Silos with different weights: the finding, its advice, and `auto`, which continues with separate scores."""

import math
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from fedbnsl import learn
from fedbnsl.algorithms.core.adjustment import NO_ADJUSTMENT
from fedbnsl.algorithms.core.protocol import Round, Traffic
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.diagnosis.findings import WEIGHTS_DIFFER
from fedbnsl.algorithms.graphs.cpdag import cpdag
from fedbnsl.algorithms.moments.secure_linear import SecureLinear
from fedbnsl.data.federated import FederatedData, continuous, time_series, with_gaps
from fedbnsl.data.folder.folder import write_folder
from fedbnsl.flows.job import continuation
from fedbnsl.flows.job.job import Session
from fedbnsl.tracking.result import Diagnosed
from tests.algorithms.curved import curved
from tests.algorithms.score.test_own_weights import NAMES, silos_of
from tests.algorithms.score.test_window_search import unlike_silos


def data_of(seed, sd, **other):
    tables, dag = silos_of(seed, sd, **other)
    return FederatedData(continuous(tables, NAMES[: len(dag)]), tables), dag


def found_in(result, name="weights differ"):
    return [one for one in result.diagnosed.findings if one.name == name]


def test_the_advice_leads_to_the_class():
    data, dag = data_of(0, 0.4)
    linear = learn(data, "secure-linear", parameters=False).result
    (found,) = found_in(linear)
    algorithm, name, value = re.search(r"--algorithm ([\w-]+) -p (\w+)=(\w+)", found.advice).groups()
    advised = learn(data, algorithm, parameters=False, **{name: value}).result
    np.testing.assert_array_equal(advised.structure.adjacency, cpdag(dag))
    assert not np.array_equal(linear.structure.adjacency, cpdag(dag))
    assert "Nothing to do" in found_in(advised)[0].advice


def test_auto_follows_the_advice_and_gives_the_reason():
    data, _ = data_of(0, 0.4)
    result = learn(data, bootstrap=0).result
    advised = learn(data, "secure-boss", weights="own", bootstrap=0).result
    assert (result.algorithm, result.asked) == ("secure-boss", "auto")
    np.testing.assert_array_equal(result.structure.weights, advised.structure.weights)
    assert "search by the silos' own scores: 4 of 4 silos have different weights" in result.basis[0]
    assert result.basis[1:] == advised.basis
    assert "common slopes" in result.parameters.how
    assert learn(data, diagnose=False, bootstrap=0).result.algorithm == "secure-linear"


def test_auto_keeps_common_weights_that_fit_better(monkeypatch):
    monkeypatch.setattr(continuation, "own_weights_gain", lambda server: -1.0)
    monkeypatch.setattr(continuation, "_checked_linear_errors", lambda linear, session: None)
    data, _ = data_of(0, 0.4)
    options = {"parameters": False, "bootstrap": 0}
    result, linear = learn(data, **options).result, learn(data, "secure-linear", **options).result
    assert result.algorithm == "secure-linear"
    np.testing.assert_array_equal(result.structure.weights, linear.structure.weights)
    assert found_in(result)[0].message.endswith("did not support them, so the result has common weights.")
    assert result.diagnosed.bytes_sent > linear.diagnosed.bytes_sent


def test_auto_makes_no_search_where_weights_are_equal():
    data, _ = data_of(0, 0.0)
    result = learn(data, parameters=False).result
    assert result.algorithm == "secure-linear"
    assert not found_in(result)


@pytest.mark.parametrize(("seed", "column"), [(70, 1), (71, 2)])
def test_curved_effects_are_not_taken_for_weights_that_differ(seed, column):
    """Silos in different ranges of a curve have different slopes."""
    given, _ = curved("tanh", seed, silos=3)
    rows = np.concatenate(list(given.values()))
    parts = np.array_split(np.argsort(rows[:, column]), 3)
    tables = {f"s{number}": rows[part] for number, part in enumerate(parts)}
    result = learn(FederatedData(continuous(tables, NAMES), tables), parameters=False).result
    assert any("Linear weights differ between silos, which curves explain" in one for one in result.basis)
    assert not found_in(result)
    assert not found_in(result, "silo with different weights")
    assert result.algorithm == "secure-additive"


@pytest.mark.slow
def test_both_engines_learn_the_same(server, tmp_path):
    data, _ = data_of(1, 0.4, sizes=(300, 500), d=4, edges=4)
    write_folder(tmp_path / "data", data)
    one, other = (learn(tmp_path / "data", engine=engine, parameters=False).result for engine in ("inline", "prefect"))
    np.testing.assert_array_equal(one.structure.weights, other.structure.weights)
    assert one.basis == other.basis
    assert one.algorithm == "secure-boss"


def test_resamples_have_weights_of_their_own():
    data, dag = data_of(0, 0.4)
    found = learn(data, "secure-boss", weights="own", bootstrap=8, diagnose=False, parameters=False).result
    skeleton = found.confidence.averaged.adjacency
    assert ((skeleton | skeleton.T) != (dag | dag.T)).sum() <= 2


@pytest.mark.parametrize("seed", [0, 1])
def test_empty_cells_are_allowed(seed):
    data, dag = data_of(seed, 0.3)
    rng = np.random.default_rng(seed)
    tables = {silo: np.where(rng.random(X.shape) < 0.03, np.nan, X) for silo, X in data.tables.items()}
    schema = with_gaps(continuous(tables, NAMES), tables)
    found = learn(FederatedData(schema, tables), "secure-boss", weights="own", parameters=False, diagnose=False)
    skeleton = found.result.structure.adjacency
    assert ((skeleton | skeleton.T) != (dag | dag.T)).sum() <= 2


@pytest.mark.parametrize(
    ("curved_gain", "own_gain", "best"),
    [(5.0, 3.0, 5.0), (3.0, 5.0, 5.0), (5.0, -math.inf, 5.0), (-math.inf, 3.0, 3.0), (-math.inf, -math.inf, -math.inf)],
)
def test_the_model_that_gains_more_is_kept_and_the_bytes_of_both_count(monkeypatch, curved_gain, own_gain, best):
    def tried(gain, sent):
        """A model that replaces the linear one if it is better; otherwise only its bytes are added."""

        def model(before, session):
            found = replace(before, diagnosed=Diagnosed((), before.diagnosed.bytes_sent + sent))
            return replace(found, gain=gain) if gain > 0 else found

        return model

    monkeypatch.setattr(continuation, "_with_curved_effects", tried(curved_gain, 30))
    monkeypatch.setattr(continuation, "_with_own_weights", tried(own_gain, 400))
    job = SimpleNamespace(
        settings=SimpleNamespace(algorithm="auto", diagnose=True, deseasonalise=None),
        spec=SimpleNamespace(settings=SecureLinear()),
        adjustment=NO_ADJUSTMENT,
    )
    session = Session(Schema(("a", "b"), {"one": 9}), connect=None)
    ended = SimpleNamespace(outcome="converged", broken_off="", server=None)
    monkeypatch.setattr(continuation, "_checked_linear_errors", lambda linear, session: None)
    found = continuation.continued(job, session, None, ended, Diagnosed((), 1000))
    assert (found.gain, found.diagnosed.bytes_sent) == (best, 1430)


def test_silos_lost_in_either_model_are_lost():
    linear, last = Round(7, "linear", Traffic(), None, ("clinic",)), Round(2, "own", Traffic(), "converged", ("lab",))
    after = continuation._after(linear, last)
    assert (after.number, after.server, after.outcome, after.lost) == (7, "own", "converged", ("clinic", "lab"))


def test_auto_continues_with_the_silos_own_scores_of_series():
    tables, graph = unlike_silos(0, 0.6)
    stretches = {silo: (len(table),) for silo, table in tables.items()}
    names = tuple(f"x{v}" for v in range(len(graph[0])))
    data = FederatedData(time_series(tables, stretches, names), tables)
    linear = learn(data, "secure-linear", parameters=False).result
    assert "-p weights=own" in next(one for one in linear.diagnosed.findings if one.name in WEIGHTS_DIFFER).advice
    result = learn(data, bootstrap=0).result
    assert (result.algorithm, result.asked) == ("secure-boss", "auto")
    np.testing.assert_array_equal([result.structure.adjacency, result.structure.lagged[0] != 0], graph)
    assert "search by the silos' own scores" in result.basis[0]
    assert result.metrics["lags"] == 1
    assert result.parameters.forecasts is not None
    advised = learn(data, "secure-boss", weights="own", parameters=False).result
    np.testing.assert_array_equal(advised.structure.lagged, result.structure.lagged)
