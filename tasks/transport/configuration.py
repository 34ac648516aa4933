"""The two files of a federation: `silo.toml` at each owner, `federation.toml` at the coordinator.

Paths in a file are relative to its folder. An unknown key is an error, so that a misspelt policy does not allow
everything.
"""

import math
import os
import re
import shlex
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.about import ABOUT, Declared, declarations, read_about
from fedbnsl.data.folder.check import check_silo_name
from fedbnsl.data.folder.formats import silo_of

from ..silo.guard import Guard
from ..silo.members import Members
from ..silo.policy import Policy, policy_of
from ..silo.readers import CLUSTER_ADDRESS, MAX_READERS, ClusterReaders, Readers
from .certificates import Identity, expiry_warnings


@dataclass(frozen=True)
class Endpoint:
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        """HOST:PORT, as in a configuration file."""
        return f"{self.host}:{self.port}"

    @property
    def tls(self) -> str:
        """The address as a URL."""
        return f"tls://{self}"


def endpoint(text: str, name: str) -> Endpoint:
    """Parse HOST:PORT or tls://HOST:PORT; raises `BadInput` with the `name` of the setting for another form."""
    host, colon, port = text.removeprefix("tls://").rpartition(":")
    if not (host and colon and port.isdecimal() and int(port) < 65536) or "/" in host:
        raise BadInput(f"{name} is '{text}': must be HOST:PORT, such as 10.0.0.5:8786")
    return Endpoint(host, int(port))


PLATFORMS = ("flower", "nvflare", "vantage6")
"""the platforms over which a run can reach silos"""
CALL_SECONDS = 3600.0
"""default maximum duration of a call"""
FINGERPRINT = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class SiloFile:
    """An owner's configuration of its silo."""

    path: Path
    name: str
    data: Path
    """the silo's rows"""
    coordinator: Endpoint
    identity: Identity
    policy: Policy
    about: Path
    """the file of the owner's declaration, which may not exist"""
    declared: Declared | None = None
    """the owner's own declaration of the rows; None if there is no `about.json`"""
    members: Members | None = None
    """the silos whose certificates the owner knows; None if the owner knows none"""
    workers: int = 1
    """the number of processes that read the rows"""
    cluster: str | None = None
    """the address of the owner's Dask cluster, if this cluster reads the rows instead of processes"""
    memory_bytes: int = 0
    """maximum address space of the process that answers calls"""
    call_seconds: float = CALL_SECONDS
    """maximum duration of a call"""
    listens: bool = False
    """whether the file has the key `listen` of earlier versions"""

    def readers(self, log: Callable[[str], None]) -> Readers:
        """The processes that read the rows; `log` gets a line if one of them ends."""
        return ClusterReaders(self.name, self.cluster, log) if self.cluster else Readers(self.name, self.workers, log)

    def guard(self, log: Callable[[str], None]) -> Guard:
        """The guard of this silo; `log` receives the faults of its rows for the owner."""
        return Guard(self.policy, self.declared, self.members, remote=True, signer=self.identity, log=log)

    def require_declared(self) -> None:
        """Raise `BadInput` if the level of the policy needs the owner's declaration of the rows, and there is none."""
        if self.declared is None and self.policy.level == "sums":
            command = ("fedbnsl", "inspect", str(self.data.parent), "--silos", silo_of(self.data), "--write")
            raise BadInput(
                f"{self.path}: policy: level 'sums' sends no fact about cells, so about.json must declare the kinds "
                f"and levels of the columns: `{shlex.join(command)}` drafts it"
            )

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about settings that the owner may not have intended, one line each."""
        found = []
        if self.listens:
            found.append("listen has no effect: a silo connects to the coordinator and listens nowhere")
        if self.policy.demands_epsilon and math.isinf(self.policy.total_epsilon):
            found.append("policy: epsilon limits each run; without total_epsilon the sum over all runs is unlimited")
        if self.members is None:
            found.append("no [members]: this silo adds as much noise to a sum as if all other silos colluded")
        return (*found, *expiry_warnings(self.identity.validities()))


@dataclass(frozen=True)
class FederationFile:
    """A coordinator's configuration of its federation."""

    path: Path
    address: Endpoint
    """the address at which silos and runs reach the coordinator"""
    listen: Endpoint
    silos: tuple[str, ...]
    """the silos of the federation; if empty, every silo with a valid certificate may join"""
    identity: Identity
    platforms: Mapping[str, str] = field(default_factory=dict)
    """by platform, which of the user's connections to it a run uses (see `fedbnsl.tasks.platforms`)"""


def read_silo_file(path: Path, name: str | None = None, data: Path | None = None) -> SiloFile:
    """The configuration in the file at `path`; `name` and `data` override its values.

    Raises `BadInput` naming the file and the key.
    """
    table = _Table(
        path,
        read_toml(path),
        (
            *("name", "data", "about", "coordinator", "listen", "tls", "policy", "members", "workers", "cluster"),
            *("memory_gigabytes", "call_seconds"),
        ),
    )
    identity = _identity(path, table)
    name = name or table.text("name", identity.holder())
    check_silo_name(str(path), name)
    if name != identity.holder():
        raise BadInput(f"{path}: name is '{name}', but the certificate belongs to '{identity.holder()}'")
    rows = data or path.parent / table.text("data")
    if not rows.exists():
        raise BadInput(f"{path}: data: {rows}: no such file")
    try:
        policy = policy_of(table.table("policy"))
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None
    members, about = _members(path, table, identity), _about(path, table, rows)
    if members is None and (policy.masked or policy.silos > 1):
        raise BadInput(
            f"{path}: policy: masks and silos mean nothing without [members]: a coordinator can invent silos; list "
            "the name and fingerprint of each, which `fedbnsl silo check` prints to its owner"
        )
    return SiloFile(
        path,
        name,
        rows.absolute(),
        table.endpoint("coordinator"),
        identity,
        policy,
        about,
        declarations(read_about(about.parent)) if about.exists() else None,
        members,
        table.whole_number("workers", 1, MAX_READERS),
        _cluster(table),
        round(1e9 * table.positive("memory_gigabytes", _physical_bytes() / 1e9)),
        table.positive("call_seconds", CALL_SECONDS),
        "listen" in table.values,
    )


def _physical_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _cluster(table: "_Table") -> str | None:
    """The address of the owner's cluster, None if the file names none; raises `BadInput` for an unusable address."""
    if "cluster" not in table.values:
        return None
    if "workers" in table.values:
        raise BadInput(f"{table.path}: workers and cluster are two ways to read the rows: keep one")
    address = table.text("cluster")
    if not CLUSTER_ADDRESS.fullmatch(address):
        raise BadInput(
            f"{table.path}: cluster is '{address}': it must be tls://HOST:PORT, or tcp:// on this machine (127.0.0.1)"
        )
    return address


def _members(path: Path, table: "_Table", identity: Identity) -> Members | None:
    """The members that the file pins, or None; raises `BadInput` for a value that is not a fingerprint."""
    pinned = table.table("members")
    for name, fingerprint in pinned.items():
        if not isinstance(fingerprint, str) or not FINGERPRINT.fullmatch(fingerprint):
            raise BadInput(f"{path}: members: {name} is {fingerprint!r}: it must be a SHA-256 fingerprint, 64 digits")
    if not pinned:
        return None
    members = Members.read(pinned, identity.certificate.read_bytes(), identity.key.read_bytes())
    if members.fingerprints.get(identity.holder()) != members.own_fingerprint:
        raise BadInput(f"{path}: members: the fingerprint of {identity.holder()} is not that of {identity.certificate}")
    return members


def _about(path: Path, table: "_Table", rows: Path) -> Path:
    """The file of the owner's declaration: what the key `about` names or, without it, `about.json` by the rows.

    Raises `BadInput` if the named file does not exist.
    """
    about = path.parent / table.text("about") if "about" in table.values else rows.parent / ABOUT
    if about.name != ABOUT or ("about" in table.values and not about.exists()):
        raise BadInput(f"{path}: about: {about}: it must be an existing file called {ABOUT}")
    return about


def read_federation_file(path: Path) -> FederationFile:
    """The configuration in the file at `path`; raises `BadInput` naming the file and the key."""
    table = _Table(path, read_toml(path), ("address", "listen", "silos", "tls", "platforms"))
    identity = _identity(path, table)
    identity.require_coordinator()
    address = table.endpoint("address")
    platforms = _Table(path, table.table("platforms"), PLATFORMS)
    targets = {name: platforms.text(name) for name in platforms.values}
    listen = table.endpoint("listen", str(address))
    return FederationFile(path, address, listen, table.names("silos"), identity, targets)


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file; raises `BadInput` if it cannot be read."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadInput(f"{path}: cannot be read ({error})") from None


def _identity(path: Path, table: "_Table") -> Identity:
    tls = _Table(path, table.table("tls"), ("certificate", "key", "trusted"))
    files = (path.parent / tls.text(name) for name in ("certificate", "key", "trusted"))
    identity = Identity(*files)
    identity.check()
    identity.check_dates()
    return identity


@dataclass(frozen=True)
class _Table:
    """A table of a TOML file; its methods return checked values or raise `BadInput` in one line."""

    path: Path
    values: dict[str, Any]
    keys: tuple[str, ...]

    def __post_init__(self) -> None:
        for key in self.values:
            if key not in self.keys:
                raise BadInput(f"{self.path}: unknown key '{key}'; available: {', '.join(self.keys)}")

    def text(self, key: str, default: str | None = None) -> str:
        value = self.values.get(key, default)
        if not isinstance(value, str) or not value:
            raise BadInput(f"{self.path}: {key} is {'missing' if value is None else repr(value)}: it must be a string")
        return value

    def table(self, key: str) -> dict[str, Any]:
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise BadInput(f"{self.path}: {key} is {value!r}: it must be a table, [{key}]")
        return value

    def names(self, key: str) -> tuple[str, ...]:
        value = self.values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise BadInput(f"{self.path}: {key} is {value!r}: it must be a list of names")
        return tuple(sorted(value))

    def whole_number(self, key: str, default: int, most: int) -> int:
        value = self.values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise BadInput(f"{self.path}: {key} is {value!r}: it must be a whole number from 1 to {most}")
        return value

    def positive(self, key: str, default: float) -> float:
        value = self.values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise BadInput(f"{self.path}: {key} is {value!r}: it must be a positive number")
        return float(value)

    def endpoint(self, key: str, default: str | None = None) -> Endpoint:
        return endpoint(self.text(key, default), f"{self.path}: {key}")
