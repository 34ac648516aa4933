import asyncio
import math
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.flows import schedule
from fedbnsl.flows.engines.recurring import ended_run, only_run
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.flows.options.repeat import HOOKS, HookOptions, RepeatSettings
from fedbnsl.flows.schedule import check_schedule, create_deployment
from fedbnsl.tasks.prefect_internals import next_start


def runs_in(deployment, states):
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterName

    only = DeploymentFilter(name=DeploymentFilterName(any_=[deployment]))
    with get_client(sync_client=True) as client:
        runs = client.read_flow_runs(deployment_filter=only)
    return [run for run in runs if run.state is not None and run.state.name in states]


def started_by_hand(deployment):
    """Have the deployment run now, without waiting for its schedule."""
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        found = client.read_deployment_by_name(f"learn/{deployment}")
        client.create_flow_run_from_deployment(found.id)


# Once a minute: on a busy machine, runs that come more often than they end hold each other up. Cron, not an interval:
# with sqlalchemy 2.1 cron never fires, silently.
@pytest.mark.slow(120)
def test_a_cron_schedule_fires_and_a_run_on_the_same_rows_is_skipped(server, example, tmp_path, listening_to_ctrl_c):
    soon = (datetime.now(UTC) + timedelta(seconds=25)).second  # a sixth field of cron is the second
    words = ["serve", str(example), "-a", "notears-admm", "-p", "rounds=2"]
    words += ["--cron", f"* * * * * {soon}", "--name", "fires"]
    with (tmp_path / "log").open("w") as log:
        serving = subprocess.Popen(
            [sys.executable, "-m", "fedbnsl.flows.cli.main", *words],
            env={**os.environ, "PREFECT_API_URL": server},
            cwd=tmp_path,
            stdout=log,
            stderr=log,
        )
        try:
            finished = wait_until(lambda: runs_in("fires", ["Completed"]), serving, tmp_path / "log")
            to_come = runs_in("fires", ["Scheduled"])
            started_by_hand("fires")
            (skipped, *_) = wait_until(lambda: runs_in("fires", ["Skipped"]), serving, tmp_path / "log")
        finally:
            serving.send_signal(signal.SIGINT)
            code = serving.wait(180)
    said = (tmp_path / "log").read_text()
    times = sorted(run.expected_start_time for run in (*finished[:1], *to_come))
    assert len(times) > 2, said
    assert {(later - earlier).total_seconds() % 60 for earlier, later in pairwise(times)} == {0.0}
    assert "serving learn/fires: notears-admm" in said
    assert "Traceback" not in said
    assert "note: skipped: no silo's rows or settings have changed since notears-admm-example" in said
    assert skipped.state.type.value == "COMPLETED"
    assert len(list((tmp_path / "runs").iterdir())) == 2  # the first run, and what is kept of it for the next
    assert code == 130
    assert len(list((tmp_path / "runs").glob("notears-admm-example-seed0-*/structure.csv"))) >= 1


def wait_until(found, process, log, seconds=300):
    """Wait for a result of `found` and return it; if the process ends first, raise an error with its output."""
    deadline = time.monotonic() + seconds
    while not (there := found()):
        if process.poll() is not None or time.monotonic() > deadline:
            raise TimeoutError(f"nothing after {seconds} s, or the process ended:\n{log.read_text()}")
        time.sleep(0.5)
    return there


def test_a_schedule_is_one_that_prefect_takes():
    check_schedule("0 3 * * *", None)
    check_schedule(None, 5)
    check_schedule(None, None)
    for cron in ("daily at three", ""):
        with pytest.raises(BadInput, match=f"--cron '{cron}' must be a schedule"):
            check_schedule(cron, None)
    for interval in (-1, 1e-9, math.nan, math.inf):
        with pytest.raises(BadInput, match=f"--interval is {interval:g}: it must be from 1 second"):
            check_schedule(None, interval)
    with pytest.raises(BadInput, match="two schedules"):
        check_schedule("0 3 * * *", 5)
    with pytest.raises(BadInput, match="--timezone is 'Vienna': it must be a name such as Europe/Vienna"):
        check_schedule("0 3 * * *", None, "Vienna")


def test_a_cron_schedule_keeps_its_hour_when_clocks_change():
    """In Vienna, three o'clock is at 02:00 UTC in winter and at 01:00 UTC in summer."""
    from prefect.server.schemas.schedules import CronSchedule

    dates = CronSchedule(cron="0 3 * * *", timezone="Europe/Vienna").get_dates
    starts = asyncio.run(dates(3, start=datetime(2026, 3, 28, tzinfo=UTC)))
    assert [start.astimezone(UTC).hour for start in starts] == [2, 1, 1]
    start = next_start("0 3 * * *", "Europe/Vienna")
    assert (start.hour, start.minute, str(start.tzinfo)) == (3, 0, "Europe/Vienna")
    assert timedelta(0) < start - datetime.now(UTC) <= timedelta(days=1, hours=1)


def test_a_deployment_starts_from_the_settings_given(example):
    settings = LearnSettings(data=str(example), algorithm="notears-admm", params={"rounds": 2})
    deployment = create_deployment(
        settings, RepeatSettings(deployment="nightly"), cron="0 3 * * *", timezone="Asia/Tokyo"
    )
    assert deployment.parameters["settings"]["params"] == {"rounds": 2}
    schedule = deployment.schedules[0].schedule
    assert (schedule.cron, schedule.timezone) == ("0 3 * * *", "Asia/Tokyo")
    assert deployment.concurrency_limit == 1
    assert deployment.entrypoint == "fedbnsl.flows.learn.learn"


def test_scheduled_runs_read_the_folder_that_was_named_where_serve_was_started(tmp_path, monkeypatch):
    """Each run is a process of its own, which may work in another folder."""

    @contextmanager
    def no_server(port):
        yield "http://127.0.0.1:1/api"

    def deployed(settings, repeat, **when):
        raise InterruptedError(settings.data)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(schedule, "precheck", lambda settings: None)
    monkeypatch.setattr(schedule, "prefect_server", no_server)
    monkeypatch.setattr(schedule, "create_deployment", deployed)
    monkeypatch.setenv(schedule.HOOKS, "")
    with pytest.raises(InterruptedError) as stopped:
        schedule.serve_learn(LearnSettings(data="study"), RepeatSettings(deployment="nightly"))
    assert stopped.value.args == (str(Path("study").absolute()),)


@pytest.mark.slow(150)
def test_sigterm_ends_a_schedule_in_one_line_with_130(server, example, tmp_path):
    words = ["serve", str(example), "-a", "fed-sparse", "--name", "stopped"]
    with (tmp_path / "log").open("w") as log:
        serving = subprocess.Popen(
            [sys.executable, "-m", "fedbnsl.flows.cli.main", *words],
            env={**os.environ, "PREFECT_API_URL": server},
            cwd=tmp_path,
            stdout=log,
            stderr=log,
        )
        try:
            wait_until(lambda: "serving learn/stopped" in (tmp_path / "log").read_text(), serving, tmp_path / "log")
            time.sleep(3)  # Prefect takes the signal over a moment later
            serving.send_signal(signal.SIGTERM)
            code = serving.wait(120)  # a busy server answers Prefect's last calls late
        finally:
            serving.kill()
    said = (tmp_path / "log").read_text()
    assert (code, said.splitlines()[-1]) == (130, "stopped"), said
    after = said[said.index("Ctrl-C stops") :].splitlines()
    assert len(after) == 2, said


def test_the_paths_of_a_deployment_are_absolute(monkeypatch):
    """Its runs may start in another folder."""
    deployed = []

    @contextmanager
    def server(port):
        yield "http://127.0.0.1:1/api"

    for name, stand_in in {
        "prepare_environment": lambda *_: None,
        "precheck": lambda _: None,
        "prefect_server": server,
        "sign_in_lines": lambda _: [],
        "create_deployment": lambda settings, *_, **__: deployed.append(settings),
        "close_dead_run": lambda *_: None,
        "serve_until_stopped": lambda _: None,
    }.items():
        monkeypatch.setattr(schedule, name, stand_in)
    schedule.serve_learn(LearnSettings(data="d", federation="f/federation.toml"), RepeatSettings(deployment="x"))
    assert Path(deployed[0].federation).is_absolute()
    assert Path(deployed[0].data).is_absolute()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (HookOptions(), '{"hook_url": "https://example.org/secret"}'),
        (HookOptions(hook_command="notify"), HookOptions(hook_command="notify").model_dump_json()),
    ],
)
def test_hooks_may_come_from_the_environment(monkeypatch, given, expected):
    """Every account of the machine can read the options of a command, and an address may contain a secret."""

    @contextmanager
    def server(port):
        yield "http://127.0.0.1:1/api"

    monkeypatch.setenv(HOOKS, '{"hook_url": "https://example.org/secret"}')
    for name in ("prepare_environment", "precheck", "close_dead_run", "serve_until_stopped"):
        monkeypatch.setattr(schedule, name, lambda *_: None)
    for name in ("sign_in_lines", "create_deployment"):
        monkeypatch.setattr(schedule, name, lambda *_, **__: [])
    monkeypatch.setattr(schedule, "prefect_server", server)
    schedule.serve_learn(LearnSettings(data="d"), RepeatSettings(deployment="x"), given)
    assert os.environ[HOOKS] == expected


def test_a_run_whose_process_was_killed_does_not_block_the_next_one(server, tmp_path):
    """Prefect would wait for a run that it believes to be running."""
    from prefect import flow
    from prefect.client.orchestration import get_client
    from prefect.runtime import flow_run

    def state(run):
        with get_client(sync_client=True) as client:
            return client.read_flow_run(UUID(run)).state

    @flow(name="killed")
    def run():
        with only_run(tmp_path, "nightly", datetime.now(UTC)):
            schedule.close_dead_run(ended_run(tmp_path, "nightly"))
            assert state(flow_run.id).is_running(), "it is in progress"
        schedule.close_dead_run(ended_run(tmp_path, "nightly"))
        return flow_run.id, state(flow_run.id)

    run_id, crashed = run()
    assert (crashed.name, crashed.message) == ("Crashed", "its process has ended")
    before = state(run_id)
    schedule.close_dead_run(run_id)
    assert state(run_id).id == before.id, "a run that has ended stays as it ended"
    schedule.close_dead_run(None)
    schedule.close_dead_run(str(uuid4()))
