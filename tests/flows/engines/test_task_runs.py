"""Steps on Prefect's pages: completed, failed, or running while they last."""

import time
from threading import Event, Thread
from uuid import UUID

import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.runtime import flow_run

from fedbnsl.tasks import task_runs
from fedbnsl.tasks.task_runs import record_task_runs


def states(run_id, wanted):
    """The states of the task runs by name, once `wanted` are as they should be, or after a while."""
    only, deadline = FlowRunFilter(id=FlowRunFilterId(any_=[run_id])), time.monotonic() + 20
    while True:
        with get_client(sync_client=True) as client:
            found = {run.name: run for run in client.read_task_runs(flow_run_filter=only)}
        seen = {name: run.state.name for name, run in found.items() if run.state is not None}
        if wanted.items() <= seen.items() or time.monotonic() > deadline:
            return seen, found
        time.sleep(0.1)


def test_a_step_is_shown_as_it_ended_and_a_long_one_while_it_runs(server, monkeypatch):
    monkeypatch.setattr(task_runs, "LONG_STEP_SECONDS", 0.1)
    go_on, seen = Event(), {}

    @flow(name="recorded")
    def steps():
        run_id = UUID(str(flow_run.id))
        with record_task_runs(run_id) as record:
            with record("aggregate", "aggregate round 1", ()) as first:
                pass
            update = record("dual_update", "dual_update round 1", (first,))
            with pytest.raises(ValueError, match="no sum"), update:
                raise ValueError("no sum\nand more")

            def long():
                with record("local_solve", "local_solve s round 2", ()):
                    go_on.wait(30)

            solving = Thread(target=long)
            solving.start()
            seen["while"], _ = states(run_id, {"local_solve s round 2": "Running"})
            go_on.set()
            solving.join()
        return run_id

    run_id = steps()
    assert seen["while"]["local_solve s round 2"] == "Running"
    ended = {
        "aggregate round 1": "Completed",
        "dual_update round 1": "Failed",
        "local_solve s round 2": "Completed",
    }
    found, runs = states(run_id, ended)
    assert found == ended
    assert runs["dual_update round 1"].state.message == "no sum"
    with get_client(sync_client=True) as client:
        nodes = client.request("GET", "/flow_runs/{id}/graph-v2", path_params={"id": run_id}).json()["nodes"]
    arrows = {(node["label"], parent["id"]) for _, node in nodes for parent in node["parents"]}
    assert arrows == {("dual_update round 1", str(runs["aggregate round 1"].id))}, "Prefect's graph of the run"
    assert runs["local_solve s round 2"].total_run_time.total_seconds() >= 0.1
