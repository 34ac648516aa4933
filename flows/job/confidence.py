"""After a run that was asked for it: the same learner on rows drawn anew, for how sure each edge is."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.lags import AUTO
from fedbnsl.algorithms.core.protocol import Round
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.averaging import average, inclusion_threshold, shares
from fedbnsl.algorithms.graphs.strengths import strengths_of
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.resampling.bootstrap import REFUSED, Bootstrap, structures
from fedbnsl.tracking.result import Confidence, Metric

from .job import Job
from .knowledge import imposing
from .score import against
from .session import Session
from .step import step

Tell = Callable[[int, int], None]
"""(resamples still running, exchanges until now) -> anything"""


def check_bootstrap(job: Job) -> None:
    """Raise `BadInput` for a run that cannot be asked how sure its edges are."""
    if not job.bootstrap:
        return
    if registry.entry(job.spec.name).needs_truth:
        raise BadInput(f"--bootstrap: {job.spec.name} picks by the truth, of which no resample may know")
    if registry.build(job.spec).private is not None:
        raise BadInput(REFUSED)


def confidence(job: Job, session: Session, last: Round[Any], structure: Structure, tell: Tell) -> Confidence | None:
    """Return how sure the edges are, None if it was not asked for or a silo was lost.

    The exchanges run over the same silos, under the run id `<run id>-bootstrap`, masked if the run was. A run that was
    resumed repeats them: the seed makes the draws, so they give the same again.
    """
    if not job.bootstrap or last.outcome == "silo lost":
        return None
    learner = for_many(job.spec, structure.lags, job.bootstrap)
    spec = learner.wrapped("bootstrap", Bootstrap(job.bootstrap, structure.lags))
    found = step(job, session, spec, "bootstrap", tell=lambda one: tell(len(one.server.running), one.number))
    if found.lost:
        return None
    agreeing = imposing(registry.build(learner), job.known(session.schema))
    strengths = strengths_of(structures(agreeing, found.last.server))
    threshold = inclusion_threshold(shares(strengths))
    return Confidence(strengths, threshold, average(strengths), found.last.number, found.bytes_sent)


def for_many(spec: AlgorithmSpec, lags: int, resamples: int) -> AlgorithmSpec:
    """Return `spec` as so many resamples run it.

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


def figures_of(found: Confidence | None, job: Job) -> dict[str, Metric]:
    """Return what `metrics.json` has of the resamples: nothing where none were asked for."""
    if not job.bootstrap:
        return {}
    if found is None:
        return {"bootstrap": None, "threshold": None}
    scores = against(found.averaged, job.truth, job.allow_cyclic_truth)
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
    """Return the sum of a figure of the edges within one time and that of the lagged ones, None if it is not known."""
    known = [one for one in figures if isinstance(one, int | float)]
    return sum(known) if len(known) == len(figures) else None
