"""After a run: one more exchange, of sums over all silos, for the parameters of the learned structure."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.protocol import Round
from fedbnsl.algorithms.core.spec import Algorithm, AlgorithmSpec
from fedbnsl.algorithms.graphs.lagged import unrolled_names
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.mlp.settings import MlpSettings
from fedbnsl.algorithms.parameters import lagged_regressions, mixed_families, regressions, tables
from fedbnsl.algorithms.parameters.extension import Extension, extension
from fedbnsl.algorithms.parameters.networks import DynamicGaussianNetwork, GaussianNetwork
from fedbnsl.algorithms.parameters.reduced_form import spectral_radius
from fedbnsl.tracking.result import NO_PARAMETERS, Metric, Parameters

from .job import Job
from .session import Session
from .step import step


def parameters(job: Job, session: Session, algorithm: Algorithm, last: Round[Any], structure: Structure) -> Parameters:
    """Return the model of the run that ended with `last`, or why there is none.

    The exchange runs over the same silos, under the run id `<run id>-parameters`, masked if the run was. The silos of a
    private run are not asked: their answers would be a release that the privacy budget does not cover.
    """
    if not job.parameters:
        return NO_PARAMETERS
    chosen = extension(structure)
    if chosen.dag is None:
        return Parameters(None, chosen.how)
    if last.outcome == "silo lost":
        return Parameters(None, "a silo was lost before the run had ended")
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
    """Return the model that follows from what a private run has released already."""
    if algorithm.residual_variances is None or structure.kind != "dag":
        return Parameters(None, "they would be one more release, which the run's ε does not pay for")
    variances = np.asarray(algorithm.residual_variances(server))
    nothing = np.zeros(len(variances))
    said = "from the private moments that were released, so it costs no privacy; no mean was, so every intercept is 0"
    if structure.lags:
        said += ", and the first values spread like the noise"
        return Parameters(DynamicGaussianNetwork(structure, nothing, variances, nothing, variances), said)
    return Parameters(GaussianNetwork(structure, nothing, variances), said)


def _tables(job: Job, session: Session, algorithm: Algorithm, dag: NDArray[np.bool_], how: str) -> Parameters:
    reason = tables.too_large(session.schema, dag)
    if reason:
        return Parameters(None, reason)
    settings = tables.FamilyTables(job.smoothing, masked=algorithm.needs_secure_sum)
    last = _exchange(job, session, AlgorithmSpec("family-tables", settings), tables.start(session.schema, dag))
    if last is None:
        return LOST
    rows = tables.rows_behind(last.server)
    prior = f"counts in {rows:,} rows, smoothed by a Dirichlet prior of {settings.ess:g} row{'s' * (settings.ess != 1)}"
    return _learned(tables.network(last.server, settings.ess), (prior, how), last)


def _mixed(job: Job, session: Session, algorithm: Algorithm, dag: NDArray[np.bool_], how: str) -> Parameters:
    settings = mixed_families.MixedFamilies(job.smoothing, masked=algorithm.needs_secure_sum)
    last = _exchange(job, session, AlgorithmSpec("mixed-families", settings), mixed_families.start(session.schema, dag))
    if last is None:
        return LOST
    rows = mixed_families.rows_behind(last.server)
    fitted = f"regressions, tables and logistic regressions on {rows:,} rows"
    return _learned(mixed_families.network(last.server, settings.ess), (fitted, how), last)


STRAIGHT = "by straight lines, though the learner's are bent: its weights are strengths, these are slopes"


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
    """Return the figures of the model of time series: its lags, whether it explodes, and the errors of its forecasts.

    The errors are means over the variables, on the data that the model was fitted to; None where there is no model.
    """
    network, forecasts = model.network, model.forecasts
    return {
        "lags": structure.lags,
        "spectral_radius": spectral_radius(network) if isinstance(network, DynamicGaussianNetwork) else None,
        "forecast_mse": float(forecasts.model.mean()) if forecasts else None,
        "persistence_mse": float(forecasts.persistence.mean()) if forecasts else None,
    }


LOST = Parameters(None, "too few silos answered when they were asked for what the parameters need")


def _exchange(job: Job, session: Session, spec: AlgorithmSpec, start: Any) -> Any:
    """Run the one round of `spec` from the server's state `start` and return it; None if too many silos were lost."""
    found = step(job, session, spec, "parameters", start)
    return None if found.lost else found.last


def _learned(network: Any, said: tuple[str, ...], last: Round[Any]) -> Parameters:
    lost = f"without {', '.join(last.lost)}" if last.lost else ""
    sent = last.traffic.up + last.traffic.down
    return Parameters(network, "; ".join(part for part in (*said, lost) if part), sent)
