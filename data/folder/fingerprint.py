"""Fingerprints: whether the rows at a path are still those that were read, for the price of a `stat` where possible.

A fingerprint has the stamps of the files (size, times of change, inode) and, where it is known, a digest of their
content. Equal stamps stand for equal content once they have settled: a file that has just changed may change again
without its times telling so. A time of modification can be set back; the time of the last change of the inode cannot.
"""

import hashlib
import os
import stat
import time
from functools import lru_cache
from pathlib import Path

from fedbnsl.algorithms.errors import BadInput

from ..federated import Fingerprint
from .batches import QuerySource
from .chunked_table import cells_in, numbers_in

BLOCK = 1 << 20
SECOND = 10**9
"""nanoseconds"""
COARSE_CLOCK_SECONDS, FINE_CLOCK_SECONDS = 2.0, 0.1
"""within which a file can change again under the same stamp, where its times are whole seconds, and elsewhere"""


def fingerprint(source: Path, before: Fingerprint | None = None, *, digest: bool = False) -> Fingerprint:
    """The fingerprint of the rows at `source`: `before` itself where its stamps show that nothing has changed.

    The content is read if a `digest` is wanted or was taken `before`, and where stamps do not settle the matter. Raises
    `BadInput` for what cannot be read.
    """
    status = _statuses(source)
    stamp = tuple(_of_status(name, one) for name, one in status)
    if before is not None and before.settled and before.stamp == stamp and (before.digest or not digest):
        return before
    settled = all(_settled(one) for _, one in status)
    wanted = digest or not settled or (before is not None and before.digest != b"")
    return Fingerprint(stamp, settled, rows_digest(source) if wanted else b"")


def _statuses(source: Path) -> list[tuple[str, os.stat_result]]:
    """Return what the file system says of the files at `source`, sorted by their names; a single one has none."""
    try:
        status = os.stat(source)
        if not stat.S_ISDIR(status.st_mode):
            return [("", status)]
        with os.scandir(source) as entries:
            return sorted((entry.name, entry.stat()) for entry in entries if _counts(entry.name) and entry.is_file())
    except OSError as error:
        raise BadInput(f"{source}: cannot be read ({error.strerror})") from None


def _counts(name: str) -> bool:
    return not name.startswith((".", "_"))


def _of_status(name: str, status: os.stat_result) -> tuple[str | int, ...]:
    return (name, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev)


def _settled(status: os.stat_result) -> bool:
    """Whether the last change lies so far back that a further one would have another time."""
    changed = max(status.st_ctime_ns, status.st_mtime_ns)
    clock = FINE_CLOCK_SECONDS if status.st_ctime_ns % SECOND else COARSE_CLOCK_SECONDS
    return time.time() - changed / SECOND > clock


def rows_digest(source: Path) -> bytes:
    """A BLAKE2b digest `[32]` of the content at `source`: it must not leave the silo, as guesses can be tested.

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
            if file.is_file() and _counts(file.name):
                _add(digest, os.fsencode(file.name))
                _add(digest, _of_one(file.resolve()))
        return digest.digest()
    except OSError as error:
        raise BadInput(f"{source}: cannot be read ({error.strerror})") from None


def _of_one(file: Path) -> bytes:
    if file.suffix.lower() == ".sql":
        return _of_query(QuerySource(file))
    status = file.stat()
    stamp = _of_status("", status)
    return _of_file(file, stamp) if _settled(status) else _of_file.__wrapped__(file, stamp)


@lru_cache(maxsize=4096)
def _of_file(file: Path, stamp: tuple[str | int, ...]) -> bytes:
    """The digest of the bytes of `file`; `stamp` tells contents apart in the cache."""
    digest = _blake()
    with file.open("rb") as opened:
        while block := opened.read(BLOCK):
            digest.update(block)
    return digest.digest()


def _of_query(query: QuerySource) -> bytes:
    """The digest of the columns and rows that a query gives, in one pass."""
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


def _blake() -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=32)


def _add(digest: hashlib.blake2b, *parts: bytes) -> None:
    """Add parts whose ends can be told apart."""
    digest.update(len(parts).to_bytes(8))
    for part in parts:
        digest.update(len(part).to_bytes(8))
        digest.update(part)
