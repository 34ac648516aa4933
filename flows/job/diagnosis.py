"""After a run: two more exchanges that tell what its data can and cannot support, and which silo disagrees."""

from typing import Any

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import Round
from fedbnsl.algorithms.core.spec import Algorithm, AlgorithmSpec
from fedbnsl.algorithms.diagnosis import exchange, findings, missingness, table_findings, tables
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.tracking.result import Diagnosed

from .job import Job
from .session import Session
from .step import step


def diagnose(job: Job, session: Session, algorithm: Algorithm, last: Round[Any], structure: Structure) -> Diagnosed:
    """Return what a reader of `structure` must know, as far as the silos may be asked.

    The exchanges run over the same silos, under the run id `<run id>-diagnosis`, the first masked if the run was. The
    silos of a private run are not asked: their answers would be a release that the privacy budget does not cover.
    """
    capped = findings.of_caps(structure, getattr(job.spec.settings, "most_parents", None))
    if not job.diagnose or algorithm.private is not None or last.outcome == "silo lost":
        return Diagnosed(tuple(capped))
    start: Any
    if session.schema.kind == "discrete":
        spec = AlgorithmSpec("diagnosis-tables", tables.TableDiagnosis(masked=algorithm.needs_secure_sum))
        start = tables.start(session.schema, structure)
    else:
        spec = AlgorithmSpec("diagnosis", exchange.Diagnosis(masked=algorithm.needs_secure_sum))
        start = exchange.start(session.schema, structure)
    found = step(job, session, spec, "diagnosis", start)
    if found.lost:
        return Diagnosed(tuple(capped))
    gaps, sent = _of_gaps(job, session, masked=algorithm.needs_secure_sum)
    return Diagnosed((*capped, *gaps, *_found(job, found.last.server, structure)), found.bytes_sent + sent)


def not_diagnosed(refusal: str) -> Diagnosed:
    """Return what is known if an owner's policy refuses the exchanges: that nothing is."""
    return Diagnosed((findings.Finding("not diagnosed", f"{refusal}.", "What the data can support was not asked."),))


def _of_gaps(job: Job, session: Session, *, masked: bool) -> tuple[list[findings.Finding], int]:
    """Return what the empty cells depend on, if there are any, and the bytes that took."""
    if not session.schema.gaps:
        return [], 0
    found = step(job, session, AlgorithmSpec("missingness", missingness.Missingness(masked)), "missingness")
    return ([] if found.lost else missingness.findings(found.last.server)), found.bytes_sent


def _found(job: Job, server: exchange.Server | tables.Server, structure: Structure) -> list[findings.Finding]:
    if isinstance(server, tables.Server):
        return [*table_findings.of_fit(server, structure), *findings.of_silos(server, table_findings.RULES)]
    settings = job.spec.settings
    equal = registry.entry(job.spec.name).equal_variances(settings)
    centred = job.center_series if server.schema.stretches else job.center
    return [
        *findings.of_scales(server, equal_variances=equal, centred=centred),
        *findings.of_fit(server, structure, equal_variances=equal),
        *findings.of_silos(server, findings.RULES),
    ]
