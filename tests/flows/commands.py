"""The command line in this process, and a run on it that stops half-way and is resumed."""

import pytest

from fedbnsl.algorithms.errors import UNEXPECTED
from fedbnsl.flows.cli.main import main


def run(capsys, *words):
    """Exit code, stdout and stderr of the command line."""
    with pytest.raises(SystemExit) as leaving:
        main([str(word) for word in words])
    said = capsys.readouterr()
    return leaving.value.code, said.out, said.err


def crash(*given):
    raise RuntimeError("the coordinator stopped")


def stop_and_resume(capsys, monkeypatch, function, words, out, instead=crash):
    """Run `words` into the folder `out`, where `instead` replaces a `function` and fails, and then resume the run."""
    with monkeypatch.context() as patch:
        patch.setattr(function, instead)
        with pytest.raises(SystemExit) as leaving:
            main([str(word) for word in (*words, "--out", out)])
    assert leaving.value.code == UNEXPECTED
    assert "the coordinator stopped" in capsys.readouterr().err
    assert not (out / "metrics.json").exists()
    code, _, err = run(capsys, "learn", "--resume", out)
    assert code == 0, err


def assert_same_files(one, other, names):
    """The files of these names in two folders have the same bytes."""
    for name in names:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
