"""A checkpoint: the coordinator's state after a round, from which an interrupted run can continue.

The checkpoint is one file that is replaced atomically, so a reader always finds the last complete checkpoint. Nothing
is pickled.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.errors import BadInput

from .kept_files import after_first_line, first_line
from .staging import replace_private

T = TypeVar("T")


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
    """the rows of `rounds.csv` so far"""
    seconds: float = 0.0
    lost: tuple[str, ...] = ()
    """the silos that the run has dropped"""

    def state(self, kind: type[T]) -> T:
        """The coordinator's state as `kind`, the algorithm's `server_type`. Raises `ValueError` for another type."""
        return wire.decode(kind, self.server)


class CheckpointNotWritten(BadInput):
    """The checkpoint after a round could not be written, for instance because the disk is full."""

    may_pass = True


def save(path: Path, checkpoint: Checkpoint) -> None:
    """Write `checkpoint` to `path`; the previous one remains if it cannot be written: raises `CheckpointNotWritten`."""
    body = wire.encode(checkpoint)
    try:
        replace_private(path, first_line(path) + hashlib.sha256(body).digest() + body)
    except OSError as error:
        raise CheckpointNotWritten(
            f"{path}: the checkpoint cannot be written ({error.strerror}): make room on the disk"
        ) from None


def load(path: Path) -> Checkpoint:
    """The checkpoint in `path`. Raises `BadInput` if it cannot be read, is damaged or is not a checkpoint."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror or error}") from error
    if not content.startswith(b"fedbnsl checkpoint"):
        raise BadInput(f"{path}: not a checkpoint")
    checked = after_first_line(path, content)
    digest, body = checked[:32], checked[32:]
    if hashlib.sha256(body).digest() != digest:
        raise BadInput(f"{path}: the checkpoint is damaged")
    return wire.decode(Checkpoint, body)
