"""The privacy budget that a run has spent, read from the silos' ledgers: the only source of any ε that is shown."""

import math
from collections import defaultdict
from typing import Any

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.promise import Charge, ReplaceOne
from fedbnsl.algorithms.core.protocol import FederatedAlgorithm, Federation
from fedbnsl.algorithms.privacy.ledger import spent
from fedbnsl.tracking.result import Metric, PrivacySpent

from .job import Job


def privacy_spent(
    job: Job, algorithm: FederatedAlgorithm[Any, Any, Any, Any], federation: Federation
) -> PrivacySpent | None:
    """Return what the run of `job` and all runs before it have spent; None for an algorithm that is not private."""
    if algorithm.private is None:
        return None
    promise = algorithm.private.promise(federation.schema)
    here, ever = federation.charges(job.run_id), federation.charges()
    most = max(here.values(), key=lambda charges: sum(charge.rho for charge in charges), default=())
    return PrivacySpent(
        epsilon=promise.epsilon,
        delta=promise.delta,
        adjacency=ReplaceOne.label,
        protects=promise.protects,
        broken=promise.broken,
        run={silo: spent(charges, promise.delta) for silo, charges in here.items()},
        ever={silo: spent(charges, promise.delta) for silo, charges in ever.items()},
        releases=releases(most),
        tight=algorithm.private.tight(federation.schema),
    )


def about_told(job: Job) -> dict[str, Any]:
    """Return what results may say of the data set: in a private run no checksums of the silos' files.

    Whoever knows all rows but one could test guesses of the last one with them.
    """
    if registry.build(job.spec).private is None:
        return job.about
    return {key: value for key, value in job.about.items() if key != "checksums"}


def releases(charges: tuple[Charge, ...]) -> tuple[tuple[str, int, float], ...]:
    """Return each kind of release with how often it was made and the ρ of all of that."""
    kinds: dict[str, list[float]] = defaultdict(list)
    for charge in charges:
        kinds[charge.what].append(charge.rho)
    return tuple((what, len(costs), math.fsum(costs)) for what, costs in kinds.items())


def figures(privacy: PrivacySpent | None, job: Job) -> dict[str, Metric]:
    """Return the privacy part of `metrics.json`: ε is null where nothing is promised, with or without noise."""
    if privacy is None:
        return {"epsilon": None, "delta": None}
    return {
        "epsilon": None if privacy.broken else privacy.spent,
        "delta": privacy.delta,
        "adjacency": privacy.adjacency,
        "privacy": f"NOT PRIVATE: {privacy.broken}" if privacy.broken else "private",
        "epsilon_tight": privacy.tight,
        "epsilon_all_runs": privacy.spent_ever,
    }
