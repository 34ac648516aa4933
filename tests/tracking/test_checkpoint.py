import errno
import os
from dataclasses import dataclass

import numpy as np
import pytest

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.tracking.checkpoint import Checkpoint, CheckpointNotWritten, load, save


@dataclass(frozen=True)
class Server:
    W: np.ndarray
    rho: float
    names: tuple[str, ...]


def checkpoint(number=7):
    server = Server(np.random.default_rng(number).normal(size=(3, 3)), 1 / 3, ("a", "b"))
    spec = wire.encode(("fed-sparse", {"rho1": 1000.0, "l1": 0.1, "warm": True, "preset": None}))
    rows = ({"round": 1, "h": 0.1}, {"round": 2, "h": 1e-300})
    return Checkpoint("run-1", spec, 3, number, wire.encode(server), rows, 2.5), server


def test_round_trip(tmp_path):
    saved, server = checkpoint()
    save(tmp_path / "checkpoint.bin", saved)
    loaded = load(tmp_path / "checkpoint.bin")
    assert loaded == saved
    state = loaded.state(Server)
    np.testing.assert_array_equal(state.W, server.W)
    assert (state.rho, state.names) == (server.rho, server.names)
    assert b"numpy" not in (tmp_path / "checkpoint.bin").read_bytes()


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_crash_leaves_the_last_checkpoint(tmp_path, monkeypatch, step):
    path = tmp_path / "checkpoint.bin"
    save(path, checkpoint(1)[0])

    def crash(*arguments):
        raise OSError(errno.EIO, "killed")

    monkeypatch.setattr(os, step, crash)
    with pytest.raises(CheckpointNotWritten, match="killed"):
        save(path, checkpoint(2)[0])
    monkeypatch.undo()
    assert load(path).number == 1
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda content: content[:-1], "damaged"),
        (lambda content: content[:40] + b"x" + content[41:], "damaged"),
        (lambda content: b"", "not a checkpoint"),
        (lambda content: b"\x80\x04 a pickle", "not a checkpoint"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, damage, said):
    path = tmp_path / "checkpoint.bin"
    save(path, checkpoint()[0])
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(BadInput, match=said):
        load(path)


def test_no_file(tmp_path):
    with pytest.raises(BadInput, match="No such file"):
        load(tmp_path / "checkpoint.bin")


def test_another_algorithms_state_is_refused():
    @dataclass(frozen=True)
    class Other:
        Z: np.ndarray

    with pytest.raises(ValueError, match="bytes are not"):
        checkpoint()[0].state(Other)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_full_disk_is_said_with_the_name_of_the_file_and_the_last_checkpoint_is_still_there(tmp_path):
    path = tmp_path / "checkpoint.bin"
    save(path, checkpoint(1)[0])
    (tmp_path / f".checkpoint.bin-{os.getpid()}").symlink_to("/dev/full")
    with pytest.raises(CheckpointNotWritten) as full:
        save(path, checkpoint(2)[0])
    assert (
        str(full.value) == f"{path}: the checkpoint cannot be written (No space left on device): make room on the disk"
    )
    assert load(path).number == 1
    assert os.listdir(tmp_path) == ["checkpoint.bin"]
