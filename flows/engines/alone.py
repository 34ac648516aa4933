"""Only one process at a time may work on the folder of a run: a lock that the kernel takes back when a process dies."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.tracking.staging import tidy

LOCK = ".running"


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the lock of the run in `folder`, which is made if it is not there; what a killed run left is removed.

    Raises `BadInput` if another process holds it, or if the folder cannot be written. Where files cannot be locked, as
    on some network drives, nothing is held.
    """
    new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held = _locked(folder)
    except BadInput:
        raise
    except (OSError, ValueError) as error:
        raise BadInput(f"{folder}: cannot be written: {getattr(error, 'strerror', None) or error}") from None
    try:
        tidy(folder)
        yield
    finally:
        with suppress(OSError):
            (folder / LOCK).unlink()
        os.close(held)
        if new:
            with suppress(OSError):
                folder.rmdir()


def _locked(folder: Path) -> int:
    """Return the descriptor of the lock file, locked; the file that has the name, not one that was just removed."""
    while True:
        held = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        if sys.platform == "win32":
            return held
        import fcntl

        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(held)
            raise BadInput(f"{folder}: this run is still going, in another process") from None
        except OSError:
            return held
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(held), os.stat(folder / LOCK)):
                return held
        os.close(held)
