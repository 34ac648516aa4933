"""A run finds the server that `fedbnsl ui` started, and sends the token to no other server."""

import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from fedbnsl.flows.servers import processes
from fedbnsl.flows.servers.processes import TOKEN, temporary_server
from fedbnsl.tracking import own_servers
from fedbnsl.tracking.own_servers import PREFECT, announcement

TOKEN_OF_USER = "fedbnsl:word"


def announced_server(home, token):
    return own_servers.announced_server(home, lambda: token, PREFECT)


@pytest.fixture
def listener():
    """A program at a port that accepts every token, and the headers of the requests that it received."""
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append(self.headers["Authorization"])
            self.send_response(200 if self.headers["Authorization"] == "Basic ZmVkYm5zbDp3b3Jk" else 401)
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/api", seen
        server.shutdown()


@contextmanager
def serving(home, url):
    """A process that holds the lock like a server, and is announced."""
    with announcement(home, PREFECT) as public:
        words = [sys.executable, "-c", "import sys; sys.stdin.read()"]
        with subprocess.Popen(words, stdin=subprocess.PIPE, pass_fds=public.inherited()) as server:
            assert announced_server(home, TOKEN_OF_USER) is None  # it does not answer yet
            public.name(url)
            yield server


def test_a_run_finds_the_server_while_it_lives(tmp_path, listener):
    """A killed server leaves its file, and any account may use its port: the token must not be sent there."""
    url, seen = listener
    with serving(tmp_path, url) as server:
        assert announced_server(tmp_path, TOKEN_OF_USER) == url
        assert announced_server(tmp_path, "fedbnsl:other") is None  # it was started with a token of its own
        server.kill()
        server.wait()
        assert (tmp_path / PREFECT.file).read_text().splitlines()[1:] == [url]
        assert announced_server(tmp_path, TOKEN_OF_USER) is None
        assert len(seen) == 2


def test_the_first_server_stays_announced(tmp_path, listener):
    url, _ = listener
    with serving(tmp_path, url), announcement(tmp_path, PREFECT) as second:
        second.name("http://127.0.0.1:9/api")
        assert second.inherited() == ()
        assert announced_server(tmp_path, TOKEN_OF_USER) == url


def test_a_file_that_others_can_write_is_not_read(tmp_path, listener):
    url, seen = listener
    with serving(tmp_path, url):
        (tmp_path / PREFECT.file).chmod(0o622)
        assert announced_server(tmp_path, TOKEN_OF_USER) is None
        (tmp_path / PREFECT.file).chmod(0o600)
        (tmp_path / "home").mkdir()
        (tmp_path / "home" / PREFECT.file).symlink_to(tmp_path / PREFECT.file)
        assert announced_server(tmp_path / "home", TOKEN_OF_USER) is None
    assert seen == []


def test_without_a_server_the_token_is_left_alone(tmp_path):
    """A run that has a server of its own needs no token of this account, and no file for it."""

    def token():
        raise AssertionError("the token was asked for")

    assert own_servers.announced_server(tmp_path, token, PREFECT) is None
    with announcement(tmp_path, PREFECT):
        assert own_servers.announced_server(tmp_path, token, PREFECT) is None  # it does not answer yet
    assert own_servers.announced_server(tmp_path, token, PREFECT) is None


def test_learn_runs_on_the_server_that_is_up(server, monkeypatch):
    """No second server is started: the run appears on the pages that the user looks at."""
    token = os.environ[TOKEN]
    monkeypatch.setattr(processes, "users_server", lambda: None)
    with temporary_server() as ready:
        assert ready() == server
        assert os.environ[TOKEN] == token
    assert os.environ[TOKEN] == token
