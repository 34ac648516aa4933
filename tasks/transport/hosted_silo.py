"""A silo on its owner's machine, which obeys changes of the owner's files without a restart.

Before each call, the silo looks whether `silo.toml` or `about.json` has changed. If so, it reads them again: policy,
members and declaration apply from this call on, also in a run that is in progress, because the silo begins a new
service that continues from the journal. It answers nothing while a file cannot be used, and nothing until it is
restarted if the rows, the name, the coordinator or the certificates' files are others.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from fedbnsl.algorithms.errors import BadInput

from ..silo.messages import answer, refuse
from ..silo.policy import NotAllowed
from ..silo.readers import Readers
from ..silo.service import SiloService
from ..silo.source import FileSource
from .configuration import SiloFile, read_silo_file

NEEDS_RESTART = {"name": "name", "data": "data", "coordinator": "coordinator", "identity": "[tls]"}
"""fields of `SiloFile` whose change ends the answers until a restart, and their keys"""
AT_NEXT_START = {
    "workers": "workers",
    "cluster": "cluster",
    "memory_bytes": "memory_gigabytes",
    "call_seconds": "call_seconds",
}
"""fields that a change affects at the next start; the answers are the same"""
AT_ONCE = {"policy": "[policy]", "declared": "about.json", "members": "[members]"}
"""fields whose change applies from the next call on"""
UNAFFECTED = ("path", "about", "listens")
assert {one.name for one in fields(SiloFile)} == {*NEEDS_RESTART, *AT_NEXT_START, *AT_ONCE, *UNAFFECTED}
SETTLE_SECONDS, MAX_PAUSES = 0.1, 10
"""time for which a changed file must stay as it is, because an editor may still be writing it, and how often to wait"""

Stamps = tuple[tuple[int, int, int] | None, ...]


@dataclass
class HostedSilo:
    """The service of the silo that `file` describes; `name` and `data` override the values of the file.

    `log` receives lines for the owner.
    """

    file: SiloFile
    readers: Readers
    log: Callable[[str], None]
    name: str | None = None
    data: Path | None = None
    _service: SiloService = field(init=False)
    _stamps: Stamps = field(init=False)
    _refusal: str = field(init=False, default="")
    """why calls are not answered at the moment"""

    def __post_init__(self) -> None:
        self._stamps = self._stamps_now()
        self._service = self._serve()

    def _serve(self) -> SiloService:
        source = FileSource(self.file.name, self.file.data, mapper=self.readers.map)
        return SiloService(self.file.name, source, guard=self.file.guard(self.log))

    def answer(self, content: bytes) -> bytes:
        """The answer to a call, as `messages.answer`, under the owner's files as they are now."""
        self._reread()
        if self._refusal:
            return refuse(self._service, NotAllowed(f"silo {self.file.name}: {self._refusal}"), self.log)
        return answer(self._service, content, self.log)

    def close(self) -> None:
        """Close the files of the service."""
        self._service.close()

    def _stamps_now(self) -> Stamps:
        return tuple(map(_stamp, (self.file.path, self.file.about)))

    def _reread(self) -> None:
        """Read the owner's files again if one has changed."""
        now = self._stamps_now()
        if now == self._stamps:
            return
        for _ in range(MAX_PAUSES):
            time.sleep(SETTLE_SECONDS)
            before, now = now, self._stamps_now()
            if before == now:
                break
        self._stamps = now
        try:
            new = read_silo_file(self.file.path, self.name, self.data)
            new.require_declared()
        except BadInput as error:
            self.log(f"error: {error}; no call is answered until this is mended")
            self._refusal = "its owner is changing its configuration; its owner sees more in the log"
        else:
            self._apply(new)

    def _apply(self, new: SiloFile) -> None:
        """Obey the owner's files as they are in `new`."""
        if restart := _changes(self.file, new, NEEDS_RESTART):
            self.log(f"error: {new.path}: {restart} changed: restart this silo; no call is answered before")
            self._refusal = "its owner has changed its configuration and must restart it"
            return
        self._refusal = ""
        if later := _changes(self.file, new, AT_NEXT_START):
            self.log(f"warning: {new.path}: {later} changed: restart this silo to apply it")
        if at_once := _changes(self.file, new, AT_ONCE):
            self._service.close()
            self.file = new
            self._service = self._serve()
            self.log(f"{at_once} changed, and applies from now on")


def _changes(old: SiloFile, new: SiloFile, names: Mapping[str, str]) -> str:
    """The keys among `names`, by field, whose values differ in two files."""
    return ", ".join(key for name, key in names.items() if getattr(old, name) != getattr(new, name))


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """What distinguishes contents of the file at `path`; None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
