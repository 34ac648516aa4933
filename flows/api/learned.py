"""The result of `learn` and `load` in Python: tables, graphs, files, and its display in notebooks."""

import csv
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedbnsl.algorithms.core.schema import unescape_formula
from fedbnsl.algorithms.effects.answer import EffectReport, Values
from fedbnsl.algorithms.errors import pluralize
from fedbnsl.algorithms.graphs.edges import edge_type
from fedbnsl.algorithms.graphs.markov_blanket import MarkovBlanket, markov_blanket
from fedbnsl.algorithms.graphs.pag import ARROW, CIRCLE, TAIL
from fedbnsl.algorithms.graphs.strengths import Strengths
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.data.folder.folder import read_structure
from fedbnsl.tracking.metrics import METRICS, MetricValue, known_in
from fedbnsl.tracking.outputs import FILES, OUTPUTS, write_outputs
from fedbnsl.tracking.pictures.picture import as_svg
from fedbnsl.tracking.report.drawings import draw_result
from fedbnsl.tracking.report.files import edge_table_of, posterior_pairs
from fedbnsl.tracking.report.sections import survival_lines
from fedbnsl.tracking.result import Confidence, RunResult, strengths_in
from fedbnsl.tracking.staging import write_files

from ..inference.effects import effects
from ..inference.queries import QueryAnswer, predict, query, simulate
from ..job.run import outcome_text
from ..options.in_python import advice_in_python
from ..start import check_out
from .tables import file_of

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd
    from matplotlib.figure import Figure

NAMESPACES = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
"""namespaces of a stand-alone SVG; they are only names, and nothing is fetched from these addresses"""
MAX_FINDINGS = 5
"""maximum number of findings to show; the report has all findings"""


def headline(result: RunResult) -> str:
    """One line on a run: algorithm, data, edges, SHD, spent ε, and outcome."""
    parts = [pluralize(len(result.structure.variables), "variable"), pluralize(len(result.edges.within), "edge")]
    parts += [pluralize(len(result.edges.lagged), "lagged edge")] if result.structure.lags else []
    known = known_in("headline", result.metrics)
    parts += [f"{METRICS[name].heading} {value:.4g}" for name, value in known.items()]
    if result.privacy is not None:
        spent = f"ε = {result.privacy.spent:.4g} spent"
        parts.append("NOT PRIVATE" if result.privacy.broken else spent)
    return f"{result.algorithm} on {result.dataset}: {', '.join(parts)}; {outcome_text(result)}"


def structure_figure(result: RunResult, title: str = "") -> "Figure":
    """The figure of the structure of a run, compared with the true graph if it is known."""
    return draw_result(result, title)


def standalone_svg(figure: "Figure") -> str:
    """`figure` as an SVG document for an image element, where its ids cannot collide with ids of other pictures."""
    return as_svg(figure, "structure").replace("<svg", f"<svg {NAMESPACES}", 1)


def notebook_figure(figure: "Figure") -> "Figure":
    """`figure` with the method by which notebooks display it; figures that pyplot did not make have no such method."""
    vars(figure)["_repr_svg_"] = lambda: standalone_svg(figure)
    return figure


def notebook_html(result: RunResult) -> str:
    """The HTML of a run for a notebook, with all text escaped and without links to other files."""
    line = headline(result)
    image = b64encode(standalone_svg(structure_figure(result)).encode()).decode()
    findings = result.diagnosed.findings
    texts = [f"{one.message} {advice_in_python(one.advice)}" for one in findings[:MAX_FINDINGS]]
    more = len(findings) - len(texts)
    texts += [f"{pluralize(more, 'more finding')}: see `result.diagnosed`."] if more > 0 else []
    notes = "".join(f"<li>{escape(one)}</li>" for one in (*result.basis, *survival_lines(result), *texts))
    return (
        f"<div><p><b>{escape(result.algorithm)}</b>{escape(line.removeprefix(result.algorithm))}</p>"
        f'<img alt="{escape(line)}" style="max-width:100%;background:#fff" src="data:image/svg+xml;base64,{image}">'
        f"<ul>{notes}</ul></div>"
    )


@dataclass(frozen=True, repr=False)
class Learned:
    """The result of `learn`: `result` is complete, and other attributes are parts of `result` in common types."""

    result: RunResult
    folder: Path | None = None
    """the folder of the run's files, if they were written"""

    def __repr__(self) -> str:
        """One line: algorithm, data, edges, scores, and how the run ended."""
        return f"Learned({headline(self.result)})"

    def _repr_html_(self) -> str:
        """The HTML that a notebook displays: one line, the picture, assumptions and findings."""
        return notebook_html(self.result)

    def plot(self) -> "Figure":
        """A matplotlib figure of the structure, compared with the true graph if it is known.

        A notebook displays it as the last value of a cell; `savefig` writes it to a file.
        """
        return notebook_figure(structure_figure(self.result))

    def plot_survival(self, outcome: str) -> "Figure":
        """A matplotlib figure of the adjusted curves of a survival outcome, with pointwise 95 % intervals.

        Raises `BadInput` for a name that is no survival outcome of the run, and for an outcome without a model.
        """
        from fedbnsl.tracking.pictures.curves import draw_curves

        from ..inference.survival_effects import survival_node

        return notebook_figure(draw_curves(survival_node(self.result, outcome)))

    @cached_property
    def graph(self) -> "nx.DiGraph[str]":
        """The structure as a directed networkx graph; a dynamic structure is unrolled.

        An edge has the attributes `type` and, where known, `weight`, `strength`, `direction` and `basis`, as in the
        columns of `edges`. An edge without a direction is two arcs of type "undirected"; in a PAG, each edge is two
        arcs, whose types have the marks at both ends, such as "o->" and "<-o".
        """
        graph, strengths = self.result.structure.to_networkx(), strengths_in(self.result)
        kind = self.result.structure.kind
        for edge in self.result.edges:
            strength, direction = strengths.strength_and_direction(edge) if strengths else (None, None)
            known = {"basis": self.result.basis_of(edge) or None, "strength": strength, "direction": direction}
            own = {name: value for name, value in known.items() if value is not None}
            marks = (edge.at_source, edge.at_target)
            graph.edges[edge.cause, edge.target].update(own, type=edge_type(kind, *marks))
            if graph.has_edge(edge.target, edge.cause):
                graph.edges[edge.target, edge.cause].update(own, type=edge_type(kind, *marks[::-1]))
        return graph

    def to_networkx(self) -> "nx.DiGraph[str]":
        """A copy of `graph` that can be modified."""
        return self.graph.copy()

    def to_pdag(self) -> Any:
        """The structure as a pgmpy `PDAG`, with directed and undirected edges; a dynamic structure is unrolled.

        Raises `ValueError` for a PAG.
        """
        from pgmpy.base import PDAG

        if self.result.structure.kind == "pag":
            raise ValueError("a PAG has marks that a PDAG does not have: use to_causal_learn()")
        directed, undirected = list[tuple[str, str]](), list[tuple[str, str]]()
        for edge in self.result.edges:
            (directed if edge.directed else undirected).append((edge.cause, edge.target))
        found = PDAG(directed_ebunch=directed, undirected_ebunch=undirected)
        found.add_nodes_from(self.graph.nodes)
        return found

    def to_causal_learn(self) -> Any:
        """The structure as a `GeneralGraph` of causal-learn, which must be installed.

        A dynamic structure is unrolled.
        """
        from causallearn.graph.Edge import Edge
        from causallearn.graph.Endpoint import Endpoint
        from causallearn.graph.GeneralGraph import GeneralGraph
        from causallearn.graph.GraphNode import GraphNode

        ends = {TAIL: Endpoint.TAIL, ARROW: Endpoint.ARROW, CIRCLE: Endpoint.CIRCLE}
        nodes = {name: GraphNode(name) for name in self.graph.nodes}
        found = GeneralGraph(list(nodes.values()))
        for edge in self.result.edges:
            marks = (ends[edge.at_source], ends[edge.at_target])
            found.add_edge(Edge(nodes[edge.cause], nodes[edge.target], *marks))
        return found

    @cached_property
    def weights(self) -> "pd.DataFrame":
        """The weights, with i → j in row i and column j; for a dynamic structure, the weights within a time step."""
        names = list(self.result.structure.variables)
        import pandas as pd  # imported late, here and below: a run reads and writes files without it

        return pd.DataFrame(self.result.structure.weights, index=names, columns=names)

    @cached_property
    def lagged(self) -> "tuple[pd.DataFrame, ...]":
        """The weights of the lagged edges, one table per lag; empty if the structure has no lags."""
        import pandas as pd

        names = list(self.result.structure.variables)
        lagged = self.result.structure.lagged
        return () if lagged is None else tuple(pd.DataFrame(one, index=names, columns=names) for one in lagged)

    @cached_property
    def edges(self) -> "pd.DataFrame":
        """A row per edge, as in `structure.csv`: where known, its weight, figures of the fit, p-value and strength."""
        import pandas as pd

        header, rows = edge_table_of(self.result)
        return pd.DataFrame(rows, columns=list(header))

    @cached_property
    def posterior(self) -> "pd.DataFrame | None":
        """A row per pair that a sampled graph connects, as in `posterior.csv`; None without `posterior=N`.

        `result.graph_posterior.posterior` has the sampled graphs themselves.
        """
        import pandas as pd

        found = self.result.graph_posterior.posterior
        if found is None:
            return None
        header, rows = posterior_pairs(found)
        return pd.DataFrame(rows, columns=list(header))

    @property
    def metrics(self) -> dict[str, MetricValue]:
        """The scores and totals, as in `metrics.json`."""
        return self.result.metrics

    @cached_property
    def rounds(self) -> "pd.DataFrame":
        """A row per round, as in `rounds.csv`."""
        import pandas as pd

        return pd.DataFrame(list(self.result.rounds))

    def features(self, target: str) -> MarkovBlanket:
        """The parents, children, undirected neighbours and spouses of `target`.

        Raises `BadInput` for an unknown target, and for a PAG, which does not distinguish parents from spouses.
        """
        return markov_blanket(self.result.structure, target)

    def effect(
        self,
        treatment: str | Sequence[str],
        outcome: str,
        *,
        compare: Values | None = None,
        direct: bool = False,
        data: str | Path | None = None,
        bootstrap: int = 0,
        by_silo: bool = False,
        placebo: int = 0,
        doubly_robust: bool = False,
        by: str | None = None,
    ) -> EffectReport:
        """The effect of changing `treatment` on `outcome` in the learned graph, with its assumptions.

        Parameters
        ----------
        treatment, outcome
            The variable or the list of variables to change (together), and the variable of interest.
        compare, direct
            `compare` has the two values to compare: by default 0 and 1, or each further label with the first label.
            With `direct`, the other parents of the outcome are held fixed.
        data
            The folder of the run's silos, to estimate from their rows. By default, the model gives the effect.
        bootstrap, by_silo, placebo
            `bootstrap` is the number of resamples of the rows from which graphs are learned. With `by_silo`, the effect
            is also estimated at each silo. `placebo` is the number of permutations of the treatment within silos.
        doubly_robust, by
            Whether the treatment, which has labels, is modelled, too, so that one of the two models may be wrong; needs
            `data`. Such an effect is also estimated by level of the covariate `by`.

        Returns
        -------
        EffectReport
            `value` and `interval`, or `bounds` if the graph leaves directions open; `rests_on` has the assumptions.

        Raises
        ------
        BadInput
            A ValueError, for unknown variables or values, unsuitable runs, and `data` with other rows than the run's.
        """
        treatments = [treatment] if isinstance(treatment, str) else list(treatment)
        return effects(
            self.result,
            treatments,
            outcome,
            kind="direct" if direct else "total",
            values=compare,
            joint=len(treatments) > 1,
            data=None if data is None else Path(data),
            bootstrap=bootstrap,
            by_silo=by_silo,
            placebo=placebo,
            doubly_robust=doubly_robust,
            by=by,
        )

    def query(self, text: str, *, seed: int = 0) -> QueryAnswer:
        """The model's answer to a query such as "P(disease | smoke=yes, do(age=40))".

        `answer.probabilities` has probabilities by labels. For a number, the answer has `answer.mean`, `answer.sd` and
        `answer.quantiles` instead. `rests_on` states whether the answer is exact; if not, it is computed from samples
        with `seed`. Raises `BadInput` for a query that cannot be read or answered, and without a model.
        """
        return query(self.result, text, seed=seed)

    def simulate(self, rows: int, *, do: Mapping[str, float | str] | None = None, seed: int = 0) -> "pd.DataFrame":
        """`rows` drawn from the model, in the units and labels of the data, after the interventions `do`.

        Raises `BadInput` without a model, and for unknown names and labels.
        """
        return simulate(self.result, rows, do=do, seed=seed)

    def predict(
        self, table: "str | Path | pd.DataFrame", targets: Sequence[str] = (), *, seed: int = 0
    ) -> "pd.DataFrame":
        """The `table`, a file or a DataFrame, with predictions in its empty cells, or in all cells of `targets`.

        Each cell is predicted from the filled cells of its row. A further column for each predicted variable X, `sd(X)`
        or `P(X)`, has the standard deviation or the probability of the prediction. Raises `BadInput` for a table that
        does not fit the model, and for a model over time.
        """
        with file_of(table) as path:
            return predict(self.result, path, targets, seed=seed)

    @cached_property
    def model(self) -> Any:
        """The structure with its parameters as a pgmpy network, discrete or linear Gaussian.

        For a dynamic structure, the network has nodes for several times, such as "x" and "x[t-1]". For mixed data, the
        model is a `Network` of this package, with `sample`. Raises `ValueError`, with the reason, if there is no model.
        """
        from fedbnsl.tracking.model import network_of

        network = network_of(self.result)
        return self.to_pgmpy() if network.in_pgmpy else network

    def to_pgmpy(self) -> Any:
        """The structure with its parameters as a new pgmpy network, discrete or linear Gaussian.

        Raises `ValueError`, with the reason, if there is no such network. pgmpy has no networks of mixed variables; use
        `model` for these.
        """
        from fedbnsl.tracking.model import pgmpy_model

        return pgmpy_model(self.result)

    @cached_property
    def dynamic(self) -> Any:
        """A structure with a single lag as a pgmpy `DynamicBayesianNetwork`, without parameters.

        Raises `ValueError` with the reason for other structures.
        """
        from fedbnsl.tracking.model import pgmpy_dynamic

        return pgmpy_dynamic(self.result.structure)

    def save(self, folder: str | Path) -> Path:
        """Write the files of the run to the new or empty `folder` and return it; `fedbnsl.load` reads them.

        The files are those of `fedbnsl learn`, including the report. If the run has a folder, the files are copied from
        there. Raises `BadInput` for a folder that is not empty or cannot be written.
        """
        folder = Path(folder)
        check_out(folder)
        sources = [] if self.folder is None else [self.folder / name for name in FILES]
        found = {path.name: path.read_bytes() for path in sources if path.is_file()}
        if set(OUTPUTS) <= set(found):
            write_files(folder, found)
        else:
            write_outputs(self.result, folder)
        return folder


def confidence_in(folder: Path, structure: Structure, metrics: dict[str, MetricValue]) -> Confidence | None:
    """The confidence in the edges of the run in `folder`; None if the run had no resamples.

    The files have no counts of pairs that have an edge neither in the structure nor in the averaged network. These
    counts are NaN.
    """
    path = folder / "averaged.csv"
    if not path.is_file():
        return None
    variables, lags, count = structure.variables, structure.lags, _count_or_none(metrics, "bootstrap")
    d = len(variables)
    arrows, lines, at_lags = np.full((d, d), np.nan), np.zeros((d, d)), np.full((lags, d, d), np.nan)
    for row in (*_rows(folder / "structure.csv"), *_rows(path)):
        if unescape_formula(row["target"]) not in variables:
            continue  # an edge to a survival outcome, which resamples do not have
        i, j = (variables.index(unescape_formula(row[end])) for end in ("source", "target"))
        resamples = float(row["strength"]) * count
        if int(row.get("lag") or 0):
            at_lags[int(row["lag"]) - 1, i, j] = resamples
        else:
            share = float(row["direction"] or 0)
            arrows[i, j], arrows[j, i] = share * resamples, (1 - share) * resamples
    strengths = Strengths(variables, int(count), arrows, lines, at_lags, structure.kind == "dag")
    exchanges, sent = (int(_count_or_none(metrics, f"bootstrap_{name}")) for name in ("rounds", "bytes"))
    return Confidence(strengths, _count_or_none(metrics, "threshold"), read_structure(path, variables), exchanges, sent)


def _count_or_none(metrics: dict[str, MetricValue], name: str) -> float:
    return float(metrics[name] or 0)


def _rows(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
