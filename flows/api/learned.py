"""The result of `learn` and `load` in Python: tables, graphs, files, and its display in notebooks."""

from base64 import b64encode
from html import escape
from typing import TYPE_CHECKING

from fedbnsl.algorithms.graphs.edges import edge_count
from fedbnsl.tracking.pictures.picture import as_svg, draw_structure
from fedbnsl.tracking.result import RunResult, strengths_in

if TYPE_CHECKING:
    from matplotlib.figure import Figure
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import networkx as nx
import pandas as pd

from fedbnsl.algorithms.graphs.cpdag import MarkovBlanket, markov_blanket
from fedbnsl.tracking.outputs import AVERAGED, MODELS, OPTIONAL_OUTPUTS, OUTPUTS, write_outputs
from fedbnsl.tracking.result import Metric
from fedbnsl.tracking.staging import write_files

from ..job.run import outcome_text
from ..start import check_out

if TYPE_CHECKING:
    from matplotlib.figure import Figure
import csv

import numpy as np

from fedbnsl.algorithms.core.schema import unescape_formula
from fedbnsl.algorithms.graphs.strengths import Strengths
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.data.folder.folder import read_structure
from fedbnsl.tracking.result import Confidence

NAMESPACES = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
"""what an SVG needs that stands by itself; these are names, and nothing is fetched from there"""
MOST_FINDINGS = 5
"""findings that are shown; the report has them all"""


def headline(result: RunResult) -> str:
    """One line on a run: algorithm, data, edges, scores, the ε spent, and how it ended."""
    structure, metrics = result.structure, result.metrics
    lagged = 0 if structure.lagged is None else int((structure.lagged != 0).sum())
    parts = [_number(len(structure.variables), "variable"), _number(edge_count(structure), "edge")]
    parts += [_number(lagged, "lagged edge")] if structure.lags else []
    parts += [f"{label} {metrics[name]:.4g}" for name, label in SCORES.items() if metrics.get(name) is not None]
    if result.privacy is not None:
        spent = f"ε = {result.privacy.spent:.4g} spent"
        parts.append("NOT PRIVATE" if result.privacy.broken else spent)
    return f"{result.algorithm} on {result.dataset}: {', '.join(parts)}; {outcome_text(result)}"


SCORES = {"shd": "SHD", "lagged_shd": "lagged SHD"}


def structure_figure(result: RunResult, title: str = "") -> "Figure":
    """The figure of the structure of a run, held against the truth where that is known."""
    known = (result.knowledge.required, result.labelled)
    return draw_structure(result.structure, result.truth, title, strengths_in(result), *known)


def standalone_svg(figure: "Figure") -> str:
    """`figure` as an SVG document, for an image: its inner names cannot meet those of other pictures."""
    return as_svg(figure, "structure").replace("<svg", f"<svg {NAMESPACES}", 1)


def notebook_figure(figure: "Figure") -> "Figure":
    """`figure` such that a notebook shows it: it is made without pyplot, of whose figures alone that is true."""
    vars(figure)["_repr_svg_"] = lambda: standalone_svg(figure)
    return figure


def notebook_html(result: RunResult) -> str:
    """The HTML of a run for a notebook: self-contained, and all that is text in it escaped."""
    line = headline(result)
    image = b64encode(standalone_svg(structure_figure(result)).encode()).decode()
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


@dataclass(frozen=True, repr=False)
class Learned:
    """What was learned: `result` has everything, the other attributes give it in the usual forms."""

    result: RunResult
    folder: Path | None = None
    """where its files are, if they were written"""

    def __repr__(self) -> str:
        """One line: algorithm, data, edges, how well they match the truth, and how the run ended."""
        return f"Learned({headline(self.result)})"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the line, the picture, and what to know before trusting it."""
        return notebook_html(self.result)

    def plot(self) -> "Figure":
        """The picture of the structure, held against the truth where that is known, as a matplotlib figure.

        A notebook shows it when it is the last value of a cell; `savefig` writes it to a file.
        """
        return notebook_figure(structure_figure(self.result))

    @cached_property
    def graph(self) -> "nx.DiGraph[str]":
        """The structure as a directed networkx graph with edge attribute `weight`; a dynamic one is unrolled."""
        return self.result.structure.to_networkx()

    def to_networkx(self) -> "nx.DiGraph[str]":
        """A copy of `graph`, to change at will."""
        return self.graph.copy()

    @cached_property
    def weights(self) -> pd.DataFrame:
        """The weights: row i, column j is the weight of i → j. Of a dynamic structure those within one time."""
        names = list(self.result.structure.variables)
        return pd.DataFrame(self.result.structure.weights, index=names, columns=names)

    @cached_property
    def lagged(self) -> tuple[pd.DataFrame, ...]:
        """The weights of the edges across time, lag by lag, in the same form; none where the structure has no lags."""
        names = list(self.result.structure.variables)
        lagged = self.result.structure.lagged
        return () if lagged is None else tuple(pd.DataFrame(one, index=names, columns=names) for one in lagged)

    @property
    def metrics(self) -> dict[str, Metric]:
        """The scores and totals, as in `metrics.json`."""
        return self.result.metrics

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """A row per round, as in `rounds.csv`."""
        return pd.DataFrame(list(self.result.rounds))

    def features(self, target: str) -> MarkovBlanket:
        """The parents, children, undirected neighbours and spouses of `target`.

        Raises `BadInput` for an unknown target, and for a PAG, which does not tell parents from spouses.
        """
        return markov_blanket(self.result.structure, target)

    @cached_property
    def model(self) -> Any:
        """The structure with its parameters as a pgmpy network, discrete or linear Gaussian.

        That of a dynamic structure is over several times, with nodes such as "x" and "x[t-1]". That of mixed data is a
        `MixedNetwork` of ours, with `sample` and `query`. Raises `ValueError` that says why, if there is none.
        """
        from fedbnsl.tracking.model import network_of

        network = network_of(self.result)
        return self.to_pgmpy() if network.in_pgmpy else network

    def to_pgmpy(self) -> Any:
        """The structure with its parameters as a new pgmpy network, discrete or linear Gaussian.

        Raises `ValueError` that says why, if there is none: pgmpy has no networks of mixed variables, for which `model`
        is one of ours.
        """
        from fedbnsl.tracking.model import pgmpy_model

        return pgmpy_model(self.result)

    @cached_property
    def dynamic(self) -> Any:
        """A structure with edges from one step before as a pgmpy `DynamicBayesianNetwork`, without parameters.

        Raises `ValueError` that says why, if it is none.
        """
        from fedbnsl.tracking.model import pgmpy_dynamic

        return pgmpy_dynamic(self.result.structure)

    def save(self, folder: str | Path) -> Path:
        """Write the files of the run to the new or empty `folder` and return it: `fedbnsl.load` brings them back.

        They are those of `fedbnsl learn`, among them the report. Those of a run that has a folder are copied. Raises
        `BadInput` for a folder that is in use or cannot be written.
        """
        folder = Path(folder)
        check_out(folder)
        there = (
            []
            if self.folder is None
            else [self.folder / name for name in (*OUTPUTS, *OPTIONAL_OUTPUTS, AVERAGED, *MODELS)]
        )
        found = {path.name: path.read_bytes() for path in there if path.is_file()}
        if set(OUTPUTS) <= set(found):
            write_files(folder, found)
        else:
            write_outputs(self.result, folder)
        return folder


def confidence_in(folder: Path, structure: Structure, metrics: dict[str, Metric]) -> Confidence | None:
    """Return what the resamples of the run in `folder` say of its edges; None where there were none.

    The counts of pairs that neither its structure nor its averaged one joins are not in its files: they are NaN.
    """
    path = folder / AVERAGED
    if not path.is_file():
        return None
    variables, lags, count = structure.variables, structure.lags, _count_or_none(metrics, "bootstrap")
    d = len(variables)
    arrows, lines, at_lags = np.full((d, d), np.nan), np.zeros((d, d)), np.full((lags, d, d), np.nan)
    for row in (*_rows(folder / "structure.csv"), *_rows(path)):
        i, j = (variables.index(unescape_formula(row[end])) for end in ("source", "target"))
        joined = float(row["strength"]) * count
        if int(row.get("lag") or 0):
            at_lags[int(row["lag"]) - 1, i, j] = joined
        else:
            way = float(row["direction"] or 0)
            arrows[i, j], arrows[j, i] = way * joined, (1 - way) * joined
    strengths = Strengths(variables, int(count), arrows, lines, at_lags, structure.kind == "dag")
    exchanges, sent = (int(_count_or_none(metrics, f"bootstrap_{name}")) for name in ("rounds", "bytes"))
    return Confidence(strengths, _count_or_none(metrics, "threshold"), read_structure(path, variables), exchanges, sent)


def _count_or_none(metrics: dict[str, Metric], name: str) -> float:
    return float(metrics[name] or 0)


def _rows(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
