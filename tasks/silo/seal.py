"""Seals of a silo's rows, and the private folder `.fedbnsl` beside them.

A seal shows whether rows have changed and discloses nothing about them. A plain digest would allow guessing: whoever
knows all rows but one can try every value of the last one. A seal is an HMAC of the digest under a random secret that
never leaves the silo. Without the secret, it only shows whether two contents are the same within one context.

The folder has the ledger, the journal and the secret, and only its owner may read it. Paths are resolved first, so that
a link to the rows leads to the same folder as the rows.
"""

import hashlib
import hmac
import os
import secrets
from contextlib import suppress
from pathlib import Path

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.fingerprint import rows_digest

FOLDER = ".fedbnsl"


class BadRecord(BadInput):
    """A file in a silo's private folder is damaged or incomplete, or cannot be read or written."""


def private_folder(source: Path) -> Path:
    """The private folder for the rows at `source`: a file, or a folder if the rows are pooled or in parts."""
    there = source.resolve()
    return (there if there.is_dir() else there.parent) / FOLDER


def make_private_folder(folder: Path) -> None:
    """Create `folder` with access for its owner only, or restrict an existing one; raises `OSError`."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)


def make_private_file(path: Path) -> None:
    """Create an empty file at `path` unless it exists, with access for its owner only; raises `OSError`.

    The files that SQLite writes beside a database have the same permissions as the database.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if os.fstat(descriptor).st_mode & 0o077:
            os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


SECRET, SECRET_BYTES = "secret", 32


def seal(source: Path, context: str) -> str:
    """The seal of the rows at `source` within a `context`: 64 hexadecimal digits.

    Raises `BadInput` if the rows cannot be read, or the secret beside them can be neither read nor created.
    """
    return sealed(source, context, rows_digest(source))


def sealed(source: Path, context: str, digest: bytes) -> str:
    """The seal of rows at `source` whose `rows_digest` is known (see `seal`)."""
    content = context.encode() + b"\0" + digest
    return hmac.new(_secret(private_folder(source)), content, hashlib.sha256).hexdigest()


def _secret(folder: Path) -> bytes:
    """The secret in `folder`, created at its first use."""
    path = folder / SECRET
    try:
        if not path.exists():
            _make_secret(path)
        secret = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path}: cannot read or write the silo's secret ({error.strerror})") from None
    if len(secret) != SECRET_BYTES:
        raise BadInput(
            f"{path}: damaged: a silo's secret has {SECRET_BYTES} bytes, not {len(secret)}; restore the file"
        )
    return secret


def _make_secret(path: Path) -> None:
    """Write a random secret to `path` atomically, unless another process is faster."""
    make_private_folder(path.parent)
    begun = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(begun, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(secrets.token_bytes(SECRET_BYTES))
            opened.flush()
            os.fsync(opened.fileno())
        with suppress(FileExistsError):
            os.link(begun, path)
    finally:
        begun.unlink()
