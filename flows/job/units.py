"""Before a masked run on numbers: one exchange that finds the units in which the silos' sums travel."""

from dataclasses import replace

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.secure import masked
from fedbnsl.algorithms.statistics.units import Units

from .job import Job
from .session import Session
from .step import step


def with_units(job: Job, session: Session) -> Job:
    """Return `job` with the units of its columns, if its replies travel masked and are sums of numbers; else as it is.

    The exchange runs over the same silos, masked, under the run id `<run id>-units`. Raises `BadInput` if too many
    silos are lost.
    """
    algorithm = registry.build(job.spec)
    hidden = masked.applies(algorithm, session.schema, asked=job.secure)
    if not hidden or session.schema.kind == "discrete" or algorithm.private is not None:
        return job
    found = step(job, session, AlgorithmSpec("units", Units()), "units")
    if found.lost:
        raise BadInput(f"{', '.join(found.last.lost)} did not answer when the size of the columns was asked for")
    return replace(job, units=tuple(map(float, found.last.server.units)))
