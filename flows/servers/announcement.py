"""The file by which a run finds the Prefect server of `fedbnsl ui` or `fedbnsl serve`; only this user may read it.

The server holds a lock on the file as long as the server runs. If a run can lock the file, the server has ended. The
run then does not send this user's token, because another account may have taken over the port.
"""

import fcntl
import os
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fedbnsl.tracking.staging import create_private_folder

SERVER_FILE = "fedbnsl-server"
ANSWER = 5.0
"""timeout in seconds of a request that checks whether a server responds"""


@dataclass
class Announcement:
    """The announcement of one server; without effect if another server is announced already."""

    lock: int | None
    """the open file; None if another server is announced, or after the lock has passed to the server"""

    def inherited(self) -> tuple[int, ...]:
        """The open files that the server must inherit to hold the lock."""
        return () if self.lock is None else (self.lock,)

    def name(self, url: str) -> None:
        """Write the URL of the API, which now answers, and close the file here: then only the server has the lock."""
        if self.lock is not None:
            os.pwrite(self.lock, url.encode(), 0)
        self.close()

    def close(self) -> None:
        """Close the file in this process."""
        if self.lock is not None:
            os.close(self.lock)
        self.lock = None


@contextmanager
def announcement(home: Path) -> Iterator[Announcement]:
    """Yield the announcement of a server that is started within the block, in Prefect's folder `home`."""
    create_private_folder(home)
    file = os.open(home / SERVER_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    public = Announcement(file)
    try:
        if _locked(file):
            public.close()
        else:
            os.fchmod(file, 0o600)
            os.ftruncate(file, 0)
        yield public
    finally:
        public.close()


def announced_server(home: Path, token: Callable[[], str]) -> str | None:
    """The URL of the API of the server that is announced in `home` and accepts the `token`; None without such a server.

    `token` is called only if a server is announced, because the call reads or writes the file of the token.
    """
    try:
        file = os.open(home / SERVER_FILE, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        status = os.fstat(file)
        if status.st_uid != os.getuid() or status.st_mode & 0o077 or not _locked(file, fcntl.LOCK_SH):
            return None
        url = os.pread(file, 1000, 0).decode(errors="replace")
    finally:
        os.close(file)
    return url if url and _takes(url, token()) else None


def _locked(file: int, kind: int = fcntl.LOCK_EX) -> bool:
    """Whether another process has locked the open file; if not, this process locks it."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _takes(url: str, token: str) -> bool:
    """Whether the API at `url` answers requests with `token`."""
    headers = {"Authorization": f"Basic {b64encode(token.encode()).decode()}"}
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{url}/admin/version", None, headers), timeout=ANSWER):
            return True
    except OSError:
        return False
