"""Writing the files of a run: all of them under other names first, inside the run's folder, then each in its place.

Inside, because the folder may be a mount point, to which nothing can be renamed from beside it.
"""

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

from .naming import naming

STAGE = ".results-"
LEFT = re.compile(r"\.results-[0-9a-f]{32}|\.checkpoint\.bin-[0-9]+|\.started\.json")
"""what a run that was killed may leave in its folder"""
BESIDE = "[0-9a-f]" * 32
"""what followed the folder's own name in folders that earlier versions wrote to beside it"""


def write_files(folder: Path, contents: Mapping[str, bytes]) -> dict[str, Path]:
    """Write `contents`, by name, into `folder` and return their paths; other files there stay.

    Nothing half-written is ever there: a file appears when all are complete, and replaces an earlier one at once. If
    they cannot be written, a folder that was not there before is not there afterwards, either. Raises `OSError`
    with the name of the file that cannot be written.
    """
    folder = folder.resolve()
    new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    stage = folder / f"{STAGE}{uuid4().hex}"
    try:
        stage.mkdir()
        for name, content in contents.items():
            with naming(folder / name):
                (stage / name).write_bytes(content)
        for name in contents:
            os.replace(stage / name, folder / name)
    except BaseException:
        shutil.rmtree(folder if new else stage, ignore_errors=True)
        raise
    stage.rmdir()
    return {name: folder / name for name in contents}


def check_writable(folder: Path, longest: str) -> None:
    """Write a file as long in name as `longest` to `folder` as results are written, and leave no trace of it.

    Raises `OSError` or `ValueError` where that cannot be done.
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


def tidy(folder: Path) -> None:
    """Remove what a run that was killed while it wrote its results has left in `folder` or beside it."""
    inside = [path for path in folder.iterdir() if LEFT.fullmatch(path.name)] if folder.is_dir() else []
    for path in (*inside, *folder.absolute().parent.glob(f".{_plain(folder.absolute().name)}-{BESIDE}")):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _plain(name: str) -> str:
    """Return `name` with what a pattern would read otherwise escaped."""
    return re.sub(r"([*?[])", r"[\1]", name)
