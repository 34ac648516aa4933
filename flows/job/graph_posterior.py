"""The posterior over graphs after a run, from the sums that the run has or, for labels, from one more exchange.

Numbers need the means and second moments that the diagnosis sums; without a diagnosis, one exchange under the run id
`<run id>-posterior` sums them. Labels need the count tables of families around the learned graph, in one such exchange.
Both are sums, masked if the run was, and pass the gates of the silos like those of the diagnosis and the fit.

A run with an ε has no posterior. Its moments contain noise and clipped rows, and a posterior that takes them for exact
moments would be surer than the data allow.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.knowledge import Prior
from fedbnsl.algorithms.core.protocol import Algorithm, Round
from fedbnsl.algorithms.core.schema import FloatArray, Schema
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.diagnosis import exchange, implied_tables
from fedbnsl.algorithms.graphs.cpdag import dag_extension
from fedbnsl.algorithms.graphs.dag import moral_graph
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.statistics.rows import cardinalities_of
from fedbnsl.tracking.metrics import Kind, MetricValue
from fedbnsl.tracking.publication import rounded
from fedbnsl.tracking.result import NO_POSTERIOR, GraphPosterior

from .follow_up import Sums, has_own_weights, is_nonlinear
from .job import Job, Session, extra_exchange

MAX_VARIABLES = 200
"""maximum number of variables; the tables of scores and the time of a sweep grow with its square"""


def posterior_refusal(job: Job, schema: Schema) -> str:
    """The reason why these data, or this learner, have no posterior over graphs; empty if they have one."""
    d = len(schema.variables)
    reasons = {
        "the moments of a run with an ε have noise and clipped rows, and a posterior would take them for exact": (
            registry.build(job.spec).private is not None
        ),
        f"it is for tables of numbers or of labels, and {job.dataset} is {schema.kind}": (
            schema.kind not in ("continuous", "discrete")
        ),
        "experiments change mechanisms, and its scores are those of undisturbed rows": schema.has_targets,
        f"tables of labels have empty cells in {job.dataset}: give --missing complete-rows": (
            schema.kind == "discrete" and schema.gaps
        ),
        f"{job.dataset} has {d} variables, and the tables of its scores are for at most {MAX_VARIABLES}": (
            d > MAX_VARIABLES
        ),
        f"silos weigh edges of their own in {job.spec.name}, and its scores have common weights": has_own_weights(job),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def graph_posterior(
    job: Job, session: Session, algorithm: Algorithm, last: Round[Any], structure: Structure, sums: Sums | None
) -> GraphPosterior:
    """The posterior over graphs around the learned `structure`; without the option, none.

    `sums` are the sums of the diagnosis, if there are any.
    """
    graphs = job.settings.posterior
    if not graphs:
        return NO_POSTERIOR
    reason = last.broken_off or posterior_refusal(job, session.schema)
    if is_nonlinear(job, last):
        reason = "effects are curved, and BGe is the score of linear effects"
    if reason:
        return GraphPosterior(why=reason)
    learn = _of_numbers if session.schema.kind == "continuous" else _of_labels
    return learn(job, session, algorithm, structure, sums)


def _of_numbers(
    job: Job, session: Session, algorithm: Algorithm, structure: Structure, sums: Sums | None
) -> GraphPosterior:
    from fedbnsl.algorithms.posterior.bge import bge_scores, gaussian_posterior  # compiled code, which few runs need
    from fedbnsl.algorithms.posterior.family_space import family_space, with_prior
    from fedbnsl.algorithms.posterior.sampling import Posterior, sample_posterior

    schema, sent, summed = session.schema, 0, sums
    if not isinstance(summed, exchange.Server):
        settings = exchange.Diagnosis(masked=algorithm.needs_secure_sum, own_figures=False)
        start = exchange.start(schema, structure)
        found = extra_exchange(job, session, AlgorithmSpec("diagnosis", settings), "posterior", start)
        if found.lost:
            return GraphPosterior(why=LOST)
        summed, sent = found.last.server, found.bytes_sent
    assert isinstance(summed, exchange.Server)
    session.announce(SAMPLING)
    share = job.independent_share
    if schema.gaps:
        share *= job.imputation_model.rows / sum(schema.rows.values())
    gaussian = gaussian_posterior(summed.moments, int(summed.counted.sum()), share)
    prior, generator = _prior(job, schema), np.random.default_rng(job.settings.seed)
    space = family_space(_near(structure), _linear_strength(gaussian.R), prior)
    scores = with_prior(bge_scores(gaussian, space), space, prior)
    sample = sample_posterior(scores, space, _start(structure), job.settings.posterior, generator)
    weights = gaussian.drawn_weights(sample.dags, generator)
    weights[sample.dags] = rounded(weights[sample.dags], Kind.LIKELIHOOD)
    posterior = Posterior(schema.variables, weights, True, sample.r_hat, sample.sweeps)
    how = f"BGe, from the second moments of {summed.rows:,} rows about the means of each silo"
    if share < 1:
        how += f", which count as {round(gaussian.rows):,} independent complete rows"
    return GraphPosterior(posterior, how=how, bytes_sent=sent)


def _of_labels(
    job: Job, session: Session, algorithm: Algorithm, structure: Structure, sums: Sums | None
) -> GraphPosterior:
    from fedbnsl.algorithms.posterior.bdeu import EQUIVALENT_ROWS, MAX_CANDIDATES, bdeu_scores, counted_families
    from fedbnsl.algorithms.posterior.family_space import family_space, with_prior
    from fedbnsl.algorithms.posterior.sampling import Posterior, sample_posterior

    schema, prior, levels = session.schema, _prior(job, session.schema), cardinalities_of(session.schema)
    space = family_space(_near(structure), _information(sums, len(levels)), prior, MAX_CANDIDATES)
    families = counted_families(space, levels)
    spec = AlgorithmSpec("fit-tables", implied_tables.FitTables(masked=algorithm.needs_secure_sum))
    found = extra_exchange(job, session, spec, "posterior", implied_tables.of_sets(schema, families.sets))
    if found.lost:
        return GraphPosterior(why=LOST)
    session.announce(SAMPLING)
    generator = np.random.default_rng(job.settings.seed)
    scores = with_prior(bdeu_scores(found.last.server.counts, families, space, levels), space, prior)
    sample = sample_posterior(scores, space, _start(structure), job.settings.posterior, generator)
    weights = sample.dags.astype(np.float64)
    posterior = Posterior(schema.variables, weights, False, sample.r_hat, sample.sweeps)
    largest = max(len(row[row >= 0]) for row in families.sets) - 1
    rows = sum(rows for silo, rows in schema.rows.items() if silo not in found.last.lost)
    prior_rows = f"an equivalent sample size of {EQUIVALENT_ROWS:g} rows"
    how = f"BDeu with {prior_rows}, from counts of {rows:,} rows, of at most {largest} parents"
    return GraphPosterior(posterior, how=how, bytes_sent=found.bytes_sent)


LOST = "too few silos responded"
SAMPLING = "sampling graphs"


def posterior_metrics(found: GraphPosterior) -> dict[str, MetricValue]:
    """The metrics of the posterior; empty if it was not requested."""
    if found is NO_POSTERIOR:
        return {}
    sampled = found.posterior
    return {
        "posterior": sampled.graphs if sampled else None,
        "posterior_edges": float(sampled.edges.sum()) if sampled else None,
        "posterior_r_hat": sampled.r_hat if sampled else None,
        "posterior_bytes": found.bytes_sent,
    }


def _prior(job: Job, schema: Schema) -> Prior:
    return job.run_schema(schema).knowledge.prior(schema.variables)


def _near(structure: Structure) -> NDArray[np.bool_]:
    """The pairs that are joined, or have a common child, `[d, d]`."""
    joined = structure.adjacency | structure.adjacency.T
    return joined if structure.kind == "pag" else joined | moral_graph(structure.adjacency)


def _start(structure: Structure) -> NDArray[np.bool_]:
    """A DAG of the learned class; without one, the empty graph."""
    dag = dag_extension(structure).dag
    return np.zeros_like(structure.adjacency) if dag is None else dag


def _linear_strength(R: FloatArray) -> FloatArray:
    """How strongly v depends on u, `[d, d]`: the larger rank of u, by correlation or by partial correlation."""
    ranks = []
    for matrix in (R, np.linalg.inv(R)):
        size = np.abs(matrix) / np.sqrt(np.outer(np.diag(matrix), np.diag(matrix)))
        ranks.append(size.argsort(axis=0).argsort(axis=0))
    return np.asarray(np.maximum(*ranks), np.float64)


def _information(sums: Sums | None, d: int) -> FloatArray:
    """The mutual information of each pair of labels `[d, d]`, if the fit has counted all pairs; otherwise zeros."""
    information = np.zeros((d, d))
    if isinstance(sums, implied_tables.Server) and sums.has_pairs:
        tables = implied_tables.CountsBySet(sums, blank=False)
        for i in range(d):
            for j in range(i):
                counts = tables.table((j, i))
                expected = counts.sum(axis=0) * counts.sum(axis=1, keepdims=True) / counts.sum()
                some = counts > 0
                excess = (counts.shape[0] - 1) * (counts.shape[1] - 1) / 2
                information[i, j] = (counts[some] * np.log(counts[some] / expected[some])).sum() - excess
    return information + information.T
