"""The pages of benchmark results agree with the recorded figures."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from fedbnsl.flows.benchmark.spec import read_spec

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("pages", ROOT / "benchmarks" / "pages.py")
pages = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(pages)


def test_every_page_is_what_its_topic_and_the_results_give():
    command = [sys.executable, str(ROOT / "benchmarks" / "pages.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_every_placeholder_is_replaced():
    assert not [path.name for path, text in pages.pages().items() if "{{" in text]


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """One topic with one table, in a folder of its own."""
    for name in ("topics", "results"):
        (tmp_path / name).mkdir()
    (tmp_path / "topics" / "index.md").write_text("# Results\n")
    (tmp_path / "topics" / "one.md").write_text("# One\n\n{{ er }}\n\n{{ er: SHD | run }}\n")
    rows = [{"run": "a|b", "SHD": 1}, {"run": "c", "SHD": 2.5, "MB": 3}]
    (tmp_path / "results" / "er.json").write_text(json.dumps({"rows": rows}))
    for name, path in (("HERE", ""), ("TOPICS", "topics"), ("RESULTS", "results"), ("INDEX", "RESULTS.md")):
        monkeypatch.setattr(pages, name, tmp_path / path)
    return tmp_path


def test_a_table_has_all_columns_or_those_asked_for(copied):
    lines = pages.pages()[copied / "results" / "one.md"].splitlines()
    assert lines[3:7] == ["| run | SHD | MB |", "| --- | --- | --- |", "| a\\|b | 1 |  |", "| c | 2.5 | 3 |"]
    assert lines[8:12] == ["| SHD | run |", "| --- | --- |", "| 1 | a\\|b |", "| 2.5 | c |"]
    assert "- [One](results/one.md)" in pages.pages()[copied / "RESULTS.md"]


def test_a_page_that_disagrees_and_one_without_a_topic_are_found(copied, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["pages.py"])
    pages.main()
    monkeypatch.setattr(sys, "argv", ["pages.py", "--check"])
    with pytest.raises(SystemExit) as sound:
        pages.main()
    assert sound.value.code == 0
    page = copied / "results" / "one.md"
    page.write_text(page.read_text().replace("2.5", "2.4"))
    (copied / "results" / "gone.md").write_text("# A topic that was removed\n")
    with pytest.raises(SystemExit) as stale:
        pages.main()
    assert stale.value.code == 1
    assert [line.split(" ")[0].rpartition("/")[2] for line in capsys.readouterr().out.splitlines()] == [
        "one.md",
        "gone.md",
    ]


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks" / "papers").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_spec_of_a_paper_can_be_run_by_the_command(path):
    assert list(read_spec(path).cells())


def test_a_figure_is_looked_up_in_one_row_and_by_known_columns(copied):
    assert pages.looked_up("er | c | SHD, MB") == "c: SHD 2.5, MB 3"
    for wrong in ("er | d | SHD", "er | c | SHD, TPR"):
        with pytest.raises(ValueError, match="er"):
            pages.looked_up(wrong)
