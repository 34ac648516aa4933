"""Unknown targets of experiments, which an exchange before the rounds finds (`--targets unknown`).

The run then uses the found targets like given targets: for each variable, its sums leave out the conditions that target
this variable. The exchange has already disclosed the differences of these sums. The exchange always searches with BOSS.
GES moves between classes of equivalent graphs and needs equal scores within a class, but with unknown targets
equivalent graphs have different scores.
"""

from dataclasses import replace

from fedbnsl.algorithms.core.experiments import experiments_of_each
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.score.mechanisms import MAX_CONDITIONS
from fedbnsl.algorithms.score.settings import SecureSearch
from fedbnsl.algorithms.score.unknown_targets import found_targets
from fedbnsl.data.folder.targets import UNKNOWN
from fedbnsl.tracking.result import FoundTargets

from .job import Job, Session, extra_exchange


def check_unknown_targets(job: Job, schema: Schema) -> None:
    """Raise `BadInput` if changed mechanisms cannot be found in these data."""
    if schema.kind == "mixed":
        raise BadInput(
            f"--targets unknown compares tables of numbers or of labels, and {job.dataset} has both: select columns of "
            "one kind with --only, or name the targets"
        )
    compared = experiments_of_each(schema.variables, schema.named_conditions).n_sums - 1
    if compared > MAX_CONDITIONS:
        raise BadInput(
            f"--targets unknown compares at most {MAX_CONDITIONS} silos or conditions, and {job.dataset} has {compared}"
        )
    if schema.streamed and schema.kind != "continuous":
        raise BadInput(
            f"--targets unknown counts rows in memory, and silo {schema.streamed[0]} of {job.dataset} streams its rows"
        )


def with_found_targets(job: Job, session: Session) -> tuple[Job, Session, FoundTargets | None]:
    """`job` and `session` with the targets that an exchange finds, if they are unknown; otherwise unchanged.

    The exchange runs over the same silos, masked, under the run id `<run id>-targets`. Raises `BadInput` if a silo is
    lost meanwhile.
    """
    if job.settings.targets != UNKNOWN:
        return job, session, None
    schema = session.schema
    how = SecureSearch(score="bic", seed=job.settings.seed)
    comparing = replace(job, compares_conditions=True)
    found = extra_exchange(comparing, session, AlgorithmSpec("unknown-targets", how), "targets")
    found.last.require_silos("while the targets of experiments were found")
    server = found.last.server
    targets = found_targets(server.changes, schema)
    result = FoundTargets(
        server.changes,
        "condition" if schema.condition_names else "silo",
        len(server.conditions),
        found.last.number,
        found.bytes_sent,
    )
    return replace(job, targets=targets), replace(session, schema=replace(schema, targets=targets)), result
