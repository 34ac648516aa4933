"""Preparation of a run: the units of masked sums, the lag order, the imputation model, and background knowledge.

Units, lag order and imputation model need exchanges before the rounds. Background knowledge is read from the options
and the file that they name, sent to the silos, and imposed on the learned structures.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.knowledge import Arc, Knowledge, no_parent_arcs, tier_arcs
from fedbnsl.algorithms.core.protocol import Algorithm
from fedbnsl.algorithms.core.schema import AUTO, ImputationModel, Schema
from fedbnsl.algorithms.core.spec import SERIES, AlgorithmSpec
from fedbnsl.algorithms.dynamic.lag_order import LagOrder, choose_lag_order
from fedbnsl.algorithms.errors import BadInput, pluralize, quoted
from fedbnsl.algorithms.graphs.cpdag import dag_extension
from fedbnsl.algorithms.graphs.imposed_knowledge import impose_knowledge, truth_with_knowledge
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters import tables
from fedbnsl.algorithms.privacy.disclosure_control import share_class
from fedbnsl.algorithms.score.settings import SecureSearch
from fedbnsl.algorithms.statistics.design_effect import DesignEffect, design_effect
from fedbnsl.algorithms.statistics.em import ExpectationMaximisation
from fedbnsl.algorithms.statistics.moments import Units, units_of
from fedbnsl.data.folder.about import cluster_column
from fedbnsl.data.folder.truth import read_knowledge

from ..options.learn import LearnOptions
from .job import Clusters, ExchangeResult, ImputationCost, Job, Session, extra_exchange

FIRST_SEARCH, LATER_SEARCH = "secure-boss", "secure-ges"
"""The first and the later searches for the imputation network. Before the first imputation, a family is scored on the
rows that are complete in its variables, so equivalent graphs have different scores. GES moves between classes of
equivalent graphs and could then cycle; a search over orders cannot. On imputed rows, GES is used because it sends
less."""
IMPUTING = "during the imputation of the empty cells"
MAX_SCREENS = 4
"""maximum number of screens for outliers"""
MIN_NEW_OUTLIERS = 1e-4
"""share of cells that a screen must set aside for another screen to follow"""
MAX_NETWORKS = 6
"""maximum number of imputation networks of discrete data"""


def with_imputation_model(job: Job, session: Session) -> Job:
    """`job` with an imputation model, if cells are empty or outliers are set aside, and the algorithm needs a model.

    For numbers and mixed data the model is a covariance, estimated by EM. For labels it is a network, estimated by
    stochastic EM. This alternates three steps until a graph recurs, or `MAX_NETWORKS` times: search for a graph,
    estimate its tables, and draw the empty cells from the tables. The exchanges run over the same silos, masked if the
    run is. Their run ids are `<run id>-em`, `<run id>-em-<n>` after screen n for outliers,
    `<run id>-filling-<n>-search` and `<run id>-filling-<n>-tables`. Raises `BadInput` if too many silos are lost.
    """
    schema, entry = session.schema, registry.entry(job.spec.name)
    set_aside = job.settings.outliers == "set-aside"
    if not schema.gaps and not set_aside:
        return job
    hidden = registry.build(job.spec).is_masked(schema, requested=job.settings.secure)
    if schema.kind != "discrete":
        lags = job.spec.settings.reach(schema) if schema.kind == "time-series" else 0
        settings = ExpectationMaximisation(masked=hidden, lags=lags)
        return _with_covariance(job, session, AlgorithmSpec("em", settings), screens=MAX_SCREENS if set_aside else 0)
    if entry.fills:
        return _stochastic_em(job, session, masked=hidden)
    return replace(
        job,
        imputation_cost=ImputationCost(_summary(schema, "each test uses the rows that are complete in its variables")),
    )


def _with_covariance(job: Job, session: Session, spec: AlgorithmSpec, screens: int) -> Job:
    """`job` with the covariance of its columns by the EM of `spec`, after up to `screens` screens for outliers.

    In each screen, silos set cells aside that are unlikely under the last covariance; then EM runs again.
    """
    found = extra_exchange(job, session, spec, "em").of_enough_silos(IMPUTING)
    server, exchanges, sent = found.last.server, found.last.number, found.bytes_sent
    model, screened = server.imputation_model, 0.0
    for number in range(1, screens + 1):
        before = server.observed.sum()
        job = replace(job, imputation_model=replace(model, screens=(*model.screens, model.covariance)))
        found = extra_exchange(job, session, spec, f"em-{number}").of_enough_silos(IMPUTING)
        server, exchanges, sent = found.last.server, exchanges + found.last.number, sent + found.bytes_sent
        model = replace(server.imputation_model, screens=job.imputation_model.screens)
        new = 1 - server.observed.sum() / before
        screened += new
        if new < MIN_NEW_OUTLIERS:
            break
    how = f"second moments are estimated by EM in {pluralize(exchanges, 'exchange')}"
    lines = _summary(session.schema, how)
    if screens:
        lines += f" {share_class(screened)} of the cells were set aside because they do not fit their row."
    return replace(job, imputation_model=model, imputation_cost=ImputationCost(lines, exchanges, sent))


def _summary(schema: Schema, how: str) -> str:
    """The share of empty cells, their treatment, and what the treatment assumes, as two sentences."""
    empty = sum(sum(counts) for counts in schema.empty.values())
    share = empty / (sum(schema.rows.values()) * len(schema.variables))
    return f"{share_class(share)} of the cells are empty: {how}. This is valid if values are missing at random (MAR)."


def _stochastic_em(job: Job, session: Session, *, masked: bool) -> Job:
    """`job` with the last network whose tables were estimated: its graph and its tables.

    The tables are of the silos' rows, imputed by the network before it, if there is one.
    """
    how = SecureSearch(score="bic", seed=job.settings.seed)
    schema, graphs, exchanges, sent = session.schema, list[NDArray[np.bool_]](), 0, 0
    for number in range(1, MAX_NETWORKS + 1):
        search = AlgorithmSpec(FIRST_SEARCH if number == 1 else LATER_SEARCH, how)
        found = extra_exchange(job, session, search, f"filling-{number}-search").of_enough_silos(IMPUTING)
        exchanges, sent = exchanges + found.last.number, sent + found.bytes_sent
        graph = registry.build(search).structure(found.last.server)
        if any((graph.adjacency == before).all() for before in graphs):
            break
        graphs.append(graph.adjacency)
        dag = dag_extension(graph).dag
        assert dag is not None
        counts = _tables(job, session, dag, f"filling-{number}-tables", masked=masked).of_enough_silos(IMPUTING)
        exchanges, sent = exchanges + 1, sent + counts.bytes_sent
        job = replace(
            job,
            imputation_model=ImputationModel(dag=dag, tables=_flat_tables(counts, schema), rows=schema.pairs_together),
        )
    times = f"{pluralize(len(graphs), 'time')}, in {pluralize(exchanges, 'exchange')}"
    summary = f"they are imputed from a network that was learned {times}"
    return replace(job, imputation_cost=ImputationCost(_summary(schema, summary), exchanges, sent))


def _tables(job: Job, session: Session, dag: NDArray[np.bool_], name: str, *, masked: bool) -> ExchangeResult:
    spec = AlgorithmSpec("family-tables", tables.FamilyTables(job.settings.smoothing, masked=masked))
    return extra_exchange(job, session, spec, name, tables.start(session.schema, dag))


def _flat_tables(counts: ExchangeResult, schema: Schema) -> NDArray[np.float64]:
    network = tables.network(counts.last.server, 1.0)
    return np.concatenate([network.tables[name].ravel() for name in schema.variables])


def with_lags(job: Job, session: Session) -> Job:
    """`job` with a fixed lag order, if its algorithm chooses the order before the rounds; other jobs are unchanged.

    The exchange runs over the same silos, under the run id `<run id>-lags`, masked if the run is. Raises `BadInput` if
    series are too short even for one lag, or if too many silos are lost.
    """
    settings = job.spec.settings
    series = session.schema.kind in SERIES
    if not series or not registry.entry(job.spec.name).lags_before or settings.lags != AUTO:
        return job
    found = extra_exchange(job, session, AlgorithmSpec("lag-order", LagOrder()), "lags")
    found.last.require_silos("when the lags were chosen (parameter lags is auto)")
    lags, _ = choose_lag_order(found.last.server)
    return replace(job, spec=replace(job.spec, settings=replace(settings, lags=lags)))


def with_units(job: Job, session: Session, step: str = "units") -> Job:
    """`job` with the units of its columns, if silos reply with masked sums of numbers without an ε; otherwise `job`.

    The exchange runs over the same silos, masked, under the run id `<run id>-<step>`. Raises `BadInput` if too many
    silos are lost.
    """
    algorithm = registry.build(job.spec)
    hidden = algorithm.is_masked(session.schema, requested=job.settings.secure)
    if not hidden or session.schema.kind in ("discrete", "events") or algorithm.private is not None:
        return job
    found = extra_exchange(job, session, AlgorithmSpec("units", Units()), step)
    found.last.require_silos("when the units of the columns were computed")
    return replace(job, units=tuple(map(float, units_of(found.last.server))))


def with_clusters(job: Job, session: Session) -> tuple[Job, Session]:
    """`job` and `session` with the design effect of the clusters of rows, if a column names them.

    The exchange runs over the same silos, masked, under the run id `<run id>-clusters`. Raises `BadInput` if no silo
    has two clusters, and if too many silos are lost.
    """
    column = cluster_column(session.schema.aside)
    if column is None:
        return job, session
    clusters = compared_clusters(job, session, column, "clusters")
    schema = replace(session.schema, independent_share=clusters.independent_share)
    return replace(job, clusters=clusters), replace(session, schema=schema)


def compared_clusters(job: Job, session: Session, column: str, name: str) -> Clusters:
    """The design effect of the clusters that `column` names, from an exchange under the run id `<run id>-<name>`.

    It is rounded as it is published.
    """
    found = extra_exchange(job, session, AlgorithmSpec("design-effect", DesignEffect()), name)
    found.last.require_silos("when rows of one cluster were compared")
    rows = sum(session.schema.rows.values())
    effect = float(f"{design_effect(found.last.server, rows):.3g}")
    return Clusters(column, effect, rows, found.bytes_sent)


def outlier_refusal(job: Job, schema: Schema) -> str:
    """The reason why outliers cannot be set aside in these data with this learner; empty if they can."""
    reasons = {
        f"the columns of {job.dataset} are labels": schema.kind == "discrete",
        f"the rows of {job.dataset} are events": schema.kind == "events",
        f"empty cells would break the time series of {job.dataset}": schema.kind == "time-series",
        "in a run with an ε, values are clipped instead": registry.build(job.spec).private is not None,
        f"silo {', '.join(schema.streamed)} reads its rows in passes": bool(schema.streamed),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def knowledge_of(options: LearnOptions, variables: Sequence[str]) -> Knowledge:
    """The background knowledge of `options`: rules in the file `knowledge`, and the arcs and tiers of other options.

    Raises `BadInput` for an invalid arc or tier, an unknown variable, and contradictions.
    """
    file = read_knowledge(Path(options.knowledge), variables) if options.knowledge else Knowledge()
    tiers = [tier.split(",") for tier in options.tiers.split("<")] if options.tiers else []
    if len(tiers) == 1:
        raise BadInput(f"--tiers {quoted(options.tiers or '')}: one tier orders nothing: write < between tiers")
    forbidden = (
        *_arcs("forbidden", options.forbidden_arcs),
        *tier_arcs([[name.strip() for name in tier] for tier in tiers]),
        *no_parent_arcs(_words(options.no_parents), variables),
    )
    known = Knowledge(
        tuple(dict.fromkeys((*file.required, *_arcs("required", options.required_arcs)))),
        tuple(dict.fromkeys((*file.forbidden, *forbidden))),
    )
    known.check(variables)
    return known


def _words(given: str | None) -> list[str]:
    return [word.strip() for word in given.split(",")] if given else []


def _arcs(option: str, given: str | None) -> list[Arc]:
    found = []
    for word in _words(given):
        source, arrow, target = (part.strip() for part in word.partition("->"))
        if not (source and arrow and target):
            raise BadInput(f"--{option} {quoted(word)}: an arc must be 'A->B'")
        found.append((source, target))
    return found


def with_knowledge(algorithm: Algorithm, schema: Schema) -> Algorithm:
    """`algorithm` with structures that satisfy the knowledge in `schema`, even if the learner ignores knowledge."""
    known = schema.knowledge
    if not known:
        return algorithm
    needed, possible = known.required_matrix(schema.variables), known.possible(schema.variables)

    def agreeing(structure: Structure) -> Structure:
        return impose_knowledge(structure, needed, possible)

    def each(server: Any) -> dict[str, Structure]:
        assert algorithm.local_structures is not None
        return {silo: agreeing(one) for silo, one in algorithm.local_structures(server).items()}

    return replace(
        algorithm,
        structure=lambda server: agreeing(algorithm.structure(server)),
        local_structures=each if algorithm.local_structures else None,
    )


def comparable_truth(job: Job, structure: Structure, schema: Schema) -> Job:
    """`job` with the truth in the form in which `structure` is compared with it.

    If `structure` is a CPDAG, this is the CPDAG of the truth with the directions that background knowledge and
    experiments determine.
    """
    known = job.knowledge
    if job.truth is None or not (known or schema.has_targets):
        return job
    truth = job.truth.reordered(schema.variables)
    needed, possible = known.required_matrix(schema.variables), known.possible(schema.variables)
    if schema.has_targets:
        needed = needed | (truth.adjacency & schema.prior.separated)
    return replace(job, truth=truth_with_knowledge(truth, structure.kind, needed, possible))
