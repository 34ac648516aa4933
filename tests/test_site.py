"""The documentation site's own checks; `make docs` builds it, which takes a minute and more packages than the tests."""

import sys
from dataclasses import fields
from pathlib import Path

import pytest

from fedbnsl.algorithms.registry import ALGORITHMS

SITE = Path(__file__).parents[1] / "docs/site"
sys.path.insert(0, str(SITE))
build = pytest.importorskip("build")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_has_a_page_with_its_disclosure_and_every_setting(name):
    page = build.algorithm_page(name, "a family")
    entry = ALGORITHMS[name]
    assert entry.disclosure[1:] in page
    for setting in fields(entry.config):
        assert f"| `{setting.name}` |" in page or setting.name == "preset"


def test_the_assumptions_and_figures_of_a_page_are_those_of_the_documents():
    assert build.assumptions("secure-lingam") == [
        line for line in build.assumptions("secure-linear") if line.startswith("non-Gaussian errors")
    ]
    assert any("benchmarks/results/continuous.md" in one for one in build.figures("fed-sparse"))
    assert not list(build.figures("no-such-learner"))


def test_links_to_code_lead_to_the_repository_and_links_to_pages_stay():
    pages = {Path("docs/a.md"), Path("README.md")}
    text = "[a](a.md#x) [b](../README.md) [c](../tasks/run.py) [d](#here) [e](https://example.org) [f](p.png)"
    assert build.relinked(text, Path("docs/a.md"), pages) == text.replace(
        "../tasks/run.py", f"{build.SOURCE_URL}/tasks/run.py"
    )
    assert build.relinked("[x](continuous.py)", Path("examples/README.md"), pages) == "[x](../gallery/continuous.rst)"


def test_the_output_of_commands_is_inserted_and_a_failure_names_its_page():
    page = Path("docs/site/x.md")
    text = "```sh\necho one > f\n```\n\n```sh\ncat f\n```\n\n```\nnot run\n```\n"
    assert build.with_output(text, page).count("```text\none\n```") == 1
    with pytest.raises(SystemExit, match=r"docs/site/x\.md: this fails with exit code 3"):
        build.with_output("```sh\nexit 3\n```\n", page)


def test_requests_to_other_hosts_are_found_and_links_are_not(tmp_path):
    (tmp_path / "a.html").write_text('<a href="https://example.org">x</a><script src="own.js"></script>')
    (tmp_path / "b.html").write_text('<script async src="https://cdn.example.org/x.js"></script>')
    (tmp_path / "c.css").write_text("@import 'https://fonts.example.org/x.css';")
    (tmp_path / "d.html").write_text('<link rel="stylesheet" href="//cdn.example.org/x.css">')
    assert [one.split()[0] for one in build.faults(tmp_path)] == ["b.html", "c.css", "d.html"]


def test_every_page_of_the_site_is_in_a_section():
    listed = "".join(path.read_text("utf-8") for path in (SITE / "sections").glob("*.md"))
    folders = {line.removesuffix("*") for line in listed.splitlines() if line.endswith("*")}
    for page in build.staged_pages():
        name = f"/{page.with_suffix('')}"
        known = name in listed.splitlines() or any(name.startswith(one) for one in folders)
        assert known or page.is_relative_to("docs/site/sections") or page == Path("docs/site/index.md"), page


def test_pages_run_at_once_and_their_blocks_in_order(monkeypatch, tmp_path):
    monkeypatch.setattr(build, "algorithm_pages", lambda: [])
    monkeypatch.setattr(build, "command_page", lambda: "the help")
    monkeypatch.setattr(build.os, "cpu_count", lambda: 2)
    # Each page waits for the other one: in turn, the first would never end.
    wait = "```sh\ntouch {own}\nuntil test -e {other}; do sleep 0.01; done\n```\n\n```sh\necho {own}\n```\n"
    one, two = f"{tmp_path}/one", f"{tmp_path}/two"
    texts = {Path("a.md"): wait.format(own=one, other=two), Path("b.md"): wait.format(own=two, other=one)}
    written = dict(build.texts_with_output(texts))
    assert written[Path("commands/index.md")] == "the help"
    assert f"```text\n{one}\n```" in written[Path("a.md")]
    assert f"```text\n{two}\n```" in written[Path("b.md")]


def test_a_page_that_fails_fails_the_build(monkeypatch):
    monkeypatch.setattr(build, "algorithm_pages", lambda: [])
    monkeypatch.setattr(build, "command_page", lambda: "")
    with pytest.raises(SystemExit, match=r"b\.md: this fails with exit code 4"):
        dict(build.texts_with_output({Path("a.md"): "no block", Path("b.md"): "```sh\nexit 4\n```\n"}))
