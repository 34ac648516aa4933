"""Before a run that was asked for `lags=auto`: one exchange, of a sum over all silos, of which BIC chooses."""

from dataclasses import replace

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.lags import AUTO
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.dynamic.lag_order import LagOrder, chosen
from fedbnsl.algorithms.errors import BadInput

from .job import Job
from .session import Session
from .step import step


def with_lags(job: Job, session: Session) -> Job:
    """Return `job` with its lag order chosen, if it is to be chosen before the rounds; else as it is.

    The exchange runs over the same silos, under the run id `<run id>-lags`, masked if the run is. Raises `BadInput` for
    series too short for a single lag, and if too many silos are lost.
    """
    settings = job.spec.settings
    if not registry.entry(job.spec.name).lags_before or settings.lags != AUTO:
        return job
    how = LagOrder()
    found = step(job, session, AlgorithmSpec("lag-order", how), "lags")
    if found.lost:
        lost = ", ".join(found.last.lost)
        raise BadInput(f"parameter lags is auto: {lost} did not answer when the lags were to be chosen")
    lags, _ = chosen(found.last.server, how)
    return replace(job, spec=replace(job.spec, settings=replace(settings, lags=lags)))
