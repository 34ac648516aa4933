"""The servers of Prefect and MLflow that this user runs: their folder, their token, and the files with their addresses.

Only this user may read these files. A server holds a lock on its file as long as it runs. If a run can lock the file,
the server has ended. The run then does not send this user's token, because another account may have taken over the
port.
"""

import fcntl
import os
import secrets
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from fedbnsl.algorithms.errors import BadInput

from .kept_files import after_first_line, first_line
from .staging import create_private_folder, notice

HOME = "FEDBNSL_HOME"
"""the environment variable that names the folder of all databases; without it, MLflow's database is in the working
folder and Prefect's in `~/.prefect`"""
TOKEN_FILE = "fedbnsl-token"
ANSWER = 5.0
"""timeout in seconds of a request that checks whether a server responds"""


@dataclass(frozen=True)
class ServerKind:
    """A kind of server: the file of its address, and a path that it answers for holders of the token only."""

    file: str
    probe: str


PREFECT = ServerKind("fedbnsl-server", "/admin/version")
MLFLOW = ServerKind("fedbnsl-mlflow", "/version")


def servers_folder() -> Path:
    """The folder of Prefect's database, of the token and of the addresses of servers.

    It is PREFECT_HOME, else `prefect` in FEDBNSL_HOME, else `~/.prefect`.
    """
    if os.environ.get("PREFECT_HOME"):
        return Path(os.environ["PREFECT_HOME"])
    if os.environ.get(HOME):
        return Path(os.environ[HOME]).expanduser().absolute() / "prefect"
    return Path.home() / ".prefect"


def errors_folder() -> Path:
    """The folder of the logs of errors that nobody foresaw."""
    return servers_folder() / "errors"


def new_token() -> str:
    """A user name and a random password, in the form that both servers accept."""
    return f"fedbnsl:{secrets.token_urlsafe(24)}"


def own_token() -> str:
    """The token of this user's servers, from a file that only the user may read.

    The file is written if it does not exist. Raises `BadInput` if other users can read it.
    """
    path = servers_folder() / TOKEN_FILE
    create_private_folder(path.parent)
    with suppress(FileExistsError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(new_token())
    if path.stat().st_mode & 0o077:
        raise BadInput(f"{path}: other users can read this token; delete the file, and a new one is written")
    return path.read_text(encoding="utf-8")


def basic(token: str) -> dict[str, str]:
    """The header of a request with `token`."""
    return {"Authorization": f"Basic {b64encode(token.encode()).decode()}"}


MLFLOW_USER, MLFLOW_PASSWORD = "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"
"""the environment variables with the credential that MLflow's clients send, and that our server of MLflow requires"""


def mlflow_credential(token: str) -> dict[str, str]:
    """The environment with which MLflow's clients send `token`."""
    user, _, password = token.partition(":")
    return {MLFLOW_USER: user, MLFLOW_PASSWORD: password}


def sign_in_to_mlflow(uri: str) -> None:
    """Let MLflow's clients of this process send the token if `uri` is the server of `fedbnsl ui`.

    A credential that the user has set remains.
    """
    here = urlsplit(uri)
    given = (MLFLOW_USER, "MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_AUTH")
    if here.scheme != "http" or here.username or any(os.environ.get(name) for name in given):
        return
    server = announced_server(servers_folder(), own_token, MLFLOW)
    if server and here.hostname in ("127.0.0.1", "localhost") and here.port == urlsplit(server).port:
        os.environ |= mlflow_credential(own_token())


@dataclass
class Announcement:
    """The announcement of one server; without effect if another server is announced already."""

    file: Path
    lock: int | None
    """the open file; None if another server is announced, or after the lock has passed to the server"""

    def inherited(self) -> tuple[int, ...]:
        """The open files that the server must inherit to hold the lock."""
        return () if self.lock is None else (self.lock,)

    def name(self, url: str) -> None:
        """Write the URL of the API, which now answers, and close the file here: then only the server has the lock."""
        if self.lock is not None:
            os.pwrite(self.lock, first_line(self.file) + url.encode(), 0)
        self.close()

    def close(self) -> None:
        """Close the file in this process."""
        if self.lock is not None:
            os.close(self.lock)
        self.lock = None


@contextmanager
def announcement(home: Path, kind: ServerKind) -> Iterator[Announcement]:
    """Yield the announcement of a server that is started within the block, in the folder `home`."""
    create_private_folder(home)
    file = os.open(home / kind.file, os.O_RDWR | os.O_CREAT, 0o600)
    public = Announcement(home / kind.file, file)
    try:
        if locked_elsewhere(file):
            public.close()
        else:
            os.fchmod(file, 0o600)
            os.ftruncate(file, 0)
        yield public
    finally:
        public.close()


def announced_server(home: Path, token: Callable[[], str], kind: ServerKind) -> str | None:
    """The URL of the server of this `kind` that is announced in `home` and accepts the `token`, else None.

    `token` is called only if a server is announced, because the call reads or writes the file of the token.
    """
    try:
        file = os.open(home / kind.file, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        status = os.fstat(file)
        if status.st_uid != os.getuid() or status.st_mode & 0o077 or not locked_elsewhere(file, fcntl.LOCK_SH):
            return None
        content = os.pread(file, 1000, 0)
    finally:
        os.close(file)
    try:
        url = after_first_line(home / kind.file, content).decode(errors="replace")
    except BadInput as other:
        notice(f"{other}; this run does without that server")
        return None
    return url if url and _takes(f"{url}{kind.probe}", token()) else None


def locked_elsewhere(file: int, kind: int = fcntl.LOCK_EX) -> bool:
    """Whether another process has locked the open file; if not, this process locks it."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _takes(url: str, token: str) -> bool:
    """Whether the server answers a request for `url` with `token`."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, None, basic(token)), timeout=ANSWER):
            return True
    except OSError:
        return False
