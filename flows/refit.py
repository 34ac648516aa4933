"""After a run: one more exchange in which each silo refits the weights of the learned structure on its own rows."""

from __future__ import annotations

from dataclasses import asdict
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from fedbnsl.algorithms.admm.personalise import EVERYONE, Server, build, learned
from fedbnsl.algorithms.admm.personalise import Refit as RefitSettings
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.protocol import FederatedAlgorithm, FloatArray, rounds

if TYPE_CHECKING:
    from .run import Job, Session


def refit(job: Job, session: Session, structure: Structure, center: bool) -> Server | None:
    """Return what the silos say of the learned weights and their own (000 B.2.2); None where a silo is lost on the way.

    It runs over the same silos, under the run id `<run id>-refit`.
    """
    settings = RefitSettings(center, sum_only=job.secure)
    federation = session.connect(job, "refit", asdict(settings), f"{job.run_id}-refit")
    algorithm = session.wrap(build(settings), federation)
    start = learned(structure, {} if job.secure else true_weights(job))
    (only,) = rounds(algorithm, federation, resume=(0, start))
    return None if only.lost else only.server


def may_refit(algorithm: FederatedAlgorithm[Any, Any, Any, Any], job: Job) -> bool:
    """Say whether the silos may be asked about the learned weights: not where every answer must be paid for or hidden.

    What a private run's silos said of their residuals would be a release that nobody paid for.
    """
    return algorithm.private is None and (job.secure or not algorithm.needs_secure_sum)


def true_weights(job: Job) -> dict[str, FloatArray]:
    """Return the true weights by silo, or everyone's; empty where the truth has no weights (they all read as 1)."""
    if job.silo_weights:
        return job.silo_weights
    if job.truth is None or np.isin(job.truth.weights, (0.0, 1.0)).all():
        return {}
    return {EVERYONE: job.truth.weights}


def errors(fitted: Server | None) -> dict[str, float | None]:
    """Return the medians over the silos of the normalised MSE of the consensus and of the refitted weights."""
    each = fitted.refit if fitted else {}
    return {
        f"mse_{name}": median(silo[name] for silo in each.values()) if each else None
        for name in ("consensus", "personal")
    }
