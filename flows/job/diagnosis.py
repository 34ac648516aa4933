"""After a run: two more exchanges that tell what its data can and cannot support, and which silo disagrees."""

from typing import Any

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import Round, Traffic, rounds
from fedbnsl.algorithms.core.spec import Algorithm, AlgorithmSpec
from fedbnsl.algorithms.diagnosis import exchange, findings
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.tracking.result import Diagnosed

from .job import Job
from .session import Session


def diagnose(job: Job, session: Session, algorithm: Algorithm, last: Round[Any], structure: Structure) -> Diagnosed:
    """Return what a reader of `structure` must know, as far as the silos may be asked.

    The exchanges run over the same silos, under the run id `<run id>-diagnosis`, the first masked if the run was. The
    silos of a private run are not asked: their answers would be a release that the privacy budget does not cover.
    """
    capped = findings.of_caps(structure, getattr(job.spec.settings, "most_parents", None))
    asked = job.diagnose and algorithm.private is None and last.outcome != "silo lost"
    if not asked or session.schema.kind not in registry.STEPS["diagnosis"].kinds:
        return Diagnosed(tuple(capped))
    spec = AlgorithmSpec("diagnosis", exchange.Diagnosis(masked=algorithm.needs_secure_sum))
    federation = session.connect(job, spec, f"{job.run_id}-diagnosis")
    steps = session.wrap(registry.build(spec), federation)
    traffic = Traffic()
    for one in rounds(steps, federation, resume=(0, exchange.start(session.schema, structure))):
        traffic, server = traffic + one.traffic, one.server
    if one.outcome == "silo lost":
        return Diagnosed(tuple(capped))
    return Diagnosed((*capped, *_found(job, server, structure)), traffic.up + traffic.down)


def _found(job: Job, server: exchange.Server, structure: Structure) -> list[findings.Finding]:
    settings = job.spec.settings
    equal = registry.entry(job.spec.name).equal_variances(settings)
    centred = job.center_series if server.schema.stretches else job.center
    return [
        *findings.of_scales(server, equal_variances=equal, centred=centred),
        *findings.of_fit(server, structure, equal_variances=equal),
        *findings.of_silos(server),
    ]
