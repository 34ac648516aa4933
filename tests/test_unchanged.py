"""`benchmarks/unchanged.py compare`: what counts as a difference, and what is only named."""

import importlib.util
import json
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[1] / "benchmarks/unchanged.py"


@pytest.fixture
def program():
    spec = importlib.util.spec_from_file_location("unchanged", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("metrics", "code", "lines"),
    [
        (
            {"shd": 2, "f1": 0.5},
            0,
            ["not compared, as the recording does not have them: f1", "1 of 1 runs are the same"],
        ),
        ({"shd": 3, "f1": 0.5}, 1, ["metrics.shd: 2 became 3", "0 of 1 runs are the same"]),
        ({"f1": 0.5}, 1, ["metrics.shd: 2 became None"]),
    ],
)
def test_a_new_metric_is_named_and_a_changed_one_counts(program, monkeypatch, capsys, tmp_path, metrics, code, lines):
    (tmp_path / "before.json").write_text(json.dumps({"one": {"metrics": {"shd": 2}, "rounds": {}}}))
    monkeypatch.setattr(program, "all_runs", lambda chosen: {"one": {"metrics": metrics, "rounds": {}}})
    monkeypatch.setattr("sys.argv", ["unchanged.py", "compare", str(tmp_path / "before.json")])
    with pytest.raises(SystemExit) as left:
        program.main()
    assert left.value.code == code
    printed = capsys.readouterr().out
    assert all(line in printed for line in lines)
