"""The two files of a federation: `silo.toml` at each owner, `federation.toml` at the coordinator.

Paths in them are relative to the file. A key that is not known is refused by name: a misspelt policy must not be one
that allows everything.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.check import check_silo_name

from ..silo.policy import Policy, policy_of
from .identity import COORDINATOR, Endpoint, Identity, endpoint


@dataclass(frozen=True)
class SiloFile:
    """What an owner says of its silo."""

    path: Path
    name: str
    data: Path
    """its rows"""
    coordinator: Endpoint
    listen: Endpoint
    """where its worker listens, and nowhere else; port 0 is any that is free"""
    identity: Identity
    policy: Policy


@dataclass(frozen=True)
class FederationFile:
    """What a coordinator says of its federation."""

    path: Path
    address: Endpoint
    """where silos and runs reach the coordinator"""
    listen: Endpoint
    silos: tuple[str, ...]
    """those that belong to it; none named: whoever has a certificate"""
    identity: Identity


def read_silo_file(path: Path, name: str | None = None, data: Path | None = None) -> SiloFile:
    """Return what the file at `path` says; `name` and `data` stand in for what it says of them.

    Raises `BadInput` naming the file and the key.
    """
    said = _Table(path, _read(path), ("name", "data", "coordinator", "listen", "tls", "policy"))
    identity = _identity(path, said)
    name = name or said.text("name", identity.holder())
    check_silo_name(str(path), name)
    if name != identity.holder():
        raise BadInput(f"{path}: the silo is called '{name}', but its certificate is that of '{identity.holder()}'")
    rows = data or path.parent / said.text("data")
    if not rows.exists():
        raise BadInput(f"{path}: data: there is no {rows}")
    try:
        policy = policy_of(said.table("policy"))
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None
    coordinator = said.endpoint("coordinator")
    return SiloFile(path, name, rows.absolute(), coordinator, said.endpoint("listen", "127.0.0.1:0"), identity, policy)


def read_federation_file(path: Path) -> FederationFile:
    """Return what the file at `path` says; raises `BadInput` naming the file and the key."""
    said = _Table(path, _read(path), ("address", "listen", "silos", "tls"))
    identity = _identity(path, said)
    if identity.holder() != COORDINATOR:
        raise BadInput(f"{identity.certificate}: the certificate of '{identity.holder()}', not of a coordinator")
    address = said.endpoint("address")
    return FederationFile(path, address, said.endpoint("listen", str(address)), said.names("silos"), identity)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadInput(f"{path}: cannot be read ({error})") from None


def _identity(path: Path, said: "_Table") -> Identity:
    tls = _Table(path, said.table("tls"), ("certificate", "key", "trusted"))
    files = (path.parent / tls.text(name) for name in ("certificate", "key", "trusted"))
    found = Identity(*files)
    found.check()
    return found


@dataclass(frozen=True)
class _Table:
    """A table of a TOML file, with one line for what is wrong with it."""

    path: Path
    said: dict[str, Any]
    known: tuple[str, ...]

    def __post_init__(self) -> None:
        for key in self.said:
            if key not in self.known:
                raise BadInput(f"{self.path}: there is no '{key}': there are {', '.join(self.known)}")

    def text(self, key: str, default: str | None = None) -> str:
        value = self.said.get(key, default)
        if not isinstance(value, str) or not value:
            raise BadInput(f"{self.path}: {key} is {'missing' if value is None else repr(value)}: give a text")
        return value

    def table(self, key: str) -> dict[str, Any]:
        value = self.said.get(key, {})
        if not isinstance(value, dict):
            raise BadInput(f"{self.path}: {key} is {value!r}: give a table, [{key}]")
        return value

    def names(self, key: str) -> tuple[str, ...]:
        value = self.said.get(key, [])
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise BadInput(f"{self.path}: {key} is {value!r}: give a list of names")
        return tuple(sorted(value))

    def endpoint(self, key: str, default: str | None = None) -> Endpoint:
        return endpoint(self.text(key, default), f"{self.path}: {key}")
