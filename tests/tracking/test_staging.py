import os
import resource

import pytest

from fedbnsl.tracking import staging
from fedbnsl.tracking.staging import check_writable, write_files

CONTENTS = {"structure.csv": b"new", "metrics.json": b"{}"}


def test_files_are_staged_inside_their_folder(tmp_path, monkeypatch):
    folder, moved = tmp_path / "mount", []
    folder.mkdir()
    (folder / "mine.txt").write_text("stays")
    replace = os.replace

    def follow(source, target):
        moved.append(source.relative_to(folder))
        assert not list(folder.glob("metrics.json"))
        replace(source, target)

    monkeypatch.setattr(os, "replace", follow)
    assert write_files(folder, CONTENTS) == {name: folder / name for name in CONTENTS}
    assert len(moved) == 2
    assert sorted(path.name for path in folder.iterdir()) == ["metrics.json", "mine.txt", "structure.csv"]
    assert [path.name for path in tmp_path.iterdir()] == ["mount"]


def test_a_check_of_a_new_folder_leaves_nothing_behind(tmp_path):
    check_writable(tmp_path / "runs" / "mine", "structure.csv")
    assert not list(tmp_path.iterdir())
    (tmp_path / "runs").mkdir()
    check_writable(tmp_path / "runs" / "mine", "structure.csv")
    assert [path.name for path in tmp_path.rglob("*")] == ["runs"]


@pytest.mark.parametrize("there", [True, False])
def test_nothing_half_written_is_left(tmp_path, monkeypatch, there):
    folder = tmp_path / "run"
    if there:
        folder.mkdir()
        (folder / "structure.csv").write_text("old")
    monkeypatch.setattr(os, "replace", lambda source, target: (_ for _ in ()).throw(OSError("no space")))
    with pytest.raises(OSError, match="no space"):
        write_files(folder, CONTENTS)
    assert folder.exists() == there
    assert not there or [(path.name, path.read_text()) for path in folder.iterdir()] == [("structure.csv", "old")]


def test_a_file_that_cannot_be_written_is_named_and_nothing_is_left(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large") as full:
            write_files(tmp_path, {"structure.csv": b"", "report.html": bytes(5000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert full.value.filename == str(tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


def test_files_that_are_being_written_are_in_a_private_folder(tmp_path, monkeypatch):
    """The run's own folder may be readable by others, but incomplete files and their names are hidden from them."""
    folder, modes = tmp_path / "open", []
    folder.mkdir()
    folder.chmod(0o755)
    write = staging.write_private

    def watched(path, content):
        modes.append(path.parent.stat().st_mode & 0o777)
        write(path, content)

    monkeypatch.setattr(staging, "write_private", watched)
    before = os.umask(0)
    try:
        staging.write_files(folder, {"metrics.json": b"{}"})
    finally:
        os.umask(before)
    assert modes == [0o700]
    assert folder.stat().st_mode & 0o777 == 0o755
