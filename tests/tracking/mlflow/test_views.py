"""The saved views on MLflow's experiment page, and the links to them."""

import json
import re

import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.tracking.mlflow import store as mlflow_store
from fedbnsl.tracking.mlflow.store import (
    COMPARISON,
    SCORES,
    VIEW_TAG,
    comparison_link,
    comparison_of,
    saved_views,
    table_link,
)


class Client:
    """An MLflow client with one experiment, made before there were views."""

    def __init__(self):
        self.tags, self.written = {}, []
        self.experiment_id, self.lifecycle_stage = "7", "active"

    def restore_experiment(self, experiment):
        assert (experiment, self.lifecycle_stage) == ("7", "deleted")
        self.lifecycle_stage = "active"

    def get_experiment_by_name(self, name):
        return self

    def set_experiment_tag(self, experiment, tag, value):
        assert experiment == "7"
        self.tags[tag] = value
        self.written.append(tag)


def test_an_older_experiment_is_given_the_views_once():
    client = Client()
    for _ in range(2):
        assert mlflow_store.experiment_id(client, "sqlite:///x.db") == "7"
    assert sorted(client.written) == [f"{VIEW_TAG}{COMPARISON}", f"{VIEW_TAG}{SCORES}"]


def test_a_deleted_experiment_is_restored():
    client = Client()
    client.lifecycle_stage = "deleted"
    assert mlflow_store.experiment_id(client, "sqlite:///x.db") == "7"
    assert client.lifecycle_stage == "active"


@pytest.mark.parametrize(
    ("uri", "address"),
    [
        ("http://tracking.example", ("tracking.example", 80)),
        ("https://tracking.example/mlflow", ("tracking.example", 443)),
        ("https://tracking.example:8443", ("tracking.example", 8443)),
    ],
)
def test_a_server_is_looked_for_at_the_port_of_its_scheme(monkeypatch, uri, address):
    def refuse(where, timeout):
        raise OSError(f"{where} after {timeout}")

    monkeypatch.setattr(mlflow_store.socket, "create_connection", refuse)
    with pytest.raises(BadInput, match=re.escape(f"cannot be opened: {address} after {mlflow_store.TIMEOUT_SECONDS}")):
        mlflow_store.open_client(uri)


def test_a_view_is_written_as_mlflow_reads_it():
    for tag, text in saved_views().items():
        assert len(text) <= 5000
        view = json.loads(text)
        assert tag.startswith(VIEW_TAG)
        assert type(view["createdAt"]) is int
        assert "metrics.`shd`" in json.loads(view["state"])["selectedColumns"]
    state = json.loads(json.loads(saved_views()[f"{VIEW_TAG}{COMPARISON}"])["state"])
    (section,) = state["compareRunSections"]
    assert {chart["metricSectionId"] for chart in state["compareRunCharts"]} == {section["uuid"]}
    assert len({chart["uuid"] for chart in state["compareRunCharts"]}) == len(state["compareRunCharts"])
    assert state["compareRunCharts"][0]["selectedMetrics"] == ["shd", "megabytes", "seconds"]


def test_links_open_the_pages_for_models():
    for link in (table_link("http://tracker:5000/", "1"), comparison_link("http://tracker:5000", "1")):
        assert link.startswith("http://tracker:5000/#/experiments/1/runs?workflowType=machine_learning&")
    run = "http://127.0.0.1:5000/#/experiments/12/runs/ab"
    assert comparison_of(run) == comparison_link("http://127.0.0.1:5000", "12")
    assert comparison_link("", "1").endswith(f"&compareRunsMode=CHART&viewStateShareKey={COMPARISON}")
