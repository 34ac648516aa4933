"""The privacy loss of a run and of all runs, from the charges in the silos' ledgers."""

import math
from collections import defaultdict
from typing import Any

from fedbnsl.algorithms.core.promise import Charge, ReplaceOne
from fedbnsl.algorithms.core.protocol import FederatedAlgorithm, Federation
from fedbnsl.algorithms.privacy.ledger import spent
from fedbnsl.tracking.metrics import MetricValue
from fedbnsl.tracking.result import PrivacySpent

from .job import Job


def privacy_spent(
    job: Job, algorithm: FederatedAlgorithm[Any, Any, Any, Any], federation: Federation
) -> PrivacySpent | None:
    """The privacy loss of the run of `job` and of all runs; None for an algorithm that is not private."""
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
        by_round=tuple(
            (number, spent((charge for charge in most if charge.number <= number), promise.delta))
            for number in sorted({charge.number for charge in most})
        ),
    )


def releases(charges: tuple[Charge, ...]) -> tuple[tuple[str, int, float], ...]:
    """Each kind of release with its number and total ρ."""
    kinds: dict[str, list[float]] = defaultdict(list)
    for charge in charges:
        kinds[charge.what].append(charge.rho)
    return tuple((what, len(costs), math.fsum(costs)) for what, costs in kinds.items())


def privacy_metrics(privacy: PrivacySpent | None, job: Job) -> dict[str, MetricValue]:
    """The privacy part of `metrics.json`; ε is null if the run has no privacy guarantee, even if noise was added."""
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
