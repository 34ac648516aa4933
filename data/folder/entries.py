"""What stands in a folder under the name of a silo, the truth or `about.json`, and is no file that could be read."""

import os
import stat
from pathlib import Path

from fedbnsl.algorithms.errors import BadInput, shown

KINDS = {
    stat.S_IFDIR: "a folder, not a file",
    stat.S_IFIFO: "a named pipe, not a file",
    stat.S_IFSOCK: "a socket, not a file",
    stat.S_IFCHR: "a device, not a file",
    stat.S_IFBLK: "a device, not a file",
}


def check_is_file(path: Path) -> None:
    """Raise `BadInput` that says what `path` is, unless it is a file or a link to one."""
    fault = _fault(path)
    if fault:
        raise BadInput(f"{path.parent}: {shown(path.name)} is {fault}; take it away, or put the file there")


def _fault(path: Path) -> str | None:
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
    except FileNotFoundError:
        return f"a link to {shown(os.readlink(path))}, which is not there"
    except OSError as error:
        return (
            f"a link that leads nowhere ({error.strerror})" if path.is_symlink() else f"unreadable ({error.strerror})"
        )
    return None if kind == stat.S_IFREG else KINDS.get(kind, "no file")


def listed(folder: Path) -> list[Path]:
    """Return what is in `folder`, sorted, but for names that begin with a dot.

    Raises `BadInput` if it is no folder, or one that may not be looked into.
    """
    if not folder.exists():
        raise BadInput(f"{folder}: no such folder")
    if not folder.is_dir():
        raise BadInput(f"{folder}: not a folder; a federated data set is a folder with one file a silo")
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise BadInput(f"{folder}: cannot be read: {error.strerror or error}") from None
