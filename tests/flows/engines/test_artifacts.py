"""The log on Prefect's run page: its text, and how often it is sent to the server."""

import logging
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace
from uuid import uuid4

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey

from fedbnsl import learn
from fedbnsl.flows.cli.main import main
from fedbnsl.flows.engines import artifacts
from fedbnsl.flows.engines.artifacts import ProgressArtifact, data_uri, publish
from fedbnsl.flows.engines.flow_run_log import FlowRunLog
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.flows.start import learn_inline, precheck
from fedbnsl.tasks.rounds import Orchestration
from fedbnsl.tracking.mlflow.saved_model import load_pgmpy

LINK = "http://127.0.0.1:5000/#/experiments/3/runs/ab"


@pytest.fixture(scope="module")
def finished(example, tmp_path_factory):
    """A finished run for the log."""
    out = tmp_path_factory.mktemp("logged") / "out"
    settings = LearnSettings(data=str(example), algorithm="secure-linear", out=str(out)).named()
    return replace(learn_inline(settings, precheck(settings)), tracking_url=LINK)


def logged():
    sent = []
    run = str(uuid4())
    return FlowRunLog(Orchestration(), run, sent.append), sent, run


def heard(number, outcome=None):
    row = {"round": number, "edges": 4.0, "bytes_up": 1000, "bytes_down": 500, "formula_bytes": 9}
    step = SimpleNamespace(number=number, outcome=outcome)
    return SimpleNamespace(round=step, row=row, rows=[row], max_rounds=9, round_seconds=0.0)


def test_a_line_a_round_in_a_few_requests_and_the_last_at_once():
    log, sent, run = logged()
    for number in range(1, 8):
        log(heard(number))
    assert len(sent) == 1
    log(heard(8, "converged"))
    first, rest = sent
    assert [len(first), len(rest)] == [1, 7]
    assert first[0]["message"] == "round 1 of at most 9: edges 4  1.5 kB"
    assert {(line["name"], line["level"], line["flow_run_id"]) for line in rest} == {("fedbnsl", logging.INFO, run)}


def test_the_progress_is_sent_in_few_requests_and_at_the_end(monkeypatch):
    sent = []
    monkeypatch.setattr(artifacts, "create_progress_artifact", lambda done, **given: sent.append(done) or uuid4())
    monkeypatch.setattr(artifacts, "update_progress_artifact", lambda made, progress: sent.append(progress))
    progress = ProgressArtifact(Orchestration())
    for number in range(1, 8):
        progress(heard(number))
    assert sent == [pytest.approx(100 / 9)]
    progress(heard(8, "converged"))
    assert sent[1:] == [100.0]


def test_scores_and_places_are_said_at_the_end(finished):
    log, sent, _ = logged()
    log.finish(finished)
    said = [line["message"] for batch in sent for line in batch]
    assert said[0].startswith("converged after ")
    assert any(line.startswith("scores: shd ") for line in said)
    assert f"report: {finished.folder / 'report.html'}" in said
    assert f"MLflow: {LINK}" in said
    assert said[-1] == f"all files: {finished.folder}"


def test_a_failure_is_an_error_in_the_log():
    log, sent, _ = logged()
    log.log("begun")
    log.log("kept for later")
    log.fail(ValueError("the silo is gone"))
    assert [line["message"] for line in sent[-1]] == ["kept for later", "the run failed: the silo is gone"]
    assert sent[-1][-1]["level"] == logging.ERROR


def test_a_log_that_cannot_be_delivered_ends_nothing(capsys):
    orchestration = Orchestration()
    log = FlowRunLog(orchestration, str(uuid4()), lambda lines: 1 / 0)
    log.log("one")
    log.log("two", now=True)
    assert not orchestration.connected
    assert capsys.readouterr().err.count("\n") == 1


def test_the_picture_is_an_artifact_that_holds_its_bytes(finished, monkeypatch):
    made = {}
    for kind in ("image", "table", "link"):
        monkeypatch.setattr(artifacts, f"create_{kind}_artifact", lambda key, **given: made.update({key: given}))
    publish(finished)
    assert set(made) == {"picture", "scores", "structure", "fit", "silos", "mlflow"}
    assert made["picture"]["image_url"] == data_uri(finished.files["structure.png"])
    assert made["picture"]["image_url"].startswith("data:image/png;base64,iVBOR")
    monkeypatch.setattr(artifacts, "MAX_PICTURE_BYTES", 10)
    made.clear()
    publish(finished)
    assert "picture" not in made


@pytest.mark.slow
def test_a_registered_model_of_a_whole_run(server, example, tmp_path, mlflow_uri):
    from mlflow import MlflowClient

    found = learn(example, "secure-linear", engine="prefect", register_as="example model", out=tmp_path / "out")
    client = MlflowClient(mlflow_uri)
    version = client.get_model_version_by_alias("example model", "current")
    tags = client.get_run(version.run_id).data.tags
    assert (tags["folder"], tags["registered"]) == ("out", f"models:/example model/{version.version}")
    network = load_pgmpy("models:/example model@current", mlflow_uri)
    assert set(network.edges) == set(found.to_pgmpy().edges)
    effect(tmp_path / "out", "x1", "x2", "--track")
    metrics = client.get_run(version.run_id).data.metrics
    assert [name for name in metrics if name.startswith("effect/x1 0 to 1 on mean of x2")] != []
    assert metrics["fit_failing_share"] == found.metrics["fit_failing_share"]
    with get_client(sync_client=True) as prefect:
        published = prefect.read_artifacts(artifact_filter=ArtifactFilter(key=ArtifactFilterKey(any_=["fit"])))
    assert any(str(found.metrics["fit_tested"]) in str(one.data) for one in published)


def effect(run, treatment, outcome, *words):
    with suppress(SystemExit):
        main(["effect", str(run), "--treatment", treatment, "--outcome", outcome, *words])
