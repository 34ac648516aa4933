"""Write the pages of results from the figures that the benchmarks have recorded.

    python benchmarks/pages.py            # RESULTS.md and results/<topic>.md from topics/*.md and results/*.json
    python benchmarks/pages.py --check    # exit code 1 if a page differs from what would be written

A topic is a Markdown file with placeholders: `{{ er-d20 }}` stands for the table of `results/er-d20.json`, and
`{{ er-d20: run | SHD }}` for these columns of it. A figure is therefore stored once, in the file that its benchmark
wrote. `{{ verdicts-PAPER }}` stands for the table of the verdicts on that paper in `papers/verdicts.toml`, and
`{{ headlines }}` for the headlines of all papers, with figures of `results/*.json`.
"""

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TOPICS, RESULTS, INDEX = HERE / "topics", HERE / "results", HERE / "RESULTS.md"
VERDICTS, HEADLINES = "verdicts-", "headlines"
PLACEHOLDER = re.compile(r"^\{\{ ([\w-]+)(?:: (.*?))? \}\}$", re.MULTILINE)
GENERATED = "<!-- Written by `python benchmarks/pages.py`: edit benchmarks/topics and run it again. -->\n"


def table(rows: list[dict[str, Any]], columns: list[str]) -> str:
    """A Markdown table of these columns, by default all that occur; an absent cell is empty."""
    columns = columns or list(dict.fromkeys(key for row in rows for key in row))
    cells = [columns, ["---"] * len(columns), *([str(row.get(key, "")) for key in columns] for row in rows)]
    lines = ((cell.replace("|", r"\|") for cell in line) for line in cells)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def recorded(name: str) -> list[dict[str, Any]]:
    """The rows of `results/NAME.json`, or the verdicts on a paper."""
    if name.startswith(VERDICTS):
        return verdicts(name.removeprefix(VERDICTS))
    if name == HEADLINES:
        return headlines()
    content = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    rows: list[dict[str, Any]] = content["rows"]
    return rows


def judged(kind: str) -> list[dict[str, Any]]:
    """The entries of a `kind` in `papers/verdicts.toml`."""
    found: list[dict[str, Any]] = tomllib.loads((HERE / "papers" / "verdicts.toml").read_text(encoding="utf-8"))[kind]
    return found


def verdicts(paper: str) -> list[dict[str, Any]]:
    """A row for each table and figure of `paper`: what its text says, our figures, the verdict, the command."""
    return [
        {
            "table or figure": one["item"],
            "the paper": one["published"],
            "ours, with its settings": figures(one.get("settings", [])),
            "ours, by default": figures(one.get("default", [])),
            "`secure-linear`, `secure-boss`": figures(one.get("best", [])),
            "verdict": one["verdict"],
            "command": f"`{one['command']}`" if one["command"] else "",
        }
        for one in judged("item")
        if one["paper"] == paper
    ]


def headlines() -> list[dict[str, Any]]:
    """A row for each paper: its headline, how to repeat it, and what a user should run today instead."""
    return [
        {
            "paper": one["paper"],
            "headline": one["headline"],
            "with its settings": f"`{one['repeat']}`<br>{figures(one['settings'])}",
            "run today": f"`{one['today']}`<br>{figures(one['best'])}",
            "why": one["why"],
        }
        for one in judged("headline")
    ]


def figures(sources: list[str]) -> str:
    """The figures of several sources, in lines."""
    return "<br>".join(map(looked_up, sources))


def looked_up(source: str) -> str:
    """Figures by "file | words of the row, separated by ; | columns"; ValueError unless one row has them."""
    name, words, columns = (part.strip() for part in source.split(" | "))
    wanted = [word.strip() for word in words.split(";")]
    rows = [row for row in recorded(name) if set(wanted) <= {str(cell) for cell in row.values()}]
    if len(rows) != 1:
        raise ValueError(f"{source}: {len(rows)} rows of results/{name}.json")
    known = sorted(rows[0], key=len, reverse=True)
    shown = re.findall("|".join(map(re.escape, known)), columns)
    if ", ".join(shown) != columns:
        raise ValueError(f"{source}: results/{name}.json has the columns {', '.join(rows[0])}")
    return f"{', '.join(wanted)}: {', '.join(f'{column} {rows[0][column]}' for column in shown)}"


def page(topic: str) -> str:
    """A topic with its tables in place of the placeholders."""

    def filled(match: re.Match[str]) -> str:
        name, columns = match.groups()
        return table(recorded(name), [one.strip() for one in columns.split(" | ")] if columns else [])

    return GENERATED + PLACEHOLDER.sub(filled, topic)


def pages() -> dict[Path, str]:
    """Every page by its path: the index, and one a topic."""
    topics = {path.stem: path.read_text(encoding="utf-8") for path in sorted(TOPICS.glob("*.md"))}
    links = "\n".join(
        f"- [{text.splitlines()[0].removeprefix('# ')}](results/{name}.md)"
        for name, text in topics.items()
        if name != "index"
    )
    index = page(topics.pop("index")) + f"\n{links}\n"
    return {INDEX: index} | {RESULTS / f"{name}.md": page(text) for name, text in topics.items()}


def main() -> None:
    """Write the pages, or compare them."""
    found = pages()
    stale = [path for path, text in found.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    stale += [path for path in RESULTS.glob("*.md") if path not in found]
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"{path.relative_to(HERE.parent)} differs from its topic and results: run python benchmarks/pages.py")
        raise SystemExit(bool(stale))
    for path, text in found.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
