"""Data files that other packages carry: found among a package's files, without importing it."""

from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from fedbnsl.algorithms.errors import BadInput


def carried_file(package: str, inside: str, remedy: str) -> Path:
    """Return where the installed `package` keeps the file `inside`; raise `BadInput` with the `remedy` if nowhere."""
    try:
        found = [entry for entry in files(package) or () if entry.as_posix() == inside]
    except PackageNotFoundError:
        found = []
    path = Path(str(found[0].locate())) if found else None
    if path is None or not path.is_file():
        raise BadInput(f"{inside} of the package {package} is not installed: {remedy}")
    return path
