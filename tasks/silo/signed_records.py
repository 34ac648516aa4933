"""Signed records: what a silo signs at the end of a run, so that nobody can change its statement or the result later.

A silo signs one JSON text with the key of its certificate: the run, its name, the hash of its owner's policy, the hash
of its disclosure statement, and the hash of each file of the result. Policy and statement are those of its own files
and gate; only the hashes of the files are the coordinator's: the silo has not computed the result, and does not say
that it is right. It signs one result of a run.

The text has sorted keys, no spaces and only ASCII characters, so that any program can build and verify it.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Protocol

from fedbnsl.algorithms.core.release import Disclosed
from fedbnsl.algorithms.errors import BadInput

from .policy import Policy

SIGNED = b"fedbnsl record\0"
"""the prefix of signed content, so that signatures for other purposes are not valid here"""
ADMINISTRATIVE = ("records", "refusals")
"""kinds of statistics, not about rows, that a signed statement leaves out: the request to sign adds to them"""
MAX_FILES, MAX_NAME_LENGTH, HASH_LENGTH = 100, 100, 64


class Signer(Protocol):
    """The identity of a silo's owner, as far as signed records need it (`tasks/transport/certificates.py`)."""

    def sign(self, content: bytes) -> bytes:
        """The signature of `content`."""
        ...

    def own_certificate(self) -> bytes:
        """The certificate in DER."""
        ...


@dataclass(frozen=True)
class SignedRecord:
    """A silo's signature of its record of a run: two hashes, its certificate (DER) and the signature."""

    policy: str
    statement: str
    certificate: bytes
    signature: bytes


def sign_record(
    signer: Signer, run: str, silo: str, policy: Policy, statement: Iterable[Disclosed], files: Mapping[str, str]
) -> SignedRecord:
    """The record of `silo`, signed by its `signer`."""
    hashes = policy_hash(policy), statement_hash(map(asdict, statement))
    return SignedRecord(*hashes, signer.own_certificate(), signer.sign(record_content(run, silo, *hashes, files)))


def record_content(run: str, silo: str, policy: str, statement: str, files: Mapping[str, str]) -> bytes:
    """The bytes that `silo` signs."""
    content = {"run": run, "silo": silo, "policy": policy, "statement": statement, "files": dict(files)}
    return SIGNED + _canonical(content)


def policy_hash(policy: Policy) -> str:
    """The SHA-256 hash of the limits that differ from the defaults: that of "{}" if everything is allowed."""
    default = Policy()
    limits = {one.name: getattr(policy, one.name) for one in fields(policy)}
    return _hash({name: value for name, value in limits.items() if value != getattr(default, name)})


def statement_hash(lines: Iterable[Mapping[str, Any]]) -> str:
    """The SHA-256 hash of the `lines` of a disclosure statement, as `disclosure.json` has them.

    Smallest counts are left out, because they are not always published.
    """
    kept = [line for line in lines if line["statistic"] not in ADMINISTRATIVE]
    return _hash([{key: value for key, value in line.items() if key != "smallest"} for line in kept])


def require_hashes(files: Mapping[str, str]) -> None:
    """Raise `BadInput` unless a coordinator's `files` are hashes by short names."""
    if len(files) > MAX_FILES or not all(
        0 < len(name) <= MAX_NAME_LENGTH and name.isprintable() and is_hash(value) for name, value in files.items()
    ):
        raise BadInput(f"a result has at most {MAX_FILES} files, each with its SHA-256 hash")


def is_hash(value: object) -> bool:
    """Whether `value` is a SHA-256 hash in hexadecimal."""
    return isinstance(value, str) and len(value) == HASH_LENGTH and set(value) <= set("0123456789abcdef")


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _hash(value: object) -> str:
    return hashlib.sha256(_canonical(value)).hexdigest()
