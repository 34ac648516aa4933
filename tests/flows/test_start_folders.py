"""Two runs never share a results folder."""

from datetime import datetime
from pathlib import Path

import pytest

from fedbnsl import learn
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.flows.engines.resuming import run_lock
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.flows.start import learn_inline, precheck

NOW = datetime(2026, 1, 2, 3, 4, 5)


def test_runs_of_one_second_get_names_of_their_own(tmp_path):
    settings = LearnSettings(data="study", algorithm="fed-sparse")
    names = []
    for _ in range(3):
        named = settings.named(NOW)
        Path(named.out).mkdir(parents=True)
        names.append(named.name)
        assert named.out == str(Path("runs") / named.name)
    first = "fed-sparse-study-seed0-20260102-030405"
    assert names == [first, f"{first}-2", f"{first}-3"]


def test_a_second_run_into_the_same_folder_is_refused_though_both_were_checked_before(example, tmp_path):
    out = tmp_path / "out"
    settings = LearnSettings(data=str(example), algorithm="notears-admm", params={"rounds": 1}, out=str(out)).named()
    data = precheck(settings)
    first = learn_inline(settings, data)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    with pytest.raises(BadInput, match="already exists"):
        learn_inline(settings, data)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert first.folder == out


def test_a_run_into_a_folder_where_one_is_in_progress_is_refused(example, tmp_path):
    out = tmp_path / "out"
    settings = LearnSettings(data=str(example), algorithm="notears-admm", params={"rounds": 1}, out=str(out)).named()
    data = precheck(settings)
    with run_lock(out), pytest.raises(BadInput, match="in progress"):
        learn_inline(settings, data)


def test_python_refuses_a_folder_that_has_results(example, tmp_path):
    learn(example, "notears-admm", rounds=1, out=tmp_path / "out")
    with pytest.raises(BadInput, match="already exists"):
        learn(example, "notears-admm", rounds=1, out=tmp_path / "out")
