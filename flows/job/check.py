"""From options to a job: the algorithm with its typed settings, and the checks before round 1."""

import math
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.choose import AUTO, choices
from fedbnsl.algorithms.core.schema import FloatArray, Kind, Schema
from fedbnsl.algorithms.core.spec import ANY_ROWS, AlgorithmSpec, Feature
from fedbnsl.algorithms.errors import BadInput, NotApplicable, quoted
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.statistics.transforms import require_row_wise
from fedbnsl.data.folder.about import cluster_column, parse_transforms
from fedbnsl.data.folder.check import check_levels_public
from fedbnsl.data.folder.targets import UNKNOWN

from ..options.learn import LearnOptions, LearnSettings
from .follow_up import resampling_refusal
from .goodness_of_fit import held_out_refusal
from .graph_posterior import posterior_refusal
from .job import Job
from .preparation import knowledge_of, outlier_refusal
from .survival import check_survival
from .truth_scores import check_truth
from .tuning import tuning_refusal
from .unknown_targets import check_unknown_targets

AS_IF_OBSERVED = "use --targets none to learn as if there had been no experiment"
REMEDIES = {
    "targets of experiments": AS_IF_OBSERVED,
    "empty cells": "drop rows with empty cells with --missing complete-rows",
}
"""by feature of the data, what removes it"""


def _check_data(job: Job, schema: Schema) -> None:
    """Raise `BadInput` if the entry of the algorithm does not have the kind of the data, or a feature of the data."""
    name, dataset, entry = job.spec.name, job.dataset, registry.entry(job.spec.name)
    private = registry.build(job.spec).private is not None
    series, column, silo = schema.kind == "time-series", next(iter(schema.levels), ""), "".join(schema.streamed[:1])
    in_passes: Feature = "series in passes" if series else "rows in passes"
    targeted = schema.kind in ANY_ROWS and (schema.has_targets or job.settings.targets == UNKNOWN) and not private
    emptied = schema.gaps or job.settings.outliers == "set-aside"
    demands: dict[Kind | Feature, tuple[bool, str]] = {
        schema.kind: (True, f"learns from {' or '.join(entry.kinds)} data, and {dataset} is {schema.kind}"),
        "labels in series": (
            series and column != "",
            f"learns from series of numbers, and column {quoted(column)} of {dataset} has labels",
        ),
        "targets of experiments": (targeted, "does not use the targets of experiments"),
        "clusters": (
            cluster_column(schema.aside) is not None,
            "counts all rows, also those of one cluster (--cluster)",
        ),
        "empty cells in series": (
            series and schema.gaps,
            f"needs series without empty cells, and {dataset} has some",
        ),
        "empty cells": (emptied, f"needs complete tables, and {dataset} has empty cells"),
        in_passes: (
            silo != "",
            f"needs every silo's rows in memory, and silo {quoted(silo)} of {dataset} streams its rows",
        ),
    }
    for demand, (holds, fault) in demands.items():
        if holds and demand not in (*entry.kinds, *entry.takes):
            remedies = (suitable_algorithms(job, schema, demand), REMEDIES.get(demand, ""))
            raise NotApplicable(f"{name} {fault}: {', or '.join(filter(None, remedies))}")


def suitable_algorithms(job: Job, schema: Schema, demand: Kind | Feature) -> str:
    """The advice to use one of those of `auto`'s choices for the data that take `demand`; "" if none does.

    If the algorithm of `job` is private, the choices are private algorithms.
    """
    private = registry.build(job.spec).private is not None
    entries = {one.name: registry.entry(one.name) for one in choices(schema, private=private)}
    names = [name for name, entry in entries.items() if demand in (*entry.kinds, *entry.takes)]
    return f"use {' or '.join(names)}" if names else ""


REFUSALS: dict[str, tuple[Callable[[LearnSettings], object], Callable[[Job, Schema], str]]] = {
    "--outliers set-aside": (lambda settings: settings.outliers == "set-aside", outlier_refusal),
    "--bootstrap": (lambda settings: settings.bootstrap, resampling_refusal),
    "--posterior": (lambda settings: settings.posterior, posterior_refusal),
    "--held-out": (lambda settings: settings.held_out, held_out_refusal),
    "--tune": (lambda settings: settings.tune, tuning_refusal),
}
"""by option: whether it is requested, and why these data or this learner cannot have it ("" if they can)"""


def check(job: Job, schema: Schema) -> None:
    """Raise `BadInput` for data, a truth or settings that the algorithm cannot use."""
    name, entry = job.spec.name, registry.entry(job.spec.name)
    if schema.kind == "events" and parse_transforms(job.settings.transform) != ("none", ()):
        raise BadInput(f"--transform is for columns of numbers, and the rows of {job.dataset} are events")
    _check_adjustment(job, schema)
    _check_clusters(job, schema)
    for option, (requested, refusal) in REFUSALS.items():
        if requested(job.settings) and (reason := refusal(job, schema)):
            raise BadInput(f"{option}: {reason}")
    _check_data(job, schema)
    check_survival(job, schema)
    _check_experiments(job, schema)
    if entry.needs_truth and job.truth is None:
        raise NotApplicable(f"{name} uses the true graph to choose, and {job.dataset} has no truth.csv")
    algorithm = registry.build(job.spec)
    if entry.pooled and job.settings.secure:
        raise BadInput(f"--secure: {name} pools all rows in one place, so there is nothing to mask")
    algorithm.is_masked(schema, requested=job.settings.secure)
    if job.budget.delta and math.isinf(job.budget.epsilon):
        raise BadInput("--budget-delta needs a --budget")
    if algorithm.private is not None:
        algorithm.private.promise(schema)
        require_row_wise(schema)
        check_levels_public(job.dataset, set(schema.levels) - set(job.about.get("levels") or {}))
    elif not math.isinf(job.budget.epsilon):
        raise BadInput(f"--budget limits the ε of private algorithms: {name} with these settings is not private")
    check_truth(job, schema)


def _check_clusters(job: Job, schema: Schema) -> None:
    """Raise `BadInput` if a column names clusters of rows that are a series or events, or have targets."""
    if cluster_column(schema.aside) is None:
        return
    if schema.kind in ("time-series", "events"):
        raise BadInput(f"--cluster is for tables, and {job.dataset} is {schema.kind}")
    if schema.has_targets or job.settings.targets == UNKNOWN:
        raise BadInput(f"--cluster cannot be used with targets of experiments, which count all rows: {AS_IF_OBSERVED}")


def _check_experiments(job: Job, schema: Schema) -> None:
    """Raise `BadInput` if there are targets of experiments, but the algorithm cannot use them with these data."""
    unknown = job.settings.targets == UNKNOWN
    if not schema.has_targets and not unknown:
        return
    name, remedy = job.spec.name, AS_IF_OBSERVED
    if schema.kind in ("time-series", "events"):
        raise BadInput(f"targets of experiments are for tables, and {job.dataset} is {schema.kind}: {remedy}")
    if registry.build(job.spec).private is not None:
        raise BadInput(f"{name} with an ε does not use the targets of experiments: {remedy}")
    if schema.gaps or job.settings.outliers == "set-aside":
        raise BadInput(
            "targets of experiments need complete tables, as a model of empty cells would mix the conditions: drop "
            f"rows with empty cells with --missing complete-rows, or {remedy}"
        )
    if unknown:
        check_unknown_targets(job, schema)
    _ = schema.experiments  # raises `BadInput` for a variable that every condition targets


def algorithm_spec(options: LearnOptions, schema: Schema) -> AlgorithmSpec:
    """The algorithm of `options` for data of `schema`, with its settings, including the budget.

    `auto` becomes the algorithm that suits the data. Raises `BadInput` for an unknown parameter or an invalid value.
    """
    if options.spec is not None:
        return options.spec
    first = choices(schema, private=options.epsilon is not None)[0]
    return options.specify(first.name, first.params)


def check_options(options: LearnOptions) -> None:
    """Raise `BadInput` for `options` that are invalid for any data."""
    if options.by is not None and options.federation is not None:
        raise BadInput("--by reads one file on this machine: the silos of a --federation have rows of their own")
    if options.platform is not None and options.federation is None:
        raise BadInput(
            f"--platform {options.platform} needs --federation, which names the silos and the coordinator's key"
        )
    if options.spec is not None:
        registry.build(options.spec)
        return
    if not options.params:
        return  # The names of all parameters need the code of all algorithms, which takes a second to import.
    own = (one for name in registry.ALGORITHMS for one in registry.parameter_names(name))
    known = dict.fromkeys(("preset", *own))
    for name in options.params:
        if name not in known:
            near = get_close_matches(name, known, 1)
            instead = f"did you mean {near[0]}?" if near else "`fedbnsl algorithms NAME` lists the settings of NAME"
            raise BadInput(f"unknown setting '{name}', which no algorithm has: {instead}")


def needs_pooling(options: LearnOptions) -> bool:
    """Whether the algorithm of `options` needs all rows in one place."""
    return options.algorithm != AUTO and registry.entry(options.algorithm).pooled


def create_job(
    settings: LearnSettings,
    run_id: str,
    engine: str,
    schema: Schema,
    about: dict[str, Any],
    truth: Structure | None,
    silo_weights: dict[str, FloatArray],
) -> Job:
    """The job for `settings` on data of `schema`; raises `BadInput` as `algorithm_spec` does."""
    return Job(
        settings,
        run_id,
        engine,
        algorithm_spec(settings, schema),
        about,
        truth,
        knowledge_of(settings, schema.nodes),
        silo_weights=silo_weights,
    )


def _check_adjustment(job: Job, schema: Schema) -> None:
    """Raise `BadInput` if series should be adjusted, but the data or the learner do not allow it."""
    adjustment = job.adjustment
    if not adjustment:
        return
    names = ("detrend", "deseasonalise", "difference")
    option = next(f"--{name}" for name in names if getattr(job.settings, name))
    if schema.kind != "time-series":
        raise BadInput(f"{option} is for time series, and {job.dataset} is {schema.kind}")
    if set(schema.variables) <= set(schema.levels):
        raise BadInput(f"{option} is for numbers, and all columns of {job.dataset} have labels")
    if registry.build(job.spec).private is not None:
        raise BadInput(f"{option} cannot be used with an ε, which does not account for the subtracted component")
    for silo in schema.silos:
        longest = max(schema.stretches[silo], default=0)
        if longest < adjustment.min_rows:
            needed = f"{adjustment.min_rows} are needed"
            raise BadInput(f"{option}: silo {silo}: its longest unbroken series has {longest} rows, {needed}")
