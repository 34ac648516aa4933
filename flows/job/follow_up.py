"""Exchanges after the rounds: the model's parameters, refit errors, diagnoses and bootstrap confidence."""

from collections.abc import Callable
from dataclasses import fields, replace
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import Round
from fedbnsl.algorithms.core.schema import AUTO, FloatArray, Schema
from fedbnsl.algorithms.core.spec import Algorithm, AlgorithmSpec
from fedbnsl.algorithms.diagnosis import exchange, findings, missingness
from fedbnsl.algorithms.diagnosis import tables as diagnosis_tables
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.strengths import averaged_network, edge_shares, edge_strengths, inclusion_threshold
from fedbnsl.algorithms.graphs.structure import Structure, unrolled_names
from fedbnsl.algorithms.mlp.admm import MlpSettings
from fedbnsl.algorithms.parameters import lagged_regressions, mixed_families, regressions, tables
from fedbnsl.algorithms.parameters.networks import DynamicGaussianNetwork, GaussianNetwork
from fedbnsl.algorithms.parameters.refit import EVERYONE, Server, refit_start
from fedbnsl.algorithms.parameters.refit import Refit as RefitSettings
from fedbnsl.algorithms.parameters.tables import Extension, dag_extension
from fedbnsl.algorithms.resampling.bootstrap import REFUSED, Bootstrap, structures
from fedbnsl.tracking.result import NO_PARAMETERS, Confidence, Diagnosed, Metric, Parameters

from .job import Job, Session, extra_exchange
from .preparation import with_knowledge
from .score import structure_scores


def parameters(job: Job, session: Session, algorithm: Algorithm, last: Round[Any], structure: Structure) -> Parameters:
    """The model of the run that ended with `last`, or why there is none.

    The exchange runs over the same silos, under the run id `<run id>-parameters`, masked if the run was. The silos of a
    private run are not asked: their answers would be a release that the privacy budget does not cover.
    """
    if not job.settings.parameters:
        return NO_PARAMETERS
    chosen = dag_extension(structure)
    if chosen.dag is None:
        return Parameters(None, chosen.how)
    if last.outcome == "silo lost":
        return Parameters(None, "a silo was lost before the run ended")
    if algorithm.private is not None:
        return _by_product(algorithm, last.server, structure)
    if session.schema.kind == "discrete":
        return _tables(job, session, algorithm, chosen.dag, chosen.how)
    if session.schema.kind == "mixed":
        return _mixed(job, session, algorithm, chosen.dag, chosen.how)
    if structure.lags:
        return _lagged_regressions(job, session, algorithm, structure, chosen)
    return _regressions(job, session, algorithm, chosen.dag, chosen.how)


def _by_product(algorithm: Algorithm, server: Any, structure: Structure) -> Parameters:
    """The model that follows from what a private run has released already."""
    if algorithm.residual_variances is None or structure.kind != "dag":
        return Parameters(None, "they would be one more release, which the run's ε does not cover")
    variances = np.asarray(algorithm.residual_variances(server))
    nothing = np.zeros(len(variances))
    said = (
        "from the released private moments, at no further privacy cost; no mean was released, so every intercept is 0"
    )
    if structure.lags:
        said += ", and the first values have the variances of the noise"
        return Parameters(DynamicGaussianNetwork(structure, nothing, variances, nothing, variances), said)
    return Parameters(GaussianNetwork(structure, nothing, variances), said)


def _tables(job: Job, session: Session, algorithm: Algorithm, dag: NDArray[np.bool_], how: str) -> Parameters:
    reason = tables.too_large(session.schema, dag)
    if reason:
        return Parameters(None, reason)
    settings = tables.FamilyTables(job.settings.smoothing, masked=algorithm.needs_secure_sum)
    last = _exchange(job, session, AlgorithmSpec("family-tables", settings), tables.start(session.schema, dag))
    if last is None:
        return LOST
    rows = tables.rows_behind(last.server)
    prior = f"counts in {rows:,} rows, smoothed by a Dirichlet prior of {settings.ess:g} row{'s' * (settings.ess != 1)}"
    return _learned(tables.network(last.server, settings.ess), (prior, how), last)


def _mixed(job: Job, session: Session, algorithm: Algorithm, dag: NDArray[np.bool_], how: str) -> Parameters:
    settings = mixed_families.MixedFamilies(job.settings.smoothing, masked=algorithm.needs_secure_sum)
    last = _exchange(job, session, AlgorithmSpec("mixed-families", settings), mixed_families.start(session.schema, dag))
    if last is None:
        return LOST
    rows = mixed_families.rows_behind(last.server)
    fitted = f"regressions, tables and logistic regressions on {rows:,} rows"
    return _learned(mixed_families.network(last.server, settings.ess), (fitted, how), last)


STRAIGHT = "linear, though the learner is nonlinear: its weights are strengths, these are slopes"


def _regressions(job: Job, session: Session, algorithm: Algorithm, dag: NDArray[np.bool_], how: str) -> Parameters:
    settings = regressions.Regressions(job.center, masked=algorithm.needs_secure_sum)
    start = regressions.start(session.schema, dag)
    last = _exchange(job, session, AlgorithmSpec("regressions", settings), start)
    if last is None:
        return LOST
    fitted = f"each variable regressed on its parents over {regressions.rows_behind(last.server):,} rows"
    straight = STRAIGHT if isinstance(job.spec.settings, MlpSettings) else ""
    return _learned(regressions.network(last.server, settings), (fitted, straight, how), last)


def _lagged_regressions(
    job: Job, session: Session, algorithm: Algorithm, structure: Structure, chosen: Extension
) -> Parameters:
    names = unrolled_names(structure.variables, structure.lags)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        return Parameters(None, f"a variable is called {twice}, the name that another one has at an earlier time")
    assert chosen.dag is not None
    masked = algorithm.needs_secure_sum
    settings = lagged_regressions.LaggedRegressions(job.center_series, masked, structure.lags)
    start = lagged_regressions.start(session.schema, chosen.dag, structure)
    last = _exchange(job, session, AlgorithmSpec("lagged-regressions", settings), start)
    if last is None:
        return LOST
    windows = regressions.rows_behind(last.server)
    fitted = f"each variable regressed on its parents at the same and at earlier times, at {windows:,} times"
    network, forecasts = lagged_regressions.network(last.server, settings)
    return replace(_learned(network, (fitted, chosen.how), last), forecasts=forecasts)


def dynamics(model: Parameters, structure: Structure) -> dict[str, Metric]:
    """The figures of the model of time series: its lags, whether it explodes, and the errors of its forecasts.

    The errors are means over the variables, on the data that the model was fitted to; None where there is no model.
    """
    network, forecasts = model.network, model.forecasts
    return {
        "lags": structure.lags,
        "spectral_radius": network.spectral_radius if network else None,
        "forecast_mse": float(forecasts.model.mean()) if forecasts else None,
        "persistence_mse": float(forecasts.persistence.mean()) if forecasts else None,
    }


LOST = Parameters(None, "too few silos responded when the parameters were estimated")


def _exchange(job: Job, session: Session, spec: AlgorithmSpec, start: Any) -> Any:
    """Run the one round of `spec` from the server's state `start` and return it; None if too many silos were lost."""
    found = extra_exchange(job, session, spec, "parameters", start)
    return None if found.lost else found.last


def _learned(network: Any, said: tuple[str, ...], last: Round[Any]) -> Parameters:
    lost = f"without {', '.join(last.lost)}" if last.lost else ""
    sent = last.traffic.up + last.traffic.down
    return Parameters(network, "; ".join(part for part in (*said, lost) if part), sent)


def refit(job: Job, session: Session, algorithm: Algorithm, last: Round[Any], structure: Structure) -> Server | None:
    """The errors of the learned weights and of the silos' own; None where they may not be asked, or one is lost.

    It runs over the same silos, under the run id `<run id>-refit`.
    """
    if last.lost or not may_refit(algorithm, job, session.schema, structure):
        return None
    spec, start = AlgorithmSpec("refit", RefitSettings(job.center)), refit_start(structure, true_weights(job))
    only = extra_exchange(job, session, spec, "refit", start).last
    return None if only.lost else only.server


def may_refit(algorithm: Algorithm, job: Job, schema: Schema, structure: Structure) -> bool:
    """Whether there are true weights to compare with, and the silos may be asked for their errors.

    They may not in a private run, or in one whose replies are masked. The refit is one of rows that do not depend on
    each other, so there is none of time series.
    """
    if schema.kind == "time-series":
        return False
    hidden = algorithm.private is not None or job.settings.secure or algorithm.needs_secure_sum
    return structure.kind == "dag" and bool(true_weights(job)) and not hidden


def true_weights(job: Job) -> dict[str, FloatArray]:
    """The true weights by silo, or everyone's; empty where the truth has none (in a DAG they all read as 1)."""
    if job.silo_weights:
        return job.silo_weights
    if job.truth is None or job.truth.kind != "dag" or np.isin(job.truth.weights, (0.0, 1.0)).all():
        return {}
    return {EVERYONE: job.truth.weights}


def errors(fitted: Server | None) -> dict[str, float | None]:
    """The medians over the silos of the normalised MSE of the consensus and of the refitted weights."""
    each = fitted.refit if fitted else {}
    return {
        f"mse_{name}": median(silo[name] for silo in each.values()) if each else None
        for name in ("consensus", "personal")
    }


def diagnose(job: Job, session: Session, algorithm: Algorithm, last: Round[Any], structure: Structure) -> Diagnosed:
    """Return what a reader of `structure` must know, as far as the silos may be asked.

    The exchanges run over the same silos, under the run id `<run id>-diagnosis`, the first masked if the run was. The
    silos of a private run are not asked: their answers would be a release that the privacy budget does not cover.
    """
    capped = findings.parent_cap_findings(structure, getattr(job.spec.settings, "most_parents", None))
    if not job.settings.diagnose or algorithm.private is not None or last.outcome == "silo lost":
        return Diagnosed(tuple(capped))
    start: Any
    if session.schema.kind == "discrete":
        spec = AlgorithmSpec("diagnosis-tables", diagnosis_tables.TableDiagnosis(masked=algorithm.needs_secure_sum))
        start = diagnosis_tables.start(session.schema, structure)
    else:
        spec = AlgorithmSpec("diagnosis", exchange.Diagnosis(masked=algorithm.needs_secure_sum))
        start = exchange.start(session.schema, structure)
    found = extra_exchange(job, session, spec, "diagnosis", start)
    if found.lost:
        return Diagnosed(tuple(capped))
    gaps, sent = _of_gaps(job, session, masked=algorithm.needs_secure_sum)
    return Diagnosed((*capped, *gaps, *_found(job, found.last.server, structure)), found.bytes_sent + sent)


def not_diagnosed(refusal: str) -> Diagnosed:
    """Return what is known if an owner's policy refuses the exchanges: that nothing is."""
    return Diagnosed((findings.Finding("not diagnosed", f"{refusal}.", "What the data can support is unknown."),))


def _of_gaps(job: Job, session: Session, *, masked: bool) -> tuple[list[findings.Finding], int]:
    """Return what the empty cells depend on, if there are any, and the bytes that took."""
    if not session.schema.gaps:
        return [], 0
    found = extra_exchange(job, session, AlgorithmSpec("missingness", missingness.Missingness(masked)), "missingness")
    return ([] if found.lost else missingness.findings(found.last.server)), found.bytes_sent


def _found(job: Job, server: exchange.Server | diagnosis_tables.Server, structure: Structure) -> list[findings.Finding]:
    if isinstance(server, diagnosis_tables.Server):
        return [*findings.table_fit_findings(server, structure), *findings.silo_findings(server, findings.TABLE_RULES)]
    settings = job.spec.settings
    equal = registry.entry(job.spec.name).equal_variances(settings)
    centred = job.center_series if server.schema.stretches else job.center
    return [
        *findings.scale_findings(server, equal_variances=equal, centred=centred),
        *findings.fit_findings(server, structure, equal_variances=equal),
        *findings.silo_findings(server, findings.RULES),
    ]


Tell = Callable[[int, int], None]
"""(resamples still running, exchanges until now) -> anything"""


def check_bootstrap(job: Job) -> None:
    """Raise `BadInput` for a run that cannot be asked how sure its edges are."""
    if not job.settings.bootstrap:
        return
    if registry.entry(job.spec.name).needs_truth:
        raise BadInput(f"--bootstrap: {job.spec.name} uses the true graph to choose, which resamples must not see")
    if registry.build(job.spec).private is not None:
        raise BadInput(REFUSED)


def confidence(job: Job, session: Session, last: Round[Any], structure: Structure, tell: Tell) -> Confidence | None:
    """How sure the edges are, None if it was not asked for or a silo was lost.

    The exchanges run over the same silos, under the run id `<run id>-bootstrap`, masked if the run was. A run that was
    resumed repeats them: the seed makes the draws, so they give the same again.
    """
    if not job.settings.bootstrap or last.outcome == "silo lost":
        return None
    learner = resample_spec(job.spec, structure.lags, job.settings.bootstrap)
    spec = learner.wrapped("bootstrap", Bootstrap(job.settings.bootstrap, structure.lags))
    found = extra_exchange(job, session, spec, "bootstrap", tell=lambda one: tell(len(one.server.running), one.number))
    if found.lost:
        return None
    agreeing = with_knowledge(registry.build(learner), job.known(session.schema))
    strengths = edge_strengths(structures(agreeing, found.last.server))
    threshold = inclusion_threshold(edge_shares(strengths))
    return Confidence(strengths, threshold, averaged_network(strengths), found.last.number, found.bytes_sent)


def resample_spec(spec: AlgorithmSpec, lags: int, resamples: int) -> AlgorithmSpec:
    """`spec` as so many resamples run it.

    They have the `lags` that the run has found, if it was to choose them. And where a search may ask for so many cells
    of count tables in an exchange, they share those: what they find is the same, in more and smaller exchanges.
    """
    settings = spec.settings
    names = {field.name for field in fields(settings)}
    if "lags" in names and settings.lags == AUTO and lags:
        settings = replace(settings, lags=lags)
    if {"cells", "most_cells"} <= names:
        settings = replace(settings, cells=max(settings.most_cells, settings.cells // resamples))
    return replace(spec, settings=settings)


def confidence_metrics(found: Confidence | None, job: Job) -> dict[str, Metric]:
    """Return what `metrics.json` has of the resamples: nothing where none were asked for."""
    if not job.settings.bootstrap:
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


def _sum(figures: list[Metric]) -> Metric:
    """The sum of a figure of the edges within one time and that of the lagged ones, None if it is not known."""
    known = [one for one in figures if isinstance(one, int | float)]
    return sum(known) if len(known) == len(figures) else None
