"""Other entries in MLflow: candidates as child runs, versions of a registered model, effects as metrics."""

from dataclasses import replace

import pytest

from fedbnsl.algorithms.effects.answer import effect_of, model_estimator
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.tracking.mlflow.run import RunStart, ending_of, log_effects, open_run
from fedbnsl.tracking.mlflow.saved_model import TrackedData, load_pgmpy
from fedbnsl.tracking.outputs import write_outputs
from fedbnsl.tracking.result import NO_PARAMETERS, TunedCandidate, Tuning

CANDIDATES = (
    TunedCandidate({"alpha": "0.01"}, 3.0, 0.02, -4.5),
    TunedCandidate({"alpha": "0.1"}, 5.0, 0.2, None),
)


def finished(result, uri, folder):
    """The log of a whole run, and the URI of its model."""
    data = TrackedData(result.dataset, result.about, result.schema)
    tags = {"algorithm": result.algorithm, "folder": folder.name}
    log = open_run(RunStart(result.name, {}, tags, data, uri))
    write_outputs(result, folder)
    return log, log.finish(ending_of(result), folder)


def children(log):
    found = log.client.search_runs([log.experiment_id], f"tags.`mlflow.parentRunId` = '{log.run_id}'")
    return {one.info.run_name: one for one in found}


def test_candidates_are_child_runs(chain, uri, tmp_path):
    tuned = replace(chain, tuning=Tuning("held-out", CANDIDATES, 0, 4, 1000))
    log, _ = finished(tuned, uri, tmp_path / "tuned")
    found = children(log)
    assert set(found) == {"alpha=0.01", "alpha=0.1"}
    first, second = found["alpha=0.01"], found["alpha=0.1"]
    assert first.data.params == {"alpha": "0.01", "chosen": "true"}
    assert second.data.params == {"alpha": "0.1", "chosen": "false"}
    assert first.data.metrics == {"held_out_log_likelihood": -4.5, "instability": 0.02, "edges": 3.0}
    assert second.data.metrics == {"instability": 0.2, "edges": 5.0}
    assert {one.info.status for one in found.values()} == {"FINISHED"}
    log.finish(ending_of(tuned), tmp_path / "tuned")
    assert len(children(log)) == 2


def test_each_run_is_a_version_and_the_last_one_is_current(chain, uri, tmp_path):
    registered = replace(chain, register="ward model")
    first, model = finished(registered, uri, tmp_path / "first")
    second, _ = finished(registered, uri, tmp_path / "second")
    versions = first.client.search_model_versions("name = 'ward model'")
    assert {one.version: one.run_id for one in versions} == {1: first.run_id, 2: second.run_id}
    assert first.client.get_run(first.run_id).data.tags["registered"] == "models:/ward model/1"
    current = second.client.get_model_version_by_alias("ward model", "current")
    assert (current.version, current.run_id) == (2, second.run_id)
    assert set(load_pgmpy("models:/ward model@current", uri).nodes) == {"a", "b", "c"}
    assert model.startswith("models:/")


def test_a_run_without_a_model_registers_none(chain, uri, tmp_path):
    log, _ = finished(replace(chain, register="none here", parameters=NO_PARAMETERS), uri, tmp_path / "without")
    assert log.client.get_run(log.run_id).data.tags["registered"] == f"none: {NO_PARAMETERS.how}"
    assert log.client.search_registered_models("name = 'none here'") == []


def test_effects_are_metrics_of_their_run(chain, uri, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    log, _ = finished(chain, uri, tmp_path / "with-effects")
    estimator = model_estimator(chain.parameters.network, 70, 2)
    effects = [*effect_of(chain.structure, estimator, "a", "c"), *effect_of(chain.structure, estimator, "c", "a")]
    link = log_effects(chain.name, "with-effects", effects)
    assert log.run_id in link
    found = {key: value for key, value in log.client.get_run(log.run_id).data.metrics.items() if "effect" in key}
    key = "effect/a 0 to 1 on mean of c"
    assert found[key] == pytest.approx(-1.0)
    assert found[f"{key}/low"] < -1 < found[f"{key}/high"]
    assert found["effect/c 0 to 1 on mean of a"] == 0
    with pytest.raises(BadInput, match=r"MLflow has no run .* with its results in elsewhere"):
        log_effects(chain.name, "elsewhere", effects)
