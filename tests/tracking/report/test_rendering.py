"""The template of the report, compiled once for an installation."""

import numpy as np
import pandas as pd
import pytest

from fedbnsl import learn
from fedbnsl.tracking.report import report
from fedbnsl.tracking.report.report import report_html
from tests.tracking.golden import RUNS


@pytest.fixture
def page(monkeypatch):
    def of(folder):
        monkeypatch.setattr(report, "INSTALLATION_FILES", folder)
        report.report_template.cache_clear()
        return report_html(RUNS["weighted"])

    yield of
    report.report_template.cache_clear()


def test_templates_are_compiled_once(page, tmp_path, monkeypatch):
    first = page(tmp_path)
    kept = sorted((tmp_path / "templates").iterdir())
    assert len(kept) == 2
    monkeypatch.setattr("jinja2.environment.Environment.compile", None)
    assert page(tmp_path) == first
    assert sorted((tmp_path / "templates").iterdir()) == kept


def test_damaged_files_and_a_folder_that_cannot_be_written_do_not_matter(page, tmp_path):
    first = page(tmp_path)
    for one in (tmp_path / "templates").iterdir():
        one.write_bytes(one.read_bytes()[:30])
    assert page(tmp_path) == first
    (tmp_path / "file").write_text("")
    assert page(tmp_path / "file") == first


def test_no_text_changes_the_direction_of_writing():
    """Neither in the text of the page nor in its drawings and in the data of its scripts."""
    rng = np.random.default_rng(1)
    x, silos = rng.normal(size=(200, 1)), np.repeat(["a", "ward\u2066"], 100)
    rows = pd.DataFrame(np.hstack([x, x + rng.normal(size=(200, 1))]), columns=["x\u202egnp", "y"])
    shown = report_html(learn({silo: rows[silos == silo] for silo in set(silos)}, "secure-sum").result)
    assert not any(mark in shown for mark in "\u202e\u2066")
    assert shown.count("x[U+202E]gnp → y") + shown.count("y → x[U+202E]gnp") >= 2
    assert "ward[U+2066]" in shown
