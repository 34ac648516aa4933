"""One process can use its own Prefect server more than once, and exits when its work is done."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
from fedbnsl.flows.servers.environment import prepare_environment

prepare_environment()
from fedbnsl.flows.servers.processes import temporary_server

for name in ("first", "second"):
    with temporary_server() as ready:
        from prefect.events import emit_event
        from prefect.settings import PREFECT_API_URL, temporary_settings

        with temporary_settings({PREFECT_API_URL: ready()}):
            emit_event(name, resource={"prefect.resource.id": f"fedbnsl.{name}"})
print("done", flush=True)
"""


@pytest.mark.slow
def test_what_is_left_for_a_server_is_delivered_before_it_ends(server):
    environment = {key: value for key, value in os.environ.items() if key != "PREFECT_API_URL"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment | {"PREFECT_LOGGING_LEVEL": "WARNING"},
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert not [line for line in done.stderr.splitlines() if "Unable to connect" in line or "failed" in line]
