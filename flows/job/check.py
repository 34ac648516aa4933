"""The checks of a job before its first round."""

import math
from collections.abc import Callable

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.choose import choices
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.core.spec import Entry
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.secure import masked
from fedbnsl.data.folder.levels import check_levels_public

from .confidence import check_bootstrap
from .job import Job
from .score import check_truth


def suited(job: Job, schema: Schema, holds: Callable[[Entry], bool] = lambda entry: True) -> str:
    """Return the algorithms that `auto` and its alternatives are for data of `schema`, "a or b", if `holds` of them.

    They are private if that of `job` is. "" if there are none.
    """
    private = registry.build(job.spec).private is not None
    names = [one.name for one in choices(schema, private=private)]
    return " or ".join(name for name in names if holds(registry.entry(name)))


def check(job: Job, schema: Schema) -> None:
    """Raise `BadInput` for data, a truth or settings that the algorithm cannot use."""
    name, entry = job.spec.name, registry.entry(job.spec.name)
    if schema.kind not in entry.kinds:
        kinds = " or ".join(entry.kinds)
        instead = suited(job, schema)
        raise BadInput(f"{name} learns from {kinds} data, and {job.dataset} is {schema.kind}: try {instead}")
    if schema.gaps and not entry.gaps:
        fitting = suited(job, schema, lambda one: one.gaps)
        others = f"take {fitting}, or " if fitting else ""
        raise BadInput(
            f"{name} needs complete tables, and {job.dataset} has empty cells: {others}leave out the rows that have "
            "one, by --missing complete-rows"
        )
    _check_streams(job, schema)
    if entry.needs_truth and job.truth is None:
        raise BadInput(f"{name} picks by the truth, and {job.dataset} has no truth.csv")
    algorithm = registry.build(job.spec)
    if entry.pooled and job.secure:
        raise BadInput(f"--secure: {name} needs all rows in one place, so there is nothing to mask")
    masked.applies(algorithm, schema, asked=job.secure)
    check_bootstrap(job)
    if job.budget.delta and math.isinf(job.budget.epsilon):
        raise BadInput("--budget-delta is the δ of a --budget, and none is given")
    if algorithm.private is not None:
        algorithm.private.promise(schema)
        check_levels_public(job.dataset, set(schema.levels) - set(job.about.get("levels") or {}))
    elif not math.isinf(job.budget.epsilon):
        raise BadInput(f"--budget bounds the ε of private algorithms: {name} as asked for is not private")
    check_truth(job, schema)


def _check_streams(job: Job, schema: Schema) -> None:
    """Raise `BadInput` for silos that read their rows in passes, if the algorithm needs them in memory."""
    if not schema.streamed:
        return
    name, silo = job.spec.name, schema.streamed[0]
    if not registry.entry(name).streams:
        raise BadInput(
            f"{name} needs every silo's rows in memory: {job.dataset}: silo '{silo}' reads its rows in passes, from "
            f"which {suited(job, schema, lambda one: one.streams)} can learn"
        )
    if job.bootstrap:
        raise BadInput(
            f"--bootstrap draws from rows in memory: {job.dataset}: silo '{silo}' reads its rows in passes, as they "
            "are more than its memory is to hold"
        )
