"""A finished run as a notebook shows it: one line, its picture, and what to know before trusting it."""

from base64 import b64encode
from html import escape
from typing import TYPE_CHECKING

from fedbnsl.algorithms.graphs.edges import edge_count
from fedbnsl.tracking.pictures.picture import as_svg, draw_structure
from fedbnsl.tracking.result import RunResult, strengths_in

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMESPACES = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
"""what an SVG needs that stands by itself; these are names, and nothing is fetched from there"""
MOST_FINDINGS = 5
"""findings that are shown; the report has them all"""


def headline(result: RunResult) -> str:
    """Return one line on a run: algorithm, data, edges, scores, the ε spent, and how it ended."""
    structure, metrics = result.structure, result.metrics
    lagged = 0 if structure.lagged is None else int((structure.lagged != 0).sum())
    parts = [_number(len(structure.variables), "variable"), _number(edge_count(structure), "edge")]
    parts += [_number(lagged, "lagged edge")] if structure.lags else []
    parts += [f"{label} {metrics[name]:.4g}" for name, label in SCORES.items() if metrics.get(name) is not None]
    if result.privacy is not None:
        spent = f"ε = {result.privacy.spent:.4g} spent"
        parts.append("NOT PRIVATE" if result.privacy.broken else spent)
    ended = f"{result.outcome} after {_number(len(result.rounds), 'round')}"
    return f"{result.algorithm} on {result.dataset}: {', '.join(parts)}; {ended}"


SCORES = {"shd": "SHD", "lagged_shd": "lagged SHD"}


def drawn(result: RunResult, title: str = "") -> "Figure":
    """Return the figure of the structure of a run, held against the truth where that is known."""
    known = (result.knowledge.required, result.labelled)
    return draw_structure(result.structure, result.truth, title, strengths_in(result), *known)


def standing_alone(figure: "Figure") -> str:
    """Return `figure` as an SVG document, for an image: its inner names cannot meet those of other pictures."""
    return as_svg(figure, "structure").replace("<svg", f"<svg {NAMESPACES}", 1)


def showing_itself(figure: "Figure") -> "Figure":
    """Return `figure` such that a notebook shows it: it is made without pyplot, of whose figures alone that is true."""
    vars(figure)["_repr_svg_"] = lambda: standing_alone(figure)
    return figure


def as_page(result: RunResult) -> str:
    """Return the HTML of a run for a notebook: self-contained, and all that is text in it escaped."""
    line = headline(result)
    image = b64encode(standing_alone(drawn(result)).encode()).decode()
    findings = result.diagnosed.findings
    said = [f"{one.said} {one.advice}" for one in findings[:MOST_FINDINGS]]
    more = len(findings) - len(said)
    said += [f"{_number(more, 'more finding')}: see `result.diagnosed`."] if more > 0 else []
    notes = "".join(f"<li>{escape(one)}</li>" for one in (*result.basis, *said))
    return (
        f"<div><p><b>{escape(result.algorithm)}</b>{escape(line.removeprefix(result.algorithm))}</p>"
        f'<img alt="{escape(line)}" style="max-width:100%;background:#fff" src="data:image/svg+xml;base64,{image}">'
        f"<ul>{notes}</ul></div>"
    )


def _number(number: int, word: str) -> str:
    return f"{number:,} {word}{'s' * (number != 1)}"
