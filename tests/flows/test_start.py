"""The settings with which Prefect's servers and its client start."""

from contextlib import contextmanager

import pytest
from prefect.settings import PREFECT_API_URL, PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings
from prefect.settings.context import get_current_settings

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.flows.servers import processes
from fedbnsl.flows.start import client_settings
from fedbnsl.tracking.mlflow import store

URL = "http://127.0.0.1:1/api"


def test_heartbeats_go_to_the_users_server_alone(monkeypatch):
    found = {}
    for server in (URL, None):
        monkeypatch.setattr(processes, "users_server", lambda known=server: known)
        with (
            temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: 60}),
            temporary_settings(client_settings(URL)),
        ):
            assert PREFECT_API_URL.value() == URL
            found[server] = get_current_settings().flows.heartbeat_frequency
    assert found == {URL: 60, None: None}


@pytest.mark.parametrize("start", [processes.prefect_server, processes.temporary_server])
def test_servers_find_a_database_that_is_whole(monkeypatch, tmp_path, start):
    template, home, found = tmp_path / "template.db", tmp_path / "home", []
    template.write_text("tables")
    monkeypatch.setattr(store, "template", lambda program: template)
    monkeypatch.setenv("PREFECT_HOME", str(home))
    monkeypatch.setattr(processes, "users_server", lambda: None)
    monkeypatch.setattr(processes, "wait_until_up", lambda *told: None)

    class Ended:
        def poll(self):
            return None

    @contextmanager
    def process(words, env, inherited=()):
        found.append((home / "prefect.db").read_text())
        yield Ended()

    monkeypatch.setattr(processes, "process", process)
    with start():
        assert found == ["tables"]


def test_prepare_leaves_a_flow_run_when_there_is_a_server(server, tmp_path):
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterName

    from fedbnsl.flows.options.prepare import recipe
    from fedbnsl.flows.start import make_and_write

    wanted = recipe("homogeneous", variables=3, silos=2, rows=10, seed=5)
    made = make_and_write(wanted, tmp_path / "kept")
    assert made.tables["silo-1"].tobytes() == wanted.build().tables["silo-1"].tobytes()
    assert (tmp_path / "kept" / "silo-2.csv").exists()
    named = FlowRunFilter(name=FlowRunFilterName(any_=["prepare-homogeneous-seed5-kept"]))
    with get_client(sync_client=True) as client:
        (run,) = client.read_flow_runs(flow_run_filter=named)
    assert run.state.is_completed()
    with pytest.raises(BadInput, match="already exists"):
        make_and_write(wanted, tmp_path / "kept")
