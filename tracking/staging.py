"""Writing the files of a run, and notices to its observers.

Files are first written under temporary names inside the run's folder, then moved into place. The folder may be a mount
point, so a rename from elsewhere could fail. Write errors name their file, even if the disk is full. New folders and
files are private to the user under any umask, because edges, scores and checkpoints describe the rows of all silos.
Users who want to share results can change the mode. A notice is one line on stderr, for example about an MLflow server
that cannot be reached.
"""

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from fedbnsl.algorithms.errors import MAX_LINE_LENGTH, foreign_text


@contextmanager
def name_in_errors(path: Path) -> Iterator[None]:
    """Add `path` to an `OSError` in the block that does not name a file."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None


def create_private_folder(folder: Path) -> None:
    """Create `folder` and its missing parents for this user only; a folder that exists keeps its mode."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(exist_ok=True)  # raises the error of a path that is a file


def private_opener(path: str, flags: int) -> int:
    """The `opener` of `open` for new files that only this user may read and write."""
    return os.open(path, flags, 0o600)


def write_private(path: Path, content: bytes) -> None:
    """Write `content` to the file `path`, which is private if it is new."""
    with open(path, "wb", opener=private_opener) as file:
        file.write(content)


def replace_private(path: Path, content: bytes) -> None:
    """Write `content` to a private file, which then replaces `path` atomically: no reader finds a part of it.

    Raises `OSError` with the name of the file if it cannot be written; an earlier file then remains.
    """
    temporary = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        with name_in_errors(path), open(temporary, "wb", opener=private_opener) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make the renaming of a file in `folder` durable, if the system supports this."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


STAGE = ".results-"
LEFTOVER = re.compile(r"\.results-[0-9a-f]{32}|\.(checkpoint\.bin|started\.json)-[0-9]+|\.started\.json")
"""files that a killed run may leave in its folder"""
BESIDE = "[0-9a-f]" * 32
"""suffix of the temporary folders that earlier versions made beside the run's folder"""


def write_files(folder: Path, contents: Mapping[str, bytes]) -> dict[str, Path]:
    """Write `contents`, which are given by file name, into `folder` and return their paths; other files remain.

    No file is ever incomplete: the files appear when all are complete, and each file replaces an earlier file
    atomically. If files cannot be written, a new folder is removed again. Raises `OSError` with the name of the file
    that cannot be written.
    """
    folder = folder.resolve()
    new = not folder.exists()
    create_private_folder(folder)
    stage = folder / f"{STAGE}{uuid4().hex}"
    try:
        stage.mkdir(mode=0o700)
        for name, content in contents.items():
            with name_in_errors(folder / name):
                write_private(stage / name, content)
        for name in contents:
            os.replace(stage / name, folder / name)
    except BaseException:
        shutil.rmtree(folder if new else stage, ignore_errors=True)
        raise
    stage.rmdir()
    return {name: folder / name for name in contents}


def check_writable(folder: Path, longest: str) -> None:
    """Check that results can be written to `folder`, with a temporary file whose name is `longest`.

    Raises `OSError` or `ValueError` if results cannot be written.
    """
    missing = [path for path in (folder.absolute(), *folder.absolute().parents) if not path.exists()]
    stage = folder / f"{STAGE}{uuid4().hex}"
    try:
        stage.mkdir(parents=True)
        (stage / longest).write_bytes(b"")
    finally:
        shutil.rmtree(stage, ignore_errors=True)
        for path in missing:
            if path.exists():
                path.rmdir()


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of killed runs in `folder` or beside it."""
    inside = [path for path in folder.iterdir() if LEFTOVER.fullmatch(path.name)] if folder.is_dir() else []
    for path in (*inside, *folder.absolute().parent.glob(f".{_plain_name(folder.absolute().name)}-{BESIDE}")):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _plain_name(name: str) -> str:
    """`name` with the special characters of a glob pattern escaped."""
    return re.sub(r"([*?[])", r"[\1]", name)


def notice(line: str) -> None:
    """Print `line` to stderr as a single line, whatever text of other parties it contains."""
    print(f"note: {foreign_text(line, MAX_LINE_LENGTH)}", file=sys.stderr, flush=True)


EXPIRES = "expires on"
"""the words that mark a note about a certificate, which a run repeats in its last lines"""


def expiring(notes: Iterable[str]) -> list[str]:
    """The warnings among the `notes` of a run about certificates that expire soon."""
    return [f"warning: {line}" for line in notes if EXPIRES in line]


def first_line(error: BaseException) -> str:
    """The first line of the message of `error`; if there is no message, the name of its type."""
    return foreign_text((str(error).strip() or type(error).__name__).splitlines()[0])
