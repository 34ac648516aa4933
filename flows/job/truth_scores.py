"""The scores of a run: its structure, and the silos' own structures, compared with the true graph."""

from dataclasses import dataclass, field
from typing import Any

from fedbnsl.algorithms.core.protocol import FederatedAlgorithm
from fedbnsl.algorithms.core.schema import FloatArray, Schema
from fedbnsl.algorithms.core.spec import Entry
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.graphs.structure import Structure

from .job import Job

Metrics = dict[str, float | int | bool | str | None]
COUNTED = ("edges", "v_structures", "lagged_edges")
"""the results of `compare` that need no truth"""


@dataclass(frozen=True)
class Scored:
    """The learned structure with its scores, and the silos' own structures with their scores, if there are any."""

    structure: Structure
    metrics: Metrics
    local_structures: dict[str, Structure] = field(default_factory=dict)
    silo_scores: dict[str, Metrics] = field(default_factory=dict)
    """by silo, the scores of its own structure against its own truth or, if it has none, against the common truth"""
    averaged: bool = False
    """whether the scores are means over the silos"""


def check_truth(job: Job, schema: Schema) -> None:
    """Raise `BadInput`, before the run learns, if the truth cannot be used for a comparison.

    Without lags, a truth of time series or events is a summary of effects at any lag, which may have cycles. If the
    silos' truths have different edges, each truth is checked by itself, because their union may have cycles.
    """
    if job.truth is None:
        return
    truths = list(own_truths(job).values()) if _truths_differ(job) else [job.truth]
    for truth in truths:
        is_summary = schema.kind in ("time-series", "events") and truth.lagged is None
        compare(truth, truth, allow_cyclic_truth=job.settings.allow_cyclic_truth or is_summary)


def score_run(algorithm: FederatedAlgorithm[Any, Any, Any, Any], server: Any, entry: Entry, job: Job) -> Scored:
    """The scores of the final state `server`.

    For a learner of one structure per silo, the scores are means over the silos. Each silo's structure is compared with
    the silo's own truth if there is one (mSHD of Chen, Ma & Yue, §4). The structure of the result is the one that the
    algorithm selects as typical. If the learner votes over the silos' structures, the result has the structure of the
    vote and its scores. If the learner selects by the truth, the result is the structure with the lowest SHD, including
    lagged edges; among structures with equal SHD, that of the first silo by name.
    """
    structure = algorithm.structure(server)
    local = algorithm.local_structures(server) if algorithm.local_structures else {}
    own, lenient = own_truths(job), job.settings.allow_cyclic_truth
    each = {silo: structure_scores(one, own.get(silo, job.truth), lenient) for silo, one in local.items()}
    scored = each if job.truth is not None else {}
    if entry.needs_truth and job.truth is not None:
        best = min(sorted(local), key=lambda silo: _distance(_common_scores(local[silo], job)))
        structure = local[best]
    elif local and not entry.vote:
        return Scored(structure, mean_scores(list(each.values())), local, scored, averaged=True)
    return Scored(structure, _common_scores(structure, job), local, scored, averaged=_truths_differ(job))


def _common_scores(structure: Structure, job: Job) -> Metrics:
    """The scores of one structure for all silos: means over the silos' truths, if these have different edges."""
    lenient = job.settings.allow_cyclic_truth
    if not _truths_differ(job):
        return structure_scores(structure, job.truth, lenient)
    return mean_scores([structure_scores(structure, own, lenient) for _, own in sorted(own_truths(job).items())])


def _truths_differ(job: Job) -> bool:
    """Whether the silos have truths of their own with different edges."""
    return len({(job.silo_weights[silo] != 0).tobytes() for silo in own_truths(job)}) > 1


def own_truths(job: Job) -> dict[str, Structure]:
    """By silo, its own truth, for synthetic time series with weights for each silo; empty for other data."""
    if job.truth is None:
        return {}
    names = job.truth.variables
    return {silo: _dynamic(names, each) for silo, each in job.silo_weights.items() if each.ndim == 3}


def _dynamic(variables: tuple[str, ...], slices: FloatArray) -> Structure:
    """The dynamic structure with these weights, `[lags + 1, d, d]`: within one time step, then lag by lag."""
    return Structure(variables, slices[0], lagged=slices[1:])


def _distance(found: Metrics) -> float:
    """The SHD of a structure, including lagged edges."""
    return float(found["shd"] or 0.0) + float(found.get("lagged_shd") or 0.0)


def structure_scores(structure: Structure, truth: Structure | None, allow_cyclic_truth: bool = False) -> Metrics:
    """The scores of `structure`; scores that need a truth are None if there is no truth.

    These scores are also None if the truth and `structure` cannot be compared, for instance because the truth is a PAG
    and `structure` has no PAG. The entry `not_compared` then has the reason.
    """
    found: Metrics
    if truth is not None:
        try:
            found = dict(compare(structure, truth, allow_cyclic_truth=allow_cyclic_truth))
        except BadInput as error:
            found = {**structure_scores(structure, None), "not_compared": str(error)}
    else:
        itself = compare(structure, structure, allow_cyclic_truth=True)
        found = {key: value if key in COUNTED else None for key, value in itself.items()}
    return found | {"acyclic": structure.acyclic}


def mean_scores(scores: list[Metrics]) -> Metrics:
    """The mean of each score over the silos.

    A flag is true if it is true at all silos. Silos where a score is None do not count; it is None if none counts. Of
    reasons why there are no scores, the first one is kept.
    """
    averaged: Metrics = {}
    for key in dict.fromkeys(name for one in scores for name in one):
        values = [one[key] for one in scores if one.get(key) is not None]
        texts = [value for value in values if isinstance(value, str)]
        numbers = [value for value in values if isinstance(value, int | float)]
        if all(isinstance(value, bool) for value in values) and values:
            averaged[key] = all(values)
        else:
            averaged[key] = texts[0] if texts else sum(numbers) / len(numbers) if numbers else None
    return averaged
