"""Background knowledge: from the options to the silos, and imposed on the learned structures."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedbnsl.algorithms.core.knowledge import Arc, Knowledge, no_parent_arcs, tier_arcs
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.core.spec import Algorithm
from fedbnsl.algorithms.errors import BadInput, shown
from fedbnsl.algorithms.graphs.cpdag import impose_knowledge, known_truth
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.data.folder.truth import read_knowledge

from ..options.learn import LearnOptions
from .job import Job


def knowledge_of(options: LearnOptions, variables: Sequence[str]) -> Knowledge:
    """Return the background knowledge of `options`: their file's and their own together.

    Raises `BadInput` for an arc or a tier that cannot be read, an unknown variable, and what contradicts itself.
    """
    file = read_knowledge(Path(options.knowledge), variables) if options.knowledge else Knowledge()
    tiers = [tier.split(",") for tier in options.tiers.split("<")] if options.tiers else []
    forbidden = (
        *_arcs("forbidden", options.forbidden_arcs),
        *tier_arcs([[name.strip() for name in tier] for tier in tiers]),
        *no_parent_arcs(_words(options.no_parents), variables),
    )
    known = Knowledge(
        tuple(dict.fromkeys((*file.required, *_arcs("required", options.required_arcs)))),
        tuple(dict.fromkeys((*file.forbidden, *forbidden))),
    )
    known.check(variables)
    return known


def _words(given: str | None) -> list[str]:
    return [word.strip() for word in given.split(",")] if given else []


def _arcs(option: str, given: str | None) -> list[Arc]:
    found = []
    for word in _words(given):
        source, arrow, target = (part.strip() for part in word.partition("->"))
        if not (source and arrow and target):
            raise BadInput(f"--{option} {shown(word)}: an arc is given as 'A->B'")
        found.append((source, target))
    return found


def with_knowledge(algorithm: Algorithm, schema: Schema) -> Algorithm:
    """Return `algorithm`, whose structures agree with what `schema` says is known, whether or not it looked at that."""
    known = schema.knowledge
    if not known:
        return algorithm
    needed, possible = known.needed(schema.variables), known.possible(schema.variables)

    def agreeing(structure: Structure) -> Structure:
        return impose_knowledge(structure, needed, possible)

    def each(server: Any) -> dict[str, Structure]:
        assert algorithm.local_structures is not None
        return {silo: agreeing(one) for silo, one in algorithm.local_structures(server).items()}

    return replace(
        algorithm,
        structure=lambda server: agreeing(algorithm.structure(server)),
        local_structures=each if algorithm.local_structures else None,
    )


def comparable_truth(job: Job, structure: Structure, schema: Schema) -> Job:
    """Return `job` with the truth that `structure` is compared with, what is known beforehand taken into account."""
    known = job.knowledge
    if job.truth is None or not known:
        return job
    truth = job.truth.reordered(schema.variables)
    needed, possible = known.needed(schema.variables), known.possible(schema.variables)
    return replace(job, truth=known_truth(truth, structure.kind, needed, possible))
