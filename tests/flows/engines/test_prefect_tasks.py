"""The steps of a run as Prefect shows and runs them, on a real server."""

import time
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from threading import Barrier, Lock, Thread
from uuid import UUID

import pytest
from prefect import flow
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.runtime import flow_run
from prefect.states import Cancelling
from prefect.task_runners import ThreadPoolTaskRunner

from fedbnsl.algorithms.errors import RunCancelled
from fedbnsl.tasks import prefect_tasks
from fedbnsl.tasks.prefect_tasks import prefect_steps, task_logs


def task_runs(run_id, wanted):
    """The task runs by name, once the states of `wanted` are as they should be, or after a while."""
    only, deadline = FlowRunFilter(id=FlowRunFilterId(any_=[run_id])), time.monotonic() + 20
    while True:
        with get_client(sync_client=True) as client:
            found = {run.name: run for run in client.read_task_runs(flow_run_filter=only)}
        seen = {name: run.state.name for name, run in found.items() if run.state is not None}
        if wanted.items() <= seen.items() or time.monotonic() > deadline:
            return seen, found
        time.sleep(0.1)


def in_flow(body):
    """The id of a flow run with `body(steps, run_id)`, and what it returned."""

    @flow(name="steps", task_runner=ThreadPoolTaskRunner(max_workers=8))
    def run():
        with prefect_steps() as steps:
            run_id = UUID(str(flow_run.id))
            return run_id, body(steps, run_id)

    return run()


def test_a_step_is_shown_as_it_ended_with_tag_and_sources_and_while_it_lasts(server):
    both = Barrier(2, timeout=30)

    def body(steps, run_id):
        steps.perform("aggregate", "round 1", lambda: 7)
        with pytest.raises(ValueError, match="no sum"):
            steps.perform("dual_update", "round 1", lambda: int("no sum"))
        wait = steps.solves("round 2")({"s": both.wait})["s"]
        during, _ = task_runs(run_id, {"local_solve s round 2": "Running"})
        both.wait()
        wait()
        return during

    run_id, during = in_flow(body)
    assert during["local_solve s round 2"] == "Running"
    ended = {"aggregate round 1": "Completed", "dual_update round 1": "Failed", "local_solve s round 2": "Completed"}
    seen, runs = task_runs(run_id, ended)
    assert seen == ended
    assert {name: run.tags for name, run in runs.items()} == {name: [name.split()[0]] for name in ended}
    assert "no sum" in runs["dual_update round 1"].state.message
    with get_client(sync_client=True) as client:
        nodes = client.request("GET", "/flow_runs/{id}/graph-v2", path_params={"id": run_id}).json()["nodes"]
    arrows = {(node["label"], parent["id"]) for _, node in nodes for parent in node["parents"]}
    assert ("dual_update round 1", str(runs["aggregate round 1"].id)) in arrows, "Prefect's graph of the run"
    assert ("local_solve s round 2", str(runs["dual_update round 1"].id)) in arrows


def test_prefect_repeats_a_solve_whose_error_may_pass_and_logs_it(server, monkeypatch):
    tried, lines = [], []

    def solve():
        tried.append(1)
        if len(tried) < 3:
            raise ConnectionError("the line was cut")
        return "solved"

    def body(steps, run_id):
        with task_logs(lambda line, level, run: lines.append((line, run))):
            return steps.solves("round 1")({"s": solve})["s"]()

    run_id, result = in_flow(body)
    assert result == "solved"
    seen, runs = task_runs(run_id, {"local_solve s round 1": "Completed"})
    run = runs["local_solve s round 1"]
    assert (seen, run.run_count) == ({"local_solve s round 1": "Completed"}, 3)
    assert {line_run for _, line_run in lines} == {run.id}
    assert sum("the line was cut" in line for line, _ in lines) == prefect_tasks.RETRIES
    assert not any("Traceback" in line for line, _ in lines)
    assert not any("Completed" in line for line, _ in lines), "such a line of every task would hide those of the rounds"


def test_the_end_of_a_solve_asks_nothing_of_the_server(server, monkeypatch):
    """The server may be gone; each question would then be repeated for twenty seconds."""
    asked = []
    monkeypatch.setattr(SyncPrefectClient, "read_task_run", lambda *given, **options: asked.append(given))
    _, result = in_flow(lambda steps, run_id: steps.solves("round 1")({"s": lambda: "solved"})["s"]())
    assert (result, asked) == ("solved", [])


@pytest.fixture
def one_solve_at_a_time(server):
    """A limit of concurrency as one sets it on Prefect's page."""
    with get_client(sync_client=True) as client:
        client.create_concurrency_limit(tag="local_solve", concurrency_limit=1)
        time.sleep(5.5)  # so long does Prefect remember that there was no limit
        yield
        client.delete_concurrency_limit_by_tag("local_solve")


def test_a_limit_of_concurrency_is_obeyed(one_solve_at_a_time):
    lock, together = Lock(), []

    def solve():
        free = lock.acquire(blocking=False)
        together.append(not free)
        time.sleep(0.3)
        if free:
            lock.release()

    _, answers = in_flow(
        lambda steps, _: [wait() for wait in steps.solves("round 1")(dict.fromkeys("abc", solve)).values()]
    )
    assert answers == [None, None, None]
    assert together == [False, False, False]


def test_cancelling_the_flow_run_ends_a_step_within_ten_seconds(server):
    def body(steps, run_id):
        def cancel():
            with get_client(sync_client=True) as client:
                client.set_flow_run_state(run_id, Cancelling())

        Thread(target=copy_context().run, args=(cancel,)).start()
        begin = time.monotonic()
        long = partial(steps.cancellation.perform, lambda: [time.sleep(0.01) for _ in range(3000)])
        with pytest.raises(RunCancelled):
            steps.perform("aggregate", "round 1", long)
        return time.monotonic() - begin

    seconds = []
    with suppress(Exception):  # Prefect refuses another final state than "Cancelled"
        in_flow(lambda steps, run_id: seconds.append(body(steps, run_id)))
    assert seconds[0] < 10
