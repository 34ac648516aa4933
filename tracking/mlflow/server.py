"""MLflow's server for one user or one group: `mlflow server --app-name fedbnsl`.

MLflow's own server answers every account of the machine. This one answers only requests with the user and the password
in MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, from which MLflow's clients take them, too. A browser asks for
them. MLflow also permits pages of any server on this machine to send requests; this server permits only its own pages.

Artifacts are in one folder, `--artifacts-destination`. Clients may name locations in requests, for experiments, models
and traces, so each location is checked when it is used: with symbolic links resolved, it must be in that folder.
"""

import os
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from hmac import compare_digest
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..own_servers import MLFLOW_PASSWORD, MLFLOW_USER

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def create_app() -> App:
    """The application that `mlflow server` runs. Raises `RuntimeError` if the credential or the hosts are not set."""
    user, password = os.environ.get(MLFLOW_USER), os.environ.get(MLFLOW_PASSWORD)
    hosts = [host.strip() for host in os.environ.get("MLFLOW_SERVER_ALLOWED_HOSTS", "").split(",") if host.strip()]
    if not user or not password or not hosts or "*" in "".join(hosts):
        raise RuntimeError(f"set {MLFLOW_USER} and {MLFLOW_PASSWORD}, and give --allowed-hosts without patterns")
    from mlflow.server.constants import ARTIFACTS_DESTINATION_ENV_VAR
    from mlflow.server.fastapi_app import app

    confine_artifacts(Path(os.environ[ARTIFACTS_DESTINATION_ENV_VAR]))
    return guarded(app, f"{user}:{password}", hosts)


def guarded(app: App, token: str, hosts: Iterable[str]) -> App:
    """`app` for requests with `token` that are sent to one of the `hosts` and, by a browser, from a page of that host.

    Every other request gets the status 401, or 403 for another host or page, and never reaches `app`.
    """
    expected = f"Basic {b64encode(token.encode()).decode()}".encode()
    known = frozenset(hosts)

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await app(scope, receive, send)
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if not _from_own_page(scope, headers, known):
            return await _refuse(scope, send, 403, "requests of other hosts or pages are refused")
        if not compare_digest(headers.get(b"authorization", b""), expected):
            return await _refuse(scope, send, 401, "sign in")
        return await app(scope, receive, send)

    return guard


def _from_own_page(scope: Scope, headers: dict[bytes, bytes], hosts: frozenset[str]) -> bool:
    """Whether the request is for one of the `hosts` and, if a browser sent it, from a page of that host or a link."""
    host = headers.get(b"host", b"").decode("latin-1")
    origin = headers.get(b"origin")
    if host not in hosts or (origin is not None and urlsplit(origin.decode("latin-1")).netloc != host):
        return False
    link = scope.get("method") == "GET" and headers.get(b"sec-fetch-mode") == b"navigate"
    return link or headers.get(b"sec-fetch-site", b"none") in (b"none", b"same-origin")


async def _refuse(scope: Scope, send: Send, status: int, why: str) -> None:
    if scope["type"] != "http":
        return await send({"type": "websocket.close", "code": 1008})
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    if status == 401:
        headers.append((b"www-authenticate", b'Basic realm="MLflow", charset="UTF-8"'))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    return await send({"type": "http.response.body", "body": f"{why}\n".encode()})


OWN_SCHEMES = ("", "file", "mlflow-artifacts", "runs", "models")
"""schemes of locations in this server's own storage"""


def confine_artifacts(root: Path) -> None:
    """Let this process's MLflow read and write artifacts only in the folder `root`; it accepts no other location."""
    from mlflow.exceptions import MlflowException
    from mlflow.server import handlers
    from mlflow.store.artifact.artifact_repository_registry import get_registered_artifact_repositories
    from mlflow.store.artifact.local_artifact_repo import LocalArtifactRepository
    from mlflow.utils.uri import is_local_uri

    real = root.resolve()

    class ConfinedRepository(LocalArtifactRepository):  # type: ignore[misc, unused-ignore]
        """The artifacts in one folder inside the root. MLflow itself checks that files are inside that folder."""

        def __init__(self, artifact_uri: str, *args: Any, **kwargs: Any) -> None:
            super().__init__(artifact_uri, *args, **kwargs)
            if not Path(self.artifact_dir).resolve().is_relative_to(real):
                raise MlflowException.invalid_parameter_value("the location is outside of this server's artifacts")

    # Every read and write of artifacts in MLflow's server takes its repository from this table.
    repositories: dict[str, Any] = get_registered_artifact_repositories()
    for scheme in {*repositories} - {*OWN_SCHEMES}:
        del repositories[scheme]
    repositories |= {"": ConfinedRepository, "file": ConfinedRepository}

    accept = handlers._validate_storage_location_uri

    def accept_inside(value: str, field_name: str) -> str:
        accepted = accept(value, field_name)
        if urlsplit(value).scheme not in OWN_SCHEMES:
            raise MlflowException.invalid_parameter_value("the location is outside of this server's artifacts")
        if is_local_uri(value):
            ConfinedRepository(value)
        return accepted

    handlers._validate_storage_location_uri = accept_inside
