"""The Markdown files: links that resolve, a short README, and references that agree with the code."""

import ast
import os
import re
import shlex
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest

import fedbnsl
from fedbnsl.algorithms.errors import EXIT_CODES, BadInput
from fedbnsl.algorithms.registry import ALGORITHMS
from fedbnsl.data.folder.about import known_keys
from fedbnsl.flows.cli.main import COMMANDS, command

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\[[^\]\[]*(?:\[[^\]]*\][^\]\[]*)*\]\(([^()\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def markdown_files():
    """All Markdown files that belong to the project, by their path from its root."""
    folders = (ROOT, ROOT / ".github", ROOT / "docs", ROOT / "examples", ROOT / "benchmarks", ROOT / "deploy")
    found = [*ROOT.glob("*.md"), *(path for folder in folders[1:] for path in folder.rglob("*.md"))]
    return sorted(str(path.relative_to(ROOT)) for path in found)


def anchors(path):
    """The anchors of a Markdown file's headings, as GitHub forms them."""
    text = FENCE.sub("", path.read_text("utf-8"))
    headings = re.findall(r"^#+ +(.+?) *$", text, re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


def broken_links(path):
    """The relative links of a Markdown file that lead to no file, or to no heading in it."""
    broken = []
    for target in LINK.findall(FENCE.sub("", path.read_text("utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        there = path.parent / name if name else path
        if not there.exists() or (anchor and there.suffix == ".md" and anchor not in anchors(there)):
            broken.append(target)
    return broken


@pytest.mark.parametrize("name", markdown_files())
def test_every_relative_link_resolves(name):
    assert broken_links(ROOT / name) == []


def test_a_broken_link_and_a_broken_anchor_are_found(tmp_path):
    page, other = tmp_path / "page.md", tmp_path / "other.md"
    other.write_text("# What `it` does, in short\n")
    page.write_text(
        "# Top\n[a](other.md) [b](other.md#what-it-does-in-short) [c](#top) [d](https://example.org/x)\n"
        "[e](gone.md) [f](other.md#gone) [g\nh](#gone)\n```\n[i](code.md)\n```\n"
    )
    assert broken_links(page) == ["gone.md", "other.md#gone", "#gone"]


def test_every_module_that_a_document_names_exists():
    named = {
        (page, path)
        for page in markdown_files()
        if page != "CHANGELOG.md"
        for path in re.findall(r"`((?:\w+/)+\w+\.py)`", (ROOT / page).read_text("utf-8"))
    }
    assert ("ARCHITECTURE.md", "algorithms/core/protocol.py") in named
    assert sorted((page, path) for page, path in named if not (ROOT / path).is_file()) == []


def test_the_readme_has_at_most_120_lines():
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 120


def test_the_readme_links_every_page_of_the_documentation():
    text = (ROOT / "README.md").read_text("utf-8")
    assert [path.name for path in sorted((ROOT / "docs").glob("*.md")) if f"(docs/{path.name}" not in text] == []


def test_every_decision_is_in_their_index():
    index = (ROOT / "docs/decisions/README.md").read_text("utf-8")
    pages = [path.name for path in sorted((ROOT / "docs/decisions").glob("*.md")) if path.name != "README.md"]
    assert pages
    assert [name for name in pages if f"({name})" not in index] == []


@pytest.mark.parametrize("page", sorted((ROOT / "docs/decisions").glob("[!R]*.md")), ids=lambda path: path.stem)
def test_a_decision_has_its_four_sections(page):
    sections = re.findall(r"^## (.+)$", page.read_text("utf-8"), re.MULTILINE)
    assert sections == ["Context", "Decision", "Consequences", "Alternatives"]


def keys_read_from_about():
    """Every key that a module reads from `about.json`, found by the name of that dictionary in the code."""
    keys = set()
    for room in ("data", "flows", "tasks", "tracking"):
        for path in (ROOT / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                match node:
                    case ast.Call(func=ast.Attribute(value=about, attr="get"), args=[ast.Constant(value=str(key)), *_]):
                        pass
                    case ast.Subscript(value=about, slice=ast.Constant(value=str(key)), ctx=ast.Load()):
                        pass
                    case _:
                        continue
                name = about.attr if isinstance(about, ast.Attribute) else getattr(about, "id", "")
                keys |= {key} if name == "about" else set()
    return keys


def test_the_reference_of_about_json_has_every_key():
    page = (ROOT / "docs/about-json.md").read_text("utf-8")
    rows = re.findall(r"^\| (`[^|]+?) \|", page, re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`([$\w]+)`", row)}
    keys = keys_read_from_about()
    assert {"levels", "columns", "missing", "checksums", "truth"} <= keys
    assert sorted(keys - set(known_keys())) == []
    assert listed == set(known_keys())


def test_the_features_of_data_that_learners_take_are_those_of_their_entries():
    page = (ROOT / "docs/algorithms.md").read_text("utf-8")
    takes = {(name, ", ".join(one.kinds), ", ".join(one.takes)) for name, one in ALGORITHMS.items() if one.takes}
    listed = re.findall(r"^\| `([\w-]+)` \| ([^|]+) \| ([^|]+) \|$", page, re.MULTILINE)
    assert set(listed) == takes


def test_the_commands_and_exit_codes_of_the_documents_are_those_of_the_program():
    commands = (ROOT / "docs/commands.md").read_text("utf-8")
    assert set(re.findall(r"^\| `fedbnsl (\w+)", commands, re.MULTILINE)) == set(COMMANDS)
    failures = (ROOT / "docs/failures.md").read_text("utf-8")
    listed = {int(code): meaning for code, meaning in re.findall(r"^\| (\d+) \| (.*) \|$", failures, re.MULTILINE)}
    assert listed == EXIT_CODES


def commands_in(path):
    """The `fedbnsl` commands in the fenced blocks of a Markdown file, each as its words."""
    blocks = "".join(FENCE.findall(path.read_text("utf-8"))).replace("\\\n", " ")
    lines = re.findall(r"^(?:\$ |docker compose exec \w+ )?(fedbnsl .*)", blocks, re.MULTILINE)
    return [shlex.split(line.split(" > ")[0], comments=True) for line in lines]


def check_arguments(words):
    """Parse a command without running it; raises the error that its user would see."""
    name, *rest = words[1:]
    called = command(name)
    while "--help" not in rest and getattr(called, "commands", None):
        called = called.commands[rest.pop(0)]
    if "--help" not in rest:
        called.make_context(name, rest)


@pytest.mark.parametrize("page", markdown_files())
def test_the_program_takes_every_command_of_a_document(page):
    for words in commands_in(ROOT / page):
        try:
            check_arguments(words)
        except Exception as error:
            pytest.fail(f"{' '.join(words)}: {error!r}")


def test_a_command_with_a_wrong_option_or_without_an_argument_is_found():
    for line in ("fedbnsl learn study --epsilonn 5", "fedbnsl compare runs/a", "fedbnsl silo begin"):
        with pytest.raises(Exception, match=r"epsilonn|after|begin"):
            check_arguments(shlex.split(line))


def options_of(name):
    """Every option of a command and of the commands below it."""
    group = command(name)
    below = [group, *getattr(group, "commands", {}).values()]
    below += [inner for one in below[1:] for inner in getattr(one, "commands", {}).values()]
    return {word for one in below for option in one.params for word in (*option.opts, *option.secondary_opts)}


def test_the_documents_name_only_options_that_a_command_has():
    known = {"--version", "--help", "--install-completion"}.union(*(options_of(name) for name in COMMANDS))
    used = {}
    for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        text = path.read_text("utf-8")
        commands = re.findall(r"^fedbnsl .*|`(?:fedbnsl [^`]*|--[^`]*)`", text, re.MULTILINE)
        used |= {word: path.name for line in commands for word in re.findall(r"(?<!\S)`?(--[a-z][a-z-]*)", line)}
    assert {"--secure", "--hook-url", "--older-than"} <= set(used)
    assert {word: page for word, page in used.items() if word not in known} == {}


def kinds_of_errors(kind=BadInput):
    """`kind` and the classes below it in the package, in the order of their names."""
    below = [one for sub in kind.__subclasses__() for one in kinds_of_errors(sub)]
    return sorted({kind, *below}, key=lambda one: one.__name__)


def test_the_table_of_errors_is_made_from_the_code():
    """`FEDBNSL_RENEW=1 pytest tests/test_documents.py` writes it again."""
    for module in walk_packages(fedbnsl.__path__, "fedbnsl."):
        import_module(module.name)
    rows = ["| error | what has happened | exit code | may pass by itself |", "| --- | --- | --- | --- |"]
    for one in kinds_of_errors():
        if one.__module__.startswith("fedbnsl."):
            said = re.split(r"\.(?:\s|$)", " ".join(one.__doc__.split()))[0]
            rows.append(f"| `{one.__name__}` | {said} | {one.exit_code} | {'yes' if one.may_pass else 'no'} |")
    page = ROOT / "docs/failures.md"
    begin, end = "<!-- errors, from the code -->\n\n", "\n\n<!-- end of errors -->"
    before, _, rest = page.read_text("utf-8").partition(begin)
    table, _, after = rest.partition(end)
    if os.environ.get("FEDBNSL_RENEW"):
        page.write_text(f"{before}{begin}{chr(10).join(rows)}{end}{after}", "utf-8")
        return
    assert table.splitlines() == rows
    assert {one.exit_code for one in kinds_of_errors()} <= set(EXIT_CODES)
