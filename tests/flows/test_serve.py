import os
import signal
import subprocess
import sys
import time

import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.flows.schedule import check_schedule, deployed


def runs_in(deployment, states):
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterName

    only = DeploymentFilter(name=DeploymentFilterName(any_=[deployment]))
    with get_client(sync_client=True) as client:
        runs = client.read_flow_runs(deployment_filter=only)
    return [run for run in runs if run.state is not None and run.state.name in states]


# Every minute: on a busy machine, runs that come more often than they end hold each other up. Cron, not an interval:
# with sqlalchemy 2.1 cron never fires, silently.
def test_a_cron_schedule_fires_twice(server, example, tmp_path, listening_to_ctrl_c):
    command = [
        sys.executable,
        "-m",
        "fedbnsl.flows.cli.main",
        "serve",
        str(example),
        "-a",
        "notears-admm",
        "-p",
        "rounds=2",
    ]
    command += ["--cron", "* * * * *", "--name", "fires"]
    with (tmp_path / "log").open("w") as log:
        serving = subprocess.Popen(
            command,
            env={**os.environ, "PREFECT_API_URL": server},
            cwd=tmp_path,
            stdout=log,
            stderr=log,
        )
        try:
            deadline = time.monotonic() + 300
            while time.monotonic() < deadline and serving.poll() is None:
                finished, fired = runs_in("fires", ["Completed"]), runs_in("fires", ["Completed", "Running", "Pending"])
                if finished and len(fired) > 1:
                    break
                time.sleep(1)
        finally:
            serving.send_signal(signal.SIGINT)
            code = serving.wait(180)
    said = (tmp_path / "log").read_text()
    assert finished, said
    assert len(fired) > 1, said
    assert "serving learn/fires: notears-admm" in said
    assert "Traceback" not in said
    assert code in (0, 130)
    assert len(list((tmp_path / "runs").glob("notears-admm-example-seed0-*/structure.csv"))) >= 1


def test_a_schedule_is_one_that_prefect_takes():
    check_schedule("0 3 * * *", None)
    check_schedule(None, 5)
    check_schedule(None, None)
    with pytest.raises(BadInput, match="--cron 'daily at three' is no schedule"):
        check_schedule("daily at three", None)
    with pytest.raises(BadInput, match="--cron '' is no schedule"):
        check_schedule("", None)
    for never in (-1, 0, 1e-9, 1e9, float("inf"), float("nan")):
        with pytest.raises(BadInput, match=f"--interval is {never:g}".replace("+", r"\+")):
            check_schedule(None, never)
    with pytest.raises(BadInput, match="two schedules"):
        check_schedule("0 3 * * *", 5)


def test_a_deployment_starts_from_the_settings_given(example):
    settings = LearnSettings(data=str(example), algorithm="notears-admm", params={"rounds": 2})
    deployment = deployed(settings, "nightly", cron="0 3 * * *")
    assert deployment.parameters["settings"]["params"] == {"rounds": 2}
    assert deployment.schedules[0].schedule.cron == "0 3 * * *"
    assert deployment.entrypoint == "fedbnsl.flows.learn.learn"
