"""Prefect's API, which runs flows as this user, answers only token holders and pages of its own origin."""

import json
import os
import stat
import urllib.error
import urllib.request

import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.flows.servers import processes
from fedbnsl.flows.servers.processes import TOKEN, api_token, sign_in_lines, temporary_server
from fedbnsl.tracking.own_servers import TOKEN_FILE, basic

READ, WRITE = "admin/settings", "flow_runs/filter"


def status(url, **headers):
    """The status and headers of the answer to a request without more than these headers."""
    body = b"{}" if url.endswith(WRITE) else None
    request = urllib.request.Request(url, body, {"Content-Type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.headers
    except urllib.error.HTTPError as error:
        return error.code, error.headers


def test_the_server_of_all_runs_needs_the_token(server):
    """Another account of the machine can connect to the port; so can a page, which a browser sends from its origin."""
    assert status(f"{server}/{READ}")[0] == 401
    assert status(f"{server}/{READ}", **basic("fedbnsl:guessed"))[0] == 401
    assert status(f"{server}/{READ}", **basic(os.environ[TOKEN]))[0] == 200


def test_pages_of_other_origins_may_neither_read_nor_write(server):
    page = basic(os.environ[TOKEN]) | {"Origin": "http://evil.example"}
    code, headers = status(f"{server}/{READ}", **page)
    assert (code, headers["Access-Control-Allow-Origin"]) == (200, None)  # a browser keeps the answer from the page
    assert status(f"{server}/{WRITE}", **page)[0] == 403  # without a CSRF token


def test_its_own_pages_may_read(server):
    origin = server.removesuffix("/api")
    headers = {**basic(os.environ[TOKEN]), "Origin": origin}
    request = urllib.request.Request(f"{server}/csrf-token?client=test", headers=headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        token = json.load(answer)["token"]
        assert answer.headers["Access-Control-Allow-Origin"] == origin
    more = {"Prefect-Csrf-Token": token, "Prefect-Csrf-Client": "test", "Origin": origin}
    assert status(f"{server}/{WRITE}", **basic(os.environ[TOKEN]), **more)[0] == 200


@pytest.mark.slow
def test_the_server_of_one_run_needs_a_token_of_its_own(monkeypatch, tmp_path):
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "home"))  # no server is announced there
    monkeypatch.setattr(processes, "users_server", lambda: None)
    before = os.environ.get(TOKEN)
    with temporary_server() as ready:
        url, token = ready(), os.environ[TOKEN]
        assert token != before
        assert status(f"{url}/{READ}")[0] == 401
    assert os.environ.get(TOKEN) == before


def test_the_token_is_kept_for_its_owner_alone(monkeypatch, tmp_path):
    monkeypatch.delenv(TOKEN, raising=False)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "home"))
    token = api_token()
    path = tmp_path / "home" / TOKEN_FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert api_token() == token == path.read_text()
    assert len(token) > 32
    path.chmod(0o644)
    with pytest.raises(BadInput, match="other users can read this token"):
        api_token()


def test_the_user_is_told_how_to_sign_in(monkeypatch):
    monkeypatch.setenv(TOKEN, "fedbnsl:word")
    assert sign_in_lines("http://127.0.0.1:4200/api") == [
        "Prefect: http://127.0.0.1:4200",
        "  to sign in, paste fedbnsl:word",
    ]
    monkeypatch.delenv(TOKEN)
    assert sign_in_lines("https://prefect.example/api") == ["Prefect: https://prefect.example"]
