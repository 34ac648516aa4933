"""Seals: by which a silo knows its rows again, and which tell nobody else anything about them.

A plain digest of a file can be tested: whoever knows all rows but one tries every value of the last one. A seal is an
HMAC of the digest under a random secret that lies beside the rows and never leaves. To whoever lacks the secret it
tells that two contents are the same within one context, and nothing else.
"""

import hashlib
import hmac
import os
import secrets
from contextlib import suppress
from pathlib import Path

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.fingerprint import rows_digest

from .private_folder import make_private, private_folder

SECRET, SECRET_BYTES = "secret", 32


def seal(source: Path, context: str) -> str:
    """Return the seal of the rows at `source` for one use, the `context`: 64 hexadecimal digits.

    Raises `BadInput` for rows that cannot be read, and if the secret beside them can be neither read nor made.
    """
    return sealed(source, context, rows_digest(source))


def sealed(source: Path, context: str, digest: bytes) -> str:
    """Return the seal of rows at `source` whose `rows_digest` is known (see `seal`)."""
    content = context.encode() + b"\0" + digest
    return hmac.new(_secret(private_folder(source)), content, hashlib.sha256).hexdigest()


def _secret(folder: Path) -> bytes:
    """Return the secret in `folder`, made at the first use."""
    path = folder / SECRET
    try:
        if not path.exists():
            _make_secret(path)
        secret = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path}: a silo keeps its secret there, but cannot ({error.strerror})") from None
    if len(secret) != SECRET_BYTES:
        raise BadInput(f"{path}: {len(secret)} bytes are no secret of a silo: bring back the file as it was")
    return secret


def _make_secret(path: Path) -> None:
    """Write a random secret to `path`, whole or not at all, unless another process is faster."""
    make_private(path.parent)
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
