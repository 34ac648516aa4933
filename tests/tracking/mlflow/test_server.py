"""MLflow's server of `fedbnsl ui`: only this user's clients and pages reach it, and artifacts stay in one folder."""

import asyncio
import json
import os
import stat
import urllib.error
import urllib.request
from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbnsl.flows.servers.processes import mlflow_server, view_lines
from fedbnsl.tracking.mlflow.server import create_app, guarded
from fedbnsl.tracking.mlflow.store import experiment_id, open_client
from fedbnsl.tracking.own_servers import MLFLOW_PASSWORD, MLFLOW_USER, TOKEN_FILE, basic, sign_in_to_mlflow

HOST, TOKEN = "127.0.0.1:5000", "fedbnsl:word"


def status_of(headers, method="GET", kind="http"):
    """The status of the answer to a request with these headers; 200 if it reached the application."""
    sent = []

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message):
        sent.append(message)

    words = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
    guard = guarded(app, TOKEN, [HOST, "localhost:5000"])
    asyncio.run(guard({"type": kind, "method": method, "path": "/", "headers": words}, None, send))
    return sent[0].get("status", sent[0]["type"])


OWN = {"Host": HOST} | basic(TOKEN)


@given(st.dictionaries(st.sampled_from(["Authorization", "Cookie", "X-Forwarded-For"]), st.text("Basic :=abc123")))
def test_nothing_but_the_credential_opens_the_server(headers):
    assert status_of({"Host": HOST} | headers) == 401


@pytest.mark.parametrize("token", ["", "fedbnsl:", "fedbnsl:wor", "fedbnsl:word ", "other:word", "fedbnsl:wordx"])
def test_a_wrong_credential_is_refused(token):
    assert status_of({"Host": HOST} | basic(token)) == 401
    assert status_of({"Host": HOST, "Authorization": f"Bearer {b64encode(TOKEN.encode()).decode()}"}) == 401


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS", "HEAD"])
def test_pages_of_other_origins_are_refused_with_the_credential(method):
    """A browser that knows the password adds it to the requests of every page, as of another port of this machine."""
    for page in (
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:5001"},
        {"Origin": "http://localhost:5000"},
        {"Origin": "null"},
        {"Host": "evil.example"},
        {"Host": "evil.example:5000", "Origin": "http://evil.example:5000"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"},
    ):
        assert status_of(OWN | page, method) == 403, page
    assert status_of(OWN | {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, "POST") == 403  # a form


def test_own_pages_and_links_are_served():
    assert status_of(OWN) == 200
    assert status_of(OWN | {"Host": "localhost:5000", "Origin": "http://localhost:5000"}, "POST") == 200
    assert status_of(OWN | {"Origin": f"http://{HOST}", "Sec-Fetch-Site": "same-origin"}, "POST") == 200
    assert status_of(OWN | {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}) == 200
    assert status_of({"Host": HOST}, kind="websocket") == "websocket.close"


@pytest.mark.parametrize("missing", [MLFLOW_USER, MLFLOW_PASSWORD, "MLFLOW_SERVER_ALLOWED_HOSTS"])
def test_without_a_credential_or_hosts_it_does_not_start(missing, monkeypatch):
    for name in (MLFLOW_USER, MLFLOW_PASSWORD, "MLFLOW_SERVER_ALLOWED_HOSTS"):
        monkeypatch.setenv(name, "given")
    monkeypatch.delenv(missing)
    with pytest.raises(RuntimeError, match="set MLFLOW_TRACKING_USERNAME"):
        create_app()


def test_patterns_of_hosts_are_refused(monkeypatch):
    for name in (MLFLOW_USER, MLFLOW_PASSWORD):
        monkeypatch.setenv(name, "given")
    monkeypatch.setenv("MLFLOW_SERVER_ALLOWED_HOSTS", "127.0.0.1:5000,*.example")
    with pytest.raises(RuntimeError, match="without patterns"):
        create_app()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A server of MLflow, the folder of its files, and the header of its user."""
    home = tmp_path_factory.mktemp("mlflow")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREFECT_HOME", str(home / "prefect"))
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{home}/mlflow.db")
        for name in (MLFLOW_USER, MLFLOW_PASSWORD):
            patch.setenv(name, "")  # what a client sets is undone
        # A folder beside the user's data may have the name of any module, and must not be imported.
        (home / "work" / "fedbnsl").mkdir(parents=True)
        (home / "work" / "fedbnsl" / "__init__.py").write_text("raise SystemExit('imported')")
        patch.chdir(home / "work")
        with mlflow_server(0) as url:
            yield url, home, basic((home / "prefect" / TOKEN_FILE).read_text("utf-8"))


def call(served, path, body=None, data=None, headers=None):
    """The status and the content of the answer to a request for `path`."""
    url, _, own = served
    given = json.dumps(body).encode() if body is not None else data
    request = urllib.request.Request(f"{url}{path}", given, {"Content-Type": "application/json", **(headers or own)})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def client_of(served):
    """A client that finds the token by itself, as in every command."""
    return open_client(served[0])


@pytest.mark.slow(60)
class TestServer:
    def test_clients_of_this_user_send_the_token_by_themselves(self, served, monkeypatch):
        monkeypatch.setenv(MLFLOW_USER, "")
        client = client_of(served)
        run = client.create_run(experiment_id(client, served[0])).info.run_id
        client.log_metric(run, "shd", 3)
        client.log_text(run, "a graph", "outputs/graph.txt")
        assert client.get_run(run).data.metrics == {"shd": 3.0}
        assert [one.path for one in client.list_artifacts(run, "outputs")] == ["outputs/graph.txt"]
        assert call(served, f"/get-artifact?path=outputs/graph.txt&run_uuid={run}") == (200, b"a graph")

    def test_the_token_is_sent_to_no_other_server(self, served, monkeypatch):
        """Another account may listen at any port that is free."""
        for uri in ("http://127.0.0.1:9", "http://other.example:5000", served[0].replace("http", "https")):
            monkeypatch.setenv(MLFLOW_USER, "")
            sign_in_to_mlflow(uri)
            assert os.environ[MLFLOW_USER] == "", uri
        monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "of the user")
        sign_in_to_mlflow(served[0])
        assert os.environ[MLFLOW_USER] == ""

    def test_its_database_is_private(self, served):
        assert stat.S_IMODE((served[1] / "mlflow.db").stat().st_mode) == 0o600

    def test_links_to_the_runs_are_printed(self, served):
        experiment_id(client_of(served), served[0])
        assert len(view_lines(served[0])) == 2

    def test_a_run_of_this_computer_s_database_is_shown(self, served):
        """`learn` writes to the database itself, with artifacts beside it."""
        uri = f"sqlite:///{served[1]}/mlflow.db"
        local = open_client(uri)
        where = local.create_experiment("local", artifact_location=(served[1] / "mlartifacts" / "local").as_uri())
        run = local.create_run(where).info.run_id
        local.log_text(run, "written here", "here.txt")
        assert call(served, f"/get-artifact?path=here.txt&run_uuid={run}") == (200, b"written here")

    @pytest.mark.parametrize("scheme", ["file://", "", "s3:/", "http:/", "sftp:/"])
    def test_a_client_cannot_choose_a_location_outside(self, served, scheme, tmp_path):
        for key in ("artifact_location", "artifactLocation"):
            asked = {"name": f"x{scheme}{key}", key: f"{scheme}{tmp_path}"}
            status, told = call(served, "/api/2.0/mlflow/experiments/create", asked)
            assert status == 400, told
        asked = {"name": f"y{scheme}", "artifact_location": f"{(served[1] / 'mlartifacts').as_uri()}/../elsewhere"}
        assert call(served, "/api/2.0/mlflow/experiments/create", asked)[0] == 400

    def test_a_location_inside_is_accepted(self, served):
        asked = {"name": "inside", "artifact_location": (served[1] / "mlartifacts" / "inside").as_uri()}
        assert call(served, "/api/2.0/mlflow/experiments/create", asked)[0] == 200

    @pytest.mark.parametrize("way", ["location", "link of a run", "link of an experiment", "link within artifacts"])
    def test_no_file_outside_is_listed_read_or_written(self, served, way, tmp_path):
        """Whatever the database and the folders contain, for instance from before."""
        (tmp_path / "secret").write_text("of the user")
        uri = f"sqlite:///{served[1]}/mlflow.db"
        inside = served[1] / "mlartifacts" / f"planted {way}"
        where = tmp_path if way == "location" else inside
        client = open_client(uri)
        run = client.create_run(client.create_experiment(way, artifact_location=where.as_uri())).info.run_id
        if way == "location":
            (tmp_path / run).mkdir()
            (tmp_path / run / "artifacts").symlink_to(tmp_path)
        elif way == "link of a run":
            (inside / run).mkdir(parents=True)
            (inside / run / "artifacts").symlink_to(tmp_path)
        elif way == "link of an experiment":
            (tmp_path / run).mkdir()
            (tmp_path / run / "artifacts").symlink_to(tmp_path)
            inside.symlink_to(tmp_path)
        else:
            (inside / run / "artifacts").mkdir(parents=True)
            (inside / run / "artifacts" / "sub").symlink_to(tmp_path)
        under = "sub/" if way == "link within artifacts" else ""
        before = sorted(path.name for path in tmp_path.iterdir())
        listed = call(served, f"/api/2.0/mlflow/artifacts/list?run_id={run}&path={under.rstrip('/')}")
        read = call(served, f"/get-artifact?path={under}secret&run_uuid={run}")
        write = call(
            served,
            f"/ajax-api/2.0/mlflow/upload-artifact?run_uuid={run}&path={under}planted.txt",
            data=b"planted",
            headers=served[2] | {"Content-Type": "application/octet-stream"},
        )
        for status, told in (listed, read, write):
            assert status >= 400, told
            assert b"of the user" not in told
        assert sorted(path.name for path in tmp_path.iterdir()) == before

    def test_the_files_of_the_server_s_own_storage_stay_inside(self, served, tmp_path):
        (tmp_path / "secret").write_text("of the user")
        (served[1] / "mlartifacts" / "out").symlink_to(tmp_path)
        for path in ("out/secret", "../prefect/fedbnsl-token", "%2e%2e/mlflow.db"):
            status, told = call(served, f"/api/2.0/mlflow-artifacts/artifacts/{path}")
            assert status >= 400, path
            assert b"of the user" not in told
