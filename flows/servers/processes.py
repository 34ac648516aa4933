"""The Prefect and MLflow servers as child processes: for `fedbnsl ui`, for schedules, and for a single run.

The server of a single run starts while this process still imports modules and checks the input.
"""

import json
import os
import shlex
import signal
import socket
import ssl
import subprocess
import sys
import sysconfig
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote, urlsplit

from fedbnsl.algorithms.errors import BadInput, PrefectUnavailable
from fedbnsl.tasks.fork_server import SAFE_PATH
from fedbnsl.tasks.prefect_internals import EPHEMERAL_SERVER, SERVER_APP, abandon_services, stop_services
from fedbnsl.tracking.mlflow.store import (
    EXPERIMENT,
    artifact_root,
    comparison_link,
    create_from_template,
    database_of,
    table_link,
    tracking_uri,
)
from fedbnsl.tracking.own_servers import (
    ANSWER,
    MLFLOW,
    PREFECT,
    TOKEN_FILE,
    announced_server,
    announcement,
    basic,
    mlflow_credential,
    new_token,
    own_token,
    servers_folder,
)
from fedbnsl.tracking.staging import create_private_folder

PATIENCE = 10.0
"""timeout in seconds of the request for the id of the MLflow experiment"""


def view_lines(mlflow: str) -> list[str]:
    """Lines with links to two views of the MLflow server at `mlflow`; none if it has no runs of this project."""
    url = f"{mlflow.rstrip('/')}/api/2.0/mlflow/experiments/get-by-name?experiment_name={quote(EXPERIMENT)}"
    token = mlflow_token()
    try:
        request = urllib.request.Request(url, None, basic(token) if token else {})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            experiment = json.load(answer)["experiment"]["experiment_id"]
    except (OSError, ValueError, KeyError):
        return []
    return [
        f"  runs with their scores: {table_link(mlflow, experiment)}",
        f"  all runs compared:      {comparison_link(mlflow, experiment)}",
    ]


def mlflow_token() -> str | None:
    """The token of the server that `mlflow_server` starts; None if it shows a server of the user."""
    return None if tracking_uri().startswith("http") else own_token()


DATABASE = "prefect.db"
"""the file of Prefect's database"""
HOST = "127.0.0.1"
CLOUD = "api.prefect.cloud"
"""host of Prefect Cloud, which needs an API key"""
CHILD = (sys.executable, "-m", "fedbnsl.flows.servers.parent_watchdog")
"""the first words of the command line of a program that must not outlive this process"""
UVICORN = (
    *("--app-dir", sysconfig.get_path("stdlib")),  # the first place for imports, by default the working directory
    *("--http", "fedbnsl.flows.servers.bounded_http:BoundedProtocol"),
)
"""options of uvicorn in every server"""

FOR_ONE_RUN = {
    **EPHEMERAL_SERVER,
    "PREFECT_UI_ENABLED": "0",
    # Nobody opens the pages of this server, so it stores runs and tasks, but no events.
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED": "false",
    "PREFECT_SERVER_REGISTER_BLOCKS_ON_START": "false",
    "PREFECT_LOGGING_LEVEL": "ERROR",  # to a file, of which a notice quotes the last error
    "PREFECT_LOGGING_SERVER_LEVEL": "ERROR",
}
"""settings of a server that lives as long as a run: no pages, no automations, no event feed"""


@contextmanager
def prefect_server(port: int = 4200, patience: float = 120) -> Iterator[str]:
    """Yield the URL of a Prefect server's API: the user's server, that of `fedbnsl ui`, or a server for the block.

    The server of the block uses the same database as the servers of single runs, so it also shows earlier runs. While
    it is up, runs of this user find it and use it.
    """
    with standing_server() as standing:
        if standing:
            check_reachable(standing)
            with _environment({} if users_server() else {"PREFECT_API_URL": standing, TOKEN: api_token()}):
                yield standing
            return
    _begin_database()
    port = free_port(port)
    url = f"http://{HOST}:{port}/api"
    # Without the last setting, the pages would send requests to port 4200, even if the server has another port.
    env = {"PREFECT_API_URL": url, "PREFECT_SERVER_UI_API_URL": url, "PREFECT_UI_API_URL": url}
    env |= {"PREFECT__SERVER_FINAL": "1"} | protection(port, api_token())
    with (
        announcement(servers_folder(), PREFECT) as public,
        process(_prefect_words(port), env, inherited=public.inherited()) as server,
    ):
        wait_until_up(f"{url}/health", server, "the Prefect server", patience)
        public.name(url)
        with _environment({"PREFECT_API_URL": url, TOKEN: api_token()}):
            yield url


TOKEN = "PREFECT_API_AUTH_STRING"
"""the environment variable from which clients of Prefect's API take their token"""


def protection(port: int, token: str) -> dict[str, str]:
    """The environment of a Prefect server at `port` that answers only requests with `token`.

    Every account of this machine and every page in a browser can connect to the port. Without a token, other accounts
    and pages could start runs as this user. With these settings, pages of other origins also cannot read answers, and
    writes need a CSRF token.
    """
    origins = ",".join(f"http://{host}:{port}" for host in (HOST, "localhost"))
    return {
        "PREFECT_SERVER_API_AUTH_STRING": token,
        TOKEN: token,
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": origins,
        "PREFECT_SERVER_CSRF_PROTECTION_ENABLED": "true",
    }


def api_token() -> str:
    """The token of this user's Prefect server: from the environment, or the token of all servers of this user."""
    return os.environ.get(TOKEN) or own_token()


def api_settings(url: str) -> dict[Any, Any]:
    """The settings with which this process reaches the API at `url`, with the token of the environment, if any."""
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL

    token = os.environ.get(TOKEN)
    return {PREFECT_API_URL: url} | ({PREFECT_API_AUTH_STRING: token} if token else {})


def sign_in_lines(url: str) -> list[str]:
    """Lines with the address of the pages of the server at `url`, and the token to sign in, if any."""
    lines = [f"Prefect: {url.removesuffix('/api')}"]
    token = os.environ.get(TOKEN)
    return lines if token is None else [*lines, f"  to sign in, paste {token}"]


def export_words(url: str) -> str:
    """The shell command after which `prefect` uses the server at `url`; it names the token's file, not the token."""
    words, file = f"export PREFECT_API_URL={url}", servers_folder() / TOKEN_FILE
    return words + f' {TOKEN}="$(cat {shlex.quote(str(file))})"' * file.exists()


def _prefect_words(port: int) -> list[str]:
    """The command line of a Prefect server at `port`, as Prefect starts one in the background."""
    words = [*CHILD, "uvicorn", "--factory", SERVER_APP, "--host", HOST, "--port", str(port)]
    return [*words, "--log-level", "error", "--lifespan", "on", *UVICORN]


Ready = Callable[[], str]
"""a function that waits until a server answers, and returns the URL of its API"""


@contextmanager
def temporary_server(patience: float = 120) -> Iterator[Ready]:
    """Start a Prefect server for this process alone, unless the user has one or runs `fedbnsl ui`.

    Yield a function that waits until the server answers and returns the URL of its API. The function raises
    `PrefectUnavailable`, with the last error of the server, if the server does not start.

    The server is like Prefect's own ephemeral server and uses the same database, but it starts while this process still
    imports modules. This halves the time to the first round.
    """
    with standing_server() as standing:
        if standing:
            yield lambda: check_reachable(standing)
            return
    _begin_database()
    port = free_port(0)
    url = f"http://{HOST}:{port}/api"
    token = new_token()
    with (
        TemporaryDirectory(prefix="fedbnsl-prefect-") as scratch,
        process(_prefect_words(port), FOR_ONE_RUN | protection(port, token), Path(scratch) / "log") as server,
    ):

        def ready() -> str:
            try:
                wait_until_up(f"{url}/health", server, "the Prefect server", patience)
            except BadInput as error:
                lines = (Path(scratch) / "log").read_text(errors="replace").splitlines()
                said = next((f" ({line.strip()})" for line in reversed(lines) if "Error: " in line), "")
                raise PrefectUnavailable(f"{error}{said}; its database is {servers_folder() / DATABASE}") from None
            return url

        try:
            with _environment({TOKEN: token}):
                yield ready
        finally:
            if server.poll() is None:
                stop_services()
            else:
                abandon_services()


@contextmanager
def standing_server() -> Iterator[str | None]:
    """Yield the URL of the API of the user's own server or of the server of `fedbnsl ui`; None if there is neither."""
    known = users_server()
    running = None if known else announced_server(servers_folder(), api_token, PREFECT)
    with _environment({TOKEN: api_token()} if running else {}):
        yield known or running


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set these variables of the environment within the block, for clients of Prefect's API and for runs."""
    before = {name: os.environ.get(name) for name in values}
    os.environ |= values
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            os.environ |= {} if value is None else {name: value}


def users_server() -> str | None:
    """The URL of the user's own Prefect API, from Prefect, the environment or a profile; None if there is none."""
    if "prefect" in sys.modules:
        from prefect.settings import PREFECT_API_URL

        current: str | None = PREFECT_API_URL.value()
        return current
    if os.environ.get("PREFECT_API_URL"):
        return os.environ["PREFECT_API_URL"]
    try:
        profiles = Path(os.environ.get("PREFECT_PROFILES_PATH") or servers_folder() / "profiles.toml")
        content = tomllib.loads(profiles.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError):
        return None
    profile = content.get("profiles", {}).get(os.environ.get("PREFECT_PROFILE") or content.get("active"), {})
    url: str | None = profile.get("PREFECT_API_URL")
    return url


def _begin_database() -> None:
    """Create Prefect's database if it does not exist; servers that start together could both try to create it."""
    create_from_template("prefect", servers_folder() / DATABASE)


@contextmanager
def mlflow_server(port: int = 5000, patience: float = 120) -> Iterator[str]:
    """Yield the URL of an MLflow server that shows the runs: the user's server, or a server for the block.

    The server of the block answers only requests with this user's token, which commands of this user find and send.
    """
    uri = tracking_uri()
    if uri.startswith("http"):
        yield uri
        return
    port = free_port(port)
    url = f"http://{HOST}:{port}"
    root = artifact_root(uri)
    create_private_folder(root)
    if (database := database_of(uri)) is not None:
        create_from_template("mlflow", database)  # MLflow would let other accounts read it
    words = [*CHILD, "mlflow", "server", "--app-name", "fedbnsl", "--host", HOST, "--port", str(port)]
    words += ["--workers", "1", "--allowed-hosts", f"{HOST}:{port},localhost:{port}", "--cors-allowed-origins", url]
    words += ["--uvicorn-opts", shlex.join(UVICORN)]
    # The address of a database may contain a password, and every account can read the arguments of a process.
    env = {"MLFLOW_BACKEND_STORE_URI": uri, "MLFLOW_ARTIFACTS_DESTINATION": str(root)}
    env |= mlflow_credential(own_token())
    with announcement(servers_folder(), MLFLOW) as public, process(words, env, inherited=public.inherited()) as server:
        wait_until_up(f"{url}{MLFLOW.probe}", server, "the MLflow server", patience, basic(own_token()))
        public.name(url)
        yield url


def serve_both(prefect_port: int, mlflow_port: int) -> None:
    """Start both servers, print their addresses, and stop them on Ctrl-C."""
    print("starting Prefect and MLflow ...", flush=True)
    try:
        with prefect_server(prefect_port) as prefect_api, mlflow_server(mlflow_port) as mlflow:
            for line in sign_in_lines(prefect_api):
                print(line, flush=True)
            print(f"MLflow:  {mlflow}", flush=True)
            if token := mlflow_token():
                print(f"  to sign in, {' and '.join(token.split(':', 1))} are the user and the password", flush=True)
            for line in view_lines(mlflow):
                print(line, flush=True)
            print("`fedbnsl learn` uses this Prefect server while it is up", flush=True)
            print(f"for the command prefect: {export_words(prefect_api)}", flush=True)
            print("Ctrl-C stops both", flush=True)
            while True:
                time.sleep(3600)
    except KeyboardInterrupt:
        print("stopped", flush=True)


@contextmanager
def process(
    words: list[str], env: dict[str, str], log: Path | None = None, inherited: tuple[int, ...] = ()
) -> Iterator["subprocess.Popen[Any]"]:
    """Run a program within the block, in its own session; the program and its children end with the block.

    The output goes to the file `log`, if given, and the program keeps the `inherited` open files. If `words` begin with
    `CHILD`, the program also ends when this process is killed, and imports nothing from the working directory.
    """
    if tuple(words[: len(CHILD)]) == CHILD:
        env = {SAFE_PATH: "1", **env}
    with open(log or os.devnull, "wb") as output:
        child = subprocess.Popen(
            words,
            env={**os.environ, **env},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=inherited,
        )
    try:
        yield child
    finally:
        for word, seconds in ((signal.SIGTERM, 10), (signal.SIGKILL, 5)):
            try:
                os.killpg(child.pid, word)
                child.wait(seconds)
                break
            except ProcessLookupError:
                break
            except subprocess.TimeoutExpired:
                continue


def check_reachable(url: str) -> str:
    """The `url` itself; raises `PrefectUnavailable` unless the API of a Prefect server answers there."""
    advice = "start it, or correct or unset PREFECT_API_URL"
    if urlsplit(url).hostname == CLOUD:
        return url
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/health", timeout=ANSWER) as answer:
            healthy = answer.read(16).strip() == b"true"
    except (OSError, ValueError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        if isinstance(reason, ssl.SSLError) or getattr(error, "code", None) in (401, 403):
            return url  # Prefect has its own settings for trusted certificates and for credentials.
        raise PrefectUnavailable(f"Prefect at {url} does not answer: {reason}; {advice}") from None
    if not healthy:
        raise PrefectUnavailable(f"{url} is not the API of a Prefect server; {advice}")
    return url


def wait_until_up(
    url: str, server: "subprocess.Popen[Any]", what: str, patience: float, headers: Mapping[str, str] | None = None
) -> None:
    """Wait until `url` answers; raises `BadInput` if the server ends, or does not answer within `patience` seconds."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise BadInput(f"{what} did not start: it exited with {server.returncode}")
        try:
            with urllib.request.urlopen(urllib.request.Request(url, None, dict(headers or {})), timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    raise BadInput(f"{what} did not answer at {url} within {patience:g} s")


def free_port(wanted: int) -> int:
    """The port `wanted` if it is free, otherwise another free port; raises `BadInput` if no port is free."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise BadInput("no free port on this machine")
