"""The continuation of a run of `auto` with another model, if the diagnosis of the linear model suggests one.

A finding on curved effects leads to one further masked sum, for an additive model. A finding on weights that differ
between silos or over time leads to a search by the sum of the silos' own scores. Both models are compared with the
linear model by BIC. If a model gains in BIC, the run continues with the model that gains most. Both are tried if both
findings occur, because the two causes can be confused. If weights differ, the common weights fit no silo, which can
look like curves. If effects are curved, silos in different ranges of a curve have different weights.

Before all this, if the diagnosis finds a season in time series, the run begins again with the series without it.

The errors of the chosen model are then checked by one masked sum (`diagnosis/errors.py`). If they depend on the
causes, an additive model is given up, and a linear model is selected again from the same moments, by conditional
independences only. It also counts only the share of rows that is independent.

For mixed data, the continuation tests the edges into labels.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.adjustment import Adjustment
from fedbnsl.algorithms.core.protocol import ENDED_EARLY, Algorithm, Round
from fedbnsl.algorithms.core.schema import AUTO
from fedbnsl.algorithms.core.spec import SERIES, AlgorithmSpec
from fedbnsl.algorithms.diagnosis import columns, errors, findings, relations, series_findings
from fedbnsl.algorithms.diagnosis.series_findings import CHANGE, SEASON
from fedbnsl.algorithms.graphs.cpdag import dag_extension, member_of
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.moments import label_edges, secure_additive, secure_linear
from fedbnsl.algorithms.moments.secure_linear import SecureLinear
from fedbnsl.algorithms.parameters import mixed_families
from fedbnsl.algorithms.score.secure_search import own_weights_gain
from fedbnsl.algorithms.score.settings import SecureSearch
from fedbnsl.algorithms.statistics.coding import coding_of
from fedbnsl.data.folder.about import recurring_column
from fedbnsl.tracking.result import Diagnosed

from .follow_up import ALLOWED_FOR, diagnose, fit_mixed_families, is_nonlinear
from .job import ExchangeResult, Job, Session, extra_exchange, unless_refused
from .preparation import with_knowledge

REJECTED = "One further masked sum for an additive model did not support it, so the result is linear."
"""text added to the finding on curved effects if `auto` has tried secure-additive without success"""
OWN_WEIGHTS = (*findings.WEIGHTS_DIFFER, CHANGE)
"""the names of the findings that lead to a search by own scores"""
NOT_OWN = "A search with different weights for each silo did not support them, so the result has common weights."
"""text added to the finding on different weights if `auto` has tried secure-boss with weights=own without success"""
IN_PASSES = (
    "A search by the silos' own scores needs series in memory, and some silos read them in passes, so the result has "
    "common weights."
)
"""text added to the finding on different weights if `auto` cannot try secure-boss with weights=own"""


@dataclass(frozen=True)
class Continued:
    """A run after a further model was tried: its job, algorithm and last round, and its findings.

    If the data do not support the further model, job, algorithm and last round are those of the linear run. The
    findings include the bytes of the further model.
    """

    job: Job
    algorithm: Algorithm
    last: Round[Any]
    diagnosed: Diagnosed
    gain: float = -math.inf
    """the gain in BIC over the linear model; −∞ if the data support no further model"""
    revised: Callable[[Structure], Structure] = lambda structure: structure
    """the change of the learned structure after the search, which is also applied to resamples"""
    fitted: ExchangeResult | None = None
    """the fitted parameters of a mixed network, if they belong to the final graph; its DAG has labels late"""


def continued(job: Job, session: Session, algorithm: Algorithm, last: Round[Any], diagnosed: Diagnosed) -> Continued:
    """The run of `auto`, continued with the best model that its findings suggest, or unchanged.

    For mixed data, `auto` checks the edges into labels. Otherwise it continues only a run of `secure-linear` with
    default settings. The run stays unchanged if there was no diagnosis, if it ended early, or if
    the policy of an owner refuses the exchange of a further model.
    """
    linear = Continued(job, algorithm, last, diagnosed)
    if session.schema.has_targets or last.outcome in ENDED_EARLY or last.broken_off:
        return linear
    if session.schema.kind == "mixed":
        return unless_refused(lambda: _with_label_edges(linear, session), lambda refusal: linear)
    default = SecureLinear(seed=getattr(job.spec.settings, "seed", 0))
    of_numbers = session.schema.kind in ("continuous", *SERIES)
    if job.spec.settings != default or not of_numbers or not job.settings.diagnose:
        return linear
    linear = _without_seasons(linear, session)
    session, diagnosed = adjusted_session(linear.job, session), linear.diagnosed
    checked = unless_refused(lambda: _checked_linear_errors(linear, session), lambda refusal: None)
    if checked:
        linear = _diagnosed_again(linear, session, checked)
        diagnosed = linear.diagnosed
    curved = unless_refused(lambda: _with_curved_effects(linear, session), lambda refusal: linear)
    before = curved if curved.gain < 0 else linear
    elsewhere = checked is not None and errors.rows_from_elsewhere(checked.last.server) > 0
    own = before if elsewhere else unless_refused(lambda: _with_own_weights(before, session), lambda refusal: before)
    best = own if own.gain > curved.gain or before is curved else curved
    spent = (one.diagnosed.bytes_sent - diagnosed.bytes_sent for one in ((own,) if before is curved else (curved, own)))
    best = replace(best, diagnosed=replace(best.diagnosed, bytes_sent=diagnosed.bytes_sent + sum(spent)))
    still_linear = isinstance(best.last.server, secure_linear.Server)
    return _selected_again(best, session, checked) if checked and still_linear else best


def adjusted_session(job: Job, session: Session) -> Session:
    """The `session` of series that are adjusted as in `job`."""
    return replace(session, schema=session.schema.adjusted(job.adjustment))


def _without_seasons(linear: Continued, session: Session, number: int = 1) -> Continued:
    """The run on series without the season of the diagnosis, and without a further one that shows then.

    The run stays unchanged if the user has chosen a period, or to keep seasons.
    """
    found_season = any(one.name == SEASON for one in linear.diagnosed.findings)
    if number > MAX_SEASONS or not found_season or linear.job.settings.deseasonalise is not None:
        return linear
    found = unless_refused(lambda: _without_season(linear, session, number), lambda refusal: linear)
    return linear if found is linear else _without_seasons(found, session, number + 1)


def _without_season(linear: Continued, session: Session, number: int) -> Continued:
    """The run on series without the season of the diagnosis, under the run id `<run id>-deseasonalised-<number>`.

    The run stays unchanged if a series is too short for the season, if too few silos reply, if cells are empty, because
    their model is of the series with the season, and if the time of the day is a variable, because it would be constant
    without its season.
    """
    season_now = Adjustment(period=series_findings.season_of(linear.diagnosed.sums))
    job = replace(linear.job, season=(season_now | linear.job.adjustment).period)
    longest = [max(session.schema.recorded_stretches(silo), default=0) for silo in session.schema.silos]
    filled = session.schema.gaps or job.imputation_model.rows
    if min(longest) < job.adjustment.min_rows or filled or columns.without_causes(session.schema.variables):
        return linear
    session = adjusted_session(job, session)
    again = extra_exchange(job, session, job.spec, f"deseasonalised-{number}")
    if again.lost:
        return linear
    (season,) = [one for one in linear.diagnosed.findings if one.name == SEASON]
    learner = with_knowledge(registry.build(job.spec), job.run_schema(session.schema))
    how = f"{job.adjustment.description[:1].upper()}{job.adjustment.description[1:]}"
    reason = f"{season.message} {how}; --deseasonalise 0 keeps them."
    algorithm = replace(learner, basis=lambda server: (reason, *learner.basis(server)))
    last = _after(linear.last, again.last)
    found = diagnose(
        job, session, algorithm, last, learner.structure(last.server), name=f"diagnosis-deseasonalised-{number}"
    )
    sent = linear.diagnosed.bytes_sent + again.bytes_sent + found.bytes_sent
    return Continued(job, algorithm, last, replace(found, bytes_sent=sent))


def _with_curved_effects(linear: Continued, session: Session) -> Continued:
    """The run after one masked sum for `secure-additive`, under the run id `<run id>-curved`.

    The exchange starts from the last state of the linear run. It takes place only if a finding says that effects are
    curved, and neither for time series nor for data with empty cells, because the additive model excludes both.
    """
    job, found = linear.job, {one.name: one for one in linear.diagnosed.findings}
    schema = session.schema
    if findings.NOT_LINEAR not in found or schema.kind in SERIES or schema.gaps or job.imputation_model.rows:
        return linear
    spec = AlgorithmSpec("secure-additive", secure_additive.SecureAdditive(seed=job.spec.settings.seed))
    tried = extra_exchange(job, session, spec, "curved", secure_additive.after_linear(linear.last.server))
    sent = linear.diagnosed.bytes_sent + tried.bytes_sent
    if tried.lost or not is_nonlinear(job, tried.last):
        return replace(linear, diagnosed=_annotated(linear.diagnosed, (findings.NOT_LINEAR,), REJECTED, sent))
    additive = tried.last.server
    model = errors.fitted_model(additive.moments, additive.strengths > 0, np.sqrt(np.diag(additive.linear.S)))
    checked = _checked_errors(linear, session, model, "curved-errors")
    sent += checked.bytes_sent
    if checked.lost or errors.mean_explained(checked.last.server) > MAX_EXPLAINED:
        return replace(linear, diagnosed=_annotated(linear.diagnosed, (findings.NOT_LINEAR,), NOT_ADDITIVE, sent))
    presupposing = {*findings.OF_LINEAR_MODELS, *findings.WEIGHTS_DIFFER}
    rest = tuple(one for one in linear.diagnosed.findings if one.name not in presupposing)
    learner = with_knowledge(registry.build(spec), job.run_schema(session.schema))
    reason = f"The diagnosis of a linear model led to one further masked sum: {found[findings.NOT_LINEAR].message}"
    if any(one.name in findings.WEIGHTS_DIFFER for one in linear.diagnosed.findings):
        reason += " Linear weights differ between silos, which curves explain; whether the curves differ is unknown."
    return Continued(
        replace(job, spec=spec),
        replace(learner, basis=lambda server: (reason, *secure_additive.basis(server))),
        _after(linear.last, tried.last),
        replace(linear.diagnosed, findings=rest, bytes_sent=sent),
        tried.last.server.gain,
    )


def _checked_errors(run: Continued, session: Session, model: errors.Broadcast, name: str) -> ExchangeResult:
    """The sums over the errors of a fitted `model`, under the run id `<run id>-<name>`."""
    spec = AlgorithmSpec("error-checks", errors.ErrorChecks(masked=run.algorithm.needs_secure_sum))
    return extra_exchange(run.job, session, spec, name, errors.start(session.schema, model))


def _checked_linear_errors(linear: Continued, session: Session) -> ExchangeResult | None:
    """The sums over the errors of the linear run; None if they are not checked.

    That is so for time series, with empty cells, if no DAG is known, and if owners allow only sums that no number of
    the coordinator enters, which a finding says (`uncompared_findings`).
    """
    S, schema = linear.last.server.S, session.schema
    dag = dag_extension(linear.algorithm.structure(linear.last.server)).dag
    if dag is None or schema.kind in SERIES or schema.gaps or linear.job.imputation_model.rows or linear.job.at_sums:
        return None
    scales = np.sqrt(np.diag(S))
    checked = _checked_errors(linear, session, errors.fitted_model(S / np.outer(scales, scales), dag, scales), "errors")
    return None if checked.lost else checked


def _diagnosed_again(linear: Continued, session: Session, checked: ExchangeResult) -> Continued:
    """The linear run with the bytes of the check, diagnosed again if rows depend on each other.

    Tests for curves and for different weights find too much if rows are not independent. The second diagnosis allows
    for the variance that dependent rows add.
    """
    sent, rows = linear.diagnosed.bytes_sent + checked.bytes_sent, errors.independent_rows(checked.last.server)
    if rows.following:
        structure = linear.algorithm.structure(linear.last.server)
        again = diagnose(
            linear.job,
            session,
            linear.algorithm,
            linear.last,
            structure,
            name="diagnosis-again",
            inflation=1 / rows.share,
        )
        return replace(linear, diagnosed=replace(again, bytes_sent=sent + again.bytes_sent))
    return replace(linear, diagnosed=replace(linear.diagnosed, bytes_sent=sent))


def _errors_depend(checked: ExchangeResult) -> bool:
    """Whether the errors of a linear model depend on the causes for too many of the variables with causes."""
    dependent = errors.explained_squares(checked.last.server)[1]
    return len(dependent) > 0 and bool(dependent.mean() >= MAX_DEPENDENT)


def _reconsidered(run: Continued, checked: ExchangeResult) -> tuple[SecureLinear, list[findings.Finding]]:
    """The settings of the linear run that its errors and rows allow, and the findings on them.

    If errors depend on the causes, directions rest on conditional independences only. If effects are also curved, an
    edge must explain a share of a residual variance, because even means are wrong then. If rows are dependent, scores
    count the share of independent rows.
    """
    sums = checked.last.server
    rows, elsewhere = errors.independent_rows(sums), errors.rows_from_elsewhere(sums)
    found = findings.elsewhere_findings(elsewhere) if elsewhere else []
    settings: SecureLinear = replace(run.job.spec.settings, independent_share=rows.share)
    if _errors_depend(checked):
        dependent = errors.explained_squares(sums)[1]
        curved = any(one.name == findings.NOT_LINEAR for one in run.diagnosed.findings)
        share = MIN_SHARE if curved else 0.0
        settings = replace(settings, error_variances="free", non_gaussian=False, min_share=share)
        found += findings.error_findings(int(dependent.sum()), len(dependent), share)
    if rows.following:
        found += findings.dependent_rows_findings(rows.share, sums.rows, recurring_column(sums.schema.aside))
    return settings, found


def _selected_again(run: Continued, session: Session, checked: ExchangeResult) -> Continued:
    """The linear run with the findings on its errors and rows, selected again from the same moments if they matter."""
    job, diagnosed = run.job, run.diagnosed
    settings, found = _reconsidered(run, checked)
    if settings == job.spec.settings:
        return replace(run, diagnosed=replace(diagnosed, findings=(*diagnosed.findings, *found)))
    spec = replace(job.spec, settings=settings)
    selected = secure_linear.select_again(run.last.server, settings)
    last = replace(run.last, server=selected)
    if not selected.done:
        directed = extra_exchange(job, session, spec, "rows", selected)
        diagnosed = replace(diagnosed, bytes_sent=diagnosed.bytes_sent + directed.bytes_sent)
        last = last if directed.lost else _after(run.last, directed.last)
    untrusted = {findings.MISFIT, *(UNTRUSTED if _errors_depend(checked) else ())}
    untrusted |= {one.name for one in found if one.name == findings.ROWS_DEPEND}
    rest = [one for one in diagnosed.findings if one.name not in untrusted]
    everything = findings.with_misfit([*rest, *found], selected.misfit, session.schema.variables)
    algorithm = with_knowledge(registry.build(spec), job.run_schema(session.schema))
    reasons = tuple(one.message for one in found)
    basis = algorithm.basis
    return replace(
        run,
        job=replace(job, spec=spec),
        algorithm=replace(algorithm, basis=lambda server: (*reasons, *basis(server))),
        last=last,
        diagnosed=replace(diagnosed, findings=tuple(everything)),
    )


def _with_own_weights(linear: Continued, session: Session) -> Continued:
    """The run after a search by the sum of the silos' own scores, under the run id `<run id>-own`.

    Time series keep the lags of the linear run. If weights change over time, the two halves of each series also have
    separate weights. There is no such search if the findings name outliers or columns that follow from others: the
    former can look like different weights, and have to be set aside first; with the latter, weights are not unique.
    """
    job, found = linear.job, {one.name: one for one in linear.diagnosed.findings}
    differing = [found[name] for name in OWN_WEIGHTS if name in found]
    if not differing or found.keys() & NO_OWN_WEIGHTS:
        return linear
    if session.schema.streamed and session.schema.kind in SERIES:
        return replace(
            linear, diagnosed=_annotated(linear.diagnosed, OWN_WEIGHTS, IN_PASSES, linear.diagnosed.bytes_sent)
        )
    lags = linear.algorithm.structure(linear.last.server).lags or AUTO
    segments = 2 if CHANGE in found else 1
    settings = SecureSearch(weights="own", segments=segments, lags=lags, seed=job.spec.settings.seed)
    spec = AlgorithmSpec("secure-boss", settings)
    tried = extra_exchange(job, session, spec, "own")
    gain, checked_bytes = _gain_by_own_weights(linear, session, tried)
    sent = linear.diagnosed.bytes_sent + tried.bytes_sent + checked_bytes
    if gain <= 0:
        return replace(linear, diagnosed=_annotated(linear.diagnosed, OWN_WEIGHTS, NOT_OWN, sent))
    # Curves were tested in residuals of common weights, which fit no silo.
    rest = tuple(
        replace(one, advice=ALLOWED_FOR) if one.name in OWN_WEIGHTS else one
        for one in linear.diagnosed.findings
        if one.name not in (*findings.OF_LINEAR_MODELS, findings.MISFIT)
    )
    learner = with_knowledge(registry.build(spec), job.run_schema(session.schema))
    reason = (
        f"The diagnosis of a model with common weights led to a search by the silos' own scores: {differing[0].message}"
    )
    return Continued(
        replace(job, spec=spec),
        replace(learner, basis=lambda server: (reason, *learner.basis(server))),
        _after(linear.last, tried.last),
        replace(linear.diagnosed, findings=rest, bytes_sent=sent),
        gain,
    )


def _gain_by_own_weights(linear: Continued, session: Session, tried: ExchangeResult) -> tuple[float, int]:
    """The gain in BIC of a search by own scores, and the bytes of the check of its errors.

    The gain is −∞ if the search did not converge, or if errors depend on the causes though each silo has its own
    weights. Time series and rows with empty cells are not checked.
    """
    gain = own_weights_gain(tried.last.server) if tried.last.outcome == "converged" else -math.inf
    if gain <= 0 or session.schema.kind in SERIES or session.schema.gaps:
        return gain, 0
    scales, dag = np.sqrt(np.diag(linear.last.server.S)), member_of(tried.last.server.found)
    checked = _checked_errors(linear, session, errors.Broadcast(dag, scales, np.empty((0, 0))), "own-errors")
    return -math.inf if checked.lost or _errors_depend(checked) else gain, checked.bytes_sent


MAX_SEASONS = 2
"""maximum number of times that a season is subtracted and the data are diagnosed again"""
NO_OWN_WEIGHTS = {findings.OUTLIERS, findings.ONE_TO_ONE, relations.RELATIONS, columns.DERIVED}
"""the names of findings with which no weights of the silos' own are tried"""
MAX_DEPENDENT = 1 / 3
"""share of the variables with causes whose errors may depend on these causes in a linear model"""
MAX_EXPLAINED = 0.025
"""mean share of the squares of errors that causes may explain in an additive model"""
MIN_SHARE = 0.05
"""share of a residual variance that an edge must explain if errors depend on the causes and effects are not linear"""
UNTRUSTED = (findings.NOT_LINEAR, *findings.WEIGHTS_DIFFER)
"""the names of findings that presuppose errors of constant variance"""
NOT_ADDITIVE = "Errors of an additive model depend on the causes, so its directions were not used."
"""text added to the finding on curved effects if the errors of the additive model depend on the causes"""
MAX_LABEL_CHECKS = 5
"""maximum number of checks of edges into labels; each check costs the Newton steps of one fit"""


def _with_label_edges(run: Continued, session: Session) -> Continued:
    """The run without edges into labels that logistic regressions do not support, if `auto` chose `secure-boss`.

    The regressions are part of the model's parameters. The first exchange has the run id `<run id>-labels`, later
    exchanges `<run id>-labels-2` and so on, because a silo answers each round of a run once. The last regressions are
    returned as `fitted` if no edge was dropped after them. If there are no edges to check, there is no exchange.
    """
    job, algorithm, last, schema = run.job, run.algorithm, run.last, session.schema
    if job.spec.name != "secure-boss" or last.broken_off:
        return run
    structure = algorithm.structure(last.server)
    coding, pairs, lost, sent = coding_of(schema), list[tuple[int, int]](), list[str](), 0
    kept: ExchangeResult | None = None
    prior = last.server.prior
    for attempt in range(1, MAX_LABEL_CHECKS + 1):
        dag = label_edges.labels_late_dag(structure, coding)
        if dag is None or not label_edges.edges_to_test(dag, coding).any():
            break
        name = "labels" if attempt == 1 else f"labels-{attempt}"
        found = fit_mixed_families(job, session, algorithm, dag, name, sums=run.diagnosed.sums)
        if found.lost:
            return run
        lost += found.last.lost
        fitted: mixed_families.Server = found.last.server
        weak = label_edges.unsupported_edges(fitted, label_edges.edges_to_test(dag, coding), prior)
        if not weak:
            kept = found
            break
        pairs, sent = [*pairs, *weak], sent + found.bytes_sent
        last = replace(last, server=replace(last.server, found=label_edges.without_edges(dag, weak, prior)))
        structure = algorithm.structure(last.server)
    if pairs:
        edges = ", ".join(f"{schema.variables[u]} → {schema.variables[v]}" for u, v in pairs)
        reason = f"Not in the graph: {edges}, which logistic regressions of the labels do not support."
        basis = algorithm.basis
        algorithm = replace(algorithm, basis=lambda server: (*basis(server), reason))
    diagnosed = replace(run.diagnosed, bytes_sent=run.diagnosed.bytes_sent + sent)
    return replace(
        run,
        algorithm=algorithm,
        last=replace(last, lost=(*last.lost, *dict.fromkeys(lost))),
        diagnosed=diagnosed,
        fitted=kept,
        revised=lambda one: label_edges.resample_without_edges(one, pairs, coding, prior),
    )


def _annotated(diagnosed: Diagnosed, names: tuple[str, ...], sentence: str, sent: int) -> Diagnosed:
    """The findings with the bytes `sent`, and with a further `sentence` in each finding whose name is in `names`."""
    found = tuple(
        replace(one, message=f"{one.message} {sentence}") if one.name in names else one for one in diagnosed.findings
    )
    return replace(diagnosed, findings=found, bytes_sent=sent)


def _after(linear: Round[Any], last: Round[Any]) -> Round[Any]:
    """The `last` round of a further model, with the number of the `linear` run's last round, and all lost silos."""
    return replace(last, number=linear.number, lost=(*linear.lost, *last.lost))
