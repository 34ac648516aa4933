"""A checkpoint: the coordinator's state after a round, so that a run that was killed can go on.

One file, replaced atomically: a reader always finds the last complete checkpoint. Nothing is pickled.
"""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.errors import BadInput

from .staging import name_in_errors

T = TypeVar("T")

HEAD = b"fedbnsl checkpoint 1\n"


@dataclass(frozen=True)
class Checkpoint:
    """The run `run_id` after round `number`; `server` is the encoded state of the coordinator."""

    run_id: str
    spec: bytes
    """the packed specification of the algorithm"""
    seed: int
    number: int
    server: bytes
    rows: tuple[dict[str, float], ...] = ()
    """the rows of `rounds.csv` until then"""
    seconds: float = 0.0
    lost: tuple[str, ...] = ()
    """silos that had been given up"""

    def state(self, kind: type[T]) -> T:
        """The coordinator's state, of the algorithm's `server_type`. Raises `ValueError` if it is another's."""
        return wire.decode(kind, self.server)


def save(path: Path, checkpoint: Checkpoint) -> None:
    """Write `checkpoint` to `path`: complete on disk under another name before it takes the place of the last one.

    Raises `OSError` with the name of the file if it cannot be written; the last one is still there.
    """
    body = wire.encode(checkpoint)
    beside = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        with name_in_errors(path), beside.open("wb") as file:
            file.write(HEAD + hashlib.sha256(body).digest() + body)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    _sync_folder(path.parent)


def load(path: Path) -> Checkpoint:
    """The checkpoint in `path`. Raises `BadInput` if it cannot be read, is damaged or is no checkpoint."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror or error}") from error
    digest, body = content[len(HEAD) : len(HEAD) + 32], content[len(HEAD) + 32 :]
    if not content.startswith(HEAD):
        raise BadInput(f"{path}: not a checkpoint of this version of fedbnsl")
    if hashlib.sha256(body).digest() != digest:
        raise BadInput(f"{path}: the checkpoint is damaged")
    return wire.decode(Checkpoint, body)


def _sync_folder(folder: Path) -> None:
    """Make the new name of a file in `folder` survive a power cut, where the system can."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
