"""After a run on data that were made: one more exchange in which each silo refits the learned weights on its rows."""

from statistics import median
from typing import Any

import numpy as np

from fedbnsl.algorithms.core.protocol import Round
from fedbnsl.algorithms.core.schema import FloatArray, Schema
from fedbnsl.algorithms.core.spec import Algorithm, AlgorithmSpec
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters.refit import EVERYONE, Server, learned
from fedbnsl.algorithms.parameters.refit import Refit as RefitSettings

from .job import Job
from .session import Session
from .step import step


def refit(job: Job, session: Session, algorithm: Algorithm, last: Round[Any], structure: Structure) -> Server | None:
    """Return the errors of the learned weights and of the silos' own; None where they may not be asked, or one is lost.

    It runs over the same silos, under the run id `<run id>-refit`.
    """
    if last.lost or not may_refit(algorithm, job, session.schema, structure):
        return None
    spec, start = AlgorithmSpec("refit", RefitSettings(job.center)), learned(structure, true_weights(job))
    only = step(job, session, spec, "refit", start).last
    return None if only.lost else only.server


def may_refit(algorithm: Algorithm, job: Job, schema: Schema, structure: Structure) -> bool:
    """Say whether there are true weights to compare with, and the silos may be asked for their errors.

    They may not in a private run, or in one whose replies are masked. The refit is one of rows that do not depend on
    each other, so there is none of time series.
    """
    if schema.kind == "time-series":
        return False
    hidden = algorithm.private is not None or job.secure or algorithm.needs_secure_sum
    return structure.kind == "dag" and bool(true_weights(job)) and not hidden


def true_weights(job: Job) -> dict[str, FloatArray]:
    """Return the true weights by silo, or everyone's; empty where the truth has none (in a DAG they all read as 1)."""
    if job.silo_weights:
        return job.silo_weights
    if job.truth is None or job.truth.kind != "dag" or np.isin(job.truth.weights, (0.0, 1.0)).all():
        return {}
    return {EVERYONE: job.truth.weights}


def errors(fitted: Server | None) -> dict[str, float | None]:
    """Return the medians over the silos of the normalised MSE of the consensus and of the refitted weights."""
    each = fitted.refit if fitted else {}
    return {
        f"mse_{name}": median(silo[name] for silo in each.values()) if each else None
        for name in ("consensus", "personal")
    }
