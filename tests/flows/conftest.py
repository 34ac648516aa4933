"""One real Prefect server, one MLflow database and one small data set for all flow tests."""

import os
import signal
import tempfile
from pathlib import Path

import pytest

HOME = tempfile.mkdtemp(prefix="fedbnsl-prefect-")
os.environ["PREFECT_HOME"] = HOME  # this must run before prefect is imported
os.environ["PREFECT_SERVER_SERVICES_SCHEDULER_DEPLOYMENT_LOOP_SECONDS"] = "1"
os.environ["PREFECT_RUNNER_POLL_FREQUENCY"] = "1"

from fedbnsl.flows.servers.environment import prepare_environment  # noqa: E402

prepare_environment(quiet=True)


@pytest.fixture(scope="session")
def server():
    """The URL of the API of a running Prefect server, which this process uses, too."""
    import mlflow  # noqa: F401, what all runs need is imported here and not in the time of the first test
    from prefect.settings import temporary_settings

    from fedbnsl.flows.learn import learn  # noqa: F401
    from fedbnsl.flows.servers.processes import prefect_server
    from fedbnsl.flows.start import client_settings
    from fedbnsl.tasks.fork_server import fork_server

    fork_server()
    with prefect_server(0) as url, temporary_settings(client_settings(url)):
        yield url


@pytest.fixture(scope="session")
def mlflow_uri():
    """The tracking URI of all flow tests."""
    return f"sqlite:///{Path(HOME) / 'mlflow.db'}"


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """A folder of three silos with five variables, one per module because runs leave charges and journals in it."""
    from fedbnsl.data.folder.folder import write_folder
    from fedbnsl.data.generators.linear import homogeneous

    folder = tmp_path_factory.mktemp("data") / "example"
    write_folder(folder, homogeneous(variables=5, silos=3, rows=100, seed=1))
    return folder


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch, mlflow_uri):
    """Run every test in a folder of its own, with its own MLflow database."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", mlflow_uri)


@pytest.fixture
def rendered():
    """For tests of pictures; all other tests in this folder draw no pictures."""


PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d494844520000000100000001080600000"
    "01f15c4890000000b49444154789c6360000200000500017a5eab3f0000000049454e44ae426082"
)
"""a PNG file of one pixel"""
DRAWN = ("draw_result", "draw_structure", "draw_matrices", "draw_delays", "draw_rounds")
"""the drawing functions of a run"""


@pytest.fixture(autouse=True)
def without_pictures(request, monkeypatch):
    """Draw no pictures unless a test uses `rendered`, because they take most of the time of a small run."""
    if "rendered" in request.fixturenames:
        return
    for name in DRAWN:
        monkeypatch.setattr(f"fedbnsl.tracking.report.drawings.{name}", lambda *shown, **how: None)
    monkeypatch.setattr("fedbnsl.tracking.report.drawings.as_png", lambda figure: PIXEL)
    monkeypatch.setattr("fedbnsl.tracking.report.drawings.as_svg", lambda *shown: "<svg></svg>")


@pytest.fixture
def listening_to_ctrl_c():
    """Undo what a shell does to a background job: it starts with SIGINT ignored, and so does all it starts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def exchanged(monkeypatch):
    """The exchanges made so far, each as its part of the run, such as "round" or "parameters", and its bytes."""
    from fedbnsl.tasks.transport.federation import SiloFederation

    made, exchange = [], SiloFederation.exchange

    def recorded(self, *given):
        replies, traffic = exchange(self, *given)
        made.append((self.terms.part, traffic.total))
        return replies, traffic

    monkeypatch.setattr(SiloFederation, "exchange", recorded)
    return made
