"""What follows the rounds of a run: the model's parameters, refit errors, the diagnosis and bootstrap confidence.

Each is computed from the last state of the server and the sums of the diagnosis if these suffice. Otherwise there is
one more exchange over the same silos, under a run id of its own such as `<run id>-parameters`, masked if the run was. A
run with an ε has no further exchange, because its reply would be a release that ε does not cover.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import Algorithm, Round
from fedbnsl.algorithms.core.schema import AUTO, FloatArray, Schema
from fedbnsl.algorithms.core.spec import SERIES, AlgorithmSpec
from fedbnsl.algorithms.diagnosis import (
    columns,
    exchange,
    findings,
    implied_tables,
    missingness,
    relations,
    series_findings,
)
from fedbnsl.algorithms.diagnosis import tables as diagnosis_tables
from fedbnsl.algorithms.diagnosis.errors import LAGS
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.cpdag import Extension, dag_extension
from fedbnsl.algorithms.graphs.strengths import averaged_network, edge_shares, edge_strengths, inclusion_threshold
from fedbnsl.algorithms.graphs.structure import Structure, unrolled_names
from fedbnsl.algorithms.moments import secure_additive, secure_linear
from fedbnsl.algorithms.parameters import mixed_families, regressions, tables
from fedbnsl.algorithms.parameters.forecast_errors import ForecastErrors, start_forecasts
from fedbnsl.algorithms.parameters.forecast_errors import forecasts as forecast_errors
from fedbnsl.algorithms.parameters.networks import Network, linear_network
from fedbnsl.algorithms.parameters.refit import ALL_SILOS, Refit, Server, refit_start
from fedbnsl.algorithms.privacy.disclosure_control import GRID, MIN_COUNT
from fedbnsl.algorithms.resampling.bootstrap import PRIVATE_LEARNER_ERROR, Bootstrap, structures
from fedbnsl.algorithms.score.settings import SecureSearch
from fedbnsl.algorithms.statistics.transforms import transform_lines
from fedbnsl.data.folder.about import recurring_column
from fedbnsl.tasks.silo.policy import NotAllowed
from fedbnsl.tracking.metrics import MetricValue
from fedbnsl.tracking.result import NO_PARAMETERS, Confidence, Diagnosed, Parameters

from .job import ExchangeResult, Job, Session, extra_exchange, unless_refused
from .preparation import compared_clusters, outlier_refusal, with_knowledge
from .truth_scores import structure_scores

Sums = exchange.Server | implied_tables.Server
"""the sums of the diagnosis, of which parameters and fit are functions: moments, or counts of labels"""
LOST = Parameters(None, "too few silos responded when the parameters were estimated")


def with_notes(network: Network, notes: tuple[str, ...], lost: tuple[str, ...], bytes_sent: int) -> Parameters:
    """The model `network` of a run with its notes, and a note on the silos that were `lost` when it was fitted."""
    without = f"without {', '.join(lost)}" if lost else ""
    return Parameters(network, "; ".join(part for part in (*notes, without) if part), bytes_sent)


SMALL_CELL_NOTES = {
    "blank": f"cells of fewer than {MIN_COUNT} rows count as half a row, and their rows in the largest cell beside "
    f"them; larger cells are rounded to multiples of {GRID}, or of a larger number if that hides too little",
    "keep": "its counts are exact, also those of single rows (--small-cells keep)",
}
"""for each value of the option, a note on the treatment of small cells in publications"""


def small_cells_note(job: Job) -> str:
    """The note on the treatment of small cells in published tables, and of rare levels in published regressions."""
    merged = f"; in regressions, levels of fewer than {MIN_COUNT} rows are merged with another level"
    return SMALL_CELL_NOTES[job.settings.small_cells] + merged * (job.settings.small_cells == "blank")


def parameters(
    job: Job,
    session: Session,
    algorithm: Algorithm,
    last: Round[Any],
    structure: Structure,
    fitted: ExchangeResult | None = None,
    sums: Sums | None = None,
) -> Parameters:
    """The model of the run whose last round is `last`, or the reason why there is no model.

    A mixed network may have been `fitted` already, for a DAG of the class of `structure`. `sums` are the sums of the
    diagnosis, if there are any; the moments or counts in them are not requested again.

    Unless these sums suffice, an exchange under the run id `<run id>-parameters` estimates the model. A private run
    has no such exchange.
    """
    if not job.settings.parameters:
        return NO_PARAMETERS
    if session.schema.kind == "events":
        return Parameters(None, "a Hawkes process has intensities instead", intensities=last.server.intensities)
    lines = transform_lines(session.schema)
    found = _parameters(job, session, algorithm, last, structure, fitted, sums)
    if found.network is None or not lines:
        return found
    return replace(found, how=f"{found.how}; on the transformed scale ({lines})")


def _parameters(
    job: Job,
    session: Session,
    algorithm: Algorithm,
    last: Round[Any],
    structure: Structure,
    fitted: ExchangeResult | None,
    sums: Sums | None,
) -> Parameters:
    chosen = dag_extension(structure)
    if chosen.dag is None:
        return Parameters(None, chosen.how)
    if last.broken_off:
        return Parameters(None, last.broken_off)
    if algorithm.private is not None:
        return _by_product(algorithm, last.server, structure)
    if session.schema.kind == "discrete":
        return _tables(job, session, algorithm, chosen.dag, chosen.how, sums)
    if session.schema.kind == "mixed" and session.schema.has_targets:
        return Parameters(None, "mixed networks have no parameters where experiments have set variables")
    names = unrolled_names(structure.variables, structure.lags)
    if duplicate := next((name for name in names if names.count(name) > 1), None):
        reason = f"a variable has the name {duplicate}, which another variable has at an earlier time"
        return Parameters(None, reason)
    if session.schema.kind == "mixed" or (structure.lags and session.schema.levels):
        return _families(job, session, algorithm, structure, chosen, fitted, sums)
    note = LINEAR_NOTE if is_nonlinear(job, last) else OWN_WEIGHTS_NOTE if has_own_weights(job) else ""
    return _regressions(job, session, algorithm, structure, chosen, "" if structure.lags else note, sums)


def _by_product(algorithm: Algorithm, server: Any, structure: Structure) -> Parameters:
    """The model that follows from the releases of a private run."""
    if algorithm.residual_variances is None or structure.kind != "dag":
        return Parameters(None, "they would be one more release, which the run's ε does not cover")
    variances = np.asarray(algorithm.residual_variances(server))
    zeros = np.zeros(len(variances))
    how = "from the released private moments, at no further privacy cost; no mean was released, so every intercept is 0"
    if structure.lags:
        how += ", and the first values have the variances of the noise"
        return Parameters(linear_network(structure, zeros, variances, zeros, variances), how)
    return Parameters(linear_network(structure, zeros, variances), how)


def _tables(
    job: Job, session: Session, algorithm: Algorithm, dag: NDArray[np.bool_], how: str, sums: Sums | None
) -> Parameters:
    reason = tables.size_error(session.schema, dag)
    if reason:
        return Parameters(None, reason)
    settings = tables.FamilyTables(job.settings.smoothing, masked=algorithm.needs_secure_sum)
    server, lost, sent = tables.start(session.schema, dag), tuple[str, ...](), 0
    if isinstance(sums, implied_tables.Server) and sums.has_families:
        counted = implied_tables.CountsBySet(sums, blank=False)
        server = replace(server, counts=counted.counts(tables.families(dag)))
    else:
        found = extra_exchange(job, session, AlgorithmSpec("family-tables", settings), "parameters", server)
        if found.lost:
            return LOST
        server, lost, sent = found.last.server, found.last.lost, found.bytes_sent
    rows = "the rows without empty cells" if session.schema.gaps else f"{tables.contributing_rows(server):,} rows"
    prior = f"counts in {rows}, smoothed by a Dirichlet prior of {settings.ess:g} row{'s' * (settings.ess != 1)}"
    notes, blank = (prior, SMALL_CELL_NOTES[job.settings.small_cells], how), job.settings.small_cells == "blank"
    return with_notes(tables.network(server, settings.ess, blank=blank), notes, lost, sent)


def _families(
    job: Job,
    session: Session,
    algorithm: Algorithm,
    structure: Structure,
    chosen: Extension,
    fitted: ExchangeResult | None,
    sums: Sums | None,
) -> Parameters:
    """The model of numbers and labels for the DAG that was `chosen`; of series, with the errors of its forecasts."""
    assert chosen.dag is not None
    found = fitted or fit_mixed_families(
        job, session, algorithm, chosen.dag, "parameters", lagged=structure.lagged, sums=sums
    )
    if found.lost:
        return LOST
    server: mixed_families.Server = found.last.server
    rows, blank = mixed_families.contributing_rows(server), job.settings.small_cells == "blank"
    network = mixed_families.network(server, job.settings.smoothing, lags=structure.lags, blank=blank)
    where = f"the same and earlier times, at {rows:,} times" if structure.lags else f"{rows:,} rows"
    summary = f"regressions, tables and logistic regressions on {where}"
    notes = (summary, small_cells_note(job), job.adjustment.description, chosen.how)
    model = with_notes(replace(network, adjustment=job.adjustment), notes, found.last.lost, found.bytes_sent)
    if not structure.lags:
        return model
    spec = AlgorithmSpec("forecast-errors", ForecastErrors(algorithm.needs_secure_sum, job.center_series))
    checked = extra_exchange(job, session, spec, "forecasts", start_forecasts(session.schema, network))
    errors = None if checked.lost else forecast_errors(checked.last.server, network)
    return replace(model, forecasts=errors, bytes_sent=found.bytes_sent + checked.bytes_sent)


LINEAR_NOTE = "linear, though the learner is nonlinear: parameters are slopes, weights are strengths of effects"


OWN_WEIGHTS_NOTE = "common slopes, though the silos' weights differ: each slope is about the mean of these weights"


def is_nonlinear(job: Job, last: Round[Any]) -> bool:
    """Whether the structure of the run whose last round is `last` has curved effects."""
    additive = isinstance(last.server, secure_additive.Server) and bool(len(last.server.strengths))
    return additive or registry.entry(job.spec.name).nonlinear


def has_own_weights(job: Job) -> bool:
    """Whether each silo fits its own weights in the job's search."""
    return isinstance(job.spec.settings, SecureSearch) and job.spec.settings.own_scores


def _regressions(
    job: Job,
    session: Session,
    algorithm: Algorithm,
    structure: Structure,
    chosen: Extension,
    note: str,
    sums: Sums | None,
) -> Parameters:
    """The model of numbers for the DAG that was `chosen`; of series, with the errors of its forecasts."""
    assert chosen.dag is not None
    lags = structure.lags
    name, center = ("lagged-regressions", job.center_series) if lags else ("regressions", job.center)
    settings = regressions.Regressions(center, algorithm.needs_secure_sum, lags)
    if isinstance(sums, exchange.Server) and center and not lags:
        server, lost, bytes_sent = regressions.state_from(session.schema, chosen.dag, sums.moments), sums.lost, 0
    else:
        start = regressions.start(session.schema, chosen.dag, structure.lagged)
        found = extra_exchange(job, session, AlgorithmSpec(name, settings), "parameters", start)
        if found.lost:
            return LOST
        server, lost, bytes_sent = found.last.server, found.last.lost, found.bytes_sent
    rows, network = regressions.contributing_rows(server), regressions.network(server, settings)
    where = f"at the same and at earlier times, at {rows:,} times" if lags else f"over {rows:,} rows"
    fitted = f"each variable regressed on its parents {where}"
    fitted += ", without rows in which an experiment targeted the variable" * session.schema.has_targets
    notes = (fitted, job.adjustment.description, note, chosen.how)
    model = with_notes(replace(network, adjustment=job.adjustment), notes, lost, bytes_sent)
    return replace(model, forecasts=regressions.forecasts(server, settings, network)) if lags else model


def refit(job: Job, session: Session, algorithm: Algorithm, last: Round[Any], structure: Structure) -> Server | None:
    """The errors of the consensus weights, and of the weights that each silo refits.

    The result is None if the refit is not allowed (`may_refit`), or if a silo is lost. The exchange runs over the same
    silos, under the run id `<run id>-refit`.
    """
    if last.lost or last.broken_off or not may_refit(algorithm, job, session.schema, structure):
        return None
    spec, start = AlgorithmSpec("refit", Refit(job.center)), refit_start(structure, true_weights(job))
    only = extra_exchange(job, session, spec, "refit", start).last
    return None if only.lost or only.broken_off else only.server


def may_refit(algorithm: Algorithm, job: Job, schema: Schema, structure: Structure) -> bool:
    """Whether there are true weights to compare with, and silos may send their errors.

    Silos may not send errors in private and masked runs. The refit needs independent rows, so there is no refit for
    time series and events.
    """
    if schema.kind in ("time-series", "events"):
        return False
    hidden = algorithm.private is not None or job.settings.secure or algorithm.needs_secure_sum
    return structure.kind == "dag" and bool(true_weights(job)) and not hidden


def true_weights(job: Job) -> dict[str, FloatArray]:
    """The true weights by silo, or common true weights; empty if the truth has only edges (its weights are all 1)."""
    if job.silo_weights:
        return job.silo_weights
    if job.truth is None or job.truth.kind != "dag" or np.isin(job.truth.weights, (0.0, 1.0)).all():
        return {}
    return {ALL_SILOS: job.truth.weights}


def refit_errors(fitted: Server | None) -> dict[str, float | None]:
    """The medians over the silos of the normalised MSE of the consensus and of the refitted weights."""
    each = fitted.refit if fitted else {}
    return {
        f"mse_{name}": median(silo[name] for silo in each.values()) if each else None
        for name in ("consensus", "personal")
    }


def series_metrics(model: Parameters, structure: Structure) -> dict[str, MetricValue]:
    """The metrics of a model of time series: its lags, its spectral radius, and the errors of its forecasts.

    The errors are on the data to which the model was fitted. For numbers, the metric is the mean squared error, which
    is None without forecasts. For labels, the metric is the mean share of wrong labels.
    """
    network, forecasts = model.network, model.forecasts
    found: dict[str, MetricValue] = {
        "lags": structure.lags,
        "spectral_radius": network.spectral_radius if network else None,
        "forecast_mse": None,
        "persistence_mse": None,
    }
    if network is None or forecasts is None:
        return found
    numbers = network.numbers
    for name, errors in (("forecast", forecasts.model), ("persistence", forecasts.persistence)):
        found |= {f"{name}_mse": float(errors[numbers].mean())} if numbers.any() else {}
        found |= {f"{name}_wrong": float(errors[~numbers].mean())} if not numbers.all() else {}
    return found


def diagnose(
    job: Job,
    session: Session,
    algorithm: Algorithm,
    last: Round[Any],
    structure: Structure,
    *,
    name: str = "diagnosis",
    inflation: float = 1.0,
) -> Diagnosed:
    """The findings on the data and on `structure`.

    `inflation` is the factor by which dependent rows increase the variance of means; a second diagnosis that allows for
    it has another `name`.

    The exchanges run over the same silos, under the run ids `<run id>-<name>`, for labels `<run id>-fit` and, with
    empty cells, `<run id>-missingness`. A private run has no such exchanges, because they would be releases that the
    privacy budget does not account for.
    """
    capped = [
        *_graph_findings(session.schema, LearnedGraph(job, last, structure), None),
        *findings.apart_findings(job.pairs_apart(session.schema)),
        *findings.uncompared_findings(job.at_sums, numbers=session.schema.kind == "continuous"),
    ]
    events = session.schema.kind == "events"
    # Experiments change mechanisms, which the diagnoses would report as deviating silos.
    states = session.schema.kind in SERIES and set(session.schema.variables) <= set(session.schema.levels)
    uncompared = events or session.schema.has_targets or states
    if job.settings.diagnose and not events:
        capped += columns.derived_findings(session.schema)
    if not job.settings.diagnose or uncompared or algorithm.private is not None or last.broken_off:
        return Diagnosed(tuple(capped))
    start: Any
    sums, sent = None, 0
    if session.schema.kind == "discrete":
        spec = AlgorithmSpec("diagnosis-tables", diagnosis_tables.TableDiagnosis(masked=algorithm.needs_secure_sum))
        start = diagnosis_tables.start(session.schema, structure)
        if dag_extension(structure).dag is not None and not (session.schema.gaps or job.imputation_model.rows):
            counted = unless_refused(lambda: count_tables(job, session, algorithm, structure), lambda refusal: None)
            sent = counted.bytes_sent if counted else 0
            # Lost silos might return, and then compare themselves with sums that they are not in.
            if counted and not counted.last.lost:
                sums = counted.last.server
                start = replace(
                    start, counts=implied_tables.CountsBySet(sums, blank=False).counts(start.sets).astype(np.float64)
                )
    else:
        settings = exchange.Diagnosis(masked=algorithm.needs_secure_sum, lags=structure.lags)
        spec = AlgorithmSpec("diagnosis", settings)
        inflation /= session.schema.independent_share
        start = replace(exchange.start(session.schema, structure), inflation=inflation)
    if job.at_sums and sums is not None:  # no silo compares itself with the others
        server = diagnosis_tables.without_figures(start)
    else:
        try:
            found = extra_exchange(job, session, spec, name, start)
        except NotAllowed as refusal:
            return replace(not_diagnosed(str(refusal)), bytes_sent=sent, sums=sums)
        if found.lost:
            return Diagnosed(tuple(capped), sent, sums)
        server, sent = found.last.server, sent + found.bytes_sent
    if isinstance(server, exchange.Server):
        sums = server
        capped += columns.skewed_findings(session.schema, sums.transform_gain)
        capped += relations.relation_findings(session.schema, sums.means, sums.within)
    gaps, more = _missingness_findings(job, session, masked=algorithm.needs_secure_sum)
    clustered, of_clusters = _clustered_rows_findings(job, session, name)
    curved, schema = is_nonlinear(job, last), session.schema
    of_data = _advised(job, schema, _data_findings(job, schema, server, structure, curved=curved))
    others = [*capped, *gaps, *clustered, *of_data]
    if isinstance(last.server, secure_linear.Server):
        others = findings.with_misfit(others, last.server.misfit, schema.variables, over_time=schema.kind in SERIES)
    return Diagnosed(tuple(others), sent + more + of_clusters, sums)


def _clustered_rows_findings(job: Job, session: Session, name: str) -> tuple[list[findings.Finding], int]:
    """The finding on rows with the same id, and the bytes of the exchange, under the run id `<run id>-<name>-clusters`.

    There is no exchange if no ids recur, or if the run counts their rows as clusters. There is no finding if a silo
    cannot compare them, for instance because its owner does not declare the column as names of clusters.
    """
    column = recurring_column(session.schema.aside)
    if column is None or session.schema.kind in SERIES:
        return [], 0
    try:
        clusters = compared_clusters(replace(job, probed_column=column), session, column, f"{name}-clusters")
    except BadInput:
        return [], 0
    return findings.clustered_rows_findings(column, clusters.design_effect, clusters.rows), clusters.bytes_sent


@dataclass(frozen=True)
class LearnedGraph:
    """What a search found: the job with its settings, the last round, and the structure."""

    job: Job
    last: Round[Any]
    structure: Structure


def redescribed(diagnosed: Diagnosed, schema: Schema, earlier: LearnedGraph, final: LearnedGraph) -> Diagnosed:
    """The findings for the `final` graph: those that described another, `earlier` graph are determined again.

    Which edges rest on one silo is known of the earlier graph only.
    """
    if np.array_equal(earlier.structure.weights, final.structure.weights):
        return diagnosed
    described = {one.name for one in _graph_findings(schema, earlier, diagnosed.sums)} | {findings.INFLUENCE}
    kept = [one for one in diagnosed.findings if one.name not in described]
    found = _graph_findings(schema, final, diagnosed.sums)
    return replace(diagnosed, findings=(*kept, *_advised(final.job, schema, found)))


def _graph_findings(schema: Schema, learned: LearnedGraph, sums: Sums | None) -> list[findings.Finding]:
    """The findings that describe a graph rather than the data; its fit needs the `sums` of moments of rows."""
    job, structure = learned.job, learned.structure
    found = findings.parent_cap_findings(structure, getattr(job.spec.settings, "max_parents", None))
    if job.settings.diagnose and schema.kind != "events":
        found += columns.impossible_cause_findings(structure, schema.levels)
    if isinstance(sums, exchange.Server) and not structure.lags:
        equal = registry.entry(job.spec.name).equal_variances(job.spec.settings)
        found += findings.fit_findings(sums, structure, equal_variances=equal)
    if is_nonlinear(job, learned.last):
        found = [one for one in found if one.name not in findings.OF_LINEAR_MODELS]
    return found


def _advised(job: Job, schema: Schema, found: Sequence[findings.Finding]) -> list[findings.Finding]:
    """The findings with advice that the data and the options allow."""
    return findings.revised_advice(
        found,
        may_set_aside=job.settings.outliers == "keep" and not outlier_refusal(job, schema),
        numbers=schema.kind == "continuous",
        complete=not schema.gaps,
        resampled=(job.settings.bootstrap or 0) >= findings.ADVISED_RESAMPLES,
        streamed=bool(schema.streamed),
    )


def count_tables(job: Job, session: Session, algorithm: Algorithm, structure: Structure) -> ExchangeResult:
    """The result of the exchange that counts all tables of labels after a run which learned `structure`.

    They are those of its fit, its parameters, and the diagnosis.
    """
    dag = dag_extension(structure).dag
    assert dag is not None
    spec = AlgorithmSpec("fit-tables", implied_tables.FitTables(masked=algorithm.needs_secure_sum))
    compared = diagnosis_tables.start(session.schema, structure).sets
    return extra_exchange(job, session, spec, "fit", implied_tables.start(session.schema, dag, compared))


def fit_mixed_families(
    job: Job,
    session: Session,
    algorithm: Algorithm,
    dag: NDArray[np.bool_],
    name: str,
    *,
    lagged: FloatArray | None = None,
    sums: Sums | None,
) -> ExchangeResult:
    """The result of the exchange that fits the parameters of a mixed network with this `dag` `[d, d]`.

    Of series, also with these `lagged` edges `[lags, d, d]`. Moments in the `sums` of a diagnosis of independent rows
    are not requested again.
    """
    lags = 0 if lagged is None else len(lagged)
    settings = mixed_families.MixedFamilies(job.settings.smoothing, algorithm.needs_secure_sum, lags)
    spec = AlgorithmSpec("lagged-families" if lags else "mixed-families", settings)
    known = sums.moments if isinstance(sums, exchange.Server) and not lags else None
    return extra_exchange(job, session, spec, name, mixed_families.start(session.schema, dag, lagged, known))


def not_diagnosed(refusal: str) -> Diagnosed:
    """The finding that an owner's policy refused the exchanges of the diagnosis."""
    return Diagnosed((findings.Finding("not diagnosed", f"{refusal}.", "What the data can support is unknown."),))


ALLOWED_FOR = "Nothing to do: the structure rests on the sum of the silos' own scores, which allows different weights."
"""the advice on silos with different weights, if each silo fits its own weights"""


def _missingness_findings(job: Job, session: Session, *, masked: bool) -> tuple[list[findings.Finding], int]:
    """The findings on the causes of missing values, and the bytes of the exchange.

    There are none if no cell is empty, and for time series.
    """
    if not session.schema.gaps or session.schema.kind == "time-series":  # means of autocorrelated series drift
        return [], 0
    found = extra_exchange(job, session, AlgorithmSpec("missingness", missingness.Missingness(masked)), "missingness")
    return ([] if found.lost else missingness.findings(found.last.server)), found.bytes_sent


def _data_findings(
    job: Job,
    schema: Schema,
    server: exchange.Server | diagnosis_tables.Server,
    structure: Structure,
    *,
    curved: bool,
) -> list[findings.Finding]:
    if isinstance(server, diagnosis_tables.Server):
        return [*findings.table_fit_findings(server, structure), *findings.silo_findings(server, findings.TABLE_RULES)]
    settings = job.spec.settings
    equal = registry.entry(job.spec.name).equal_variances(settings)
    centred = job.center_series if server.schema.stretches else job.center
    found = [
        *findings.scale_findings(server, equal_variances=equal, centred=centred),
        *findings.fit_findings(server, structure, equal_variances=equal),
        *findings.silo_findings(server, series_findings.SERIES_RULES if structure.lags else findings.RULES),
    ]
    found += [*findings.same_rows_findings(server), *findings.influence_findings(server)]
    found += series_findings.series_findings(server, found, [name in schema.levels for name in schema.variables])
    found = series_findings.change_findings(server, found)
    if structure.lags:
        found = series_findings.adjustment_findings(server, found)
    if curved:
        found = [one for one in found if one.name not in findings.OF_LINEAR_MODELS]
    own, in_passes = has_own_weights(job), schema.streamed and schema.kind in SERIES
    if schema.kind in ("continuous", *SERIES) and not schema.levels and not own and not curved and not in_passes:
        return found
    advice = dict.fromkeys(findings.WEIGHTS_DIFFER, ALLOWED_FOR if own else findings.COMPARE_SILOS)
    if not own or settings.segments > 1:
        advice[series_findings.CHANGE] = ALLOWED_FOR if own else series_findings.COMPARE_HALVES
    return [replace(one, advice=advice.get(one.name, one.advice)) for one in found]


OnExchange = Callable[[int, int], None]
"""called with the number of resamples still running, and the number of exchanges so far"""


def resampling_refusal(job: Job, schema: Schema) -> str:
    """The reason why the learner cannot have resamples of these rows; empty if it can."""
    name, streamed = job.spec.name, schema.streamed
    left = sum(max(rows // 2 - 1, 0) for rows in schema.rows.values())
    reasons = {
        "half of the rows of each silo, less its means, leave too few rows for resamples": left < MIN_RESAMPLED_ROWS,
        f"{name} uses the true graph to choose, which resamples must not see": registry.entry(name).needs_truth,
        f"resamples of the rows would break the event sequences of {job.dataset}": schema.kind == "events",
        PRIVATE_LEARNER_ERROR: registry.build(job.spec).private is not None,
        f"resamples need rows in memory, and silo '{''.join(streamed[:1])}' reads its rows in passes": bool(streamed),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


MIN_RESAMPLED_ROWS = 2
"""minimum number of rows of a resample, less one for each silo, whose means are subtracted"""
AUTOMATIC_RESAMPLES = 30
"""default number of resamples of a run, if resampling is cheap"""
AUTOMATIC_SECONDS = 2.0
"""CPU seconds that the resamples of a run may take by default, as `resampling_seconds` estimates them"""
AUTOMATIC_ROUNDS = 2
"""maximum number of rounds of a run that has resamples by default; the resamples need as many exchanges, each 30 times
as large"""


def with_resamples(job: Job, algorithm: Algorithm, last: Round[Any], schema: Schema, structure: Structure) -> Job:
    """The job with its number of resamples: the requested number, or by default 30 if resampling is cheap, otherwise 0.

    By default, only a learner that `auto` chose has resamples. Resampling is cheap if the run had at most two rounds
    and `resampling_seconds` is at most 2. Resamples disclose sums over random halves of the rows, so a federation has
    resamples by default only if sums are masked. Private runs and runs with targets of experiments have none by
    default. (Silos that read their rows in passes cannot resample them, which `confidence` says.)
    """
    if job.settings.bootstrap is not None:
        return replace(job, resamples=job.settings.bootstrap)
    masks = algorithm.is_masked(schema, requested=job.settings.secure)
    possible = (
        job.settings.algorithm == AUTO
        and not last.broken_off
        and last.number <= AUTOMATIC_ROUNDS
        and algorithm.private is None
        and not schema.has_targets
        and (masks or job.settings.federation is None)
        and resampling_seconds(job, last, schema, structure) <= AUTOMATIC_SECONDS
    )
    return replace(job, resamples=AUTOMATIC_RESAMPLES if possible else 0)


def resampling_seconds(job: Job, last: Round[Any], schema: Schema, structure: Structure) -> float:
    """An estimate of the CPU seconds of 30 resamples of a learner that searches over second moments.

    The estimate depends only on public numbers, so the decision is the same on both engines and on every machine. With
    m columns of moments, a search takes 2e-4·m² seconds (measured at m = 8 to 30), and the moments take 1e-9·m² seconds
    per row.
    """
    levels = sum(len(labels) - 1 for labels in schema.levels.values())
    columns = (len(schema.variables) - len(schema.levels) + levels) * (structure.lags + 1)
    if is_nonlinear(job, last):
        columns *= secure_additive.WIDTH
    return AUTOMATIC_RESAMPLES * columns**2 * (2e-4 + 1e-9 * sum(schema.rows.values()))


def confidence(
    job: Job,
    session: Session,
    last: Round[Any],
    structure: Structure,
    revised: Callable[[Structure], Structure],
    on_exchange: OnExchange,
) -> Confidence | None:
    """The confidence in the edges; None without resamples, or if a silo was lost.

    `revised` changes the structure of each resample as the structure of the run was changed after its search.

    The exchanges run over the same silos, under the run id `<run id>-bootstrap`, masked if the run was. A resumed run
    repeats the exchanges with the same seed, and so with the same result. Raises `BadInput` if a silo reads its rows in
    passes.
    """
    if not job.resamples or last.broken_off:
        return None
    if reason := resampling_refusal(job, session.schema):
        raise BadInput(reason)
    learner = resample_spec(job.spec, structure.lags, job.resamples)
    dependent = getattr(learner.settings, "independent_share", 1.0) < 1
    spec = learner.wrapped("bootstrap", Bootstrap(job.resamples, structure.lags, block=LAGS if dependent else 1))
    found = extra_exchange(
        job, session, spec, "bootstrap", on_round=lambda one: on_exchange(len(one.server.running), one.number)
    )
    if found.lost:
        return None
    agreeing = with_knowledge(registry.build(learner), job.run_schema(session.schema))
    strengths = edge_strengths([revised(one) for one in structures(agreeing, found.last.server)])
    threshold = inclusion_threshold(edge_shares(strengths))
    return Confidence(strengths, threshold, averaged_network(strengths), found.last.number, found.bytes_sent)


def resample_spec(spec: AlgorithmSpec, lags: int, resamples: int) -> AlgorithmSpec:
    """`spec` with the settings for this number of resamples.

    If the run chose its number of lags, resamples use the same `lags`. A search limits the cells of count tables per
    exchange, and the resamples share this limit. So they need more exchanges, with fewer cells per resample, for the
    same result.
    """
    settings = spec.settings
    names = {field.name for field in fields(settings)}
    if "lags" in names and settings.lags == AUTO and lags:
        settings = replace(settings, lags=lags)
    if {"cells", "most_cells"} <= names:
        settings = replace(settings, cells=max(settings.most_cells, settings.cells // resamples))
    return replace(spec, settings=settings)


def confidence_metrics(found: Confidence | None, job: Job) -> dict[str, MetricValue]:
    """The metrics of the resamples; empty if there are no resamples."""
    if not job.resamples:
        return {}
    if found is None:
        return {"bootstrap": None, "threshold": None}
    scores = structure_scores(found.averaged, job.truth, job.settings.allow_cyclic_truth)
    edges, shd = ([scores[name], scores.get(f"lagged_{name}") or 0] for name in ("edges", "shd"))
    return {
        "bootstrap": found.strengths.structures,
        "threshold": found.threshold,
        "averaged_edges": _sum(edges),
        "averaged_shd": _sum(shd),
        "bootstrap_rounds": found.exchanges,
        "bootstrap_bytes": found.bytes_sent,
    }


def _sum(figures: list[MetricValue]) -> MetricValue:
    """The sum of a metric of edges within a time step and the same metric of lagged edges; None if one is unknown."""
    return None if None in figures else sum(one for one in figures if isinstance(one, int | float))
