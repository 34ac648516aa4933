"""If MLflow or the Prefect server ends, the run continues, and its result is unchanged bit for bit."""

import _thread
import asyncio
import select
import socket
import threading
from urllib.parse import urlsplit

import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.folder import read_folder
from fedbnsl.flows.engines.inline import job_inline, run_inline
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.flows.start import learn_with_prefect
from fedbnsl.tracking.mlflow.tracker import read_outbox

SETTINGS = {"algorithm": "notears-admm", "params": {"rounds": 6}, "seed": 3}


class Wire:
    """A proxy to a server that can be cut: existing connections end, and no new one is accepted."""

    def __init__(self, url):
        parts = urlsplit(url)
        self.there = (parts.hostname, parts.port)
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listening.getsockname()[1]}/api"
        self.ends = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self.listening.accept()
            except OSError:
                return
            far = socket.create_connection(self.there)
            self.ends += [near, far]
            threading.Thread(target=self._carry, args=(near, far), daemon=True).start()

    def _carry(self, near, far):
        try:
            while True:
                for end in select.select([near, far], [], [])[0]:
                    read = end.recv(65536)
                    if not read:
                        raise ConnectionError
                    (far if end is near else near).sendall(read)
        except (OSError, ValueError):
            near.close()
            far.close()

    def cut(self):
        # Without shutdown, the waiting `accept` would take one more connection.
        self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        for end in self.ends:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue


@pytest.fixture
def wire(server):
    from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings

    wire = Wire(server)
    with temporary_settings({PREFECT_API_URL: wire.url, PREFECT_CLIENT_MAX_RETRIES: 0}):
        yield wire
    wire.cut() if wire.listening.fileno() != -1 else None


def learn(example, tmp_path, hear, **settings):
    asked = LearnSettings(data=str(example), out=str(tmp_path / "out"), **SETTINGS | settings)
    return learn_with_prefect(asked, hear)


@pytest.mark.slow
def test_a_run_goes_on_without_mlflow_and_when_its_prefect_server_goes(wire, example, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")

    def hear(heard):
        if heard.round.number == 2:
            wire.cut()

    finished = learn(example, tmp_path, hear)
    data = read_folder(example)
    alone = run_inline(job_inline(LearnSettings(data=str(example), **SETTINGS), "inline", data), data)
    assert finished.result.structure.weights.tobytes() == alone.structure.weights.tobytes()
    assert finished.result.rounds == alone.rounds
    assert (finished.folder / "structure.csv").exists()
    assert not (finished.folder / "started.json").exists()
    said = capsys.readouterr().err
    assert said.count("Prefect no longer responds") == 1
    assert said.count("MLflow is not available") == 1
    assert finished.tracking_url is None
    assert read_outbox(finished.folder).ending.metrics["shd"] == finished.result.metrics["shd"]


def test_the_error_of_a_run_is_not_hidden_by_that_of_its_server(wire, example, tmp_path):
    def hear(heard):
        wire.cut()
        raise BadInput("a silo holds other rows")

    with pytest.raises(BadInput, match="a silo holds other rows"):
        learn(example, tmp_path, hear)


def test_a_server_that_goes_before_the_run_begins_is_one_line(wire, example, tmp_path, capsys):
    wire.cut()
    finished = learn(example, tmp_path, lambda heard: None)
    assert finished.result.outcome == "out of rounds"
    assert (finished.folder / "structure.csv").exists()
    said = capsys.readouterr().err
    assert said.count("does not answer") == 1
    assert "the run takes place without Prefect" in said


def test_tasks_that_wait_for_a_limit_of_concurrency_do_not_wait_for_a_server_that_hangs(
    server, example, tmp_path, capsys, monkeypatch
):
    """The requests of all silos' tasks are queued; the first one fails, and the others must not be forgotten."""
    import httpx
    from prefect.client.orchestration import PrefectClient
    from prefect.concurrency import services

    async def hang(self, **given):
        await asyncio.sleep(0.3)
        raise httpx.ReadTimeout("")

    def hear(heard):
        if heard.round.number == 2:
            monkeypatch.setattr(PrefectClient, "increment_concurrency_slots_with_lease", hang)
            services._no_limits_cache.clear()

    deadline = threading.Timer(100, _thread.interrupt_main)
    deadline.start()
    finished = learn(example, tmp_path, hear)
    deadline.cancel()
    assert finished.result.outcome == "out of rounds"
    said = capsys.readouterr().err
    assert said.count("Prefect no longer responds (") == 1
