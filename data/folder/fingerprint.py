"""Fingerprints show whether the rows at a path have changed since they were read, by a `stat` alone if possible.

A fingerprint has the stamps of the files (size, times of change, inode) and, if it was computed, a digest of their
content. Equal stamps imply equal content only after some time (`has_settled`), because a file that has just changed may
change again within the resolution of its times. Unlike a modification time, the change time of an inode cannot be set
back.
"""

import hashlib
import os
import stat
from functools import lru_cache
from pathlib import Path

from fedbnsl.algorithms.errors import BadInput

from ..federated import Fingerprint
from .batches import cells_in, numbers_in
from .formats import file_stamp, has_settled, part_files
from .query import QuerySource

BLOCK_BYTES = 1 << 20


def fingerprint(source: Path, before: Fingerprint | None = None, *, digest: bool = False) -> Fingerprint:
    """The fingerprint of the rows at `source`; returns `before` itself if the stamps show that nothing has changed.

    If `before` cannot be returned, the content is read if a `digest` is requested, if `before` has a digest, or if the
    stamps have not settled. Raises `BadInput` for unreadable files.
    """
    status = _statuses(source)
    stamp = tuple(file_stamp(name, one) for name, one in status)
    if before is not None and before.settled and before.stamp == stamp and (before.digest or not digest):
        return before
    settled = all(has_settled(one) for _, one in status)
    needs_digest = digest or not settled or (before is not None and before.digest != b"")
    return Fingerprint(stamp, settled, rows_digest(source) if needs_digest else b"")


def _statuses(source: Path) -> list[tuple[str, os.stat_result]]:
    """The names and `stat` results of the files at `source`, sorted; a single file has the name "".

    Raises `BadInput` for unreadable files.
    """
    try:
        status = os.stat(source)
        if not stat.S_ISDIR(status.st_mode):
            return [("", status)]
        return [(part.name, part.stat()) for part in part_files(source)]
    except OSError as error:
        raise BadInput(f"{source}: cannot be read ({error.strerror})") from None


def rows_digest(source: Path) -> bytes:
    """A BLAKE2b digest (32 bytes) of the content at `source`; must not leave the silo, because it can confirm guesses.

    The digest of a file covers its bytes but not its name, the digest of a folder covers the names and bytes of its
    files, and the digest of a query covers the columns and rows of its result. The digest of an unchanged file is
    cached; a query is always executed again. Raises `BadInput` for unreadable files.
    """
    place = source.resolve()
    try:
        if not place.is_dir():
            return _digest(place)
        digest = _blake()
        for file in part_files(place):
            _add(digest, os.fsencode(file.name))
            _add(digest, _digest(file.resolve()))
        return digest.digest()
    except OSError as error:
        raise BadInput(f"{source}: cannot be read ({error.strerror})") from None


def _digest(file: Path) -> bytes:
    if file.suffix.lower() == ".sql":
        return _query_digest(QuerySource(file))
    status = file.stat()
    stamp = file_stamp("", status)
    return _file_digest(file, stamp) if has_settled(status) else _file_digest.__wrapped__(file, stamp)


@lru_cache(maxsize=4096)
def _file_digest(file: Path, stamp: tuple[str | int, ...]) -> bytes:
    """The digest of the bytes of `file`; `stamp` distinguishes versions in the cache."""
    digest = _blake()
    with file.open("rb") as stream:
        while block := stream.read(BLOCK_BYTES):
            digest.update(block)
    return digest.digest()


def _query_digest(query: QuerySource) -> bytes:
    """The digest of the columns and rows of a query's result, in one pass."""
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
    """Add `parts`, each after its length, so that their boundaries are unambiguous."""
    digest.update(len(parts).to_bytes(8))
    for part in parts:
        digest.update(len(part).to_bytes(8))
        digest.update(part)
