"""Building blocks of a self-contained HTML page: its style, tables and figures."""

import json
from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from typing import Any

STYLE = """
:root { color-scheme: light dark; --ink: #1b2430; --soft: #5b6878; --line: #dfe4ea; --ground: #fff; --card: #f6f8fa;
  --good: #0b7d62; --bad: #c2390a; --note: #fff4e5; --note-line: #e0a030 }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e9ef; --soft: #9aa7b6; --line: #38424e; --ground: #14191f;
  --card: #1d242c; --good: #4cc4a5; --bad: #ff8a5c; --note: #3a2c14; --note-line: #b5821f } }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 1060px; padding: 2rem 1.2rem 4rem; background: var(--ground); color: var(--ink);
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif }
h1 { font-size: 1.65rem; line-height: 1.25; margin: 0 0 .3rem } h2 { font-size: 1.15rem; margin: 2.4rem 0 .7rem }
p { margin: .4rem 0; max-width: 92ch } .soft { color: var(--soft) }
.warning { background: var(--note); border-left: 4px solid var(--note-line); padding: .55rem .9rem; margin: .6rem 0 }
.tiles { display: flex; flex-wrap: wrap; gap: .7rem; margin: 1.2rem 0 }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .5rem 1rem;
  min-width: 7rem }
.tile b { display: block; font-size: 1.3rem; font-weight: 600 } .tile span { color: var(--soft); font-size: .82rem }
.figure { background: #fff; border: 1px solid var(--line); border-radius: 8px; padding: .8rem; overflow-x: auto }
.figure svg { display: block; margin: 0 auto }
details { margin: .8rem 0 } summary { cursor: pointer; font-weight: 600; padding: .2rem 0 }
.explore .bar { display: flex; flex-wrap: wrap; gap: .5rem .8rem; align-items: center; margin: .5rem 0 }
.explore button, .explore input, .explore select { font: inherit; font-size: .87rem; color: var(--ink);
  background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: .2rem .6rem }
.explore button[aria-pressed="true"] { border-color: var(--ink); font-weight: 600 }
.explore .view { position: relative; height: min(78vh, 46rem); background: #fff; border: 1px solid var(--line);
  border-radius: 8px; overflow: hidden; touch-action: none }
.explore .view canvas { display: block } .explore .key i { display: inline-block; width: 1.6rem; height: 0;
  border-top: 3px solid; margin: 0 .35rem .2rem 0 }
.explore .key { display: flex; flex-wrap: wrap; gap: .2rem 1rem; font-size: .87rem }
.explore .told { position: absolute; left: .6rem; bottom: .6rem; max-width: 26rem; max-height: 60%; overflow: hidden;
  background: #fffffff0; color: #1b2430; border: 1px solid #ccd3db; border-radius: 6px; padding: .35rem .7rem;
  font-size: .84rem; line-height: 1.4; pointer-events: none; white-space: pre-line }
.explore .told:empty { display: none }
.columns { display: flex; flex-wrap: wrap; gap: 0 2rem; align-items: flex-start }
.scroll { max-height: 26rem; overflow: auto; border: 1px solid var(--line); border-radius: 8px }
table { border-collapse: collapse; font-variant-numeric: tabular-nums } .scroll table { width: 100% }
th, td { padding: .28rem .6rem; text-align: left; border-bottom: 1px solid var(--line) }
th { color: var(--soft); font-weight: 600; font-size: .85rem }
.scroll th { position: sticky; top: 0; background: var(--card) }
td.number, th.number { text-align: right } tr:last-child td { border-bottom: 0 }
.right, .gained { color: var(--good) } .extra, .missing, .reversed, .half-directed, .lost { color: var(--bad) }
.turned, .marked { font-weight: 600 }
@media print { .columns { display: flex; flex-wrap: wrap; gap: 0 2rem; align-items: flex-start }
.scroll { max-height: none; overflow: visible } }
"""


class Markup(str):
    """Text that is HTML already; everything else is escaped."""

    __slots__ = ()


@dataclass(frozen=True)
class Script:
    """A script of the page; one with a `name` is JSON for the others, which find it by that."""

    text: str
    name: str = ""

    @property
    def element(self) -> str:
        """The script as HTML."""
        kind = f' type="application/json" id="{self.name}"' if self.name else ""
        return f"<script{kind}>{self.text}</script>"

    @property
    def digest(self) -> str:
        """What the page's policy knows it by."""
        return f"'sha256-{b64encode(sha256(self.text.encode()).digest()).decode()}'"


def page(title: str, body: Iterable[str], scripts: Sequence[Script] = ()) -> str:
    """Return a whole HTML document; its policy forbids the browser to fetch anything, and any script but `scripts`."""
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    run = [one.digest for one in scripts if not one.name]
    policy += f"; script-src {' '.join(run)}" if run else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join([*body, *(one.element for one in scripts)])
        + "\n</body>\n</html>\n"
    )


def as_json(value: Any) -> str:
    """Return `value` as JSON that can stand in a script element: nothing in it can end that."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def unfolding(title: str, *parts: str, opened: bool = False) -> str:
    """Return parts that unfold below `title`, `opened` from the start or not; `parts` are HTML."""
    return "\n".join([f"<details{' open' * opened}>\n<summary>{escape(title)}</summary>", *parts, "</details>"])


def header(title: str, *parts: str) -> str:
    """Return the head of the page; `parts` are HTML."""
    return "\n".join([f"<header>\n<h1>{escape(title)}</h1>", *parts, "</header>"])


def section(title: str, *parts: str) -> str:
    """Return a headed section; `parts` are HTML."""
    return "\n".join([f"<section>\n<h2>{escape(title)}</h2>", *parts, "</section>"])


def paragraph(text: str, kind: str = "") -> str:
    """Return a paragraph of `text`, of the style class `kind`."""
    return f'<p class="{kind}">{as_html(text)}</p>' if kind else f"<p>{as_html(text)}</p>"


def tiles(figures: Iterable[tuple[str, object]]) -> str:
    """Return the most important figures, in large print."""
    each = (f'<div class="tile"><b>{as_html(value)}</b><span>{escape(name)}</span></div>' for name, value in figures)
    return f'<div class="tiles">{"".join(each)}</div>'


def table(header: Sequence[str], rows: Iterable[Sequence[object]], scrolling: bool = False) -> str:
    """Return a table; numbers stand to the right, None is a dash."""
    rows = list(rows)
    numeric = [any(_is_number(row[k]) for row in rows) for k in range(len(header))]
    kinds = [' class="number"' if is_number else "" for is_number in numeric]
    head = "".join(f"<th{kind}>{escape(name)}</th>" for kind, name in zip(kinds, header, strict=True))
    lines = (
        "<tr>" + "".join(f"<td{kind}>{as_html(cell)}</td>" for kind, cell in zip(kinds, row, strict=True)) + "</tr>"
        for row in rows
    )
    whole = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    return f'<div class="scroll">{whole}</div>' if scrolling else whole


def columns(*parts: str) -> str:
    """Return parts beside each other where there is room; `parts` are HTML."""
    return f'<div class="columns">{"".join(parts)}</div>'


def figure(svg: str) -> str:
    """Return a picture on white, whatever the page is on."""
    return f'<div class="figure">{svg}</div>'


def as_html(value: object) -> str:
    """Return `value` for reading, as HTML: numbers short, None a dash, text escaped."""
    if isinstance(value, Markup):
        return value
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() and abs(value) < 1e9 else f"{value:.4g}"
    return escape(f"{value:,}" if isinstance(value, int) else str(value))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
