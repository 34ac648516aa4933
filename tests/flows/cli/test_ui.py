"""`fedbnsl ui` as a user runs it: both interfaces answer, and Ctrl-C stops what it has started.

The Prefect server is shared by all flow tests, because a second one takes half a minute of CPU. The command treats it
as the user's own server: it shows the server and does not stop it.
"""

import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from fedbnsl.flows.servers.processes import free_port
from fedbnsl.tracking.own_servers import basic, own_token


def answers(url):
    """Whether the server at `url` shows its page to the user."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, None, basic(own_token())), timeout=5) as reply:
            return reply.status == 200
    except (urllib.error.URLError, OSError):
        return False


@pytest.mark.slow(60)
def test_both_interfaces_are_there_and_ctrl_c_stops_what_was_started(server, tmp_path, listening_to_ctrl_c):
    port = free_port(0)
    command = [sys.executable, "-m", "fedbnsl.flows.cli.main", "ui", "--mlflow-port", str(port)]
    env = {**os.environ, "PREFECT_API_URL": server, "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path / 'mlflow.db'}"}
    with (tmp_path / "log").open("w") as log:
        running = subprocess.Popen(command, env=env, cwd=tmp_path, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + 200
            while time.monotonic() < deadline and running.poll() is None:
                if "Ctrl-C stops both" in (tmp_path / "log").read_text():
                    break
                time.sleep(0.2)
            said = (tmp_path / "log").read_text()
            urls = re.findall(r"^(?:Prefect|MLflow): +(\S+)$", said, re.MULTILINE)
            assert urls == [server.removesuffix("/api"), f"http://127.0.0.1:{port}"], said
            assert all(answers(url) for url in urls)
            user, _, password = own_token().partition(":")
            assert f"  to sign in, {user} and {password} are the user and the password\n" in said
        finally:
            running.send_signal(signal.SIGINT)
            code = running.wait(60)
    assert code == 0
    assert (tmp_path / "log").read_text().endswith("stopped\n")
    assert [answers(url) for url in urls] == [True, False]
