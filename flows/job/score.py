"""The scores of a run: the learned structure against the truth, or, for local baselines, those of every silo."""

from dataclasses import dataclass, field
from typing import Any

from fedbnsl.algorithms.core.protocol import FederatedAlgorithm
from fedbnsl.algorithms.core.spec import Entry
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.graphs.structure import Structure

from .job import Job

Metrics = dict[str, float | int | bool | str | None]


@dataclass(frozen=True)
class Scored:
    """The structure to show, its scores (None where there is no truth), and each silo's own where there are such."""

    structure: Structure
    metrics: Metrics
    local_structures: dict[str, Structure] = field(default_factory=dict)


def check_truth(truth: Structure, allow_cyclic: bool) -> None:
    """Raise `BadInput`, before anything is learned, for a truth that cannot be compared with."""
    compare(truth, truth, allow_cyclic_truth=allow_cyclic)


def score(algorithm: FederatedAlgorithm[Any, Any, Any, Any], server: Any, entry: Entry, job: Job) -> Scored:
    """Return the scores of the final state `server`.

    A baseline that learns one structure a silo is scored by the mean over the silos, and shows the one its algorithm
    considers typical; one that lets them vote shows and is scored by the vote; one that picks by the truth shows the
    structure with the lowest SHD, the first by name among equals.
    """
    truth, lenient = job.truth, job.allow_cyclic_truth
    structure = algorithm.structure(server)
    local = algorithm.local_structures(server) if algorithm.local_structures else {}
    if entry.needs_truth and truth is not None:
        ordered = [local[silo] for silo in sorted(local)]
        structure = min(ordered, key=lambda one: compare(one, truth, allow_cyclic_truth=lenient)["shd"] or 0.0)
    elif local and not entry.vote:
        return Scored(structure, mean([against(one, truth, lenient) for one in local.values()]), local)
    return Scored(structure, against(structure, truth, lenient), local)


def against(structure: Structure, truth: Structure | None, allow_cyclic_truth: bool = False) -> Metrics:
    """Return the scores of `structure`; those that need a truth are None if there is none.

    They are also None if the truth is a PAG and `structure` has no PAG; `not_compared` then says why.
    """
    found: Metrics
    if truth is not None:
        try:
            found = dict(compare(structure, truth, allow_cyclic_truth=allow_cyclic_truth))
        except BadInput as error:
            found = {**against(structure, None), "not_compared": str(error)}
    else:
        itself = compare(structure, structure, allow_cyclic_truth=True)
        found = {key: value if key in ("edges", "v_structures") else None for key, value in itself.items()}
    return found | {"acyclic": structure.acyclic}


def mean(scores: list[Metrics]) -> Metrics:
    """Return the mean of each score over the silos; a flag holds if it holds everywhere, None stays None."""
    averaged: Metrics = {}
    for key, first in scores[0].items():
        values = [one[key] for one in scores]
        numbers = [value for value in values if isinstance(value, int | float)]
        if isinstance(first, bool):
            averaged[key] = all(values)
        else:
            averaged[key] = sum(numbers) / len(numbers) if numbers else None
    return averaged
