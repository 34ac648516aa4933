"""Seals: they show whether a silo's rows have changed, and disclose nothing about them.

A plain digest would allow guessing: anyone who knows all rows but one could try every value of the last one. A seal is
an HMAC of a context, such as a run, and of the digest of the rows, under a random secret that never leaves the silo.
Without the secret, two seals of the same context only show whether the rows are the same.
"""

import hashlib
import hmac
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Literal

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.fingerprint import rows_digest

from .private_folder import make_private_folder, private_folder

SECRET, SECRET_BYTES = "secret", 32
Purpose = Literal["coordinator", "binding", "pin", "choices", "publication", "resamples"]
"""what a seal is for; only seals for the coordinator leave a silo, and their contexts are the coordinator's"""


def seal(source: Path, context: str, purpose: Purpose = "coordinator") -> str:
    """The seal of the rows at `source` for a `purpose` and a `context`: 64 hexadecimal digits.

    Raises `BadInput` if the rows cannot be read, or the secret beside them can be neither read nor created.
    """
    return sealed(silo_secret(private_folder(source)), context, purpose, rows_digest(source))


def sealed(secret: bytes, context: str, purpose: Purpose, digest: bytes) -> str:
    """The seal of rows whose `rows_digest` is `digest` (see `seal`).

    Each purpose has its own key. A coordinator chooses the contexts of the seals that it receives, and seals for other
    purposes are secret, such as the seed of resamples.
    """
    key = hmac.new(secret, purpose.encode(), hashlib.sha256).digest()
    return hmac.new(key, context.encode() + b"\0" + digest, hashlib.sha256).hexdigest()


def silo_secret(folder: Path) -> bytes:
    """The secret in `folder`, created at its first use; raises `BadInput` if its file is unusable or damaged."""
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
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(SECRET_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        temporary.unlink()
