"""Runs on time series: their scores, their final model, and their terminal output.

The learner here always finds the same graph, because the steps after the rounds are the same for every learner.
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.admm import fed_sparse
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.data.folder.truth import write_structure
from fedbnsl.flows.api import Learned
from fedbnsl.flows.cli.main import main
from fedbnsl.flows.job.check import check, create_job
from fedbnsl.flows.job.job import Session
from fedbnsl.flows.job.run import run
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.flows.terminal.summary import show_result
from fedbnsl.tasks.transport.in_process import InProcessFederation
from fedbnsl.tracking.outputs import write_outputs
from fedbnsl.tracking.result import CompletedRun

NAMES = ("x", "y", "z")
SILOS = ("s1", "s2")


def dynamic(within=(), lagged=(), lags=1):
    W, A = np.zeros((3, 3)), np.zeros((lags, 3, 3))
    for i, j in within:
        W[i, j] = 0.8
    for k, i, j in lagged:
        A[k - 1, i, j] = 0.5
    return Structure(NAMES, W, lagged=A)


def slices(structure):
    return np.concatenate([structure.weights[None], structure.lagged])


TRUE = dynamic([(0, 1)], [(1, 0, 0), (1, 1, 2)])
OTHER = dynamic([(0, 1)], [(1, 0, 0), (1, 2, 1)])


def tables(seed=0, rows=60):
    """Two silos of `TRUE`, two stretches each."""
    rng = np.random.default_rng(seed)
    now = np.linalg.inv(np.eye(3) - TRUE.weights)
    found = {}
    for silo in SILOS:
        x = np.zeros((rows, 3))
        for t in range(1, rows):
            x[t] = (x[t - 1] @ TRUE.lagged[0] + rng.normal(size=3)) @ now
        found[silo] = x
    return found


SCHEMA = Schema(NAMES, dict.fromkeys(SILOS, 60), "time-series", stretches=dict.fromkeys(SILOS, (25, 35)))


def job_of(settings, schema):
    return create_job(settings, "run", "inline", schema, {}, None, {})


@pytest.fixture
def ran(monkeypatch):
    """(structure, truth, local structures, weights of the silos, options) -> the result of a run that finds these."""

    def go(structure, truth=TRUE, local=None, silo_weights=None, entry=None, params=None, **options):
        def build(settings):
            known = {} if local is None else {"local_structures": lambda server: local}
            return replace(fed_sparse.build(settings), structure=lambda server: structure, **known)

        known = registry.entry("fed-sparse")
        maker = replace(known.maker(), build=build)
        changed = replace(known, maker=lambda: maker, kinds=("time-series",), **(entry or {}))
        monkeypatch.setitem(registry.ALGORITHMS, "fed-sparse", changed)
        given = LearnSettings(data="series", algorithm="fed-sparse", params={"rounds": 1, **(params or {})}, **options)
        job = replace(job_of(given, SCHEMA), truth=truth, silo_weights=silo_weights or {})
        asked = []

        def connect(job, spec, run_id):
            asked.append(spec.name)
            return InProcessFederation(SCHEMA, tables(), secure=job.settings.secure, run_id=run_id)

        return run(job, Session(SCHEMA, connect)), asked

    return go


def test_within_and_across_are_scored_apart_and_the_refit_is_left_out(ran):
    result, asked = ran(OTHER)
    assert (result.metrics["shd"], result.metrics["lagged_shd"], result.averaged) == (0, 2, False)
    assert asked == ["fed-sparse", "diagnosis", "lagged-regressions"]
    assert "mse_consensus" not in result.metrics


def test_a_static_run_has_no_figure_more(ran, monkeypatch):
    schema = replace(SCHEMA, kind="continuous", stretches={})
    job = job_of(LearnSettings(data="rows", algorithm="fed-sparse", params={"rounds": 1}), schema)
    result = run(job, Session(schema, lambda job, spec, run_id: InProcessFederation(schema, tables(), run_id=run_id)))
    assert not {name for name in result.metrics if name.startswith("lagged") or "forecast" in name or "radius" in name}
    assert "mse_consensus" in result.metrics


OWN = {"s1": slices(TRUE), "s2": slices(OTHER)}


def test_a_personalised_run_is_scored_silo_by_silo_against_their_own_truths(ran):
    local = {"s1": TRUE, "s2": TRUE}
    result, _ = ran(TRUE, local=local, silo_weights=OWN)
    assert {silo: one["lagged_shd"] for silo, one in result.silo_scores.items()} == {"s1": 0, "s2": 2}
    assert (result.metrics["lagged_shd"], result.metrics["shd"], result.averaged) == (1.0, 0.0, True)


def test_one_structure_for_silos_of_different_truths_is_scored_by_the_mean(ran):
    result, _ = ran(dynamic(), silo_weights=OWN | {"s2": slices(dynamic([(0, 1), (1, 2)]))})
    assert (result.metrics["shd"], result.metrics["lagged_shd"], result.averaged) == (1.5, 1.0, True)
    alike = {silo: weight * each for weight, (silo, each) in enumerate(dict.fromkeys(SILOS, slices(OTHER)).items(), 1)}
    result, _ = ran(OTHER, silo_weights=alike)
    assert (result.metrics["lagged_shd"], result.averaged) == (2, False)


def test_the_best_by_the_truth_counts_lagged_edges_too(ran):
    result, _ = ran(TRUE, local={"s1": OTHER, "s2": TRUE}, entry={"needs_truth": True})
    assert result.structure is TRUE
    assert result.metrics["lagged_shd"] == 0
    assert set(result.silo_scores) == {"s1", "s2"}


def test_without_a_truth_edges_are_counted(ran):
    result, _ = ran(TRUE, truth=None, local=dict.fromkeys(SILOS, TRUE))
    assert (result.metrics["edges"], result.metrics["lagged_edges"], result.metrics["lagged_shd"]) == (1, 2, None)
    assert result.silo_scores == {}


WHO = Structure(NAMES, np.array([[0, 1, 0], [1, 0, 1], [0, 0, 0.0]]))


def test_a_truth_that_says_only_who_drives_whom_may_have_cycles(ran):
    result, _ = ran(TRUE, truth=WHO)
    assert (result.metrics["shd"], result.metrics["correct"]) == (1, 2)
    assert "lagged_shd" not in result.metrics
    job = replace(job_of(LearnSettings(data="rows", algorithm="fed-sparse"), SCHEMA), truth=WHO)
    check(job, SCHEMA)
    with pytest.raises(BadInput, match="truth has the cycle"):
        check(replace(job, truth=replace(WHO, lagged=np.zeros((1, 3, 3)))), SCHEMA)


def test_what_the_truths_of_the_silos_have_together_may_have_cycles(ran):
    turned = dynamic([(1, 0)], [(1, 0, 0), (1, 1, 2)])
    together = dynamic([(0, 1), (1, 0)], [(1, 0, 0), (1, 1, 2)])
    result, _ = ran(TRUE, truth=together, silo_weights={"s1": slices(TRUE), "s2": slices(turned)})
    assert (result.metrics["shd"], result.metrics["reversed"], result.averaged) == (0.5, 0.5, True)
    with pytest.raises(BadInput, match="truth has the cycle"):
        ran(TRUE, truth=together, silo_weights={"s1": slices(TRUE), "s2": slices(together)})


def test_the_model_forecasts_better_than_as_it_was_and_is_stable(ran):
    result, _ = ran(TRUE)
    metrics = result.metrics
    assert metrics["forecast_mse"] < metrics["persistence_mse"]
    assert 0 < metrics["spectral_radius"] < 1
    assert "at 116 times" in result.parameters.how  # 2 silos, 25 - 1 and 35 - 1 windows each
    learned = Learned(result)
    assert ("y[t-1]", "z") in learned.graph.edges
    assert ("y[t-1]", "z") in learned.model.edges
    assert learned.lagged[0].loc["y", "z"] == 0.5
    assert len(learned.dynamic.get_inter_edges()) == 2


def test_masked_it_is_the_same(ran):
    (plain, _), (hidden, _) = ran(TRUE), ran(TRUE, secure=True)
    for name in ("spectral_radius", "forecast_mse", "persistence_mse"):
        assert hidden.metrics[name] == pytest.approx(plain.metrics[name], rel=1e-5)


def test_without_parameters_there_is_no_forecast(ran):
    result, asked = ran(TRUE, parameters=False)
    assert asked == ["fed-sparse", "diagnosis"]
    assert [result.metrics[name] for name in ("spectral_radius", "forecast_mse", "persistence_mse")] == [None] * 3
    cyclic, asked = ran(dynamic([(0, 1), (1, 0)]))
    assert "a cycle is left" in cyclic.parameters.how
    assert asked == ["fed-sparse", "diagnosis"]


def test_names_that_time_would_take_are_no_model(ran):
    named = Structure(("x", "x[t-1]", "z"), TRUE.weights, lagged=TRUE.lagged)
    result, asked = ran(named, truth=None)
    assert "a variable has the name x[t-1]" in result.parameters.how
    assert asked == ["fed-sparse", "diagnosis"]


def test_what_is_printed(ran, capsys, tmp_path):
    result, _ = ran(TRUE, local={"s1": TRUE, "s2": TRUE}, silo_weights=OWN)
    loud = replace(result, metrics=result.metrics | {"spectral_radius": 1.5})
    show_result(CompletedRun(loud, tmp_path, {}), details=True)
    said = " ".join(capsys.readouterr().out.split())
    for words in (
        "1 edge within one time step",
        "2 edges across time",
        "y[t-1] → z +0.500",
        "scores, means over the silos: shd 0",
        "lagged_shd 1",
        "Unstable: the spectral radius is 1.500",
        "forecast of the next row: mean squared error",
    ):
        assert words in said


def test_the_files_of_a_run_are_written(ran, tmp_path):
    result, _ = ran(TRUE, local={"s1": TRUE, "s2": OTHER}, silo_weights=OWN)
    write_outputs(result, tmp_path / "out")
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert metrics["lagged_shd"] == 0
    assert "s2,z,y,0.5,1" in (tmp_path / "out" / "silo_structures.csv").read_text()


def test_own_lags_count_in_an_evaluation_if_asked(capsys, monkeypatch, tmp_path):
    identity = replace(TRUE, lagged=0.5 * np.eye(3)[None])
    monkeypatch.chdir(tmp_path)
    write_structure(Path("learned.csv"), identity)
    write_structure(Path("truth.csv"), TRUE)
    aurocs = []
    for more in ((), ("--own-lags",)):
        with pytest.raises(SystemExit) as leaving:
            main(["evaluate", "learned.csv", "truth.csv", "--json", *more])
        assert leaving.value.code == 0
        scores = json.loads(capsys.readouterr().out)
        assert (scores["shd"], scores["lagged_shd"]) == (0, 3)
        aurocs.append(scores["lagged_auroc"])
    assert aurocs == [0.5, pytest.approx(compare(identity, TRUE, own_lags=True)["lagged_auroc"])]
    assert aurocs[1] > 0.6
