"""The fit of the learned graph and its edges to the data, and held-out likelihoods.

The held-out likelihood of a silo is the likelihood of its rows under the model of the other silos.

The fit needs no further exchange, because the diagnosis sums the moments or counts that it needs. A run with an ε has
no fit, for two reasons: its released moments contain noise, whose effect on the tests is not known, and a further sum
would be a release that ε does not cover.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import Algorithm, Round
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.core.spec import SERIES
from fedbnsl.algorithms.diagnosis import edge_figures, exchange, implied_moments, implied_tables
from fedbnsl.algorithms.diagnosis.implied import Fit
from fedbnsl.algorithms.graphs.cpdag import dag_extension
from fedbnsl.algorithms.graphs.edges import ClassifiedEdges, EdgeFigures, EdgeKey, key_of
from fedbnsl.algorithms.graphs.structure import Structure, unrolled_names
from fedbnsl.algorithms.privacy.disclosure_control import rare_indicators
from fedbnsl.algorithms.resampling.held_out import MIN_SILOS, HeldOut, scores_by_silo
from fedbnsl.algorithms.score.settings import ScoreSettings
from fedbnsl.algorithms.statistics.coding import coding_of
from fedbnsl.tracking.publication import rounded
from fedbnsl.tracking.result import HeldOutScores

from .follow_up import Sums, count_tables, has_own_weights, is_nonlinear
from .job import Job, Session, extra_exchange, unless_refused

Figures = Mapping[EdgeKey, EdgeFigures]
VOTES_ON_TESTS = ("pc-cit-voting", "fci-cit-voting")
"""learners whose tests are votes of the silos, without a p-value over all rows"""


def published_fit(
    job: Job,
    session: Session,
    algorithm: Algorithm,
    last: Round[Any],
    structure: Structure,
    sums: Sums | None,
) -> tuple[Fit, Figures]:
    """What is published of the fit of `structure` and its edges, after the run of `job` whose last round is `last`.

    `sums` are the sums of the diagnosis; None if there are none. If the fit cannot be computed, it contains the
    reason. Edges then have only the p-values of a search by tests, which follow from what the search received.
    """
    found, figures = _fit_of_graph(job, session, algorithm, last, structure, sums)
    largest = _largest_p_values(last.server, structure, job.spec.name)
    gate = job.gate(session.schema)
    return rounded(found), gate.edge_figures(figures, largest, labels=bool(session.schema.levels))


def _fit_of_graph(
    job: Job,
    session: Session,
    algorithm: Algorithm,
    last: Round[Any],
    structure: Structure,
    sums: Sums | None,
) -> tuple[Fit, Figures]:
    """The fit and the figures of edges, without the p-values of the search."""
    schema = session.schema
    reason = _reason_for_no_fit(job, schema, algorithm, last)
    if reason:
        return Fit(reason), {}
    chosen = dag_extension(structure)
    if chosen.dag is None:
        return Fit(f"not tested, because {chosen.how}"), {}
    if schema.kind == "discrete":
        return unless_refused(
            lambda: _fit_of_labels(job, session, algorithm, structure, sums), lambda refusal: (Fit(refusal), {})
        )
    if not isinstance(sums, exchange.Server):
        return Fit("not tested, because it needs the sums of the diagnosis, which are not available"), {}
    independent = round(sums.rows * job.independent_share)
    return fit_of_sums(schema, structure, chosen.dag, replace(sums, rows=independent))


def _largest_p_values(server: Any, structure: Structure, algorithm: str) -> dict[EdgeKey, float]:
    """The largest p-value of the tests of each adjacent pair; empty unless `server` searched by tests."""
    largest = getattr(getattr(server, "search", None), "largest_p", np.empty((0, 0)))
    if not largest.size or algorithm in VOTES_ON_TESTS:
        return {}
    place, d = {name: v for v, name in enumerate(server.variables)}, len(server.variables)
    found = {}
    for edge in ClassifiedEdges(structure):
        key = key_of(edge)
        found[key] = float(largest[key[2] * d + place[key[0]], place[key[1]]])
    return found


def _reason_for_no_fit(job: Job, schema: Schema, algorithm: Algorithm, last: Round[Any]) -> str:
    """The reason why the fit of a run cannot be computed; empty if it can be computed."""
    reasons = {
        "not tested, because the noise for ε affects the tests by an unknown amount": algorithm.private is not None,
        "not requested (--no-diagnose)": not job.settings.diagnose,
        f"not tested, because {last.broken_off}": bool(last.broken_off),
        "not tested, because experiments change mechanisms, which the tests would count as misfit": schema.has_targets,
        "not tested, because event sequences have no rows whose independences could be tested": schema.kind == "events",
        "not tested, because series with labels have no test": schema.kind in SERIES and bool(schema.levels),
        "not tested, because the distribution of the test statistics is unknown with empty cells": bool(
            schema.gaps or job.imputation_model.rows
        ),
        "not tested, because rows of one cluster depend on each other, and tests of tables count all rows": (
            schema.kind == "discrete" and schema.independent_share < 1
        ),
        "not tested, because effects are curved, and tests of second moments are linear": is_nonlinear(job, last),
        "not tested, because weights differ between silos, and sums have common ones": has_own_weights(job),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def fit_of_sums(
    schema: Schema, structure: Structure, dag: NDArray[np.bool_], sums: exchange.Server
) -> tuple[Fit, Figures]:
    """The fit of `dag`, a DAG of `structure`, to the second moments `sums`, and the figures of its edges."""
    d, silos, first, S = len(dag), int(sums.counted.sum()), range(0), sums.within
    if structure.lags:
        m = d * (structure.lags + 1)
        whole = np.zeros((m, m), np.bool_)
        whole[:d, :d] = dag
        if structure.lagged is not None:
            whole[d:, :d] = (structure.lagged != 0).reshape(-1, d)
        names, owners, numeric = unrolled_names(structure.variables, structure.lags), np.arange(m), np.ones(m, np.bool_)
        dag, first = whole, range(d, m)
    else:
        coding = coding_of(schema)
        names, owners, numeric = schema.variables, coding.owners, ~np.array(coding.discrete, np.bool_)
        kept = ~rare_indicators(np.where(numeric[owners], -1, owners), sums.means, sums.rows)
        S = S * np.outer(kept, kept)
    found = implied_moments.fit_of_moments(S, sums.rows, silos, dag, names, owners, numeric, first)
    figures = edge_figures.figures_of_moments(S, sums.rows, silos, dag, owners, numeric)
    keys = edge_figures.keys_of(dag, structure.variables, structure.lags)
    return found, edge_figures.by_key(figures, keys)


def _fit_of_labels(
    job: Job, session: Session, algorithm: Algorithm, structure: Structure, sums: Sums | None
) -> tuple[Fit, Figures]:
    """The fit to the counts in `sums`; without them, for example if an owner refused them, to counts of its own."""
    sent, server = 0, sums
    if not isinstance(server, implied_tables.Server):
        found = count_tables(job, session, algorithm, structure)
        if found.lost:
            return Fit("not tested, because too few silos responded"), {}
        sent, server = found.bytes_sent, found.last.server
    blank, dag = job.settings.small_cells == "blank", server.dag
    figures = edge_figures.figures_of_tables(server, _bdeu(job.spec.settings, len(dag)), blank=blank)
    fit = replace(implied_tables.fit_of_tables(server, blank=blank), bytes_sent=sent)
    return fit, edge_figures.by_key(figures, edge_figures.keys_of(dag, server.schema.variables, 0))


def _bdeu(settings: Any, d: int) -> edge_figures.Bdeu | None:
    """BDeu with the `settings` of a learner of `d` variables; None if the learner does not score by BDeu."""
    if not isinstance(settings, ScoreSettings) or settings.score != "bdeu":
        return None
    from fedbnsl.algorithms.score.discrete import create_criterion  # compiled code, which few runs need

    price = np.diff(create_criterion(settings, d, 1).prior[:2])
    return edge_figures.Bdeu(settings.ess, -float(price[0]))


def held_out_refusal(job: Job, schema: Schema) -> str:
    """The reason why silos cannot score their rows by the model of the other silos; empty if they can."""
    name = job.spec.name
    if registry.build(job.spec).private is not None:
        return "each silo's score would be a release that ε does not cover"
    if schema.kind != "continuous" or schema.gaps or job.settings.outliers == "set-aside":
        return f"it is for numbers without empty cells, and {job.dataset} has other data"
    if len(schema.silos) < MIN_SILOS:
        return f"it takes {MIN_SILOS} silos or more: of two, each would see the sums of the other"
    if not registry.entry(name).one_sum(job.spec.settings):
        possible = [one for one, entry in registry.ALGORITHMS.items() if entry.one_sum(entry.config())]
        return f"{name} takes more than one sum, which without a silo would disclose its own: use {', '.join(possible)}"
    return ""


def held_out(job: Job, session: Session, last: Round[Any]) -> HeldOutScores:
    """The likelihood of each silo's rows under the model that the learner of `job` finds in the other silos' sums.

    Two exchanges under the run id `<run id>-held-out` transfer the sums, masked if the run is, and the silos' scores.
    The result is empty without the option `held_out`.
    """
    if not job.settings.held_out:
        return HeldOutScores()
    reason = last.broken_off or held_out_refusal(job, session.schema)
    return (
        HeldOutScores(why=reason)
        if reason
        else unless_refused(lambda: _scores(job, session), lambda refusal: HeldOutScores(why=refusal))
    )


def _scores(job: Job, session: Session) -> HeldOutScores:
    found = extra_exchange(job, session, job.spec.wrapped("held-out", HeldOut()), "held-out")
    if found.lost:
        return HeldOutScores(why="too few silos responded")
    return HeldOutScores(scores_by_silo(found.last.server), bytes_sent=found.bytes_sent)
