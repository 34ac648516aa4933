"""Seals: by which a silo knows its rows again, and which tell nobody else anything about them.

A plain digest of a file can be tested: whoever knows all rows but one tries every value of the last one. A seal is an
HMAC of the digest under a random secret that lies beside the rows and never leaves. To whoever lacks the secret it
tells that two contents are the same within one context, and nothing else.
"""

import hashlib
import hmac
import os
import secrets
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.passes import cells_in, numbers_in
from fedbnsl.data.folder.query import QuerySource

from .private_folder import make_private, private_folder

SECRET, SECRET_BYTES = "secret", 32
BLOCK = 1 << 20
JUST_NOW = 2.0
"""seconds: a file that was changed more recently may change again without its time of change telling so"""


def seal(source: Path, context: str) -> str:
    """Return the seal of the rows at `source` for one use, the `context`: 64 hexadecimal digits.

    Raises `BadInput` for rows that cannot be read, and if the secret beside them can be neither read nor made.
    """
    return sealed(source, context, rows_digest(source))


def sealed(source: Path, context: str, digest: bytes) -> str:
    """Return the seal of rows at `source` whose `rows_digest` is known (see `seal`)."""
    content = context.encode() + b"\0" + digest
    return hmac.new(_secret(private_folder(source)), content, hashlib.sha256).hexdigest()


def rows_digest(source: Path) -> bytes:
    """Return a BLAKE2b digest `[32]` of the content at `source`: it must not leave the silo (see `seal`).

    It is that of a file's bytes; of a folder, of the names and the bytes of the files in it; of a query, of the columns
    and rows that it gives. A file's name does not enter. What is known of a file that has not changed since is not read
    again; a query is always asked anew. Raises `BadInput` for what cannot be read.
    """
    place = source.resolve()
    try:
        if not place.is_dir():
            return _of_one(place)
        digest = _blake()
        for file in sorted(place.iterdir()):
            if file.is_file() and not file.name.startswith((".", "_")):
                _add(digest, os.fsencode(file.name))
                _add(digest, _of_one(file.resolve()))
        return digest.digest()
    except OSError as error:
        raise BadInput(f"{source}: cannot be read ({error.strerror})") from None


def _of_one(file: Path) -> bytes:
    if file.suffix.lower() == ".sql":
        return _of_query(QuerySource(file))
    status = file.stat()
    stamp = (status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev)
    recent = time.time() - status.st_mtime < JUST_NOW
    return _of_file.__wrapped__(file, stamp) if recent else _of_file(file, stamp)


@lru_cache(maxsize=4096)
def _of_file(file: Path, stamp: tuple[int, ...]) -> bytes:
    """Return the digest of the bytes of `file`; `stamp` tells contents apart in the cache."""
    digest = _blake()
    with file.open("rb") as opened:
        while block := opened.read(BLOCK):
            digest.update(block)
    return digest.digest()


def _of_query(query: QuerySource) -> bytes:
    """Return the digest of the columns and rows that a query gives, in one pass."""
    digest = _blake()
    for name in query.names:
        _add(digest, name.encode())
    for batch in query.batches(query.names):
        for column in batch.columns:
            numbers = numbers_in(column)
            if numbers is not None:
                _add(digest, b"numbers", numbers.tobytes())
            else:
                texts, codes = cells_in(column)
                _add(digest, b"cells", *(text.encode() for text in texts), codes.tobytes())
    return digest.digest()


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


def _blake() -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=32)


def _add(digest: hashlib.blake2b, *parts: bytes) -> None:
    """Add parts whose ends can be told apart."""
    digest.update(len(parts).to_bytes(8))
    for part in parts:
        digest.update(len(part).to_bytes(8))
        digest.update(part)
