"""A linear SEM from one masked sum, with directions where the data give any (ours): what `auto` runs on numbers.

Exchange 1: the silos' second moments, each about the silo's own means, in one masked sum. From it two fits: the DAG of
equal error variances (`equal_errors.py`), and, unless those variances are plainly equal, the Markov equivalence class
of least BIC (`score/gaussian_order.py`); `choice.py` says which the data bear out.

Exchange 2, only for a class with undirected edges: eight masked sums an edge, which tell its direction if the errors
are not Gaussian (`non_gaussian.py`). Silos are asked about edges, so the class found is known to them.

Cost: O(n_p·d²) at a silo, d(d + 1)/2 numbers sent; O(d³) at the server where the variances are equal, else a search.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..core.protocol import FederatedAlgorithm, Replies
from ..core.schema import FloatArray, Schema
from ..errors import BadInput, require
from ..graphs.imposed import within_knowledge
from ..graphs.structure import Structure
from ..parameters.refit import refit
from ..score.equivalence import class_of
from ..score.gaussian_order import gaussian_boss
from ..score.settings import OrderSettings
from ..statistics.chunks import Table, summed
from ..statistics.expectation import about_own_means
from ..statistics.moments import in_own_units
from ..statistics.symmetric import from_triangle, triangle
from ..statistics.units import of_columns, of_products
from .choice import VarianceEvidence, compared, near_equal
from .equal_errors import LinearFit, equal_errors
from .non_gaussian import contrasts, correlations, directed, standardising, sums, undirected

ONE = np.ones(1)
FLOOR = 1e-9
"""this share of their diagonal is added to second moments that are singular, as where rows are fewer than variables"""
SINGULAR = 1e-7
"""correlations with an eigenvalue below this one are singular, but for what rounding and masks left"""


@dataclass(frozen=True)
class SecureLinear(OrderSettings):
    """Settings of `secure-linear`."""

    error_variances: Literal["auto", "equal", "free"] = "auto"
    """equal: assume that all errors have one variance, so that there is one DAG; free: do not, and learn a class; auto:
    as the data bear out"""
    threshold: float = 0.3
    """equal variances: τ; weights not above it are no edges"""
    non_gaussian: bool = True
    """a class: ask the silos what gives an undirected edge its direction if the errors are not Gaussian"""
    evidence: float = 10.0
    """how far, in log-likelihood, that evidence must go before an edge is given a direction"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for a value outside its range."""
        super().__post_init__()
        require(self.threshold >= 0, "threshold", self.threshold, "0 or more")
        require(self.evidence >= 0, "evidence", self.evidence, "0 or more")


@dataclass(frozen=True)
class Silo:
    """A silo's rows `[n_rows, d]`, their means, second moments about these, summed, and the number of all rows."""

    table: Table
    """NaN where a cell is empty"""
    means: FloatArray
    products: FloatArray
    """`[d, d]`; expected ones where cells are empty"""
    all_rows: int


@dataclass(frozen=True)
class Broadcast:
    """Nothing, for the second moments; or the edges asked about, and how their ends are standardised."""

    edges: NDArray[np.int32]
    """`[n_edges, 2]`"""
    standard: FloatArray
    """`[d, d]`: rows times this are what compelled parents leave of each variable, with variance 1"""
    correlations: FloatArray
    """of the ends of each edge, `[n_edges]`"""


@dataclass(frozen=True)
class Reply:
    """A silo's part of the second moments, `[d(d + 1)/2]`, or of the eight means of each edge, `[8·n_edges]`."""

    values: FloatArray


@dataclass(frozen=True)
class Server:
    """What the sums have told so far."""

    schema: Schema
    S: FloatArray
    """covariance within the silos `[d, d]`; empty before the first sum"""
    rows: int
    """degrees of freedom of S: rows less one for each silo, as many as they are worth"""
    fit: LinearFit
    """with equal error variances"""
    graph: NDArray[np.bool_]
    """the class, once it is found and was chosen"""
    evidence: VarianceEvidence
    directed: int
    """how many undirected edges errors that are not Gaussian gave a direction, Meek's rules aside"""
    done: bool


def build(settings: SecureLinear) -> FederatedAlgorithm[Server, Silo, Broadcast, Reply]:
    """Return the algorithm: one exchange, or two where edges are left without a direction."""
    return FederatedAlgorithm(
        open_silo=open_silo,
        open_server=open_server,
        broadcast=question,
        local_solve=lambda silo, asked: (silo, answer(silo, asked)),
        aggregate=lambda server, replies: aggregate(server, replies, settings),
        dual_update=lambda server: server,
        converged=lambda server: server.done,
        structure=lambda server: structure(server, settings),
        server_type=Server,
        silo_type=Silo,
        broadcast_type=Broadcast,
        reply_type=Reply,
        max_rounds=2,
        summand=lambda reply: reply.values,
        entry_units=lambda schema, asked: of_products(of_columns(schema)) if not len(asked.standard) else ONE,
        needs_secure_sum=True,
        bears_loss=True,
        measures=measures,
        basis=basis,
    )


def open_silo(table: Table, schema: Schema, silo: str, rng: np.random.Generator) -> Silo:
    """Return the silo with the rows of `table` `[n_rows, d]`.

    All is about its own means: where a site stands says nothing.
    """
    own = about_own_means(table, schema)
    return Silo(table, own.mean, own.products, sum(schema.rows.values()))


def open_server(schema: Schema) -> Server:
    """Return the state before the first sum."""
    d = len(schema.variables)
    nothing = LinearFit(np.zeros((d, d)), np.zeros(d), 0.0)
    unknown = VarianceEvidence(equal=False, spread=math.nan, marginal=math.nan, gain=math.nan)
    return Server(schema.in_order(), np.empty((0, 0)), 0, nothing, np.zeros((d, d), np.bool_), unknown, 0, done=False)


def question(server: Server) -> Broadcast:
    """Return what the silos are asked: second moments, then about the edges that have no direction."""
    if not len(server.S):
        return Broadcast(np.empty((0, 2), np.int32), np.empty((0, 0)), np.empty(0))
    edges, standard = undirected(server.graph), standardising(server.S, server.graph)
    return Broadcast(edges, standard, correlations(server.S, standard, edges))


def answer(silo: Silo, asked: Broadcast) -> Reply:
    """Return the silo's part of what is asked for, as a part of means over all rows."""
    if not len(asked.standard):
        return Reply(triangle(silo.products / silo.all_rows))

    def of(rows: FloatArray) -> FloatArray:
        return sums(rows - silo.means, asked.standard, asked.edges, asked.correlations)

    return Reply(summed(silo.table, of).ravel() / silo.all_rows)


def aggregate(server: Server, replies: Replies[Reply], settings: SecureLinear) -> Server:
    """Return the state with what the sum says: the fits and the choice between them, or directions."""
    assert replies.total is not None
    schema = server.schema
    counted = sum(schema.rows[silo] for silo in replies.silos)
    of_counted = replies.total * (sum(schema.rows.values()) / counted)
    if len(server.S):
        edges = undirected(server.graph)
        graph, count = directed(
            server.graph, edges, contrasts(of_counted.reshape(len(edges), -1)), server.rows, settings.evidence
        )
        return replace(server, graph=graph, directed=count, done=True)
    rows = freedom(schema, replies)
    S = from_triangle(of_counted) * (counted / rows)
    return chosen(replace(server, S=positive(S, schema), rows=worth(schema, rows)), settings)


def freedom(schema: Schema, replies: Replies[Any]) -> int:
    """Return the rows of the silos that answered less one for each; raises `BadInput` if none are left."""
    rows = sum(schema.rows[silo] for silo in replies.silos) - len(replies.silos)
    if rows < 1:
        raise BadInput("every silo has one row, so nothing is left of the rows when each silo's means are taken away")
    return rows


def worth(schema: Schema, rows: int) -> int:
    """Return to how many complete rows so many `rows` amount: where cells are empty, to fewer."""
    return max(1, round(rows * schema.filling.rows / sum(schema.rows.values()))) if schema.gaps else rows


def positive(S: FloatArray, schema: Schema) -> FloatArray:
    """Return second moments `[d, d]` that are positive definite; raises `BadInput` for a column without variance."""
    flat = np.flatnonzero(np.diag(S) <= 0)
    for v in flat[:1]:
        raise BadInput(f"column '{schema.variables[v]}' has no variance within any silo, so no edge can be learned")
    singular = np.linalg.eigvalsh(in_own_units(S))[0] < SINGULAR
    return S + FLOOR * np.diag(np.diag(S)) if singular else S


def chosen(server: Server, settings: SecureLinear) -> Server:
    """Return the state with the fits to its second moments, and the one that they bear out."""
    S, rows, d = server.S, server.rows, len(server.S)
    known = server.schema.knowledge.prior(server.schema.variables)
    fit = equal_errors(S, rows, known)
    evidence = near_equal(S, fit)
    if settings.error_variances == "equal" or (settings.error_variances == "auto" and evidence.equal):
        return replace(server, fit=fit, evidence=replace(evidence, equal=True), done=True)
    found = gaussian_boss(S, rows, math.log(rows) + 2 * math.log(d), settings, known)
    evidence = compared(evidence, fit, found, rows)
    if settings.error_variances == "auto" and evidence.equal:
        return replace(server, fit=fit, evidence=evidence, done=True)
    graph = within_knowledge(class_of(found.dag), known.required, known.possible)
    done = not settings.non_gaussian or not len(undirected(graph))
    return replace(server, fit=fit, evidence=replace(evidence, equal=False), graph=graph, done=done)


def structure(server: Server, settings: SecureLinear) -> Structure:
    """Return the DAG of equal variances, or the class: a DAG with weights once every edge has a direction."""
    names = server.schema.variables
    if server.evidence.equal:
        strengths = np.abs(server.fit.weights)
        kept = (strengths > settings.threshold) | server.schema.knowledge.needed(names)
        return Structure(names, np.where(kept, server.fit.weights, 0.0), scores=strengths)
    if len(undirected(server.graph)) or not len(server.S):
        return Structure(names, server.graph.astype(np.float64), "cpdag")
    return Structure(names, refit(server.S, server.graph))


def measures(server: Server) -> dict[str, float]:
    """Return the rows behind the answer, and the evidence for equal error variances."""
    told = {"spread": server.evidence.spread, "marginal_spread": server.evidence.marginal, "gain": server.evidence.gain}
    return {"rows": float(server.rows), **{name: float(value) for name, value in told.items() if math.isfinite(value)}}


def basis(server: Server) -> tuple[str, ...]:
    """Return what was decided, on what evidence, and what the directions rest on."""
    e = server.evidence
    spread = f"their spread is {e.spread:.3g}, that of the variables' own variances {e.marginal:.3g}"
    if e.equal:
        better = f"; one variance fits better by {e.gain:.3g}, prices included" if e.gain > 0 else ""
        return (
            f"The data bear out errors of equal variance ({spread}{better}).",
            "All directions rest on that: in other units of measurement some might turn.",
        )
    worse = f"; a variance for each fits better by {-e.gain:.3g}, prices included" if e.gain <= 0 else ""
    open_edges, class_edges = len(undirected(server.graph)), int(np.triu(server.graph | server.graph.T).sum())
    told: tuple[str, ...] = (
        f"The data do not bear out errors of equal variance ({spread}{worse}): nothing rests on units of measurement.",
        f"{class_edges - open_edges} of {class_edges} edges have a direction. Those in v-structures, and what follows "
        "from them, rest on conditional independences.",
    )
    if server.directed:
        told += (f"{server.directed} further edges were directed by errors that are not Gaussian.",)
    if open_edges:
        told += (f"{open_edges} edges have none: these data cannot tell one of their directions from the other.",)
    return told
