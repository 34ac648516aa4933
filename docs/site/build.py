"""Build the documentation site: pages for people, and pages generated from the code.

    python docs/site/build.py OUT       # the HTML, in the folder OUT; `make docs` calls this

Sphinx reads a staged copy of the project's Markdown files, in which links to code lead to the repository. Beside them
are a page for each algorithm, from its entry in the registry, its module and the recorded benchmarks; the help of every
command; and the examples. Commands and snippets of the pages in this folder are run, and their output is inserted, so a
page cannot show what no longer works. Pages run at once, and examples, in as many processes as there are processors.
The build fails at a warning, a failing command, and a page that would request something from another host.
"""

import ast
import contextlib
import inspect
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import patch

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SOURCE_URL = "https://github.com/fedbnsl/fedbnsl/blob/main"
TOP = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
FOLDERS = ("docs", "benchmarks", "examples", "deploy")
LINK = re.compile(r"(\[[^\]\[]*(?:\[[^\]]*\][^\]\[]*)*\]\()([^()\s]+)(\))")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
REQUEST = re.compile(r"""<(?:script|img|iframe|source)[^>]+src=["']?(?:https?:)?//|<link[^>]+href=["']?(?:https?:)?//"""
                     r"""|@import\s+["']?https?:|url\(["']?(?:https?:)?//""")  # fmt: skip
RUN = {"sh", "python"}
"""languages of the blocks that are run"""
MOST_LINES, MOST_ROWS, MOST_TABLES = 40, 6, 4
"""the most lines of output, rows of a table of figures, and such tables on a page of an algorithm"""
PATIENCE = 600
"""seconds that a block of commands may take, also on a busy machine"""
MOST_BYTES = 1_000_000
"""the largest page"""


def staged_pages() -> list[Path]:
    """The Markdown files of the project that become pages, by their path from its root."""
    found = [Path(name) for name in TOP]
    for folder in FOLDERS:
        found += [path.relative_to(ROOT) for path in (ROOT / folder).rglob("*.md")]
    return sorted(path for path in found if not path.is_relative_to("benchmarks/topics"))


def relinked(text: str, page: Path, pages: set[Path]) -> str:
    """`text` with links to files that are neither pages nor pictures leading to the repository."""

    def target(match: re.Match[str]) -> str:
        before, link, after = match.groups()
        name, _, anchor = link.partition("#")
        if not name or re.match(r"[a-z]+:", link):
            return match[0]
        path = Path(os.path.normpath(page.parent / name))
        if path in pages or path.suffix in (".png", ".svg"):
            return match[0]
        if path.parent == Path("examples") and path.suffix == ".py":
            return f"{before}{os.path.relpath(f'gallery/{path.stem}.rst', page.parent)}{after}"
        return f"{before}{SOURCE_URL}/{path}{f'#{anchor}' if anchor else ''}{after}"

    return LINK.sub(target, text)


def with_output(text: str, page: Path) -> str:
    """`text` with the output of its commands and snippets, which are run in order in one new folder.

    Raises `SystemExit` naming the page and the block that fails.
    """
    with tempfile.TemporaryDirectory() as scratch:
        environment = os.environ | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "COLUMNS": "100",
            "HOME": scratch,
            "PREFECT_HOME": f"{scratch}/.prefect",
            # Fonts are listed once, not for every page.
            "XDG_CACHE_HOME": str(ROOT / ".cache/site"),
        }

        def run(match: re.Match[str]) -> str:
            language, code = match.groups()
            if language not in RUN:
                return match[0]
            call = ["bash", "-euc", code] if language == "sh" else [sys.executable, "-c", code]
            try:
                done = subprocess.run(
                    call, cwd=scratch, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
                )
            except subprocess.TimeoutExpired:
                raise SystemExit(f"{page}: this takes more than {PATIENCE} s:\n{code}") from None
            if done.returncode:
                raise SystemExit(f"{page}: this fails with exit code {done.returncode}:\n{code}\n{done.stderr}")
            lines = done.stdout.rstrip().replace(scratch, "~").splitlines()
            if len(lines) > MOST_LINES:
                lines = [*lines[:MOST_LINES], "…"]
            return match[0] + ("\n\n```text\n" + "\n".join(line.rstrip() for line in lines) + "\n```" if lines else "")

        return FENCE.sub(run, text)


def cell(value: Any) -> str:
    """A value as a cell of a Markdown table."""
    return str(value).replace("|", "\\|").replace("\n", " ").replace("<", "&lt;").replace("*", "\\*")


def table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    """A Markdown table."""
    lines = [head, ("---",) * len(head), *(tuple(map(cell, row)) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def assumptions(name: str) -> list[str]:
    """What the directions of an algorithm may rest on, from the table in `docs/algorithms.md`."""
    text = (ROOT / "docs/algorithms.md").read_text("utf-8").partition("## What the directions rest on")[2]
    rows = [line.strip("| ").split(" | ") for line in text.partition("\n## ")[0].splitlines() if line.startswith("| ")]
    return [f"{what}: {valid}" for what, valid, learners in rows[2:] if f"`{name}`" in learners]


def figures(name: str) -> Iterator[str]:
    """The recorded rows of benchmarks that name an algorithm, with a link to the page of each."""
    for topic in sorted((ROOT / "benchmarks/topics").glob("*.md")):
        text = topic.read_text("utf-8")
        title = text.partition("\n")[0].removeprefix("# ")
        for recorded in re.findall(r"^\{\{ (?!verdicts-|headlines)([\w-]+)", text, re.MULTILINE):
            rows = json.loads((ROOT / f"benchmarks/results/{recorded}.json").read_text("utf-8"))["rows"]
            named = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
            own = [row for row in rows if any(isinstance(one, str) and named.search(one) for one in row.values())]
            if own:
                columns = tuple(dict.fromkeys(key for row in own for key in row))
                cells = [tuple(row.get(key, "") for key in columns) for row in own[:MOST_ROWS]]
                yield f"[{title}](../benchmarks/results/{topic.stem}.md), `{recorded}`:\n\n{table(columns, cells)}"


def algorithm_page(name: str, family: str) -> str:
    """The page of an algorithm, from its entry, its module and the benchmarks."""
    from fedbnsl.algorithms.registry import ALGORITHMS
    from fedbnsl.flows.cli.algorithms import data_of, preset_text
    from fedbnsl.flows.options.parameters import parameters

    entry = ALGORITHMS[name]
    idea = inspect.getdoc(inspect.getmodule(entry.build)) or ""
    knowledge = "; background knowledge directs further edges" if entry.directs_by_knowledge else ""
    known = parameters(entry.config)
    parts = [
        f"# {name}\n",
        f"{entry.summary[0].upper()}{entry.summary[1:]}.\n",
        f"*Family*: {family}. *Source*: {entry.source}.\n",
        "**A baseline for benchmarks**: it needs all rows in one place.\n" if entry.pooled else "",
        "**A baseline for benchmarks**: it needs the true graph.\n" if entry.needs_truth else "",
        f"## Idea\n\n{idea}\n",
        f"## What leaves a silo\n\n{entry.disclosure[0].upper()}{entry.disclosure[1:]}.\n",
        f"## Data\n\n{data_of(entry)}{knowledge}.\n",
        "## Assumptions\n",
        *(f"- Directions rest on {one}\n" for one in assumptions(name)),
        "See [assumptions](../docs/algorithms.md#assumptions-behind-the-directions). Every report states those of its "
        "run.\n",
        "## Cost\n",
        f"For 20 variables, a silo sends arrays of at most {entry.message_size(entry.config(), 20):,} numbers"
        + (", whose lengths depend on the data" if entry.varying_messages else "")
        + ". `fedbnsl choose FOLDER` states the exchanges for data of your own.\n",
        "## Settings\n",
        table(("setting", "type", "default", "meaning"),
              [(f"`{one.name}`", one.kind, f"`{one.default}`", one.meaning) for one in known]) if known else "None.\n",
        f"`fedbnsl learn FOLDER -a {name} -p KEY=VALUE` changes one.\n",
    ]  # fmt: skip
    texts = {preset: preset_text(name, entry, preset).replace("\n", "; ") for preset in entry.presets}
    parts.extend(f"- `preset={preset}`: {text}\n" for preset, text in texts.items())
    measured = list(figures(name))
    if measured:
        parts += ["## Figures\n", *(one + "\n" for one in measured[:MOST_TABLES])]
        more = len(measured) - MOST_TABLES
        parts += [f"{more} more tables name it: [benchmarks](../benchmarks/RESULTS.md).\n"] if more > 0 else []
    return "\n".join(part for part in parts if part)


def algorithm_pages() -> Iterator[tuple[Path, str]]:
    """The pages of all algorithms and their index, by their path."""
    from fedbnsl.algorithms.registry import by_family

    index = ["# Algorithm reference\n", "A page for each algorithm, generated from the registry that runs it.\n"]
    for family, names in by_family().items():
        listed = "\n".join(names)
        index.append(f"```{{toctree}}\n:caption: {family}\n:maxdepth: 1\n\n{listed}\n```\n")
        for name in names:
            yield Path(f"algorithms/{name}.md"), algorithm_page(name, family)
    yield Path("algorithms/index.md"), "\n".join(index)


def help_text(words: tuple[str, ...]) -> str:
    """What `fedbnsl WORDS --help` prints."""
    from fedbnsl.flows.cli.main import main

    out = io.StringIO()
    with (
        patch.dict(os.environ, {"COLUMNS": "100", "TERMINAL_WIDTH": "100", "NO_COLOR": "1"}),
        patch.object(sys, "argv", ["fedbnsl", *words, "--help"]),
        contextlib.redirect_stdout(out),
        contextlib.suppress(SystemExit),
    ):
        main()
    return "\n".join(line.rstrip() for line in out.getvalue().strip().splitlines())


def command_page() -> str:
    """The help of every command, on one page."""
    from fedbnsl.flows.cli.main import COMMANDS, command

    parts = [
        "# Command reference\n",
        "The help of every command. [Commands](../docs/commands.md) says what each is for.\n",
    ]
    for name in COMMANDS:
        below = getattr(command(name), "commands", {})
        parts += [
            f"{'#' * (1 + len(words))} fedbnsl {' '.join(words)}\n\n```text\n{help_text(words)}\n```\n"
            for words in ((name,), *((name, one) for one in below if one != name))
        ]
    return "\n".join(parts)


def example(code: str) -> str:
    """An example in the form of Sphinx-Gallery: a heading, and the text of a cell below its mark."""
    said = ast.get_docstring(ast.parse(code)) or ""
    title = re.split(r"[:,.] ", said)[0].rstrip(".")
    rest = code.partition('"""')[2].partition('"""')[2]
    cells = re.sub(r"^# %% (.+)$", r"# %%\n# \1", rest, flags=re.MULTILINE)
    return f'"""\n{title}\n{"=" * len(title)}\n\n{said}\n"""{cells}'


def texts_with_output(texts: dict[Path, str]) -> Iterator[tuple[Path, str]]:
    """The pages of this folder with the output of their blocks; as many pages at once as there are processors."""
    longest_first = sorted(texts, key=lambda page: ("fedbnsl benchmark" in texts[page], len(texts[page])), reverse=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        running = {page: pool.submit(with_output, texts[page], page) for page in longest_first}
        # While the commands run, this thread writes the pages that are generated from the code.
        yield from (*algorithm_pages(), (Path("commands/index.md"), command_page()))
        for page, done in running.items():
            yield page, done.result()


def stage(source: Path) -> None:
    """Write all that Sphinx reads to the new folder `source`."""
    pages = staged_pages()
    texts = {page: relinked((ROOT / page).read_text("utf-8"), page, set(pages)) for page in pages}
    own = {page: texts.pop(page) for page in pages if page.parent == Path("docs/site")}
    for page, text in (*texts.items(), *texts_with_output(own)):
        to = source / ("index.md" if page == Path("docs/site/index.md") else page)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(text, "utf-8")
    for folder in FOLDERS:
        for picture in (ROOT / folder).rglob("*.png"):
            to = source / picture.relative_to(ROOT)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(picture, to)
    (source / "scripts").mkdir()
    for path in sorted((ROOT / "examples").glob("*.py")):
        (source / "scripts" / path.name).write_text(example(path.read_text("utf-8")), "utf-8")
    (source / "scripts/GALLERY_HEADER.rst").write_text("Examples\n========\n\nScripts that run in seconds.\n", "utf-8")


def faults(site: Path) -> list[str]:
    """The pages of a built site that request something from another host, or are larger than 1 MB."""
    found = []
    for path in sorted(site.rglob("*")):
        if path.suffix in (".html", ".css"):
            text = path.read_text("utf-8")
            found += [f"{path.relative_to(site)} requests {one}" for one in REQUEST.findall(text)]
            found += [f"{path.relative_to(site)} has {len(text):,} characters"] * (len(text) > MOST_BYTES)
    return found


def timed(what: str, action: Callable[[], Any]) -> Any:
    """The result of `action`, after a line that says what is done."""
    print(what, flush=True)
    return action()


def main() -> None:
    """Stage the pages, run Sphinx, and check what it wrote."""
    from sphinx.cmd.build import build_main

    out = Path(sys.argv[1]).resolve()
    os.environ["MPLBACKEND"] = "agg"
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "source"
        timed("running the commands of the pages", lambda: stage(source))
        shutil.rmtree(out, ignore_errors=True)
        options = ["-W", "--keep-going", "-q", "-j", "auto", "-c", str(HERE), "-d", f"{scratch}/doctrees"]
        if code := timed("building the pages", lambda: build_main([*options, str(source), str(out)])):
            raise SystemExit(code)
    if found := faults(out):
        raise SystemExit("\n".join(found))
    print(f"{out}/index.html")


if __name__ == "__main__":
    main()
